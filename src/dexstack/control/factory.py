"""The planner of one robot and one object from parameters: the only place that chooses planner and time-stepping model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dexstack.config import param
from dexstack.contact.detector import ContactDetector, DetectorParams
from dexstack.control.base import LocalPlanner, Problem
from dexstack.control.contact_rule import ContactRule, DetectedContacts, FrozenContacts, PropagatedContacts
from dexstack.control.models.base import StepModel
from dexstack.control.models.cf import ComplementarityFreeModel
from dexstack.control.models.dsdf import DsdfModel
from dexstack.control.models.dual import DualModel
from dexstack.control.models.implicit import ImplicitModel
from dexstack.control.models.qp import QpModel
from dexstack.control.planners.gauss_newton import Mpc, MpcParams
from dexstack.hand.servo import ServoParams
from dexstack.lazy import unknown_name

if TYPE_CHECKING:
    from dexstack.model.objects import ObjectModel
    from dexstack.model.robot import Robot


@dataclass(frozen=True)
class PlannerParams:
    """Who plans, with which time-stepping model, and the physics it assumes; all compiled in or fixed for a run."""

    planner: str = param("gauss_newton", "planner: gauss_newton (ContactSDF-MPC) or sampling (rollouts of MuJoCo)")
    supervisor: str = param("", "what frees a stuck rollout: gait, regrasp or none; empty: what the task wants")

    model: str = param(
        "implicit",
        "time-stepping model: implicit (compliant contact), dual (accelerated), dsdf (the paper), dsdf-k, cf or qp (exact)",
    )
    contact_set: str = param(
        "propagated",
        "contacts along the plan: frozen (the paper), propagated (distances follow the plan) or detected (found anew at every step)",
    )
    implicit_steps: int = param(1, "model implicit: Newton steps", 1, 100)
    implicit_stiffness: float = param(1000.0, "model implicit: stiffness of a contact row [N/m]", 1.0, 1e6)
    implicit_smoothing: float = param(0.001, "model implicit: distance over which a contact's force sets in [m]", 1e-5, 0.1)
    dual_steps: int = param(10, "model dual: gradient steps", 1, 1000)
    dual_compliance: float = param(0.01, "model dual: compliance of a contact row relative to the row's own [-]", 1e-6, 1.0)
    dsdf_sigma: float = param(120.0, "model dsdf: sharpness of the smooth maximum [1/√J]", 1.0, 1e5)
    dsdf_steps: int = param(4, "model dsdf-k: gradient steps", 1, 100)
    cf_gain: float = param(0.25, "model cf: gain of a contact row relative to the row's own stiffness [-]", 0.01, 1.0)
    cf_smoothing: float = param(0.0005, "model cf: distance over which a contact's force sets in [m]", 1e-7, 0.1)
    qp_steps: int = param(16, "model qp: Newton steps", 1, 200)
    qp_barrier: float = param(1e-6, "model qp: complementarity of a row at the end [J]", 1e-14, 1e-2)
    inertia_scale: float = param(
        20.0, "the object's mass and inertia times this resist its motion: damps the quasi-dynamic fall [-]", 0.1, 1e4
    )
    planned_friction: float = param(0.8, "μ of every contact in the plan [-]", 0.0, 5.0)
    theta: str = param("", "learned θ, a name or a file, in place of the physical parameters; empty: none")
    kp: float = param(ServoParams.kp, "proportional gain of the joint servo [N·m/rad, N/m for sliding joints]", 0.01, 1000.0)
    kd: float = param(ServoParams.kd, "derivative gain of the joint servo, added to the joints' own damping [N·m·s/rad]", 0.0, 1.0)


MODELS: dict[str, Callable[[PlannerParams, int], StepModel]] = {
    "implicit": lambda p, chains: ImplicitModel(p.implicit_steps, p.implicit_stiffness, p.implicit_smoothing, chains),
    "dsdf": lambda p, chains: DsdfModel(),
    "dsdf-k": lambda p, chains: DsdfModel(p.dsdf_steps),
    "dual": lambda p, chains: DualModel(p.dual_steps, p.dual_compliance),
    "qp": lambda p, chains: QpModel(p.qp_steps, p.qp_barrier),
    "cf": lambda p, chains: ComplementarityFreeModel(p.cf_gain, p.cf_smoothing),
}
"""Every time-stepping model by the name a parameter calls it, made for a robot of so many chains that meet only in the object."""


def make_model(params: PlannerParams, chains: int = 4) -> StepModel:
    """The chosen time-stepping model for a robot of ``chains`` equal chains of joints.

    Raises:
        ConfigError: no model has that name.
    """
    if params.model not in MODELS:
        raise unknown_name("time-stepping model", params.model, MODELS)
    return MODELS[params.model](params, chains)


RULES: dict[str, Callable[[Robot, ObjectModel, DetectorParams], ContactRule]] = {
    "frozen": lambda robot, obj, detector: FrozenContacts(),
    "propagated": lambda robot, obj, detector: PropagatedContacts(),
    "detected": lambda robot, obj, detector: DetectedContacts(ContactDetector(robot, obj, detector)),
}
"""What becomes of the contact set along the plan, by the name a parameter calls it."""


def _gauss_newton(problem: Problem, params: Mapping[type, Any]) -> Mpc:
    robot, obj, cost, weights, theta = problem
    planner, mpc, detector = params[PlannerParams], params[MpcParams], params[DetectorParams]
    rule = RULES[planner.contact_set](robot, obj, detector)
    return Mpc(robot, make_model(planner, robot.chains), cost, theta, weights, params=mpc, rule=rule, capacity=detector.capacity)


def _sampling(problem: Problem, params: Mapping[type, Any]) -> LocalPlanner:
    from dexstack.control.planners.sampling import SamplingParams, SamplingPlanner

    return SamplingPlanner(problem, params[MpcParams], params[SamplingParams], params[PlannerParams].kd)


PLANNERS: dict[str, Callable[[Problem, Mapping[type, Any]], LocalPlanner]] = {
    "gauss_newton": _gauss_newton,
    "sampling": _sampling,
}
"""Every planner by the name a parameter calls it."""


def check_planner(params: PlannerParams) -> None:
    """Refuse what no planner, model or contact rule has the name of; quick, nothing is compiled.

    Raises:
        ConfigError: so it is.
    """
    make_model(params)
    for what, name, known in (("planner", params.planner, PLANNERS), ("contact set", params.contact_set, RULES)):
        if name not in known:
            raise unknown_name(what, name, known)


def make_planner(problem: Problem, params: Mapping[type, Any]) -> LocalPlanner:
    """The planner that the parameters choose.

    Args:
        params: blocks of planner, MPC and detector by their class.

    Raises:
        ConfigError: see :func:`check_planner`.
    """
    check_planner(params[PlannerParams])
    return PLANNERS[params[PlannerParams].planner](problem, params)
