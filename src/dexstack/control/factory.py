"""Choice of planner and time-stepping model by parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dexstack.contact.detector import ContactDetector, DetectorParams
from dexstack.control.base import LocalPlanner, Problem
from dexstack.control.contact_rule import ContactRule, DetectedContacts, FrozenContacts, PropagatedContacts
from dexstack.control.models import MODELS
from dexstack.control.models.base import StepModel
from dexstack.control.params import MpcParams, PlannerParams
from dexstack.control.planners import PLANNERS
from dexstack.control.planners.gauss_newton import Mpc
from dexstack.errors import check_names

if TYPE_CHECKING:
    from dexstack.model.objects import ObjectModel
    from dexstack.model.robot import Robot


def make_model(
    params: PlannerParams, chains: tuple[int, ...] = (4, 4, 4, 4), blocks: Mapping[type, Any] | None = None
) -> StepModel:
    """Return the chosen time-stepping model.

    Args:
        chains: joints of each chain of the robot.
        blocks: parameter blocks by their class; an own model whose class is missing gets defaults.

    Raises:
        ConfigError: unknown model.
    """
    model, block = MODELS.load(params.model)
    return model(params if block is PlannerParams else (blocks or {}).get(block) or block(), chains)


RULES: dict[str, Callable[[Robot, ObjectModel, DetectorParams], ContactRule]] = {
    "frozen": lambda robot, obj, detector: FrozenContacts(),
    "propagated": lambda robot, obj, detector: PropagatedContacts(),
    "detected": lambda robot, obj, detector: DetectedContacts(ContactDetector(robot, obj, detector)),
}
"""Contact rules by the name of the parameter ``contact_set``."""


def gauss_newton(problem: Problem, params: Mapping[type, Any]) -> Mpc:
    """Return the Gauss–Newton planner, compiled at its first plan; with the model ``dsdf`` it is the
    paper's."""
    planner, detector, robot = params[PlannerParams], params[DetectorParams], problem.robot
    return Mpc(
        problem,
        make_model(planner, robot.chains, params),
        params=params[MpcParams],
        rule=RULES[planner.contact_set](robot, problem.obj, detector),
        capacity=detector.capacity,
    )


def check_planner(params: PlannerParams) -> None:
    """Reject unknown planners, models and contact sets, without compiling anything.

    Raises:
        ConfigError: unknown name, or unusable file.
    """
    MODELS.load(params.model)
    check_names("planner", [params.planner], PLANNERS)
    check_names("contact set", [params.contact_set], RULES)


def make_planner(problem: Problem, params: Mapping[type, Any]) -> LocalPlanner:
    """Return the chosen planner.

    Args:
        params: blocks of planner, MPC and detector by their class.

    Raises:
        ConfigError: see :func:`check_planner`.
    """
    check_planner(params[PlannerParams])
    return PLANNERS.load(params[PlannerParams].planner)[0](problem, params)
