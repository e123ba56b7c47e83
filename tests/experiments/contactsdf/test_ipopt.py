"""IPOPT minimises the task's own cost: one function for both solvers' plans, near the goal and away
from it."""

import jax.numpy as jnp
import numpy as np
import pytest

from dexstack.contact.contact import empty_contacts
from dexstack.control.base import Observation, Problem, SolveStatus
from dexstack.control.factory import PlannerParams, make_model
from dexstack.control.planners.gauss_newton import Mpc, MpcParams
from dexstack.control.theta_file import make_theta
from dexstack.errors import ConfigError
from dexstack.geometry.rotations import quaternion_product, yaw_quaternion
from dexstack.tasks.palm_turn import PalmTurn, PalmWeights
from experiments.contactsdf.ipopt import AWAY, Solves, stuck
from experiments.contactsdf.nlp import RELAXATION, NlpBaseline
from experiments.contactsdf.plan_cost import PlanCost, Planning
from experiments.contactsdf.symbolic import symbolic

pytestmark = pytest.mark.slow

PARAMS = MpcParams(horizon=2)
WEIGHTS = PalmWeights()
TASK = PalmTurn()


@pytest.fixture(scope="module")
def paper(resting):
    """MPC of two steps with the D-SDF, its θ, and the cost of plans under it."""
    model, theta = (
        make_model(PlannerParams(model="dsdf")),
        make_theta(resting.hand, resting.obj, PlannerParams(), PARAMS.step),
    )
    problem = Problem(resting.hand, resting.obj, TASK, WEIGHTS, theta)
    mpc = Mpc(problem, model, params=PARAMS, capacity=resting.contacts.phi.size)
    cost = PlanCost(resting.hand, TASK, WEIGHTS, PARAMS, model, theta)
    return mpc, theta, cost


def near(resting, contacts):
    """The closed loop's own goal, a quarter turn, from where the object rests."""
    return Planning(resting.pose_WO, resting.q, contacts, TASK.at_yaw(np.pi / 2).pose_WO)


def away(resting, contacts):
    """A goal 30 mm and 40° from the object: where the position's weight has grown by half."""
    shift, turn = AWAY
    p, quat = (
        resting.pose_WO[:3] + shift * np.array([0.6, 0.8, 0.0]),
        quaternion_product(yaw_quaternion(turn), resting.pose_WO[3:]),
    )
    return Planning(resting.pose_WO, resting.q, contacts, np.concatenate([p, quat]))


def baseline(resting, theta, capacity, **kind):
    return NlpBaseline(resting.hand, TASK, WEIGHTS, PARAMS, theta, capacity, **kind)


@pytest.mark.parametrize("problem", [near, away])
def test_the_objectives_are_one(paper, resting, problem):
    """IPOPT's own objective, the MPC's and the judge's, of one and the same plan."""
    mpc, theta, cost = paper
    p = problem(resting, resting.contacts)
    found = baseline(resting, theta, p.contacts.phi.size).solve(p)
    assert found.solved and found.cpu_s > 0 and np.all(np.abs(found.plan) <= PARAMS.u_max + 1e-7)
    assert cost(p, found.plan[None])[0] == pytest.approx(found.cost, rel=1e-4)
    mpc.reset()
    ours = mpc.plan(Observation(0.0, p.pose_WO, p.q, p.contacts), p.goal_WO)
    assert ours.status in (SolveStatus.OK, SolveStatus.NO_DESCENT)
    assert cost(p, ours.displacements[None])[0] == pytest.approx(ours.cost, rel=1e-4)
    assert found.cost < ours.cost  # two Gauss–Newton iterations from rest do not get as far


def test_a_task_with_another_cost_changes_ipopts_objective(paper, resting):
    """The objective is traced from the task: a term that only the task knows is in it."""

    class Dearer(PalmTurn):
        def terminal(self, state, goal_WO, weights):
            return jnp.concatenate([super().terminal(state, goal_WO, weights), jnp.ones(1) * 10.0])

    _, theta, cost = paper
    p = away(resting, empty_contacts(3))
    plain = baseline(resting, theta, 3).solve(p)
    dearer = NlpBaseline(resting.hand, Dearer(), WEIGHTS, PARAMS, theta, 3).solve(p)
    assert dearer.cost == pytest.approx(plain.cost + 100.0, rel=1e-6)
    assert cost(p, dearer.plan[None])[0] == pytest.approx(plain.cost, rel=1e-4)


def test_without_contacts_both_formulations_are_the_same_problem(paper, resting):
    _, theta, _ = paper
    p = near(resting, empty_contacts(3))
    closed_form, conditions = (baseline(resting, theta, 3, kkt=kkt).solve(p) for kkt in (False, True))
    assert closed_form.solved and conditions.solved
    # a row that touches nothing may carry the relaxation's force, but has no direction to push in
    assert conditions.cost == pytest.approx(closed_form.cost, rel=1e-6)
    np.testing.assert_allclose(conditions.plan, closed_form.plan, atol=1e-4)


def test_the_relaxed_conditions_hold_the_object_up(paper, resting):
    """Over the plan, the object does not fall through the palm as it does without contacts."""
    _, theta, _ = paper
    p = near(resting, resting.contacts)
    held_by, falling_by = (
        baseline(resting, theta, p.contacts.phi.size, kkt=True),
        baseline(resting, theta, 3, kkt=True),
    )
    held, free = held_by.solve(p), falling_by.solve(near(resting, empty_contacts(3)))
    assert RELAXATION < 1e-3 and held.solved and free.solved
    fallen = lambda solver: -solver.predicted()[-1, 2]  # noqa: E731
    assert fallen(falling_by) > 1e-3 and fallen(held_by) < 0.2 * fallen(falling_by)


def test_plans_with_cheaper_neighbours_are_called_stuck(paper, resting):
    mpc, _, cost = paper
    p = near(resting, resting.contacts)
    poor = np.full((PARAMS.horizon, 16), 0.5 * PARAMS.u_max)
    solves = Solves("some", [0.0, 0.0], [poor, poor], ["no_descent", "ok"])
    assert stuck(cost, solves, [p, p], mpc.params.u_max, 0) == {"converged": 0, "stuck": 1}


def test_smaller_and_larger_of_two_are_translated():
    casadi = pytest.importorskip("casadi")
    x = casadi.SX.sym("x")

    def clipped(v):
        return jnp.minimum(jnp.maximum(v, -1.0), 1.0)

    found = symbolic(clipped, np.array([x, 3.0], object))
    at = casadi.Function("at", [x], [casadi.vertcat(*found)])
    for value in (-2.0, -0.5, 2.0):
        assert np.allclose(at(value).full().ravel(), clipped(jnp.array([value, 3.0])))


def test_what_casadi_cannot_have_is_named():
    with pytest.raises(ConfigError, match="uses 'sort'"):
        symbolic(jnp.sort, np.zeros(3))
