"""Observations, plans, costs, and the base class of planners."""

from __future__ import annotations

import abc
import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jax import Array
from jaxtyping import Float

from dexstack.contact.contact import Contacts
from dexstack.control.params import MpcParams

if TYPE_CHECKING:
    from dexstack.control.problem import ModelParams
    from dexstack.model.objects import ObjectModel
    from dexstack.model.robot import Robot


class Observation(NamedTuple):
    """State from which a command is planned."""

    t: float
    """Time [s]."""
    pose_WO: np.ndarray
    """(7,) object position [m] and quaternion wxyz."""
    q: np.ndarray
    """(N,) joint positions [rad, m]."""
    contacts: Contacts
    """Between object and robot in this state."""


class SolveStatus(enum.IntEnum):
    """Result of a plan; a planner never raises."""

    OK = 0
    NO_DESCENT = 1
    """The last iteration found no better point: converged, or stuck."""
    BAD_INPUT = 2
    """A non-finite or wrong-size input; the previous command is repeated."""
    DIVERGED = 3
    """The solver produced a non-finite number; the previous command is repeated."""
    RETREAT = 4
    """Planned to release the object; see :mod:`dexstack.control.supervisors`."""

    @property
    def usable(self) -> bool:
        """True if the command answers the observation."""
        return self not in (SolveStatus.BAD_INPUT, SolveStatus.DIVERGED)


@dataclass(frozen=True)
class Plan:
    """Answer to one observation, or to B of them: then every array has a leading axis (B, …), and
    ``status`` and ``cost`` are arrays (B,)."""

    status: SolveStatus | np.ndarray
    q_des: np.ndarray
    """(N,) joint target for the coming step [rad, m]."""
    displacements: np.ndarray
    """(T, N) commanded displacements [rad, m]."""
    prediction: np.ndarray
    """(T + 1, 7 + N) predicted object poses and joint positions; the first row is the observed
    state."""
    cost: float | np.ndarray
    cpu_s: float
    """Processor time [s]; of a batch, of all plans together."""
    wall_s: float
    """Wall time [s]."""
    warning: str = ""
    """Why the planner plans worse than it could, for a person; empty if it does not."""


class Pull(NamedTuple):
    """Reference of the commanded displacements: ω ‖u_t − reference‖² at every step replaces
    ω_u ‖u_t‖²."""

    reference: np.ndarray
    """(N,) displacement per step."""
    weight: float
    """ω [1/rad², 1/m²]."""


class PlannedState(NamedTuple):
    """Predicted state as a cost sees it."""

    p_WO: Float[Array, "3"]
    quat_WO: Float[Array, "4"]
    q: Float[Array, " N"]
    p_WTip: Float[Array, "F 3"]
    """Fingertips, linear in the joint displacement from the current state."""


@runtime_checkable
class Cost(Protocol):
    """Sum of squares Σ_t ‖stage‖² + ‖terminal‖², smooth in the state; ``weights`` is a namespace
    of numbers."""

    def stage(self, state: PlannedState, goal_WO: Float[Array, "7"], weights: Any) -> Float[Array, " R"]: ...

    def terminal(
        self, state: PlannedState, goal_WO: Float[Array, "7"], weights: Any
    ) -> Float[Array, " R"]: ...


class Problem(NamedTuple):
    """The data of the optimal control problem that a planner solves."""

    robot: Robot
    obj: ObjectModel
    cost: Cost
    weights: Any
    """Parameter block of the cost."""
    theta: ModelParams


class LocalPlanner(abc.ABC):
    """Receding-horizon planner. From an observation (x_0, q_0) with contact set C it approximates

        min over u_0 … u_{T−1}   Σ_{t=1}^{T} ‖stage(x_t, q_t, g; w)‖² + ‖terminal(x_T, q_T, g; w)‖²
                                 + ω Σ_t ‖u_t − r‖²
        s.t.                     (x_{t+1}, q_{t+1}) = F_θ(x_t, q_t, u_t; C),
                                 |u_t| ≤ u_max,   q_min + m ≤ q_t ≤ q_max − m

    and commands q_0 + u_0. x is the object's pose, q the joint positions, u the commanded joint
    displacement per step of length h, g the goal pose; stage and terminal are the task's residuals
    with weights w. T, h, ω = ω_u, u_max and the limit margin m are those of
    :class:`~dexstack.control.params.MpcParams`; r is zero. A :class:`Pull` replaces ω and r.

    ``params``, ``weights``, ``theta`` and ``gravity`` are live: the stack replaces them between
    two plans (each as a whole, never edited in place), and the next plan must use them. T, h and the
    number of iterations may stay those of construction.

    A planner keeps a warm start and the last command that answered an observation. Only its own
    :meth:`plan` and :meth:`reset` change these; ask a :meth:`fork` hypothetical questions.

    A user's planner is a file that sets ``PLANNER`` to a subclass with its parameter class as
    ``Params``, made with (problem, params).
    """

    supervisor: ClassVar[str] = ""
    """Name of its default supervisor; empty: the task's."""
    predicted: ClassVar[bool] = True
    """True if it plans from the state predicted to the moment of actuation, False if it takes the
    measured one."""
    robot: Robot
    params: MpcParams
    theta: ModelParams
    """θ of the model F."""
    weights: Any
    """w, a parameter block of numbers."""
    gravity: tuple[float, ...]
    """(3,) in the world [m/s²]; at first the robot's."""

    def __init__(self, problem: Problem, params: Any) -> None:
        """
        Args:
            params: parameter blocks by their class.
        """
        self.robot, self.weights, self.theta = problem.robot, problem.weights, problem.theta
        self.gravity = problem.robot.gravity
        self.params = params[MpcParams]

    @property
    def u_max(self) -> float:
        """Largest commanded joint displacement per step [rad, m]."""
        return self.params.u_max

    def warm_up(self) -> float:
        """Compile; return the seconds it took."""
        return 0.0

    @abc.abstractmethod
    def reset(self) -> None:
        """Discard the warm start and the held command."""

    @abc.abstractmethod
    def plan(self, observation: Observation, goal_WO: np.ndarray, pull: Pull | None = None) -> Plan:
        """Plan towards the goal pose (7,); never raises.

        Args:
            pull: reference of the commands; None: zero, with weight ω_u.
        """

    @abc.abstractmethod
    def fork(self) -> LocalPlanner:
        """Return a planner with the same compiled solver, parameters, θ and weights, and its own
        warm start and held command."""

    @abc.abstractmethod
    def goal_cost(self, pose_WO: np.ndarray, q: np.ndarray, goal_WO: np.ndarray) -> float:
        """Return the terminal cost of an object pose (7,) with the joints at (N,)."""
