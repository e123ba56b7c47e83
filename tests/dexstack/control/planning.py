"""Planners for tests: the palm task with the cube at rest, short horizons that compile fast."""

import jax
import jax.numpy as jnp
import numpy as np

from dexstack.config import make_params
from dexstack.contact.detector import DetectorParams
from dexstack.control.base import Observation
from dexstack.control.factory import PlannerParams, Problem, make_planner
from dexstack.control.planners.gauss_newton import MpcParams
from dexstack.control.planners.sampling import SamplingParams
from dexstack.control.theta_file import make_theta
from dexstack.tasks.palm_turn import PalmTurn, PalmWeights

TASK = PalmTurn()
GOAL = TASK.at_yaw(np.pi / 2).pose_WO
SAMPLING = {"sampling_plans": 16}
"""A planner that rolls out little."""


def wide(tree):
    """Return a tree of arrays with its floating-point numbers in float64."""

    def one(a):
        return jnp.asarray(a, jnp.float64 if np.asarray(a).dtype.kind == "f" else None)

    return jax.tree.map(one, tree)


def settings(**values):
    """The planner's parameter blocks, with these values in place of their defaults."""
    blocks = (PlannerParams, MpcParams, DetectorParams, SamplingParams)
    return {block: make_params(block, values, ignore_unknown=True) for block in blocks}


def make(resting, weights=PalmWeights(), **values):
    """A planner of the palm task."""
    params = settings(**values)
    theta = make_theta(resting.hand, resting.obj, params[PlannerParams], params[MpcParams].step)
    return make_planner(Problem(resting.hand, resting.obj, TASK, weights, theta), params)


def seen(resting, t=0.0, **changes):
    """What a planner observes of the cube at rest, or of something else."""
    return Observation(t, resting.pose_WO, resting.q, resting.contacts)._replace(**changes)


def check_limits(planner, hand, q, plan):
    """Box and joint limits of a plan, at every predicted step."""
    p = planner.params
    assert np.abs(plan.displacements).max() <= p.u_max + 1e-6
    lower, upper = hand.lower + p.limit_margin, hand.upper - p.limit_margin
    assert np.all(plan.q_des >= lower - 1e-5) and np.all(plan.q_des <= upper + 1e-5)
