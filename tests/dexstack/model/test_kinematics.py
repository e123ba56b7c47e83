"""The hand's kinematics and gravity torques against MuJoCo and pinocchio."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dexstack.contact.contact import GROUND
from dexstack.geometry.rotations import rotation_matrix
from dexstack.model import HANDS
from dexstack.model.gravity import GravityCompensation
from dexstack.model.hand import load_hand
from dexstack.model.kinematics import KinematicTree, quaternion_matrix
from dexstack.model.scene import build_scene
from tests.dexstack.model.tree import at, random_angles


@pytest.fixture(params=HANDS)
def peers(request, x64):
    """The tree and MuJoCo's model of the same hand."""
    hand = load_hand(request.param)
    model = build_scene(hand, None).compile()
    return hand, KinematicTree(hand), model


def test_body_poses_equal_mujocos(peers):
    hand, tree, model = peers
    poses = jax.jit(tree.poses)
    for q in random_angles(hand, 20):
        data = at(model, q)
        ours = poses(jnp.asarray(q))
        assert ours.p_WB.dtype == jnp.float64
        for b, body in enumerate(hand.bodies):
            theirs = data.body(body.name)
            np.testing.assert_allclose(ours.p_WB[b], theirs.xpos, atol=1e-12)
            np.testing.assert_allclose(ours.R_WB[b], theirs.xmat.reshape(3, 3), atol=1e-12)
        np.testing.assert_allclose(ours.axis_W, data.xaxis[:16], atol=1e-12)


def test_point_jacobians_equal_mujocos(peers):
    """For random points on every link; zero for the palm and the ground."""
    hand, tree, model = peers
    rng = np.random.default_rng(1)
    links = jnp.arange(GROUND, 17)
    jacobian = jax.jit(lambda q, p: tree.point_jacobian(tree.poses(q), p, links))
    for q in random_angles(hand, 5):
        data = at(model, q)
        points = rng.uniform(-0.2, 0.2, (len(links), 3))
        ours = np.asarray(jacobian(jnp.asarray(q), jnp.asarray(points)))
        assert ours.shape == (18, 3, 16)
        assert not ours[:2].any()
        for link, p_W, J in zip(np.asarray(links)[1:], points[1:], ours[1:], strict=True):
            theirs = np.zeros((3, model.nv))
            mujoco.mj_jac(model, data, theirs, None, p_W, model.body(hand.bodies[link].name).id)
            np.testing.assert_allclose(J, theirs[:, :16], atol=1e-12)


def test_single_precision_is_accurate_to_a_micrometre():
    """The controller runs in float32."""
    hand = load_hand("right")
    tree = KinematicTree(hand)
    model = build_scene(hand, None).compile()
    for q in random_angles(hand, 10):
        data = at(model, q)
        ours = tree.poses(jnp.asarray(q, jnp.float32))
        assert ours.p_WB.dtype == jnp.float32
        theirs = np.array([data.body(body.name).xpos for body in hand.bodies])
        np.testing.assert_allclose(ours.p_WB, theirs, atol=1e-6)


def test_rotations_of_quaternions_of_any_length_are_scipys():
    rng = np.random.default_rng(0)
    for quat in rng.normal(size=(20, 4)):
        theirs = Rotation.from_quat(quat, scalar_first=True).as_matrix()
        np.testing.assert_allclose(rotation_matrix(3 * quat), theirs, atol=1e-14)
        np.testing.assert_allclose(quaternion_matrix(jnp.asarray(0.1 * quat)), theirs, atol=1e-6)


@pytest.mark.parametrize("down", [None, (6.0, -5.0, 3.0)])
@pytest.mark.parametrize("side", HANDS)
def test_gravity_torques_equal_pinocchios(side, down, pinocchio):
    hand = load_hand(side)
    gravity = GravityCompensation(hand, down)
    model = pinocchio.buildModelFromUrdf(str(hand.urdf_path))
    R_WP = Rotation.from_quat(hand.quat_WP, scalar_first=True).as_matrix()
    model.gravity.linear = R_WP.T @ (np.array([0.0, 0.0, -9.81]) if down is None else np.array(down))
    data = model.createData()
    index = [model.joints[model.getJointId(name)].idx_q for name in hand.joint_names]
    for q in random_angles(hand):
        q_pin = np.zeros(model.nq)
        q_pin[index] = q
        expected = pinocchio.computeGeneralizedGravity(model, data, q_pin)[index]
        np.testing.assert_allclose(gravity(q), expected, atol=1e-10)
