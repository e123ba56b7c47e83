"""Parameters of planners and supervisors, importable without JAX."""

from __future__ import annotations

from dataclasses import dataclass

from dexstack.config import param
from dexstack.control.models import MODELS
from dexstack.control.planners import PLANNERS
from dexstack.control.supervisors import SUPERVISORS
from dexstack.errors import check_names
from dexstack.hand.servo import ServoParams
from dexstack.lazy import is_own

BLIND_AFTER, BLIND_PERIOD = 0.1, 0.03
"""Time without measurements after which the last target is held, and time between two such commands
[s]."""


@dataclass(frozen=True)
class MpcParams:
    """Parameters of the MPC. Horizon, step and iterations are compiled in; the others may change between
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
    """Behaviour without a measured pose, or with an uncertain one."""

    blind_hold: float = param(
        5.0, "time after the last contacts for which the last target is held [s]", 0.0, 60.0
    )
    blind_position: float = param(
        0.006,
        "standard deviation of the object's position at which the hand moves at a quarter of its speed [m]",
        1e-4,
        1.0,
    )
    blind_rotation: float = param(
        0.25,
        "standard deviation of the object's rotation at which the hand moves at a quarter of its speed [rad]",
        1e-3,
        10.0,
    )

    def speed(self, deviation: tuple[float, float]) -> float:
        """Return the share s, in (0, 1], of the planned displacement that a command covers, and of
        the way to a measured pose that the assumed one covers.

        With d the larger ratio of a standard deviation to its limit, s = min(1, 1/(2 d)²). A mean in
        which every new picture has the share s has s/(2 − s) ≤ s of a picture's variance; it is at
        least as certain as one picture at d = ½. No uncertainty stops the hand.

        Args:
            deviation: largest standard deviations of the pose's position [m] and rotation [rad].
        """
        doubt = self.doubt(deviation)
        return 1.0 if doubt <= 0.5 else 0.25 / doubt**2

    def doubt(self, deviation: tuple[float, float]) -> float:
        """Return d of :meth:`speed`."""
        position, rotation = deviation
        return max(position / self.blind_position, rotation / self.blind_rotation)

    def hold(self, unseen: float) -> bool:
        """Return whether to hold the last target ``unseen`` [s] after the last measured pose: from
        BLIND_AFTER to ``blind_hold``."""
        return BLIND_AFTER < unseen <= self.blind_hold


@dataclass(frozen=True)
class TrackerParams:
    """How the controller gets the object pose that it assumes from measured ones; see
    :mod:`dexstack.control.trackers`."""

    tracker: str = param(
        "contact",
        "assumed object pose: contact (a filter that moves with the joints and keeps the object out of the "
        "links) or mean (over pictures)",
        choices=("contact", "mean"),
    )
    filter_from: float = param(
        0.25,
        "doubt from which poses are filtered, as a share of blind_position or blind_rotation; those that are "
        "more certain are taken as they are [-]",
        0.0,
        100.0,
    )
    pose_error_time: float = param(
        0.0,
        "time constant with which errors of measured poses are correlated; 0: independent [s]",
        0.0,
        60.0,
    )
    drift_position: float = param(
        0.004, "random walk of the object's position while no joint moves [m per sqrt(s)]", 1e-6, 1.0
    )
    drift_rotation: float = param(
        0.1, "random walk of its rotation while no joint moves [rad per sqrt(s)]", 1e-5, 100.0
    )
    slip_position: float = param(
        0.02, "error of its predicted position by the joints' motion [m per rad or m]", 0.0, 1.0
    )
    slip_rotation: float = param(
        0.6, "error of its predicted rotation by the joints' motion [rad per rad or m]", 0.0, 100.0
    )
    contact_error: float = param(
        0.006, "standard deviation of the distances between links and object by the joints [m]", 1e-5, 0.1
    )
    tracker_memory: float = param(2.0, "longest time between two pictures that is bridged [s]", 0.0, 60.0)


@dataclass(frozen=True)
class PlannerParams:
    """Choice of planner, supervisor and time-stepping model, and the physics they assume; fixed for a
    run."""

    planner: str = param(
        "gauss_newton",
        "planner: gauss_newton (shooting on a step model), sampling (MuJoCo), your own file or ONNX policy",
        choices=PLANNERS,
    )
    supervisor: str = param(
        "",
        f"what frees a stuck rollout: {', '.join(SUPERVISORS)}, or your own file; empty: the task's",
    )

    model: str = param(
        "implicit",
        "time-stepping model: implicit (compliant contact), dsdf (the paper), dsdf-k, or your own file",
        choices=MODELS,
    )
    contact_set: str = param(
        "propagated",
        "contacts along the plan: frozen (the paper), propagated (distances follow) or detected (again)",
        choices=("frozen", "propagated", "detected"),
    )
    implicit_steps: int = param(1, "model implicit: Newton steps", 1, 100)
    implicit_stiffness: float = param(1000.0, "model implicit: stiffness of a contact row [N/m]", 1.0, 1e6)
    implicit_smoothing: float = param(
        0.001, "model implicit: distance over which a contact's force sets in [m]", 1e-5, 0.1
    )
    dsdf_sigma: float = param(120.0, "model dsdf: sharpness of the smooth maximum [1/√J]", 1.0, 1e5)
    dsdf_steps: int = param(4, "model dsdf-k: gradient steps", 1, 100)
    inertia_scale: float = param(
        20.0,
        "factor on the object's mass and inertia, which damps the quasi-dynamic fall [-]",
        0.1,
        1e4,
    )
    planned_friction: float = param(0.8, "μ of every contact in the plan [-]", 0.0, 5.0)
    command_delay: float = param(
        0.0,
        "assumed delay of commands: plans start from the state to which the commands under way lead [s]",
        0.0,
        0.5,
    )
    theta: str = param("", "learned θ (name or file) in place of the physical parameters; empty: none")
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
    """Return the parameter classes of a planner, model and supervisor that are the user's own files.

    Args:
        supervisor: the task's, unless the parameters choose one.

    Raises:
        ConfigError: unknown name, or unusable file.
    """
    found = []
    for registry, name in (
        (PLANNERS, planner.planner),
        (MODELS, planner.model),
        (SUPERVISORS, planner.supervisor or supervisor),
    ):
        check_names(registry.what, [name], registry)
        if is_own(name):
            found.append(registry.load(name)[1])
    return found


@dataclass(frozen=True)
class SamplingParams:
    """Parameters of the sampling planner."""

    sampling_rollouts: str = param(
        "mujoco",
        "physics of the rollouts: mujoco, or contactsdf (the contact model, in less time)",
        choices=("mujoco", "contactsdf"),
    )
    sampling_plans: int = param(
        32, "samples per search; in real time fewer, if this machine is too slow", 2, 4096
    )
    sampling_halvings: int = param(
        2, "times that the worse half of the rollouts ends, after every fifth of the horizon", 0, 4
    )
    sampling_knots: int = param(4, "knots of a plan's spline over the horizon", 2, 64)
    sampling_spread: float = param(
        0.4,
        "standard deviation of the first perturbed knot over u_max; of knot k it is k times that [-]",
        1e-3,
        2.0,
    )
    sampling_mass: float = param(
        1e6,
        "largest mass of an object for which u_max holds, which grows in proportion for heavier ones; a huge "
        "value: any [kg]",
        1e-3,
        1e6,
    )
    sampling_near: float = param(
        0.4, "orientation error below which half of the samples are perturbed finely [rad]", 0.0, 3.2
    )
    sampling_fine: float = param(
        0.2, "spread of fine perturbations as a share of the usual one [-]", 1e-3, 1.0
    )
    sampling_change: float = param(
        10.0,
        "largest change between two commands over u_max, against chattering joints [-]",
        0.05,
        10.0,
    )
    sampling_share: float = param(0.5, "share of the robot's chains that one sample perturbs [-]", 0.0, 1.0)
    sampling_temperature: float = param(
        0.06,
        "cost above the least at which a weight is 1/e, over the median's [-]",
        1e-6,
        10.0,
    )
    sampling_delay: float = param(
        0.0,
        "time from the start of a concurrent search until its answer acts; 0: search within a plan [s]",
        0.0,
        1.0,
    )
    sampling_wait: bool = param(True, "wait for a late search, as in simulated time; nodes do not")
    sampling_lead: float = param(
        0.02,
        "time from an observation to the middle of the interval in which its command acts [s]",
        0.0,
        1.0,
    )
    sampling_threads: int = param(1, "number of threads of the rollouts", 1, 256)
    sampling_timestep: float = param(0.01, "physics step of the rollouts [s]", 5e-4, 0.02)
    sampling_seed: int = param(0, "seed of the perturbations", 0, 2**31 - 1)
    sampling_value: str = param(
        "",
        "learned terminal value (name or file); 'auto': that of object and hand, if any; empty: none",
    )
    sampling_value_weight: float = param(
        1000.0, "cost of a final state from which the goal is never reached [-]", 0.0, 1e7
    )


@dataclass(frozen=True)
class GaitParams:
    """Detection of stalls, and release of the object."""

    stall_window: float = param(
        1.5,
        "time without progress after which a rollout has stalled; a huge value disables this [s]",
        0.1,
        1e9,
    )
    still_window: float = param(
        0.4,
        "time without motion after which a rollout has stalled or a release has ended; huge: disabled [s]",
        0.1,
        1e9,
    )
    stall_progress: float = param(
        0.05, "fall of the orientation error below its best that counts as progress [rad]", 0.001, 1.0
    )
    stall_tolerance: float = param(
        0.1, "orientation error below which a rollout is not stalled [rad]", 0.0, 3.2
    )
    keep_error: float = param(
        0.05,
        "error below which the command is kept, until the error exceeds stall_tolerance; 0: never [rad]",
        0.0,
        3.2,
    )
    stall_swing: float = param(
        1.0,
        "swing of a stalled finger beyond its rest pose, over its swing to the other side before [-]",
        0.0,
        2.0,
    )
    recentre_distance: float = param(
        0.03,
        "a stalled object farther than this from its place is first brought back [m]",
        1e-3,
        10.0,
    )
    recentre_time: float = param(2.0, "longest time to bring it back; 0 disables this [s]", 0.0, 60.0)
    release_time: float = param(2.5, "longest time of a release [s]", 0.0, 10.0)
    release_reached: float = param(
        0.1,
        "largest distance of every joint from its target at which a release has ended [rad, m]",
        0.001,
        1.0,
    )
    release_weight: float = param(3.0, "weight of the pull to that target [1/rad², 1/m²]", 1e-3, 1e6)


@dataclass(frozen=True)
class DetourParams:
    """Start, direction and length of detours."""

    detour_after: float = param(
        5.0,
        "time without progress after which a detour starts; a huge value disables this [s]",
        0.1,
        1e9,
    )
    detour_progress: float = param(
        0.05, "fall of the orientation error below its best that counts as progress [rad]", 0.001, 1.0
    )
    detour_tolerance: float = param(0.1, "orientation error below which no detour starts [rad]", 0.0, 3.2)
    detour_turn: float = param(1.2, "turn of the object, about a random axis [rad]", 0.01, 3.1)
    detour_time: float = param(1.5, "length of a detour [s]", 0.1, 60.0)
    detour_seed: int = param(0, "seed of the axes", 0, 2**31 - 1)


@dataclass(frozen=True)
class RegraspParams:
    """Parameters of regrasps."""

    settle_position: float = param(0.003, "position error below which the robot holds [m] …", 0.0, 0.1)
    settle_angle: float = param(0.04, "… if the orientation error is below this [rad]", 0.0, 1.0)
    patience: int = param(20, "plans without progress before the robot releases", 1, 10000)
    patience_still: int = param(12, "the same without motion of the object", 1, 10000)
    progress: float = param(
        0.05, "relative decrease of the terminal cost that counts as progress [-]", 0.0, 1.0
    )
    retreat: int = param(5, "plans of a retreat", 1, 100)
    placements: int = param(6, "placements evaluated in each of them", 1, 100)
    travel: int = param(30, "largest number of plans of a travel", 1, 1000)


@dataclass(frozen=True)
class NoParams:
    """No parameters."""
