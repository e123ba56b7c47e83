"""The planner of one robot and one object from parameters: the only place that chooses planner and
time-stepping model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dexstack.contact.detector import ContactDetector, DetectorParams
from dexstack.control.base import LocalPlanner, Problem
from dexstack.control.contact_rule import ContactRule, DetectedContacts, FrozenContacts, PropagatedContacts
from dexstack.control.models.base import StepModel
from dexstack.control.models.cf import ComplementarityFreeModel
from dexstack.control.models.dsdf import DsdfModel
from dexstack.control.models.dual import DualModel
from dexstack.control.models.implicit import ImplicitModel
from dexstack.control.models.qp import QpModel
from dexstack.control.params import MpcParams, PlannerParams, SamplingParams
from dexstack.control.planners import PLANNERS
from dexstack.control.planners.gauss_newton import Mpc
from dexstack.errors import ConfigError, unknown_name

if TYPE_CHECKING:
    from dexstack.model.objects import ObjectModel
    from dexstack.model.robot import Robot


MODELS: dict[str, Callable[[PlannerParams, int], StepModel]] = {
    "implicit": lambda p, chains: ImplicitModel(
        p.implicit_steps, p.implicit_stiffness, p.implicit_smoothing, chains
    ),
    "dsdf": lambda p, chains: DsdfModel(),
    "dsdf-k": lambda p, chains: DsdfModel(p.dsdf_steps),
    "dual": lambda p, chains: DualModel(p.dual_steps, p.dual_compliance),
    "qp": lambda p, chains: QpModel(p.qp_steps, p.qp_barrier),
    "cf": lambda p, chains: ComplementarityFreeModel(p.cf_gain, p.cf_smoothing),
}
"""Every time-stepping model by the name a parameter calls it, made for a robot of so many chains
that meet only in the object."""


def make_model(params: PlannerParams, chains: tuple[int, ...] = (4, 4, 4, 4)) -> StepModel:
    """The chosen time-stepping model for a robot of chains of so many joints each.

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


def gauss_newton(problem: Problem, params: Mapping[type, Any]) -> Mpc:
    """ContactSDF-MPC, compiled at its first plan."""
    robot, obj, cost, weights, theta = problem
    planner, mpc, detector = params[PlannerParams], params[MpcParams], params[DetectorParams]
    rule = RULES[planner.contact_set](robot, obj, detector)
    return Mpc(
        robot,
        make_model(planner, robot.chains),
        cost,
        theta,
        weights,
        params=mpc,
        rule=rule,
        capacity=detector.capacity,
    )


def sampling(problem: Problem, params: Mapping[type, Any]) -> LocalPlanner:
    """Sampling MPC on rollouts of MuJoCo."""
    from dexstack.control.planners.sampling import SamplingPlanner

    return SamplingPlanner(problem, params[MpcParams], params[SamplingParams], params[PlannerParams])


def check_planner(params: PlannerParams) -> None:
    """Refuse what no planner, model or contact rule has the name of; quick, nothing is compiled.

    Raises:
        ConfigError: so it is.
    """
    make_model(params)
    for what, name, known in (
        ("planner", params.planner, PLANNERS),
        ("contact set", params.contact_set, RULES),
    ):
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
    planner = PLANNERS.load(params[PlannerParams].planner)[0](problem, params)
    if not isinstance(planner, LocalPlanner):
        raise ConfigError(
            f"the planner '{params[PlannerParams].planner}' lacks what dexstack.control.base.LocalPlanner asks for"
        )
    return planner
