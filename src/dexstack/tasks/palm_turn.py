"""Turning an object on the palm of an Allegro hand: cost, goal and score of the task.

    c_t = ω_c Σ_tips ‖p_tip − p_o‖² + ω_r c_goal(q_t)          c_T = ω_p ‖p_o − p_goal‖² + ω_q (1 − (q_oᵀ q_goal)²)        [25, 26]

ω_p grows with the error, ω_p (1 + ‖p_o − p_goal‖²/l²): a turn may shift the object a little, but not to the edge of the palm.
ω_u‖u‖² belongs to the MPC. 1 − (qᵀq_g)² is the squared length of the vector part of q_g⁻¹ ⊗ q, which makes every term a square.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dexstack.config import param
from dexstack.geometry.rotations import geodesic_angle, quaternion_product, wrap_angle, yaw_of, yaw_quaternion

if TYPE_CHECKING:
    from jax import Array

    from dexstack.control.mpc import PlannedState
    from dexstack.model.objects import Start


@dataclass(frozen=True)
class AllegroWeights:
    """Weights of the Allegro task's cost; all may change between solves."""

    position_weight: float = param(1e3, "ω_p, weight of the final position error [1/m²]", 0.0, 1e7)
    orientation_weight: float = param(100.0, "ω_q, weight of the final orientation error [-]", 0.0, 1e7)
    position_length: float = param(0.04, "l, position error at which ω_p has doubled; a huge value turns this off [m]", 1e-3, 1e6)
    contact_weight: float = param(3.0, "ω_c, weight of fingertip–object distances [1/m²]", 0.0, 1e7)
    running_weight: float = param(0.05, "ω_r, share of the final cost charged at every predicted step [-]", 0.0, 10.0)

    def arrays(self) -> dict[str, np.ndarray]:
        """The weights as float32 scalars for a compiled solver."""
        return {name: np.float32(getattr(self, name)) for name in self.__dataclass_fields__}


def without_reach(weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The weights with which nothing draws the fingertips to the object."""
    return {**weights, "contact_weight": np.float32(0.0)}


class AllegroCost:
    """The cost as residuals (see :class:`dexstack.control.mpc.Cost`).

    JAX is imported where it is traced: simulator and task node use this module for goal and score, and start faster without.
    """

    def _goal(self, state: PlannedState, goal_WO: Array, weights: dict[str, Array]) -> Array:
        import jax.numpy as jnp

        a, b = goal_WO[3:], state.quat_WO
        vector = a[0] * b[1:] - b[0] * a[1:] - jnp.cross(a[1:], b[1:])
        away = state.p_WO - goal_WO[:3]
        growth = jnp.sqrt(1 + jnp.sum(away**2) / weights["position_length"] ** 2)
        position = jnp.sqrt(weights["position_weight"]) * growth * away  # a root apart: a weight of zero has a slope too
        return jnp.concatenate([position, jnp.sqrt(weights["orientation_weight"]) * vector])

    def stage(self, state: PlannedState, goal_WO: Array, weights: dict[str, Array]) -> Array:
        import jax.numpy as jnp

        reach = jnp.sqrt(weights["contact_weight"]) * (state.p_WTip - state.p_WO).reshape(-1)
        return jnp.concatenate([reach, jnp.sqrt(weights["running_weight"]) * self._goal(state, goal_WO, weights)])

    def terminal(self, state: PlannedState, goal_WO: Array, weights: dict[str, Array]) -> Array:
        return self._goal(state, goal_WO, weights)


@dataclass(frozen=True)
class Published:
    """The paper's targets and results for one object."""

    goals_deg: tuple[float, ...]
    """Yaw from the start."""
    steps: int
    """H, steps of a rollout, of 0.1 s in the model."""
    orientation_error: str
    """mean ± std [rad]"""
    rate_hz: str


PUBLISHED = {
    "cube": Published((45, -45, 60, -60, 90, -90), 150, "0.08 ± 0.06", "40.6 ± 17.1"),
    "foambrick": Published((45, -45, 60, -60, 90, -90), 200, "0.17 ± 0.15", "40.3 ± 12.9"),
    "stick": Published((36, -36, 45, -45, 54, -54), 200, "0.28 ± 0.21", "46.9 ± 15.3"),
}
"""Per object; contactsdf, on-palm table (n = 6)."""


@dataclass(frozen=True)
class AllegroTask:
    """Goal and score of one run: turn the object by ``goal_yaw`` [rad] from its nominal start pose, where it lies."""

    start: Start
    goal_yaw: float
    tolerance: float = 0.1
    """Geodesic orientation error that counts as reached [rad]."""
    success_error: float = 0.2
    """A trial that ends with a smaller orientation error, the object in the hand, has succeeded [rad]."""
    hold: float = 0.3
    """How long the error must stay below the tolerance [s]."""
    drop_distance: float = 0.08
    """An object farther than this from its start has been dropped [m]."""

    @property
    def goal_WO(self) -> np.ndarray:
        """Goal pose (7,)."""
        start = self.start.pose_WO
        return np.concatenate([start[:3], quaternion_product(yaw_quaternion(self.goal_yaw), start[3:])])

    def start_pose(self, rng: np.random.Generator) -> np.ndarray:
        """Start pose (7,) with the object's start noise (position in the plane, yaw)."""
        start = self.start.pose_WO.copy()
        start[:2] += rng.normal(0.0, self.start.noise_position, 2)
        turn = rng.uniform(-self.start.noise_yaw, self.start.noise_yaw)
        start[3:] = quaternion_product(yaw_quaternion(turn), start[3:])
        return start

    def orientation_error(self, pose_WO: np.ndarray) -> float:
        """Geodesic angle to the goal [rad]."""
        return geodesic_angle(pose_WO[3:], self.goal_WO[3:])

    def position_error(self, pose_WO: np.ndarray) -> float:
        """Distance to the goal position [m]."""
        return float(np.linalg.norm(pose_WO[:3] - self.goal_WO[:3]))

    def succeeded(self, pose_WO: np.ndarray) -> bool:
        """Whether a trial that ends so has succeeded: the object is in the hand and turned as asked."""
        return self.orientation_error(pose_WO) < self.success_error and not self.dropped(pose_WO)

    def following(self) -> AllegroTask | None:
        """No other task follows; see :mod:`dexstack.tasks.continuous`."""
        return None

    def yaw(self, pose_WO: np.ndarray) -> float:
        """Yaw turned from the nominal start [rad], in (−π, π]."""
        return wrap_angle(yaw_of(pose_WO[3:]) - yaw_of(self.start.pose_WO[3:]))

    def dropped(self, pose_WO: np.ndarray) -> bool:
        """Whether the object has left the hand."""
        return bool(not np.all(np.isfinite(pose_WO)) or np.linalg.norm(pose_WO[:3] - self.start.pose_WO[:3]) > self.drop_distance)
