"""A task: the cost of the optimal control problem, the goals, and the judgement of a trial."""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from dexstack.config import param, read_yaml_file
from dexstack.errors import ConfigError, check_names
from dexstack.geometry.rotations import geodesic_angle, quaternion_product, yaw_quaternion
from dexstack.model.mount import DOWN

if TYPE_CHECKING:
    from jax import Array

    from dexstack.control.base import PlannedState
    from dexstack.geometry.symmetry import Symmetry
    from dexstack.model.objects import ObjectModel, Start
    from dexstack.model.robot import Robot


OFFSETS = "com_x", "com_y", "com_z"
"""Fields of :class:`World` that may be negative."""


@dataclass(frozen=True)
class World:
    """True properties of a plant relative to a task's setup, unknown to the controller: factors,
    unless a unit is given."""

    mass: float = 1.0
    friction: float = 1.0
    """Sliding friction of the object and of the surfaces that touch it."""
    size: float = 1.0
    torque: float = 1.0
    """Share of the commanded joint torques that the motors produce."""
    joint_damping: float = 1.0
    joint_friction: float = 0.0
    """Dry friction in every joint [N m]."""
    joint_armature: float = 0.0
    """Reflected motor inertia of every joint, added to that of the links [kg m²]."""
    contact_stiffness: float = 1.0
    """In plants with compliant contacts."""
    com_x: float = 0.0
    """Offset of the object's centre of mass from the origin of its frame, along its axes [m]; the
    inertia about the centre of mass is unchanged."""
    com_y: float = 0.0
    com_z: float = 0.0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in OFFSETS:
                if not np.isfinite(value):
                    raise ConfigError(f"'{field.name}' of a world must be finite, got {value!r}")
            elif not (np.isfinite(value) and (value > 0.0 or (value == 0.0 and field.default == 0.0))):
                raise ConfigError(f"'{field.name}' of a world must be positive, got {value!r}")

    @property
    def com(self) -> tuple[float, float, float]:
        """Centre of mass in the object's frame [m]."""
        return self.com_x, self.com_y, self.com_z


NOMINAL_WORLD = World()
"""The world that the controller assumes."""


def apply_world(obj: ObjectModel, world: World) -> ObjectModel:
    """Return the object with the properties of a world."""
    from dexstack.model.objects import scaled

    other = scaled(obj, mass=world.mass, friction=world.friction, size=world.size)
    return dataclasses.replace(other, com=world.com, contact_stiffness=world.contact_stiffness)


def read_world(path: Path) -> World:
    """Read a world from a YAML mapping of its fields, as ``dexstack identify --out`` writes it.

    Raises:
        ConfigError: missing file, unknown field, or invalid value.
    """
    document, known = read_yaml_file(path), [f.name for f in dataclasses.fields(World)]
    if not isinstance(document, dict):
        raise ConfigError(f"{path} must be a mapping of {', '.join(known)}")
    check_names(f"entry of the world {path}", document, known)
    for name, value in document.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{path}: '{name}' must be a number, got {value!r}")
    try:
        return World(**{name: float(value) for name, value in document.items()})
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


class Setup(NamedTuple):
    """Robot, object, and the start of both."""

    robot: Robot
    obj: ObjectModel
    start: Start

    @property
    def rest(self) -> np.ndarray:
        """(N,) joint positions at the start [rad, m]."""
        return np.array(self.robot.pose(self.start.hand_pose), float)


class Goal(NamedTuple):
    """Target pose of the object."""

    pose_WO: np.ndarray
    """(7,)"""
    label: str
    """Description for people and tables; goals of one kind share it."""


class Outcome(NamedTuple):
    """Result of a trial, as a task judges it."""

    pose_WO: np.ndarray
    """(7,) of the object at the end."""
    goal: Goal
    """The last goal."""
    reached_at: tuple[float, ...]
    """Time at which each goal was reached [s]."""
    seconds: float
    """Length of the trial [s]."""
    dropped: bool


class Published(NamedTuple):
    """A row of a paper's table."""

    name: str
    trials: int
    orientation_rad: tuple[float, float] | None = None
    """Mean and standard deviation of the error at the end [rad]."""
    position_m: tuple[float, float] | None = None
    """[m]"""
    solve_s: float | None = None
    """Mean time of a solve, on the paper's computer [s]."""


@dataclass(frozen=True)
class JudgeParams:
    """Criteria for a reached goal and a dropped object; a task may add parameters."""

    tolerance: float = param(0.1, "orientation error below which a goal counts as reached [rad]", 1e-3, 3.2)
    position_tolerance: float = param(
        1e3, "position error below which a goal counts as reached; a huge value: any [m]", 1e-4, 1e6
    )
    hold: float = param(0.3, "time for which both must hold [s]", 0.0, 60.0)
    drop_distance: float = param(
        0.08, "an object farther than this from its start has been dropped [m]", 1e-3, 10.0
    )


