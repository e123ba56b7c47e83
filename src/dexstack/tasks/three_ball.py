"""Move, turn and flip an object on a floor with three balls, the simulation task of contactsdf."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dexstack.config import param
from dexstack.errors import ConfigError
from dexstack.geometry.rotations import reach_below, yaw_quaternion
from dexstack.model.balls import DENSITY, Ball, BallsModel
from dexstack.model.objects import ObjectModel, Start, load_object
from dexstack.tasks.ball_servo import BallServo, BallServoParams
from dexstack.tasks.base import NOMINAL_WORLD, Goal, JudgeParams, Published, Setup, Task, World, apply_world

if TYPE_CHECKING:
    from jax import Array

    from dexstack.control.base import PlannedState
    from dexstack.model.robot import Robot

START = "three_ball"
CORNER = 0.05
"""Distance of the targets along ±x and ±y [m]."""
YAWS = (0.0, np.pi / 4, -np.pi / 4, np.pi / 2, -np.pi / 2)
FLIPS = (np.pi / 2, -np.pi / 2)
"""About y, for compact objects [rad]."""
ROLLS = (3 * np.pi / 4, np.pi)
"""About x, for objects that are long in x [rad]: the paper's table has y, but its code turns the stick
about its long axis."""
LONG = 2.0
"""Smallest ratio of the extents along x and y of a long object."""
TURNS_PER_BLOCK, FLIPS_PER_BLOCK = 5, 2
PLANS = {"cube": 200}
"""Number of plans of a trial in the paper, 0.1 s apart; 300 for other objects."""
PLAN_PERIOD = 0.1
PAPER: dict[str, tuple[tuple[str, float, float, float, float, float], ...]] = {
    "cube": (("paper", 13.62, 3.14, 0.11, 0.11, 31.8), ("paper, QP-MPC", 26.11, 28.24, 0.24, 0.35, 80.8)),
    "foambrick": (("paper", 8.93, 2.31, 0.24, 0.02, 25.0), ("paper, QP-MPC", 8.59, 3.17, 0.19, 0.05, 51.6)),
    "stick": (("paper", 22.06, 5.90, 0.26, 0.19, 52.8), ("paper, QP-MPC", 30.54, 8.72, 0.37, 0.22, 91.9)),
}
"""Published results by object, 7 trials each: mean and standard deviation of the position error [mm]
and the orientation error [rad], mean solve time [ms] on an i9-13900K without contact detection."""


@dataclass(frozen=True)
class ThreeBallParams(JudgeParams):
    """Parameters of judgement and setup."""

    tolerance: float = param(
        0.25, "orientation error below which a target counts as reached [rad]", 1e-3, 3.2
    )
    position_tolerance: float = param(
        0.02, "position error below which a target counts as reached [m]", 1e-4, 1e6
    )
    drop_distance: float = param(
        0.3, "an object farther than this from its start has been dropped [m]", 1e-3, 10.0
    )

    object_mass: float = param(0.01, "mass of the object, in place of that in its YAML [kg]", 1e-4, 10.0)
    object_friction: float = param(0.5, "sliding friction of object, balls and floor [-]", 0.0, 2.0)
    ball_radius: float = param(0.01, "largest radius of a ball [m]", 0.001, 0.05)
    ball_share: float = param(
        0.235, "largest radius of a ball as a share of the object's smallest extent [-]", 0.01, 1.0
    )
    ball_gap: float = param(0.012, "distance of a ball from the object at the start [m]", 0.0, 0.1)
    noise_position: float = param(
        0.003, "standard deviation of the object's start along x and along y [m]", 0.0, 0.01
    )
    noise_yaw: float = param(
        0.1, "largest turn of the object at the start, in either direction [rad]", 0.0, 0.3
    )
    ball_damping: float = param(1.0, "damping of a ball's position control [N s/m]", 0.0, 100.0)


@dataclass(frozen=True)
class ThreeBallWeights:
    """Weights of the cost, which may change between solves."""

    position_weight: float = param(1e4, "ω_p, weight of the final position error [1/m²]", 0.0, 1e7)
    orientation_weight: float = param(100.0, "ω_q, weight of the final orientation error [-]", 0.0, 1e7)
    contact_weight: float = param(10.0, "ω_c, weight of ball–object distances [1/m²]", 0.0, 1e7)
    grasp_weight: float = param(0.1, "ω_g, weight of the sum of the balls' directions [-]", 0.0, 1e7)
    running_weight: float = param(
        0.05, "ω_r, share of the final cost charged at every predicted step [-]", 0.0, 10.0
    )


class ThreeBall(Task):
    """Bring the object to a target on the floor, with the balls around it:

        stage:     ω_c Σ_i ‖p_i − p_o‖² + ω_g ‖Σ_i d_i‖² + ω_r terminal                [26, 27]
                   d_i = R_oᵀ (p_i − p_o) / ‖p_i − p_o‖
        terminal:  ω_p ‖p_o − p_goal‖² + ω_q (θ/2)²                                     [25]

    p_i are the centres of the balls and θ is the angle between q_o and q_goal. The paper has
    sin²(θ/2) = 1 − (q_oᵀ q_goal)² instead of (θ/2)²: equal for small angles, but with zero gradient at
    half a turn, which is one of the targets.

    Targets come in blocks of five turns and two flips, at the corners of a square. A trial succeeds
    within 20 mm and 0.25 rad.
    """

    name = "three_ball"
    Weights = ThreeBallWeights
    Params = ThreeBallParams
    supervisor = "regrasp"
    servo_node = "servo"
    required_rate = 0.95
    trials = 7

    def setup(self, world: World = NOMINAL_WORLD) -> Setup:
        p: ThreeBallParams = self.params
        believed = scene_object(load_object(self.object), p)
        balls = replace(scene_balls(believed, p), gravity=self.gravity)
        if world == NOMINAL_WORLD:
            return Setup(balls, believed, believed.start(START))
        of_a_hand = {
            name: getattr(NOMINAL_WORLD, name)
            for name in ("torque", "joint_damping", "joint_friction", "joint_armature")
        }
        if replace(world, **of_a_hand) != world:
            raise ConfigError(f"this task has balls; {', '.join(of_a_hand)} of a world apply only to hands")
        actual = apply_world(believed, world)
        rough = tuple(replace(ball, friction=world.friction * ball.friction) for ball in balls.balls)
        return Setup(replace(balls, balls=rough), actual, actual.start(START))

    def start(self) -> Start:
        return self._scene.start

    @functools.cached_property
    def _scene(self) -> Setup:
        return self.setup()

    def servo(self, robot: Robot, params: BallServoParams) -> BallServo:
        return BallServo(robot, params)

    @classmethod
    def servo_params(cls) -> type:
        return BallServoParams

    def _goal(self, state: PlannedState, goal_WO: Array, weights: Any) -> Array:
        import jax.numpy as jnp

        a, b = goal_WO[3:], state.quat_WO
        scalar = a @ b
        vector = jnp.where(scalar < 0, -1.0, 1.0) * (a[0] * b[1:] - b[0] * a[1:] - jnp.cross(a[1:], b[1:]))
        square = vector @ vector
        sine = jnp.sqrt(jnp.maximum(square, 1e-12))
        half_angle = vector * jnp.where(square < 1e-12, 1.0, jnp.arctan2(sine, jnp.abs(scalar)) / sine)
        position = jnp.sqrt(weights.position_weight) * (state.p_WO - goal_WO[:3])
        return jnp.concatenate([position, jnp.sqrt(weights.orientation_weight) * half_angle])

    def stage(self, state: PlannedState, goal_WO: Array, weights: Any) -> Array:
        import jax.numpy as jnp

        reach = state.p_WTip - state.p_WO[None]
        # The length of the sum does not depend on the frame, so [27] needs no R_o.
        direction = reach / jnp.sqrt(jnp.sum(reach**2, axis=1, keepdims=True) + 1e-8)
        return jnp.concatenate(
            [
                jnp.sqrt(weights.contact_weight) * reach.reshape(-1),
                jnp.sqrt(weights.grasp_weight) * jnp.sum(direction, axis=0),
                jnp.sqrt(weights.running_weight) * self._goal(state, goal_WO, weights),
            ]
        )

    def terminal(self, state: PlannedState, goal_WO: Array, weights: Any) -> Array:
        return self._goal(state, goal_WO, weights)

    def goals(self, k: int, seed: int) -> Iterator[Goal]:
        yield next(itertools.islice(targets(self._scene.obj, seed), k, None))

    def at_pose(self, pose_WO: np.ndarray) -> Goal:
        """Return the goal with this place and orientation, resting on the floor."""
        height = resting_height(self._scene.obj, pose_WO[3:])
        return Goal(np.concatenate([pose_WO[:2], [height], pose_WO[3:]]), self._label(pose_WO))

    def seconds(self) -> float:
        return PLANS.get(self._scene.obj.name, 300) * PLAN_PERIOD

    def published(self) -> Sequence[Published]:
        rows = PAPER.get(self._scene.obj.name, ())
        return [
            Published(name, 7, (a, da), (1e-3 * p, 1e-3 * dp), 1e-3 * ms) for name, p, dp, a, da, ms in rows
        ]


def resting_height(obj: ObjectModel, quat_WO: np.ndarray) -> float:
    """Return the height of the object's origin when it rests on the floor in an orientation [m]."""
    return reach_below(obj.surface.vertices, quat_WO)


