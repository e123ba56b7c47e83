"""Rollouts of a plan with every part a step may have: slopes against differences, joints and fall against closed forms, fingers."""

from dataclasses import asdict

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from dexstack.contact.pairs import PairContacts, PairDetector
from dexstack.control.mpc import MpcParams
from dexstack.control.parts import PAPER, FingerContacts, StepParts, substep_of

from dexstack.contact.contact import GROUND, Contacts, empty_contacts
from dexstack.control.contact_rule import PropagatedContacts
from dexstack.control.factory import PlannerParams, make_model, make_mpc, make_theta
from dexstack.control.horizon import Horizon, Present
from dexstack.control.problem import OBJECT_DOF
from dexstack.learning.loss import model_prediction
from dexstack.learning.transitions import at_rest
from dexstack.model.balls import Ball, BallsModel
from dexstack.model.scene import robot_scene
from dexstack.tasks.palm_turn import AllegroCost, AllegroTask, AllegroWeights

H = 0.1
ALL = StepParts(substeps=3, joint_velocities=True, finger_contacts=True)
EVERY = (PAPER, StepParts(substeps=3), StepParts(joint_velocities=True), StepParts(finger_contacts=True), ALL)
NONE = np.array([-1e3, 1e3])
"""Limits that no joint reaches."""


def wide(tree):
    """Numbers as float64."""
    as_wide = lambda a: jnp.asarray(a, jnp.float64) if np.asarray(a).dtype.kind == "f" else jnp.asarray(a)  # noqa: E731
    return jax.tree.map(as_wide, tree)


def setting(resting, parts, model="implicit", **changes):
    params = PlannerParams(model=model, **asdict(parts))
    theta = make_theta(resting.hand, resting.obj, params, H)._replace(**changes)
    return make_model(params), theta, FingerContacts(resting.hand, params)


def horizon(resting, parts, present, steps=2, limits=NONE, **changes):
    """The horizon in float64 from a state (pose, q, qd, contacts)."""
    model, theta, fingers = setting(resting, parts, **changes)
    pose, q, qd, contacts = present
    state = wide(Present(pose, q, qd, contacts, fingers.detect(q)))
    limits = tuple(jnp.full(16, limit) if np.ndim(limit) == 0 else jnp.asarray(limit) for limit in limits)
    tree = resting.hand.kinematics()
    return Horizon(tree, model, PropagatedContacts(), substep_of(resting.hand, H, parts), steps, state, wide(theta), limits)


def solved(ahead):
    """The trajectory of a plan, every step solved to the end, and where its steps end, as compiled functions of the plan."""
    roll = jax.jit(lambda U, dual: ahead.rollout(U, jax.lax.fori_loop(0, 30, lambda _, dual: ahead.rollout(U, dual).dual, dual)))
    trajectory = lambda U: roll(jnp.asarray(U), ahead.initial_dual())  # noqa: E731
    return trajectory, lambda U: np.asarray(ahead.ends(trajectory(U))[0][1:])


@pytest.fixture(scope="module")
def grasp(resting):
    """Fingers on the cube and against each other, in motion."""
    rng = np.random.default_rng(3)
    pairs = PairDetector(resting.hand, None, margin=0.01)
    for _ in range(1000):
        q = np.clip(resting.q + rng.uniform(-0.4, 0.4, 16), resting.hand.lower, resting.hand.upper)
        contacts = resting.detector.detect(resting.pose_WO, q)
        if np.sum(contacts.phi[contacts.link > 0] < 0.003) >= 2 and np.sum(np.abs(pairs.detect(resting.pose_WO, q).phi) < 0.002) >= 2:
            return resting.pose_WO, q, rng.normal(0, 0.5, 16), contacts
    raise AssertionError("no such grasp")


