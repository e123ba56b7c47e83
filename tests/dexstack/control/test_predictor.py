"""The predicted state: unchanged without motion, with pushed objects, and with commands under way."""

import jax.numpy as jnp
import numpy as np
import pytest

from dexstack.contact.contact import empty_contacts
from dexstack.contact.detector import ContactDetector
from dexstack.control.base import Observation
from dexstack.control.factory import make_model
from dexstack.control.params import PlannerParams
from dexstack.control.predictor import Commands, StatePredictor
from dexstack.control.theta_file import make_theta
from dexstack.geometry.rotations import geodesic_angle
from dexstack.tasks.palm_turn import PalmTurn

SCENE = PalmTurn().setup()
STEP = 0.1
HOME = np.array(SCENE.robot.home)


@pytest.fixture(scope="module")
def detector():
    return ContactDetector(SCENE.robot, SCENE.obj)


def predictor_of(detector, delay):
    theta, model = make_theta(SCENE.robot, SCENE.obj, PlannerParams(), STEP), make_model(PlannerParams())
    return StatePredictor(SCENE.robot, model, lambda: theta, STEP, detector.params.capacity, delay)


@pytest.fixture(scope="module")
def predictor(detector):
    return predictor_of(detector, 0.0)


def test_the_state_is_of_the_time_of_the_joint_angles_and_unchanged_without_motion(detector, predictor):
    pose_WO = SCENE.start.pose_WO
    seen = Observation(1.0, pose_WO, HOME, detector.detect(pose_WO, HOME))
    assert predictor.predict(seen, HOME.copy(), 1.0) is seen
    assert [predictor.predict(seen, q, 1.03).t for q in (HOME, HOME + 0.01)] == [1.03, 1.03]


@pytest.fixture(scope="module")
def touched(detector):
    """An object in the air whose centre a fingertip points at and touches, the way from object to
    finger, and the tip's Jacobian (3, 4)."""
    tree, finger, link = SCENE.robot.kinematics(), 1, 8
    poses = tree.poses(jnp.asarray(HOME, jnp.float32))
    p_W = tree.fingertips(poses)[finger : finger + 1]
    J = np.asarray(tree.point_jacobian(poses, p_W, jnp.array([link])))[0][:, 4 * finger : 4 * finger + 4]
    away = J[:, 1] / np.linalg.norm(J[:, 1])  # where one joint takes it
    contacts = empty_contacts(detector.params.capacity)
    contacts.p_W[0], contacts.nhat_W[0], contacts.phi[0] = p_W[0], away, 0.0
    contacts.link[0], contacts.active[0] = link, True
    pose_WO = np.concatenate([np.asarray(p_W[0]) - 0.028 * away, [1.0, 0.0, 0.0, 0.0]])
    return Observation(0.0, pose_WO, HOME, contacts), away, J


def test_a_pushing_finger_moves_the_object_and_its_contact(predictor, touched):
    """The tip goes 3 mm against the object."""
    seen, away, J = touched
    then = HOME.copy()
    then[4:8] += np.linalg.pinv(J) @ (-0.003 * away)
    pushed = predictor.predict(seen, then, 0.0)
    shift = pushed.pose_WO[:3] - seen.pose_WO[:3]
    assert 0.002 < shift @ -away < 0.0031
    np.testing.assert_allclose(pushed.contacts.p_W[0] - seen.contacts.p_W[0], shift, atol=1e-4)
    assert pushed.contacts.phi[0] == pytest.approx(-0.003 - shift @ away, abs=1e-5)
    np.testing.assert_array_equal(pushed.contacts.phi[1:], seen.contacts.phi[1:])
    assert geodesic_angle(pushed.pose_WO[3:], seen.pose_WO[3:]) < 0.01
    np.testing.assert_allclose(np.linalg.norm(pushed.contacts.nhat_W, axis=1), 1.0, atol=1e-5)


def test_unusable_observations_are_left_to_the_planner(predictor, detector):
    pose_WO = SCENE.start.pose_WO.copy()
    pose_WO[0] = np.nan
    seen = Observation(0.0, pose_WO, HOME, empty_contacts(detector.params.capacity))
    assert predictor.predict(seen, HOME + 0.01, 0.0) is seen


def test_free_joints_follow_only_the_commands_under_way():
    commands, rate, q = Commands(0.06), np.array([10.0, 5.0]), np.array([0.1, 0.2])
    np.testing.assert_array_equal(commands.followed(0.0, q, rate), q)
    commands.add(0.0, np.array([1.0, 1.0]))
    commands.add(0.04, np.array([2.0, 2.0]))
    first = 1.0 + (q - 1.0) * np.exp(-rate * 0.04)  # from 0.06 to 0.10
    np.testing.assert_allclose(commands.followed(0.05, q, rate), 2.0 + (first - 2.0) * np.exp(-rate * 0.01))
    np.testing.assert_allclose(commands.followed(0.2, q, rate), 2.0 + (q - 2.0) * np.exp(-rate * 0.06))
    np.testing.assert_array_equal(commands.followed(0.0, q, rate), q, "time went back")


def test_commands_under_way_move_joints_and_what_they_push(detector, touched):
    late, (seen, away, J) = predictor_of(detector, 0.06), touched
    assert late.predict(seen, HOME, 0.0) is seen
    asked = HOME.copy()
    asked[4:8] += np.linalg.pinv(J) @ (-0.006 * away)
    late.sent(0.0, asked)
    ahead = late.predict(seen, HOME, 0.06)
    tip, free = (J @ (ahead.q - HOME)[4:8]) @ -away, -np.expm1(-0.6) * 0.006
    assert 0.2 * free < tip < 0.95 * free, "what it pushes holds it back"
    np.testing.assert_allclose(np.delete(ahead.q - HOME, range(4, 8)), 0.0, atol=1e-6)
    assert 0.5 * tip < (ahead.pose_WO[:3] - seen.pose_WO[:3]) @ -away < 1.05 * tip
    far = seen._replace(contacts=seen.contacts._replace(active=np.zeros_like(seen.contacts.active)))
    free = late.predict(far, HOME, 0.06)
    np.testing.assert_allclose(
        (free.q - HOME)[4:8], -np.expm1(-0.6) * (asked - HOME)[4:8], rtol=1e-3, atol=1e-6
    )
    np.testing.assert_allclose(free.pose_WO, seen.pose_WO, atol=1e-6)
