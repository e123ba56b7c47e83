"""The three-ball task: setup, targets, cost and closed loop."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dexstack.contact.detector import ContactDetector, DetectorParams
from dexstack.control.base import Observation, PlannedState
from dexstack.control.supervisors.regrasp import Phase, RegraspParams
from dexstack.geometry.rotations import yaw_quaternion
from dexstack.graph.settings import Spec
from dexstack.model.scene import robot_scene
from dexstack.tasks.base import Goal, World
from dexstack.tasks.three_ball import CORNER, START, ThreeBall, ThreeBallWeights, resting_height, targets
from dexstack.trials.sweep import loop_of
from tests.dexstack.model.tree import at

OBJECTS = ("cube", "foambrick", "stick")


@pytest.fixture(scope="module", params=OBJECTS)
def scene(request):
    return ThreeBall(obj=request.param).setup()


@pytest.fixture(scope="module")
def loop():
    """A short horizon compiles faster."""
    return loop_of(Spec("three_ball", overrides=(("horizon", 2), ("iterations", 1))))


def towards(*poses):
    return iter([Goal(np.asarray(pose), "") for pose in poses])


def test_the_setup_is_the_published_one(scene):
    assert scene.obj.mass == pytest.approx(0.01)
    assert scene.obj.friction[0] == 0.5 and scene.obj.contact_dimension == 6
    radius = {"cube": 0.01, "foambrick": 0.01, "stick": 0.00705}[scene.obj.name]
    assert [ball.radius for ball in scene.robot.balls] == pytest.approx([radius] * 3)
    assert scene.robot.balls[0].mass == pytest.approx(4.19e-3 * (radius / 0.01) ** 3, rel=1e-3)


def test_at_the_start_only_object_and_floor_touch(scene):
    """The published balls start inside the floor."""
    model = robot_scene(scene.robot, scene.obj).compile()
    data = at(model, scene.robot.home, scene.obj.start(START).pose_WO)
    pairs = {frozenset(model.geom(int(g)).name for g in contact.geom) for contact in data.contact}
    assert pairs <= {frozenset(("object", "floor"))}  # or no contact at zero depth
    assert all(contact.dist > -1e-4 for contact in data.contact)


def test_targets_are_the_published_ones_and_rest_on_the_floor(scene):
    some = list(itertools.islice(targets(scene.obj, 3), 70))
    assert [goal.label.split()[0] for goal in some[:7]] == ["turn"] * 5 + ["flip"] * 2
    for goal in (each.pose_WO for each in some):
        np.testing.assert_allclose(np.abs(goal[:2]), CORNER)
        corners = Rotation.from_quat(goal[3:], scalar_first=True).apply(scene.obj.mesh.vertices) + goal[:3]
        assert corners[:, 2].min() == pytest.approx(0.0, abs=1e-9)
    flips = {"stick": {"flip +135°", "flip +180°"}}.get(scene.obj.name, {"flip +90°", "flip -90°"})
    assert {goal.label for goal in some} == {f"turn {a:+d}°" for a in (0, 45, -45, 90, -90)} | flips
    again = list(itertools.islice(targets(scene.obj, 3), 70))
    assert all(
        a.label == b.label and np.array_equal(a.pose_WO, b.pose_WO) for a, b in zip(some, again, strict=True)
    )


def test_a_requested_pose_is_put_on_the_floor(scene):
    quat = yaw_quaternion(0.4)
    goal = ThreeBall(obj=scene.obj.name).at_pose(np.array([0.03, -0.02, 0.7, *quat]))
    np.testing.assert_allclose(goal.pose_WO[[0, 1, *range(3, 7)]], [0.03, -0.02, *quat])
    assert goal.pose_WO[2] == pytest.approx(resting_height(scene.obj, quat))


def test_the_cost_is_its_formula():
    rng = np.random.default_rng(0)
    w = ThreeBallWeights(running_weight=0.0)
    for _ in range(10):
        a, b = Rotation.random(rng=rng), Rotation.random(rng=rng)
        p, goal_p, tips = rng.normal(size=3), rng.normal(size=3), rng.normal(size=(3, 3))
        state = PlannedState(*map(jnp.asarray, (p, a.as_quat(scalar_first=True), tips.ravel(), tips)))
        goal = jnp.asarray(np.concatenate([goal_p, b.as_quat(scalar_first=True)]))
        terminal = float(jnp.sum(ThreeBall().terminal(state, goal, w) ** 2))
        angle = (a.inv() * b).magnitude()
        expected = w.position_weight * np.sum((p - goal_p) ** 2) + w.orientation_weight * (angle / 2) ** 2
        assert terminal == pytest.approx(expected, rel=1e-4)
        reach = tips - p
        d = reach / np.linalg.norm(reach, axis=1, keepdims=True)
        stage = float(jnp.sum(ThreeBall().stage(state, goal, w) ** 2))
        expected = w.contact_weight * np.sum(reach**2) + w.grasp_weight * np.sum(np.sum(d, axis=0) ** 2)
        assert stage == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("angle", [0.0, 1e-7, np.pi])
def test_the_cost_has_a_gradient_at_no_turn_and_at_half_a_turn(angle):
    w = ThreeBallWeights()
    goal = jnp.asarray([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])

    def residual(angle):
        quat = jnp.stack([jnp.cos(angle / 2), jnp.sin(angle / 2), 0.0 * angle, 0.0 * angle])
        return ThreeBall().terminal(
            PlannedState(jnp.zeros(3), quat, jnp.zeros(9), jnp.zeros((3, 3))), goal, w
        )

    slope = jax.jacfwd(residual)(jnp.asarray(angle))
    np.testing.assert_allclose(
        np.abs(slope[3:]), [np.sqrt(w.orientation_weight) / 2, 0, 0], rtol=1e-3, atol=1e-3
    )


def test_the_floor_bears_the_lowest_corners(scene):
    """Exactly, for every pose: the nearest slot is the lowest corner, and the normal is the floor's."""
    detector = ContactDetector(scene.robot, scene.obj, DetectorParams(capacity=8, margin=0.05))
    rng = np.random.default_rng(1)
    for _ in range(10):
        turn = Rotation.random(rng=rng)
        quat = turn.as_quat(scalar_first=True)
        pose = np.concatenate([rng.normal(0, 0.02, 2), [resting_height(scene.obj, quat) + 0.001], quat])
        found = detector.detect(pose, scene.robot.home)
        assert found.phi[:4].min() == pytest.approx(0.001, abs=1e-6)
        np.testing.assert_array_equal(found.nhat_W[:4], np.tile([0.0, 0.0, -1.0], (4, 1)))
        assert (
            list(found.link)[:4] == [0] * 4 and sorted(found.link[4:7]) == [1, 2, 3] and not found.active[7]
        )


