"""The planner's problem by CasADi and IPOPT is the MPC's own: same costs, and a minimum where the MPC finds nothing better."""

import numpy as np
import pytest

from dexstack.contact.contact import empty_contacts
from dexstack.control.factory import PlannerParams, make_mpc
from dexstack.control.mpc import MpcParams, SolveStatus
from dexstack.tasks.palm_turn import AllegroCost, AllegroTask, AllegroWeights
from experiments.contactsdf.ipopt import GRAVITY, RELAXATION, NlpBaseline, Planning

GOAL = np.pi / 2


@pytest.fixture(scope="module")
def paper(resting):
    """MPC of two steps with the D-SDF, its θ and weights."""
    mpc, theta = make_mpc(resting.hand, resting.obj, AllegroCost(), PlannerParams(model="dsdf"), MpcParams(horizon=2))
    return mpc, theta, AllegroWeights().arrays()


def problem_of(resting, contacts):
    return Planning(resting.pose_WO, resting.q, contacts, AllegroTask(resting.obj.start("allegro"), GOAL).goal_WO)


def test_ipopt_ends_at_a_minimum_of_the_mpcs_own_cost(paper, resting):
    mpc, theta, weights = paper
    p = problem_of(resting, resting.contacts)
    found = NlpBaseline(mpc, theta, weights, p.contacts.phi.size).solve(p)
    assert found.solved and found.cpu_s > 0 and np.all(np.abs(found.plan) <= mpc.params.u_max + 1e-7)
    mpc.reset()
    still = mpc.solve(p.pose_WO, p.q, p.contacts, p.goal_WO, theta, weights)
    assert found.cost < still.cost  # two Gauss–Newton iterations from rest do not get as far
    mpc._plan = found.plan.astype(np.float32)
    ours = mpc.solve(p.pose_WO, p.q, p.contacts, p.goal_WO, theta, weights)
    assert ours.status in (SolveStatus.OK, SolveStatus.NO_DESCENT)
    assert ours.cost == pytest.approx(found.cost, rel=2e-3)


def test_without_contacts_both_formulations_are_the_same_problem(paper, resting):
    mpc, theta, weights = paper
    p = problem_of(resting, empty_contacts(3))
    closed_form, conditions = (NlpBaseline(mpc, theta, weights, 3, kkt=kkt).solve(p) for kkt in (False, True))
    assert closed_form.solved and conditions.solved
    # a row that touches nothing may carry the relaxation's force, but has no direction to push in
    assert conditions.cost == pytest.approx(closed_form.cost, rel=1e-6)
    np.testing.assert_allclose(conditions.plan, closed_form.plan, atol=1e-4)


def test_the_relaxed_conditions_hold_the_object_up(paper, resting):
    """Over the plan it sinks by less than a millimetre; without contacts it falls by the step problem's (mass) g h² / inertia a step."""
    mpc, theta, weights = paper
    p = problem_of(resting, resting.contacts)
    held = NlpBaseline(mpc, theta, weights, p.contacts.phi.size, kkt=True).solve(p)
    free = NlpBaseline(mpc, theta, weights, 3, kkt=True).solve(problem_of(resting, empty_contacts(3)))
    assert RELAXATION < 1e-3 and held.solved and free.solved
    fall = mpc.params.horizon * GRAVITY * float(theta.mass) * mpc.params.step**2 / float(theta.inertia[2])
    assert free.motion[-1, 2] == pytest.approx(-fall, rel=1e-3) and fall > 5e-3
    assert held.motion[-1, 2] > -1e-3
