"""What acts in one run of a task: detector, predictor, planner and supervisor, from parameter
blocks; the same for loop and node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dexstack.contact.detector import ContactDetector, DetectorParams
from dexstack.control.factory import PlannerParams, Problem, check_planner, make_model, make_planner
from dexstack.control.planners.gauss_newton import MpcParams
from dexstack.control.predictor import StatePredictor
from dexstack.control.supervisors import SUPERVISORS
from dexstack.control.supervisors.base import Guarded, GuardedScene, Supervisor
from dexstack.control.theta_file import make_theta
from dexstack.tasks.base import Goal, Scene, Task

Params = Mapping[type, Any]
"""One object of every parameter class."""


def supervisor_name(task: type[Task] | Task, params: Params) -> str:
    """The supervisor that parameters or task want."""
    return params[PlannerParams].supervisor or task.supervisor


def check(task: Task, scene: Scene, params: Params) -> None:
    """Refuse what :class:`Controller` would refuse, before anything is compiled.

    Raises:
        ConfigError: an unknown planner, model, contact set or supervisor, or a θ that is for
            something else.
    """
    check_planner(params[PlannerParams])
    SUPERVISORS.load(supervisor_name(task, params))
    make_theta(scene.robot, scene.obj, params[PlannerParams], params[MpcParams].step)


class Controller:
    """The controller of one task in one scene.

    Raises:
        ConfigError: see :func:`check`.
    """

    def __init__(self, task: Task, scene: Scene, params: Params) -> None:
        check(task, scene, params)
        robot, obj, _ = scene
        self.task, self.scene, self.params = task, scene, params
        theta = make_theta(robot, obj, params[PlannerParams], params[MpcParams].step)
        self.detector = ContactDetector(robot, obj, params[DetectorParams])
        self.planner = make_planner(Problem(robot, obj, task, params[task.Weights], theta), params)
        model = make_model(params[PlannerParams], robot.chains)
        step, delay = params[MpcParams].step, params[PlannerParams].command_delay
        self.predictor = StatePredictor(
            robot, model, lambda: self.planner.theta, step, self.detector.params.capacity, delay
        )
        measure = lambda pose_WO, goal_WO: task.orientation_error(pose_WO, Goal(goal_WO, ""))  # noqa: E731
        guarded = Guarded(
            self.planner,
            self.detector,
            GuardedScene(robot, obj, scene.rest),
            measure,
            task.nearest,
            task.released,
        )
        supervisor, block = SUPERVISORS.load(supervisor_name(task, params))
        self.supervisor: Supervisor = supervisor(guarded, params.get(block) or block())
        self.step: float = step
        """h, length of a predicted step [s]."""

    def warm_up(self) -> float:
        """Compile planner and detector; returns the seconds that the planner took."""
        seconds = self.planner.warm_up()
        # After the planner, so that in a graph the node of the same detector has compiled it
        # meanwhile.
        self.detector.detect(self.scene.start.pose_WO, np.asarray(self.scene.robot.home))
        return seconds