@pytest.mark.slow
def test_it_holds_at_the_goal_and_regrasps_when_stuck(loop, monkeypatch):
    """At a reached goal the balls stay; towards an unreachable one, high in the air, they release and
    return."""
    start = loop.setup.start
    trial = loop.run(0, 0, 4.0, goals=towards(start.pose_WO))
    assert trial.position_error < 0.006 and trial.orientation_error < 0.1
    high = start.pose_WO + np.array([0, 0, 10.0, 0, 0, 0, 0])
    seen, own = set(), loop.supervisor.plan

    def watched(*args):
        plan = own(*args)
        seen.add(loop.supervisor.phase)
        assert np.all(plan.q_des >= loop.setup.robot.lower - 1e-9)
        return plan

    monkeypatch.setattr(loop.supervisor, "plan", watched)
    loop.run(0, 0, 10.0, goals=towards(high))
    assert {Phase.PLAN, Phase.RETREAT, Phase.TRAVEL} <= seen


def answers(loop, pose, q, goal, count):
    """Yield phases and targets for a constant state."""
    contacts = loop.detector.detect(pose, q)
    loop.supervisor.reset()
    for k in range(count):
        plan = loop.supervisor.plan(Observation(0.1 * k, pose, q, contacts), goal)
        yield loop.supervisor.phase, plan.q_des


def test_the_ball_beneath_the_object_retreats_first(loop):
    """A cube lies on a ball without progress; on the floor all other balls leave at once. Without motion
    patience is short."""
    r, side = loop.setup.robot.balls[0].radius, float(loop.setup.obj.size[0]) / 2
    goal = loop.setup.start.pose_WO + np.array([0.05, 0.05, 0, 0, 0, 0, 0])
    for lift in (2 * r, 0.0):
        pose = loop.setup.start.pose_WO + np.array([0, 0, lift, 0, 0, 0, 0])
        beneath = [0.005, 0.0, r] if lift else [0.0, -side - r, side]
        q = np.concatenate([[0.0, side + r, pose[2]], [0.0, 0.0, pose[2] + side + r], beneath])
        phases, targets_ = zip(*answers(loop, pose, q, goal, 20), strict=True)
        assert (
            phases.index(Phase.RETREAT)
            == loop.params[RegraspParams].patience_still
            < loop.params[RegraspParams].patience
        )
        goes = np.linalg.norm((targets_[phases.index(Phase.RETREAT)] - q).reshape(3, 3), axis=1) > 1e-3
        assert goes.tolist() == ([False, False, True] if lift else [True, True, True])


def test_an_object_is_held_where_it_cannot_rest(loop):
    """A cube on its edge, at its goal: a release would drop it."""
    edge = np.array([np.cos(np.pi / 8), 0.0, np.sin(np.pi / 8), 0.0])
    goal = np.concatenate([[0.0, 0.0, resting_height(loop.setup.obj, edge)], edge])
    q = goal[:3] + np.array([[0.0, 0.038, 0.0], [0.0, -0.038, 0.0], [0.0, 0.0, 0.05]])
    patience = loop.params[RegraspParams].patience
    assert {phase for phase, _ in answers(loop, goal, q.ravel(), goal, 2 * patience)} == {Phase.PLAN}
    away = goal + np.array([0.05, 0, 0, 0, 0, 0, 0])
    assert Phase.RETREAT in {phase for phase, _ in answers(loop, goal, q.ravel(), away, 2 * patience)}


def test_a_world_applies_to_object_and_balls():
    task = ThreeBall()
    believed, actual = task.setup(), task.setup(World(mass=2.0, friction=0.5, size=1.1))
    assert actual.obj.mass == pytest.approx(2 * believed.obj.mass)
    frictions = [
        [scene.obj.friction[0], *(ball.friction for ball in scene.robot.balls)]
        for scene in (believed, actual)
    ]
    np.testing.assert_allclose(frictions[1], 0.5 * np.array(frictions[0]))
    np.testing.assert_allclose(actual.obj.size, 1.1 * believed.obj.size, rtol=1e-6)
    assert [b.radius for b in actual.robot.balls] == [b.radius for b in believed.robot.balls]


@pytest.mark.slow
def test_a_turn_reaches_its_goal():
    loop = loop_of(Spec("three_ball"))
    goal = np.concatenate(
        [[0.05, 0.05], loop.setup.start.pose_WO[2:3], [np.cos(np.pi / 8), 0.0, 0.0, np.sin(np.pi / 8)]]
    )
    trial = loop.run(0, 0, 12.0, goals=towards(goal))
    assert trial.position_error < 0.01 and trial.orientation_error < 0.1 and trial.succeeded
