"""What planners and supervisors have in common: what they see, what they answer, and the cost they
go by."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jax import Array
from jaxtyping import Float

from dexstack.contact.contact import Contacts

if TYPE_CHECKING:
    from dexstack.control.problem import ModelParams
    from dexstack.model.objects import ObjectModel
    from dexstack.model.robot import Robot


class Observation(NamedTuple):
    """The state a command is asked for."""

    t: float
    """Time [s]."""
    pose_WO: np.ndarray
    """(7,) object position [m] and quaternion wxyz."""
    q: np.ndarray
    """(N,) joint positions [rad, m]."""
    contacts: Contacts
    """Between object and robot in this state."""


class SolveStatus(enum.IntEnum):
    """How a plan came about; the controller never raises."""

    OK = 0
    NO_DESCENT = 1
    """The last iteration found no better point: converged, or stuck."""
    BAD_INPUT = 2
    """A non-finite or wrong-size input; the previous command is repeated."""
    DIVERGED = 3
    """The solver produced a non-finite number; the previous command is repeated."""
    RETREAT = 4
    """Planned to let go of the object instead of moving it; see
    :mod:`dexstack.control.supervisors`."""

    @property
    def usable(self) -> bool:
        """Whether the command answers the observation."""
        return self not in (SolveStatus.BAD_INPUT, SolveStatus.DIVERGED)


@dataclass(frozen=True)
class Plan:
    """The answer to one observation."""

    status: SolveStatus
    q_des: np.ndarray
    """(N,) joint target for the coming step [rad, m]."""
    displacements: np.ndarray
    """(T, N) commanded displacements [rad, m]."""
    prediction: np.ndarray
    """(T + 1, 7 + N) predicted object poses and joint positions, the first the measured ones."""
    cost: float
    cpu_s: float
    wall_s: float
    lack: str = ""
    """What keeps the planner from planning as well as it can, for a person; empty: nothing."""


class Plans(NamedTuple):
    """The answers to B observations, see :class:`Plan`."""

    status: np.ndarray
    """(B,) of :class:`SolveStatus`."""
    q_des: np.ndarray
    """(B, N) [rad, m]"""
    displacements: np.ndarray
    """(B, T, N) [rad, m]"""
    prediction: np.ndarray
    """(B, T + 1, 7 + N)"""
    cost: np.ndarray
    """(B,)"""
    cpu_s: float
    """Of all of them together."""
    wall_s: float


class Pull(NamedTuple):
    """Where the commanded displacements are drawn to: ω ‖u_t − reference‖² at every step, in place
    of ω_u ‖u_t‖²."""

    reference: np.ndarray
    """(N,) displacement per step."""
    weight: float
    """ω [1/rad², 1/m²]"""


class PlannedState(NamedTuple):
    """What a cost sees of a predicted state."""

    p_WO: Float[Array, "3"]
    quat_WO: Float[Array, "4"]
    q: Float[Array, " N"]
    p_WTip: Float[Array, "F 3"]
    """Fingertips, linear in the joint displacement from the current state."""


@runtime_checkable
class Cost(Protocol):
    """A cost as sums of squares: Σ_t ‖stage‖² + ‖terminal‖²; smooth in the state, ``weights`` a
    namespace of numbers."""

    def stage(self, state: PlannedState, goal_WO: Float[Array, "7"], weights: Any) -> Float[Array, " R"]: ...

    def terminal(
        self, state: PlannedState, goal_WO: Float[Array, "7"], weights: Any
    ) -> Float[Array, " R"]: ...


class Problem(NamedTuple):
    """What is planned."""

    robot: Robot
    obj: ObjectModel
    cost: Cost
    weights: Any
    """The cost's parameter block."""
    theta: ModelParams


@runtime_checkable
class LocalPlanner(Protocol):
    """Plans some steps ahead from the present contact set.

    A planner keeps a warm start from one plan to the next and the last command that answered an
    observation. Nothing but its own :meth:`plan` and :meth:`reset` touches these: who wants to ask
    a hypothetical question asks a :meth:`fork`.
    """

    robot: Robot
    u_max: float
    """Largest commanded joint displacement per step [rad, m]."""
    theta: ModelParams
    """θ of the model it plans with; may be replaced between two plans, not edited in place."""
    weights: Any
    """Weights of the cost, an immutable parameter block; may be replaced between two plans."""

    def warm_up(self) -> float:
        """Compile; returns the seconds it took."""

    def reset(self) -> None:
        """Forget the warm start and the command held."""

    def plan(self, observation: Observation, goal_WO: np.ndarray, pull: Pull | None = None) -> Plan:
        """A command that brings the object nearer to the goal pose (7,); never raises.

        Args:
            pull: draws the commands to a reference; without it they are drawn to zero.
        """

    def fork(self) -> LocalPlanner:
        """A planner of the same compiled solver, θ and weights, with a warm start and a held
        command of its own."""

    def goal_cost(self, pose_WO: np.ndarray, q: np.ndarray, goal_WO: np.ndarray) -> float:
        """The terminal cost of an object pose (7,) with the joints at (N,)."""
