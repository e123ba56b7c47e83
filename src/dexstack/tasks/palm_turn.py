"""Turn an object on the palm about the vertical, the hardware task of contactsdf."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dexstack.config import param
from dexstack.geometry.rotations import reach_below
from dexstack.model.hand import HandModel, load_hand
from dexstack.model.objects import ObjectModel, Start, load_object, load_start, object_name
from dexstack.model.strength import check_weight
from dexstack.tasks.base import (
    NOMINAL_WORLD,
    Goal,
    JudgeParams,
    Outcome,
    Published,
    Setup,
    Task,
    World,
    apply_world,
)

if TYPE_CHECKING:
    from jax import Array

    from dexstack.control.base import PlannedState

STEP = 0.1
"""Length of one of the paper's steps [s]."""


@dataclass(frozen=True)
class PalmWeights:
    """Weights of the cost, which may change between plans."""

    position_weight: float = param(1e3, "ω_p, weight of the final position error [1/m²]", 0.0, 1e7)
    orientation_weight: float = param(100.0, "ω_q, weight of the final orientation error [-]", 0.0, 1e7)
    position_length: float = param(
        0.04, "l, position error at which ω_p has doubled; a huge value turns this off [m]", 1e-3, 1e6
    )
    contact_weight: float = param(3.0, "ω_c, weight of fingertip–object distances [1/m²]", 0.0, 1e7)
    contact_radius: float = param(
        1e6, "r_c, radius of the largest object for which all of ω_c holds; a huge value: any [m]", 1e-3, 1e6
    )
    running_weight: float = param(
        0.05, "ω_r, share of the final cost charged at every predicted step [-]", 0.0, 10.0
    )


@dataclass(frozen=True)
class PalmParams(JudgeParams):
    """Parameters of the task."""

    success_error: float = param(
        0.2, "a trial succeeds if it ends with a smaller orientation error [rad]", 1e-3, 3.2
    )


class Benchmark(NamedTuple):
    """The paper's trials with one object."""

    goals_deg: tuple[float, ...]
    """Yaw from the start."""
    steps: int
    """H, number of steps of a rollout."""
    orientation_rad: tuple[float, float]
    """Mean and standard deviation of the error, n = 6."""


BENCHMARKS = {
    "cube": Benchmark((45, -45, 60, -60, 90, -90), 150, (0.08, 0.06)),
    "foambrick": Benchmark((45, -45, 60, -60, 90, -90), 200, (0.17, 0.15)),
    "stick": Benchmark((36, -36, 45, -45, 54, -54), 200, (0.28, 0.21)),
}
"""By the object's name; contactsdf, on-palm table."""
FOR_ANY_OBJECT = Benchmark((45, -45, 60, -60, 90, -90), 300, (float("nan"), float("nan")))
"""For an object without published trials: twice the cube's time, for more regrasps."""


