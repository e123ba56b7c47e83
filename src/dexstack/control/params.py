"""Parameters of planners and supervisors; here, so that files are checked without JAX."""

from __future__ import annotations

from dataclasses import dataclass

from dexstack.config import param
from dexstack.control.planners import PLANNERS
from dexstack.control.supervisors import SUPERVISORS
from dexstack.errors import unknown_name
from dexstack.hand.servo import ServoParams
from dexstack.lazy import is_own

BLIND_AFTER, BLIND_PERIOD = 0.1, 0.03
"""Without contacts for so long nothing is seen; time between two commands then, and longest wait
for contacts [s]."""


@dataclass(frozen=True)
class MpcParams:
    """Parameters of the MPC; the first block is compiled in, the second may change between
    solves."""

    horizon: int = param(4, "T, predicted steps", 1, 20)
    step: float = param(0.1, "h, length of a predicted step [s]", 0.005, 0.5)
    iterations: int = param(2, "Gauss–Newton iterations of one solve", 1, 50)

    u_max: float = param(
        0.15, "largest commanded joint displacement per step [rad, m for sliding joints]", 0.0, 1.0
    )
    effort_weight: float = param(0.1, "ω_u, weight of the commanded displacement [1/rad², 1/m²]", 0.0, 1e6)
    damping: float = param(
        0.02, "smallest Levenberg damping tried, relative to the Hessian's mean diagonal", 0.0, 10.0
    )
    limit_margin: float = param(
        0.02, "targets and predictions stay this far inside the joint limits [rad, m]", 0.0, 0.3
    )


@dataclass(frozen=True)
class BlindParams:
    """What is done where the object is not seen."""

    blind_hold: float = param(
        5.0, "how long after the last contacts commands go on that hold what is held [s]", 0.0, 60.0
    )
    blind_position: float = param(
        0.006, "standard deviation of the object's position at which it counts as not seen [m]", 1e-4, 1.0
    )
    blind_rotation: float = param(0.25, "the same of its rotation [rad]", 1e-3, 10.0)

    def hold(self, unseen: float) -> bool:
        """Whether the last target is commanded again, ``unseen`` [s] after the last sight: not yet,
        or for so long, or no more."""
        return BLIND_AFTER < unseen <= self.blind_hold


@dataclass(frozen=True)
class PlannerParams:
    """Who plans, with which time-stepping model, and the physics it assumes; all compiled in or
    fixed for a run."""

    planner: str = param(
        "gauss_newton",
        "planner: gauss_newton (ContactSDF-MPC), sampling (rollouts of MuJoCo), or the path of your own's Python file",
        choices=PLANNERS,
    )
    supervisor: str = param(
        "",
        f"what frees a stuck rollout: {', '.join(SUPERVISORS)}, or the path of your own's Python file; empty: what the task wants",
    )

    model: str = param(
        "implicit",
        "time-stepping model: implicit (compliant contact), dual (accelerated), dsdf (the paper), dsdf-k, cf or qp (exact)",
        choices=("implicit", "dual", "dsdf", "dsdf-k", "cf", "qp"),
    )
    contact_set: str = param(
        "propagated",
        "contacts along the plan: frozen (the paper), propagated (distances follow the plan) or detected (found anew at every step)",
        choices=("frozen", "propagated", "detected"),
    )
    implicit_steps: int = param(1, "model implicit: Newton steps", 1, 100)
    implicit_stiffness: float = param(1000.0, "model implicit: stiffness of a contact row [N/m]", 1.0, 1e6)
    implicit_smoothing: float = param(
        0.001, "model implicit: distance over which a contact's force sets in [m]", 1e-5, 0.1
    )
    dual_steps: int = param(10, "model dual: gradient steps", 1, 1000)
    dual_compliance: float = param(
        0.01, "model dual: compliance of a contact row relative to the row's own [-]", 1e-6, 1.0
    )
    dsdf_sigma: float = param(120.0, "model dsdf: sharpness of the smooth maximum [1/√J]", 1.0, 1e5)
    dsdf_steps: int = param(4, "model dsdf-k: gradient steps", 1, 100)
    cf_gain: float = param(
        0.25, "model cf: gain of a contact row relative to the row's own stiffness [-]", 0.01, 1.0
    )
    cf_smoothing: float = param(
        0.0005, "model cf: distance over which a contact's force sets in [m]", 1e-7, 0.1
    )
    qp_steps: int = param(16, "model qp: Newton steps", 1, 200)
    qp_barrier: float = param(1e-6, "model qp: complementarity of a row at the end [J]", 1e-14, 1e-2)
    inertia_scale: float = param(
        20.0,
        "the object's mass and inertia times this resist its motion: damps the quasi-dynamic fall [-]",
        0.1,
        1e4,
    )
    planned_friction: float = param(0.8, "μ of every contact in the plan [-]", 0.0, 5.0)
    command_delay: float = param(
        0.0,
        "time from a command to its action that is counted on: a plan is for the state that the commands under way lead to [s]",
        0.0,
        0.5,
    )
    theta: str = param("", "learned θ, a name or a file, in place of the physical parameters; empty: none")
    kp: float = param(
        ServoParams.kp, "proportional gain of the joint servo [N·m/rad, N/m for sliding joints]", 0.01, 1000.0
    )
    kd: float = param(
        ServoParams.kd,
        "derivative gain of the joint servo, added to the joints' own damping [N·m·s/rad]",
        0.0,
        1.0,
    )