class Task(abc.ABC):
    """At every plan the controller solves, from the object's pose x_0, the joint positions q_0 and
    the contact set C(x_0, q_0),

        min over u_0 … u_{T−1}   Σ_{t=1}^{T} ‖stage(x_t, q_t, g; w)‖² + ‖terminal(x_T, q_T, g; w)‖²
                                 + ω_u Σ_t ‖u_t‖²
        s.t.                     (x_{t+1}, q_{t+1}) = F_θ(x_t, q_t, u_t; C),
                                 |u_t| ≤ u_max,   q_min ≤ q_t ≤ q_max

    towards the current goal pose g. The task owns the setup (robot, object, start of both), the
    residuals ``stage`` and ``terminal`` with their weights w, the stream of goals, and the judgement
    of a trial. F_θ, T and the bounds belong to the planner; the supervisor, which frees a stuck plan,
    is chosen by name.

    A task is a module that sets ``TASK`` to a subclass, with a YAML file of parameters
    (``config/NAME.yaml`` for those of dexstack, ``NAME.yaml`` next to a user's own file). Import JAX
    only where a cost is traced: nodes that need only goals and judgement start without it.
    """

    name: ClassVar[str]
    Weights: ClassVar[type]
    """Parameter block of the weights w, which may change between two plans."""
    Params: ClassVar[type] = JudgeParams
    """Parameter block of the task itself."""
    supervisor: ClassVar[str] = "gait"
    """Name of its supervisor in :data:`dexstack.control.supervisors.SUPERVISORS`."""
    opening_yaw: ClassVar[float | None] = None
    """Default turn that `dexstack up` requests [rad]; None: the task's own goals."""
    servo_node: ClassVar[str] = "hand"
    """Node that moves its robot: ``hand``, or ``servo`` for a robot that exists only in simulation."""
    required_rate: ClassVar[float] = 1.0
    """Share of trials that must succeed for `dexstack eval` to pass."""
    trials: ClassVar[int] = 12
    """Default number of trials of `dexstack eval`."""
    goal_seconds: float = math.inf
    """Time after which the next goal follows although this one is not reached; if finite, a trial is
    over with its last goal [s]."""

    def __init__(
        self,
        params: Any = None,
        obj: str = "cube",
        hand: str = "right",
        gravity: tuple[float, ...] = DOWN,
    ) -> None:
        """
        Args:
            params: block of :attr:`Params`; None: its defaults.
            obj: name of an object, or the path of an object's YAML.
            hand: side of a hand, or the path of a hand's YAML.
            gravity: (3,) in the world, in which palm or floor is fixed [m/s²]; poses, goals and
                judgement do not depend on it.
        """
        self.params = params or self.Params()
        self.object, self.hand, self.gravity = obj, hand, gravity

    # --- setup ------------------------------------------------------------------------------------

    @abc.abstractmethod
    def setup(self, world: World = NOMINAL_WORLD) -> Setup:
        """Return robot, object and start, as the controller assumes them or as in a world.

        Raises:
            ConfigError: unknown name, malformed file, or unusable mesh.
        """

    @classmethod
    def planner_for(cls, obj: str, hand: str) -> str:
        """Return the planner that the object's file names for this task and hand, or else the hand's
        file; empty: the task's."""
        return ""

    def robot(self) -> Robot:
        """Return the robot alone, which may need no mesh."""
        return self.setup().robot

    def start(self) -> Start:
        """Return the start alone."""
        return self.setup().start

    def servo(self, robot: Robot, params: Any) -> Any:
        """Return the robot's position control, a :class:`~dexstack.sim.simulation.Servo`; by default a
        hand's.

        Args:
            params: block of :meth:`servo_params`.
        """
        from dexstack.hand.servo import ServoLaw
        from dexstack.hand.watch import UNWATCHED, WatchParams
        from dexstack.model.gravity import GravityCompensation

        # A simulated hand is wired correctly: without this, an object laid on it before its first
        # motion would count as wrong wiring. Its encoders do not freeze either: between rigid bodies
        # a blocked joint repeats its reading to the last bit.
        watch = WatchParams(doubtful_runaway=WatchParams.runaway, frozen_ticks=UNWATCHED)
        return ServoLaw(robot, params, GravityCompensation(robot), watch)

    @classmethod
    def servo_params(cls) -> type:
        """Return the parameter class of the servo."""
        from dexstack.hand.servo import ServoParams

        return ServoParams

    @property
    def depends_on(self) -> tuple[Any, ...]:
        """Key of a compiled cost: all that it may depend on."""
        return type(self), self.params, (self.object, self.hand)

    # --- cost -------------------------------------------------------------------------------------

    @abc.abstractmethod
    def stage(self, state: PlannedState, goal_WO: Array, weights: Any) -> Array:
        """Return the residuals (R,) of a predicted state; traced."""

    @abc.abstractmethod
    def terminal(self, state: PlannedState, goal_WO: Array, weights: Any) -> Array:
        """Return the residuals (R,) of the last predicted state; traced."""

    def released(self, weights: Any) -> Any:
        """Return weights that do not attract the robot to the object."""
        return dataclasses.replace(weights, contact_weight=0.0)

    # --- goals ------------------------------------------------------------------------------------

    @abc.abstractmethod
    def goals(self, k: int, seed: int) -> Iterator[Goal]:
        """Return the goals of the k-th trial, at least one; the next follows when one is reached."""

    def at_yaw(self, yaw: float) -> Goal:
        """Return the start pose turned by ``yaw`` [rad] about the vertical."""
        start = self.start().pose_WO
        pose_WO = np.concatenate([start[:3], quaternion_product(yaw_quaternion(yaw), start[3:])])
        return Goal(pose_WO, f"{np.degrees(yaw):+.0f}°")

    def at_pose(self, pose_WO: np.ndarray) -> Goal:
        """Return the goal for a pose (7,) that a user requests; by default the pose itself. A task
        that fixes the position uses only the orientation."""
        return Goal(np.array(pose_WO), self._label(pose_WO))

    def _label(self, pose_WO: np.ndarray) -> str:
        return f"{np.degrees(geodesic_angle(pose_WO[3:], self.start().pose_WO[3:])):.0f}° from the start"

    def start_pose(self, start: Start, rng: np.random.Generator) -> np.ndarray:
        """Draw the object's initial pose (7,): its start with noise in the plane and about the
        vertical."""
        pose_WO = start.pose_WO.copy()
        pose_WO[:2] += rng.normal(0.0, start.noise_position, 2)
        turn = rng.uniform(-start.noise_yaw, start.noise_yaw)
        pose_WO[3:] = quaternion_product(yaw_quaternion(turn), pose_WO[3:])
        return pose_WO

    def seconds(self) -> float:
        """Return the length of a trial [s]."""
        return 15.0

    # --- judgement --------------------------------------------------------------------------------

    @functools.cached_property
    def symmetry(self) -> Symmetry:
        """Turns of the object under which its goals are the same."""
        from dexstack.model.objects import load_symmetry

        return load_symmetry(self.object)

    def nearest(self, pose_WO: np.ndarray, goal_WO: np.ndarray) -> np.ndarray:
        """Return the pose (7,) that requires the smallest turn from ``pose_WO`` (7,) among those that
        look like the goal (7,)."""
        return np.concatenate([goal_WO[:3], self.symmetry.nearest(pose_WO[3:], goal_WO[3:])])

    def orientation_error(self, pose_WO: np.ndarray, goal: Goal) -> float:
        """Return the geodesic angle to the nearest pose that looks like the goal [rad]."""
        return self.symmetry.angle(pose_WO[3:], goal.pose_WO[3:])

    def position_error(self, pose_WO: np.ndarray, goal: Goal) -> float:
        """Return the distance to the goal position [m]."""
        return float(np.linalg.norm(pose_WO[:3] - goal.pose_WO[:3]))

    def inside(self, pose_WO: np.ndarray, goal: Goal) -> bool:
        """Return whether the object is inside the tolerances of the goal."""
        p = self.params
        return (
            self.orientation_error(pose_WO, goal) < p.tolerance
            and self.position_error(pose_WO, goal) < p.position_tolerance
        )

    def dropped(self, pose_WO: np.ndarray, start: Start) -> bool:
        """Return whether the object has been dropped or lost."""
        away = np.linalg.norm(pose_WO[:3] - start.pose_WO[:3])
        return bool(not np.all(np.isfinite(pose_WO)) or away > self.params.drop_distance)

    def succeeded(self, outcome: Outcome) -> bool:
        """Return whether a trial has succeeded; by default, if the object ends inside the tolerances
        of the goal."""
        return not outcome.dropped and self.inside(outcome.pose_WO, outcome.goal)

    def over(self, reached_at: Sequence[float], t: float) -> bool:
        """Return whether to end a trial at time ``t`` [s], given the times of reached goals [s]; by
        default never."""
        return False

    def published(self) -> Sequence[Published]:
        """Return published results of this task with this object."""
        return ()

    def figures(self, outcomes: Sequence[Outcome]) -> dict[str, Any]:
        """Return additional figures of many trials for `dexstack eval`."""
        return {}

    def picture(self, path: Path, outcomes: Sequence[Outcome], title: str) -> Path | None:
        """Write the task's own picture of many trials and return its path; None: use the common one,
        the errors of every trial.

        Raises:
            ConfigError: the file cannot be written.
        """
        return None