class PalmTurn(Task):
    """Turn the object to the goal and keep it in place, with the fingertips near it:

        stage:     ω_c min(1, r_c/r)² Σ_tips ‖p_tip − p_o‖² + ω_r terminal
        terminal:  ω_p (1 + ‖p_o − p_goal‖²/l²) ‖p_o − p_goal‖² + ω_q (1 − (q_oᵀ q_goal)²)   [25, 26]

    ω_p grows with the error: a turn may shift the object a little, but not to the edge of the palm.
    r is the radius of the sphere around p_o that holds the object: around a large object the fingertips
    are far from p_o, and all of ω_c would outweigh the goal.
    1 − (qᵀq_g)² is the squared length of the vector part of q_g⁻¹ ⊗ q, so that every term is a square.
    A trial succeeds if the object ends in the hand with the goal orientation, anywhere on the palm.
    """

    name = "palm_turn"
    Weights = PalmWeights
    Params = PalmParams
    opening_yaw = math.pi / 2

    def setup(self, world: World = NOMINAL_WORLD) -> Setup:
        hand = self.robot()
        obj = self._object(hand)
        check_weight(hand, obj)
        if world != NOMINAL_WORLD:
            obj = apply_world(obj, world)
            # a contact has the larger friction of its two surfaces, so scale the hand's as well
            palm, fingers = (world.friction * x for x in (hand.friction_palm, hand.friction_fingers))
            hand = replace(
                hand,
                friction_palm=palm,
                friction_fingers=fingers,
                damping=world.joint_damping * hand.damping,
                joint_friction=world.joint_friction,
                joint_armature=world.joint_armature,
                torque=world.torque,
            )
        return Setup(hand, obj, obj.start(hand.family, hand.side))

    def robot(self) -> HandModel:
        return replace(load_hand(self.hand), gravity=self.gravity)

    def start(self) -> Start:
        return self._start

    @functools.cached_property
    def _start(self) -> Start:
        hand = self.robot()
        start = load_start(self.object, hand.family, hand.side)
        return start or self._object(hand).start(hand.family, hand.side)

    @classmethod
    def planner_for(cls, obj: str, hand: str) -> str:
        model = load_hand(hand)
        start = load_start(obj, model.family, model.side)
        return start.planner if start else model.planner

    def _object(self, hand: HandModel) -> ObjectModel:
        """Return the object with a start for this hand."""
        obj = load_object(self.object)
        if hand.family in obj.starts:
            return obj
        from dexstack.model.placing import with_place  # imports MuJoCo

        return with_place(hand, obj)

    @functools.cached_property
    def _place(self) -> np.ndarray:
        """(3,) position of the object in its start orientation [m]."""
        return self.start().pose_WO[:3]

    @functools.cached_property
    def _corners_O(self) -> np.ndarray:
        return np.asarray(load_object(self.object).hull_vertices, float)

    @functools.cached_property
    def _radius(self) -> float:
        return float(np.max(np.linalg.norm(self._corners_O, axis=1)))

    def at(self, quat: np.ndarray, label: str = "") -> Goal:
        """Return the goal with an orientation (4,) at the object's place, at the height at which it
        just touches the surface that bears it at the start."""
        rise = reach_below(self._corners_O, quat) - reach_below(self._corners_O, self.start().pose_WO[3:])
        pose_WO = np.concatenate([self._place + np.array([0.0, 0.0, rise]), quat])
        return Goal(pose_WO, label or self._label(pose_WO))

    def at_pose(self, pose_WO: np.ndarray) -> Goal:
        return self.at(np.array(pose_WO[3:]))

    def _goal(self, state: PlannedState, goal_WO: Array, w: Any) -> Array:
        import jax.numpy as jnp

        a, b = goal_WO[3:], state.quat_WO
        vector = a[0] * b[1:] - b[0] * a[1:] - jnp.cross(a[1:], b[1:])
        away = state.p_WO - goal_WO[:3]
        growth = jnp.sqrt(1 + jnp.sum(away**2) / w.position_length**2)
        # separate roots keep the gradient finite for a weight of zero
        position = jnp.sqrt(w.position_weight) * growth * away
        return jnp.concatenate([position, jnp.sqrt(self._precision() * w.orientation_weight) * vector])

    def _precision(self) -> float:
        """Factor on the orientation weight."""
        return 1.0

    def stage(self, state: PlannedState, goal_WO: Array, weights: Any) -> Array:
        import jax.numpy as jnp

        share = jnp.minimum(1.0, weights.contact_radius / self._radius)
        reach = share * jnp.sqrt(weights.contact_weight) * (state.p_WTip - state.p_WO[None]).reshape(-1)
        return jnp.concatenate(
            [reach, jnp.sqrt(weights.running_weight) * self._goal(state, goal_WO, weights)]
        )

    def terminal(self, state: PlannedState, goal_WO: Array, weights: Any) -> Array:
        return self._goal(state, goal_WO, weights)

    @functools.cached_property
    def _benchmark(self) -> Benchmark:
        return BENCHMARKS.get(object_name(self.object), FOR_ANY_OBJECT)

    def goals(self, k: int, seed: int) -> Iterator[Goal]:
        goals = self._benchmark.goals_deg
        yield self.at_yaw(math.radians(goals[k % len(goals)]))

    def seconds(self) -> float:
        return self._benchmark.steps * STEP

    def succeeded(self, outcome: Outcome) -> bool:
        return (
            not outcome.dropped
            and self.orientation_error(outcome.pose_WO, outcome.goal) < self.params.success_error
        )

    def published(self) -> Sequence[Published]:
        """Return the paper's results; a task derived from this one has none."""
        own = BENCHMARKS.get(object_name(self.object)) if self.name == PalmTurn.name else None
        return () if own is None else (Published("paper", 6, orientation_rad=own.orientation_rad),)
