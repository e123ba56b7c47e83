"""A task: the optimal control problem that is solved at every plan, what is asked for, and how a
trial is judged."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from dexstack.config import param, read_yaml_file
from dexstack.errors import ConfigError, unknown_name
from dexstack.geometry.rotations import geodesic_angle, quaternion_product, yaw_quaternion

if TYPE_CHECKING:
    from jax import Array

    from dexstack.control.base import PlannedState
    from dexstack.geometry.symmetry import Symmetry
    from dexstack.model.objects import ObjectModel, Start
    from dexstack.model.robot import Robot


OFFSETS = "com_x", "com_y", "com_z"
"""Fields of a :class:`World` that may be negative."""


@dataclass(frozen=True)
class World:
    """What a plant has of what a task's scene says, and the controller does not know of: factors,
    but for what has a unit."""

    mass: float = 1.0
    friction: float = 1.0
    """Sliding friction of the object and of what touches it."""
    size: float = 1.0
    torque: float = 1.0
    """Share of the joint torques asked for that the motors give."""
    joint_damping: float = 1.0
    joint_friction: float = 0.0
    """Dry friction in every joint [N m]."""
    joint_armature: float = 0.0
    """Inertia of the motors, as every joint feels it, beside that of the links [kg m²]."""
    contact_stiffness: float = 1.0
    """Of all contacts of a plant whose contacts give way."""
    com_x: float = 0.0
    """The object's centre of mass off the origin of its frame, along the axes of that [m]; its
    inertia about it stays."""
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
        """The object's centre of mass in its frame [m]."""
        return self.com_x, self.com_y, self.com_z


AS_BELIEVED = World()


def in_world(obj: ObjectModel, world: World) -> ObjectModel:
    """What a world has in place of a task's object."""
    from dexstack.model.objects import scaled

    other = scaled(obj, mass=world.mass, friction=world.friction, size=world.size)
    return dataclasses.replace(other, com=world.com, contact_stiffness=world.contact_stiffness)


def read_world(path: Path) -> World:
    """A world from a YAML mapping of its fields, as ``dexstack identify --out`` writes.

    Raises:
        ConfigError: no such file, an unknown field, a value that is no world's.
    """
    document, known = read_yaml_file(path), [f.name for f in dataclasses.fields(World)]
    if not isinstance(document, dict):
        raise ConfigError(f"{path} must be a mapping of {', '.join(known)}")
    for name, value in document.items():
        if name not in known:
            raise unknown_name(f"entry of the world {path}", str(name), known)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{path}: '{name}' must be a number, got {value!r}")
    return World(**{name: float(value) for name, value in document.items()})


class Scene(NamedTuple):
    """Robot, object, and where both start."""

    robot: Robot
    obj: ObjectModel
    start: Start

    @property
    def rest(self) -> np.ndarray:
        """(N,) joint positions at the start [rad, m]."""
        return np.array(self.robot.pose(self.start.hand_pose), float)


class Goal(NamedTuple):
    """One thing asked for."""

    pose_WO: np.ndarray
    """(7,) of the object."""
    label: str
    """What it asks, for people and tables; goals of one label are of one kind."""


class Outcome(NamedTuple):
    """What a trial came to, for its judgement."""

    pose_WO: np.ndarray
    """(7,) of the object at the end."""
    goal: Goal
    """The last one."""
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
    """When a goal counts as reached, when an object as lost; a task may have further parameters of
    its own."""

    tolerance: float = param(0.1, "orientation error below which a goal counts as reached [rad]", 1e-3, 3.2)
    position_tolerance: float = param(
        1e3, "position error below which it does; a huge value: any [m]", 1e-4, 1e6
    )
    hold: float = param(0.3, "time for which both must last [s]", 0.0, 60.0)
    drop_distance: float = param(
        0.08, "an object farther than this from its start has been dropped [m]", 1e-3, 10.0
    )