def own_blocks(planner: PlannerParams, supervisor: str) -> list[type]:
    """Parameter classes of a planner and a supervisor that are files of the user's own.

    Args:
        supervisor: the task's, unless the parameters choose one.

    Raises:
        ConfigError: an unknown name, or a file that cannot be used.
    """
    found = []
    for registry, name in ((PLANNERS, planner.planner), (SUPERVISORS, planner.supervisor or supervisor)):
        if name not in registry:
            raise unknown_name(registry.what, name, registry)
        if is_own(name):
            found.append(registry.load(name)[1])
    return found


@dataclass(frozen=True)
class SamplingParams:
    """Parameters of the sampling planner."""

    sampling_plans: int = param(
        32, "plans rolled out in every search, or as many as end in time where time does not wait", 2, 4096
    )
    sampling_knots: int = param(4, "knots of a plan's spline over the horizon", 2, 64)
    sampling_spread: float = param(
        0.4,
        "standard deviation of the first perturbed knot as a share of the largest command; of the k-th k times that [-]",
        1e-3,
        2.0,
    )
    sampling_near: float = param(
        0.4, "orientation error below which half of the plans are perturbed finely [rad]", 0.0, 3.2
    )
    sampling_fine: float = param(
        0.2, "share of the spread by which they are: the last tenths are found by small steps [-]", 1e-3, 1.0
    )
    sampling_change: float = param(
        10.0,
        "largest change from one command to the next as a share of the largest command; a joint that turns round at once trembles [-]",
        0.05,
        10.0,
    )
    sampling_share: float = param(0.5, "share of the robot's chains that one plan perturbs [-]", 0.0, 1.0)
    sampling_temperature: float = param(
        0.06,
        "cost above the least by which a plan's weight falls to 1/e, as a share of what the median is above it [-]",
        1e-6,
        10.0,
    )
    sampling_delay: float = param(
        0.0,
        "time that a search takes, beside the plans, until its answer acts; 0: within a plan [s]",
        0.0,
        1.0,
    )
    sampling_wait: bool = param(
        True, "a plan waits for a search that is late, as where time is simulated; the node's do not"
    )
    sampling_lead: float = param(
        0.02,
        "from an observation to the middle of the time in which the command that answers it acts [s]",
        0.0,
        1.0,
    )
    sampling_threads: int = param(1, "threads that roll out", 1, 256)
    sampling_timestep: float = param(0.01, "physics step of the rollouts [s]", 5e-4, 0.02)
    sampling_seed: int = param(0, "seed of the perturbations", 0, 2**31 - 1)
    sampling_value: str = param(
        "",
        "learned value of where plans end, by its name or file; 'auto': that of the object and the hand, if there is one; empty: none",
    )
    sampling_value_weight: float = param(
        1000.0, "cost of an end from which the goal is never reached [-]", 0.0, 1e7
    )