@pytest.mark.parametrize("parts", EVERY, ids=str)
def test_slopes_are_those_of_the_rollout(parts, resting, grasp, x64):
    """∂(displacement)/∂U against central differences, every number of it, with one joint commanded beyond its limit."""
    limits = [np.asarray(limit) + change for limit, change in ((resting.hand.lower, -1.0), (resting.hand.upper, 1.0))]
    limits[1][5] = grasp[1][5] + 0.01
    ahead = horizon(resting, parts, grasp, limits=limits)
    U = np.random.default_rng(0).uniform(-0.08, 0.08, (2, 16))
    U[:, 5] = 0.05, -0.03
    trajectory, ends = solved(ahead)
    S = np.asarray(jax.jit(ahead.linearise)(trajectory(U)))
    slope = np.stack([(ends(U + e) - ends(U - e)) / 2e-6 for e in 1e-6 * np.eye(32).reshape(32, 2, 16)], axis=-1)
    assert np.abs(slope).max() > 0.3
    np.testing.assert_allclose(S, slope, atol=2e-5)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_as_much_of_a_command_is_covered_in_any_number_of_substeps(n, resting, x64):
    """A free joint covers θ's share of its way, and the object falls m g h² / M_o, whatever the substeps."""
    state = resting.pose_WO, resting.q, np.zeros(16), empty_contacts(12)
    ahead = horizon(resting, StepParts(substeps=n), state, steps=1)
    _, theta, _ = setting(resting, PAPER)
    moved = solved(ahead)[1](np.full((1, 16), 0.1))[0]
    np.testing.assert_allclose(moved[OBJECT_DOF:], 0.1 * np.asarray(theta.cover, float), rtol=1e-6)
    np.testing.assert_allclose(moved[2], -9.81 * float(theta.mass) * H**2 / float(theta.inertia[2]), rtol=1e-6)


def test_joints_with_velocity_obey_newton(resting, x64):
    """Against the exact motion of I q̈ + d q̇ + k (q − target) = 0: the error falls as the substep does."""
    inertia = robot_scene(resting.hand, None).compile().dof_M0
    d, k = inertia / 0.03, inertia / 0.03 / 0.08
    v, u = np.linspace(-2, 2, 16), 0.1
    changes = {"stiffness": k, "cover": 1 - np.exp(-H * k / d)}
    A = scipy.linalg.expm(H * np.array([[0, 1], [-1 / 0.03 / 0.08, -1 / 0.03]]))
    exact = u + A[0, 0] * (0 - u) + A[0, 1] * v
    errors = []
    for n in (10, 20, 40):
        parts = StepParts(substeps=n, joint_velocities=True)
        ahead = horizon(resting, parts, (resting.pose_WO, resting.q, v, empty_contacts(12)), steps=1, **changes)
        errors.append(np.abs(solved(ahead)[1](np.full((1, 16), u))[0, OBJECT_DOF:] - exact).max())
    print(f"largest errors with 10, 20, 40 substeps: {np.round(1e3 * np.array(errors), 2)} mrad of {1e3 * np.ptp(exact):.0f}")
    assert errors[1] < 0.6 * errors[0] and errors[2] < 0.6 * errors[1] < 0.03 * np.ptp(exact)


def test_without_the_part_velocities_are_not_looked_at(resting, x64):
    still, moving = ((resting.pose_WO, resting.q, np.full(16, v), resting.contacts) for v in (0.0, 1.0))
    first, second = (solved(horizon(resting, PAPER, state, steps=1))[1](np.zeros((1, 16))) for state in (still, moving))
    np.testing.assert_array_equal(first, second)


def deepest(resting, q):
    pairs = PairDetector(resting.hand, None).detect(resting.pose_WO, np.asarray(q))
    return float(pairs.phi.min())


def test_fingers_stop_at_each_other(resting, x64):
    """Index and middle finger, swung into each other: they go through with the paper's step, and hardly with the part."""
    q = resting.hand.home.copy()
    swing = [joint for joint in resting.hand.swing_joints if joint in (0, 4)]
    push = np.zeros((4, 16))
    push[:, swing] = [0.15, -0.15] if deepest(resting, q + 0.4 * np.eye(16)[0] - 0.4 * np.eye(16)[4]) < 0.001 else [-0.15, 0.15]
    found = {}
    for parts in (PAPER, StepParts(finger_contacts=True)):
        joints = q
        for _ in range(2):
            ahead = horizon(resting, parts, (resting.pose_WO, joints, np.zeros(16), empty_contacts(12)), steps=4)
            joints = joints + solved(ahead)[1](push)[-1, OBJECT_DOF:]
        found[parts] = deepest(resting, joints)
    through, stopped = found.values()
    print(f"deepest: {1e3 * through:.1f} mm without, {1e3 * stopped:.1f} mm with the part")
    assert through < -0.005 and stopped > -0.0015


def test_balls_meet_each_other_and_not_the_floor():
    """Distances, normals and rows of balls in closed form."""
    balls = BallsModel((Ball((0.0, 0.0, 0.01)), Ball((0.015, 0.02, 0.01)), Ball((0.2, 0.0, 0.1))))
    found = FingerContacts(balls, StepParts(finger_contacts=True)).detect(balls.home)
    assert np.sum(found.phi < 1.0) == 1
    assert found.phi[0] == pytest.approx(0.025 - 0.02, abs=1e-7)
    assert {int(found.from_link[0]), int(found.to_link[0])} == {1, 2}
    sign = 1 if found.to_link[0] == 2 else -1
    np.testing.assert_allclose(sign * found.nhat_W[0], [0.6, 0.8, 0.0], atol=1e-6)
    assert set(found.from_link[1:]) == set(found.to_link[1:]) == {GROUND}