class Task(abc.ABC):
    """At every plan the controller solves, from the object's pose x_0, the joints q_0 and the
    contact set C(x_0, q_0),

        min over u_0 … u_{T−1}   Σ_{t=1}^{T} ‖stage(x_t, q_t, g; w)‖² + ‖terminal(x_T, q_T, g; w)‖²
        + ω_u Σ_t ‖u_t‖² s.t.                     (x_{t+1}, q_{t+1}) = F_θ(x_t, q_t, u_t; C),
        |u_t| ≤ u_max,   q_min ≤ q_t ≤ q_max

    towards the goal pose g of the moment. The task owns the scene (robot, object, where both
    start), the residuals ``stage`` and ``terminal`` with their weights w, the stream of goals, and
    the judgement of a trial. F_θ, T and the bounds belong to the planner, what happens where the
    plan gets stuck to the supervisor, of which the task only names the one it wants.

    A task is one module with a class of this kind called ``TASK`` and a YAML of parameters beside
    it (``config/NAME.yaml`` for those of dexstack, ``NAME.yaml`` next to a file of the user's own).
    JAX is imported where a cost is traced: nodes that only need goals and judgement start without.
    """

    name: ClassVar[str]
    Weights: ClassVar[type]
    """Parameter block of numbers, the weights w; may change between two plans."""
    Params: ClassVar[type] = JudgeParams
    """Parameter block of the task itself."""
    supervisor: ClassVar[str] = "gait"
    """The supervisor it wants, by its name in :data:`dexstack.control.supervisors.SUPERVISORS`."""
    opening_yaw: ClassVar[float | None] = None
    """The turn that `dexstack up` asks for unless told otherwise [rad]; None: the task's own
    goals."""
    servo_node: ClassVar[str] = "hand"
    """The node that moves its robot: a hand's, or ``servo`` for a robot that exists in simulation
    only."""
    required_rate: ClassVar[float] = 1.0
    """Share of trials that must succeed for `dexstack eval` to end well."""
    trials: ClassVar[int] = 12
    """How many of them it runs unless told otherwise."""

    def __init__(self, params: Any = None, obj: str = "cube", hand: str = "right") -> None:
        """
        Args:
            params: block of :attr:`Params`; None: its defaults.
            obj: name of an object, or the path of an object's YAML.
            hand: side of a hand, or the path of a hand's YAML.
        """
        self.params = params or self.Params()
        self._names = obj, hand

    # --- scene --------------------------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def scene(self, world: World = AS_BELIEVED) -> Scene:
        """Robot, object and start, as the controller believes or as a world has them.

        Raises:
            ConfigError: an unknown name, a malformed file, an unusable mesh.
        """

    @classmethod
    def planner_for(cls, obj: str, hand: str) -> str:
        """The planner that the file of the object names for this task and hand, or else that of the
        hand; empty: the task's."""
        return ""

    def robot(self) -> Robot:
        """The robot alone; quicker where its scene needs no mesh."""
        return self.scene().robot

    def start(self) -> Start:
        """The start alone."""
        return self.scene().start

    def servo(self, robot: Robot, params: Any) -> Any:
        """The robot's position control, a :class:`~dexstack.sim.trial.Servo`; by default a hand's.

        Args:
            params: block of :meth:`servo_params`.
        """
        from dexstack.hand.servo import ServoLaw
        from dexstack.hand.watch import UNWATCHED, WatchParams
        from dexstack.model.gravity import GravityCompensation

        # A simulated hand is wired well; one that has shown nothing yet would be taken for miswired
        # when the object is laid on it. Nor has it encoders that freeze: between rigid bodies a
        # blocked joint says the same to the last bit.
        watch = WatchParams(doubtful_runaway=WatchParams.runaway, frozen_ticks=UNWATCHED)
        return ServoLaw(robot, params, GravityCompensation(robot), watch)

    @classmethod
    def servo_params(cls) -> type:
        """Parameter block of the servo."""
        from dexstack.hand.servo import ServoParams

        return ServoParams

    @property
    def depends_on(self) -> tuple[Any, ...]:
        """What a compiled cost may depend on beside its class; what is kept under it between
        processes never mixes two tasks up."""
        return type(self), self.params, self._names

    # --- cost ---------------------------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def stage(self, state: PlannedState, goal_WO: Array, weights: Any) -> Array:
        """Residuals (R,) of a predicted state."""

    @abc.abstractmethod
    def terminal(self, state: PlannedState, goal_WO: Array, weights: Any) -> Array:
        """Residuals (R,) of the last predicted state."""

    def released(self, weights: Any) -> Any:
        """The weights with which nothing draws the robot to the object."""
        return dataclasses.replace(weights, contact_weight=0.0)

    # --- goals --------------------------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def goals(self, k: int, seed: int) -> Iterator[Goal]:
        """The goals of the k-th trial, at least one: each but the last is followed by the next when
        it is reached."""

    def at_yaw(self, yaw: float) -> Goal:
        """The start pose turned by ``yaw`` [rad] about the vertical."""
        start = self.start().pose_WO
        pose_WO = np.concatenate([start[:3], quaternion_product(yaw_quaternion(yaw), start[3:])])
        return Goal(pose_WO, f"{np.degrees(yaw):+.0f}°")

    def at_pose(self, pose_WO: np.ndarray) -> Goal:
        """What somebody who points at a pose (7,) asks for; by default just that. A task that says
        itself where the object is to be takes the orientation alone."""
        return Goal(np.array(pose_WO), self._label(pose_WO))

    def _label(self, pose_WO: np.ndarray) -> str:
        return f"{np.degrees(geodesic_angle(pose_WO[3:], self.start().pose_WO[3:])):.0f}° from the start"

    def start_pose(self, start: Start, rng: np.random.Generator) -> np.ndarray:
        """Where a trial puts the object (7,): its start with noise in the plane and about the
        vertical."""
        pose_WO = start.pose_WO.copy()
        pose_WO[:2] += rng.normal(0.0, start.noise_position, 2)
        turn = rng.uniform(-start.noise_yaw, start.noise_yaw)
        pose_WO[3:] = quaternion_product(yaw_quaternion(turn), pose_WO[3:])
        return pose_WO

    def seconds(self) -> float:
        """Length of a trial [s]."""
        return 15.0

    # --- judgement ----------------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def symmetry(self) -> Symmetry:
        """Of the object: turns that its goals do not tell from none."""
        from dexstack.model.objects import load_symmetry

        return load_symmetry(self._names[0])

    def nearest(self, pose_WO: np.ndarray, goal_WO: np.ndarray) -> np.ndarray:
        """Of all poses that look like a goal (7,) the one that an object at ``pose_WO`` (7,) has
        least to turn to."""
        return np.concatenate([goal_WO[:3], self.symmetry.nearest(pose_WO[3:], goal_WO[3:])])

    def orientation_error(self, pose_WO: np.ndarray, goal: Goal) -> float:
        """Geodesic angle to the nearest pose that looks like the goal [rad]."""
        return self.symmetry.angle(pose_WO[3:], goal.pose_WO[3:])

    def position_error(self, pose_WO: np.ndarray, goal: Goal) -> float:
        """Distance to the goal position [m]."""
        return float(np.linalg.norm(pose_WO[:3] - goal.pose_WO[:3]))

    def inside(self, pose_WO: np.ndarray, goal: Goal) -> bool:
        """Whether the object is where and turned as asked, for now."""
        p = self.params
        return (
            self.orientation_error(pose_WO, goal) < p.tolerance
            and self.position_error(pose_WO, goal) < p.position_tolerance
        )

    def dropped(self, pose_WO: np.ndarray, start: Start) -> bool:
        """Whether the object has been lost."""
        away = np.linalg.norm(pose_WO[:3] - start.pose_WO[:3])
        return bool(not np.all(np.isfinite(pose_WO)) or away > self.params.drop_distance)

    def succeeded(self, outcome: Outcome) -> bool:
        """Whether a trial that ends so has succeeded; by default the object ends where it was asked
        for."""
        return not outcome.dropped and self.inside(outcome.pose_WO, outcome.goal)

    def over(self, reached_at: Sequence[float], t: float) -> bool:
        """Whether a trial ends at time ``t`` [s], before its length is up, with goals reached at
        such times; by default never."""
        return False

    def published(self) -> Sequence[Published]:
        """What papers report of this task with this object."""
        return ()

    def figures(self, outcomes: Sequence[Outcome]) -> dict[str, Any]:
        """Figures of its own that `dexstack eval` reports of many trials beside the common ones."""
        return {}

    def picture(self, path: Path, outcomes: Sequence[Outcome], title: str) -> Path | None:
        """Write a picture of its own of many trials; None: the common one is drawn, the errors of
        every trial.

        Raises:
            ConfigError: the file cannot be written.
        """
        return None