@dataclass(frozen=True)
class GaitParams:
    """When a rollout counts as stalled, and how the robot lets go."""

    stall_window: float = param(
        1.5,
        "time without progress after which a rollout has stalled [s]; a huge value turns this off",
        0.1,
        1e9,
    )
    still_window: float = param(
        0.4,
        "time without motion after which it has, or after which it has let go as far as it can [s]; a huge value turns this off",
        0.1,
        1e9,
    )
    stall_progress: float = param(
        0.05, "fall of the orientation error below its best that counts as progress [rad]", 0.001, 1.0
    )
    stall_tolerance: float = param(
        0.1, "a rollout nearer to its goal than this is not stalled [rad]", 0.0, 3.2
    )
    keep_error: float = param(
        0.05,
        "an object this near to its goal is kept: the command stays until it is off by stall_tolerance; 0: never [rad]",
        0.0,
        3.2,
    )
    stall_swing: float = param(
        1.0,
        "how far a stalled finger swings beyond its rest pose, as a share of how far it had swung to the other side [-]",
        0.0,
        2.0,
    )
    recentre_distance: float = param(
        0.03,
        "a stalled object farther than this from its place is brought back before it is turned on [m]",
        1e-3,
        10.0,
    )
    recentre_time: float = param(2.0, "longest time for that; 0 turns it off [s]", 0.0, 60.0)
    release_time: float = param(2.5, "longest time for which the robot lets go [s]", 0.0, 10.0)
    release_reached: float = param(
        0.1, "it has let go when every joint is this near to where it is drawn [rad, m]", 0.001, 1.0
    )
    release_weight: float = param(1.0, "weight that draws the joints there [1/rad², 1/m²]", 1e-3, 1e6)


@dataclass(frozen=True)
class DetourParams:
    """When a rollout is sent elsewhere, and where to."""

    detour_after: float = param(
        5.0,
        "time without progress after which the object is sent elsewhere; a huge value turns this off [s]",
        0.1,
        1e9,
    )
    detour_progress: float = param(
        0.05, "fall of the orientation error below its best that counts as progress [rad]", 0.001, 1.0
    )
    detour_tolerance: float = param(0.1, "an object nearer to its goal than this stays there [rad]", 0.0, 3.2)
    detour_turn: float = param(1.2, "how far it is turned, about an axis drawn at random [rad]", 0.01, 3.1)
    detour_time: float = param(1.5, "for how long [s]", 0.1, 60.0)
    detour_seed: int = param(0, "seed of the axes", 0, 2**31 - 1)


@dataclass(frozen=True)
class RegraspParams:
    """Parameters of the supervision."""

    settle_position: float = param(
        0.003, "the robot holds when the object is this near the goal [m] …", 0.0, 0.1
    )
    settle_angle: float = param(0.04, "… and turned at most this much against it [rad]", 0.0, 1.0)
    patience: int = param(20, "plans without progress before the robot lets go", 1, 10000)
    patience_still: int = param(12, "the same where the object does not even move", 1, 10000)
    progress: float = param(
        0.05, "share by which the terminal cost must fall to count as progress [-]", 0.0, 1.0
    )
    retreat: int = param(5, "plans for which it retreats", 1, 100)
    placements: int = param(6, "placements weighed in each of them", 1, 100)
    travel: int = param(30, "most plans for which it travels", 1, 1000)


@dataclass(frozen=True)
class NoParams:
    """Nothing to choose."""