def scene_object(obj: ObjectModel, params: ThreeBallParams) -> ObjectModel:
    """Return the object with the mass and friction of this task, resting at the world's origin."""
    quat = np.array([1.0, 0.0, 0.0, 0.0])
    pose_WO = np.concatenate([[0.0, 0.0, resting_height(obj, quat)], quat])
    return replace(
        obj,
        mass=params.object_mass,
        inertia=obj.inertia * (params.object_mass / obj.mass),
        friction=np.array([params.object_friction, 0.005, 0.0001]),
        contact_dimension=6,
        starts={START: Start(pose_WO, params.noise_position, params.noise_yaw, "home")},
    )


def scene_balls(obj: ObjectModel, params: ThreeBallParams) -> BallsModel:
    """Return three balls around the object: at its ends along the shorter of x and y, and above."""
    radius = min(params.ball_radius, params.ball_share * float(np.min(obj.size)))
    height = float(obj.starts[START].pose_WO[2])
    side = np.eye(3)[int(np.argmin(obj.size[:2]))]

    def away(axis: np.ndarray) -> float:
        return float(np.max(obj.surface.vertices @ axis)) + radius + params.ball_gap

    level = np.array([0.0, 0.0, max(height, radius)])
    places = (
        level + away(side) * side,
        level + np.array([0.0, 0.0, away(np.eye(3)[2])]),
        level - away(-side) * side,
    )
    mass = DENSITY * 4 / 3 * np.pi * radius**3
    return BallsModel(
        tuple(
            Ball(tuple(map(float, p)), radius, mass, params.object_friction, params.ball_damping)
            for p in places
        )
    )


def flip_axis(obj: ObjectModel) -> tuple[np.ndarray, tuple[float, ...]]:
    """Return axis (3,) and angles [rad] of an object's flips."""
    return (np.eye(3)[0], ROLLS) if obj.size[0] > LONG * obj.size[1] else (np.eye(3)[1], FLIPS)


def targets(obj: ObjectModel, seed: int) -> Iterator[Goal]:
    """Yield targets without end, in blocks of five turns and two flips, resting on the floor."""
    rng = np.random.default_rng(seed)
    axis, angles = flip_axis(obj)
    while True:
        for k in range(TURNS_PER_BLOCK + FLIPS_PER_BLOCK):
            xy = CORNER * rng.choice([-1.0, 1.0], 2)
            if k < TURNS_PER_BLOCK:
                angle, name = float(rng.choice(YAWS)), "turn"
                quat = yaw_quaternion(angle)
            else:
                angle, name = float(rng.choice(angles)), "flip"
                quat = np.concatenate([[np.cos(angle / 2)], np.sin(angle / 2) * axis])
            yield Goal(
                np.concatenate([xy, [resting_height(obj, quat)], quat]), f"{name} {np.degrees(angle):+.0f}°"
            )