def test_rows_between_fingers_are_the_slopes_of_their_distances(resting, grasp, x64):
    """Against MuJoCo's own distances a small motion on: the nearest contact of every two links, in motions of all joints."""
    rng, pairs = np.random.default_rng(0), PairDetector(resting.hand, None, capacity=40, margin=0.01)
    fingers = pairs.detect(grasp[0], grasp[1])
    parts = StepParts(finger_contacts=True)
    tree, theta = resting.hand.kinematics(), setting(resting, parts)[1]
    q = jnp.asarray(grasp[1])
    problem = substep_of(resting.hand, H, parts).problem(
        tree, tree.poses(q), jnp.asarray(grasp[0]), wide(empty_contacts(12)), wide(fingers), wide(theta)
    )

    def nearest(found: PairContacts):
        order = np.argsort(found.phi, kind="stable")[::-1]
        return {(int(found.from_link[i]), int(found.to_link[i])): i for i in order if found.phi[i] < 1.0}

    errors = []
    for _ in range(20):
        dq = 1e-3 * rng.normal(size=16)
        after = pairs.detect(grasp[0], grasp[1] + dq)
        for links, i in nearest(fingers).items():
            j = nearest(after).get(links)
            if j is not None:
                errors.append(abs(after.phi[j] - fingers.phi[i] - float(problem.Jn[12 + i, OBJECT_DOF:] @ dq)))
    print(f"{len(errors)} distances: error {1e6 * np.median(errors):.1f} µm in the median, {1e6 * np.max(errors):.1f} at most")
    assert len(errors) >= 20 and np.median(errors) < 3e-6 and np.quantile(errors, 0.9) < 2e-5


def test_the_planner_predicts_what_the_learner_predicts(resting, grasp):
    """With every part: the MPC's first predicted step is the learner's prediction of its command."""
    pose, q, qd, contacts = grasp
    params = PlannerParams(implicit_steps=2, **asdict(ALL))
    mpc, theta = make_mpc(resting.hand, resting.obj, AllegroCost(), params, MpcParams(step=H, horizon=1, iterations=8))
    goal = AllegroTask(resting.obj.start("allegro"), np.pi / 2).goal_WO
    plan = mpc.solve(pose, q, contacts, goal, theta, AllegroWeights().arrays(), qd=qd)
    at = jax.tree.map(lambda leaf: leaf[0], at_rest(pose, q, contacts, FingerContacts(resting.hand, params).detect(q)))
    at = at._replace(qd=qd.astype(np.float32), q_command=plan.q_des.astype(np.float32))
    predicted = np.concatenate(jax.jit(model_prediction(resting.hand, make_model(params), H, 4, params))(theta, at))
    np.testing.assert_allclose(plan.prediction[1], predicted, atol=2e-4)
    plain = np.concatenate(jax.jit(model_prediction(resting.hand, make_model(params), H, 4))(theta, at))
    assert np.abs(plain - predicted).max() > 1e-2


@pytest.mark.parametrize("bad", [np.full(16, np.nan), np.zeros(15), None])
def test_bad_velocities_hold_the_command_and_missing_ones_do_not(bad, resting):
    params = PlannerParams(joint_velocities=True)
    mpc, theta = make_mpc(resting.hand, resting.obj, AllegroCost(), params, MpcParams(horizon=1, iterations=1))
    goal = AllegroTask(resting.obj.start("allegro"), np.pi / 2).goal_WO
    result = mpc.solve(resting.pose_WO, resting.q, Contacts(*resting.contacts), goal, theta, AllegroWeights().arrays(), qd=bad)
    assert result.status.name == ("OK" if bad is None else "BAD_INPUT")


def test_a_step_with_fingers_wants_to_be_told_of_them(resting):
    params = PlannerParams(finger_contacts=True)
    theta = make_theta(resting.hand, resting.obj, params, H)
    at = jax.tree.map(lambda leaf: leaf[0], at_rest(resting.pose_WO, resting.q, resting.contacts))
    with pytest.raises(ValueError, match="contacts between fingers"):
        model_prediction(resting.hand, make_model(params), H, 1, params)(theta, at)
