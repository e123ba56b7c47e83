"""The controller of a task, from parameter blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dexstack.contact.detector import ContactDetector, DetectorParams
from dexstack.control.base import Problem
from dexstack.control.controller import Controller
from dexstack.control.factory import check_planner, make_model, make_planner
from dexstack.control.params import BlindParams, MpcParams, PlannerParams, TrackerParams
from dexstack.control.planners import PLANNERS
from dexstack.control.predictor import MeasuredState, StatePredictor
from dexstack.control.supervisors import SUPERVISORS
from dexstack.control.supervisors.base import PlanningContext
from dexstack.control.theta_file import make_theta
from dexstack.control.trackers import make_tracker
from dexstack.tasks.base import Goal, Setup, Task

Params = Mapping[type, Any]
"""One object of every parameter class."""


def supervisor_name(task: type[Task] | Task, params: Params) -> str:
    """Return the supervisor that the parameters, the planner or the task choose, in this order."""
    chosen = params[PlannerParams]
    return chosen.supervisor or getattr(PLANNERS.load(chosen.planner)[0], "supervisor", "") or task.supervisor


def check(task: Task, setup: Setup, params: Params) -> None:
    """Reject what :func:`make_controller` would reject, without compiling anything.

    Raises:
        ConfigError: unknown planner, model, contact set or supervisor, or a θ for another object,
            hand or step.
    """
    check_planner(params[PlannerParams])
    SUPERVISORS.load(supervisor_name(task, params))
    make_theta(setup.robot, setup.obj, params[PlannerParams], params[MpcParams].step)


def make_controller(task: Task, setup: Setup, params: Params) -> Controller:
    """Return the controller of a task in its setup, compiled at :meth:`Controller.warm_up`.

    Raises:
        ConfigError: see :func:`check`.
    """
    check(task, setup, params)
    (robot, obj, _), chosen, step = setup, params[PlannerParams], params[MpcParams].step
    theta = make_theta(robot, obj, chosen, step)
    detector = ContactDetector(robot, obj, params[DetectorParams])
    planner = make_planner(Problem(robot, obj, task, params[task.Weights], theta), params)
    predictor: StatePredictor | MeasuredState = MeasuredState()
    if planner.predicted:
        model, capacity = make_model(chosen, robot.chains, params), detector.params.capacity
        predictor = StatePredictor(robot, model, lambda: planner.theta, step, capacity, chosen.command_delay)
    supervisor, block = SUPERVISORS.load(supervisor_name(task, params))
    context = PlanningContext(
        planner,
        detector,
        robot,
        obj,
        setup.rest,
        lambda pose_WO, goal_WO: task.orientation_error(pose_WO, Goal(goal_WO, "")),
        task.nearest,
        task.released,
    )
    return Controller(
        detector,
        predictor,
        supervisor(context, params.get(block) or block()),
        make_tracker(params.get(TrackerParams) or TrackerParams(), detector, predictor),
        params.get(BlindParams) or BlindParams(),
        step=step,
    )
