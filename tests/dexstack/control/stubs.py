"""Stand-ins for the parts of a controller, without a planner."""

import numpy as np

from dexstack.contact.contact import empty_contacts
from dexstack.contact.detector import ContactDetector
from dexstack.control.base import LocalPlanner, Plan, SolveStatus
from dexstack.control.controller import Controller
from dexstack.control.params import BlindParams
from dexstack.control.predictor import StatePredictor
from dexstack.control.supervisors.base import Supervisor
from dexstack.control.trackers import MeanTracker


class StubDetector(ContactDetector):
    """Finds no contacts."""

    def __init__(self):
        pass

    def detect(self, pose_WO, q):
        return empty_contacts(12)


class StubPredictor(StatePredictor):
    """Predicts no change, and notes what it is asked and told."""

    def __init__(self):
        self.predicted, self.commands = [], []

    def warm_up(self):
        pass

    def predict(self, seen, q_then, t):
        self.predicted.append((t, q_then))
        return seen

    def sent(self, t, target):
        self.commands.append((t, np.array(target)))


class StubPlanner(LocalPlanner):
    """Has a θ."""

    theta = "first"

    def __init__(self):
        pass

    def _unused(self, *args, **kwargs):
        raise AssertionError("the supervisor answers")

    fork = goal_cost = plan = reset = _unused


class StubSupervisor(Supervisor):
    """Commands ``target`` (N,), and notes what it is asked."""

    def __init__(self, target):
        self.target, self.warning, self.status = np.array(target, float), "", SolveStatus.OK
        self.rollouts, self.asked = 0, []
        self.planner = StubPlanner()

    def reset(self):
        self.rollouts += 1
        self.asked = []

    def plan(self, observation, goal_WO):
        self.asked.append((observation, goal_WO))
        n = len(self.target)
        return Plan(
            self.status, self.target, np.zeros((1, n)), np.zeros((2, 7 + n)), 0.0, 0.001, 0.001, self.warning
        )


def stub_controller(supervisor):
    """A controller of stand-ins."""
    return Controller(StubDetector(), StubPredictor(), supervisor, MeanTracker(), BlindParams(), step=0.1)
