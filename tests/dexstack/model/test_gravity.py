"""Gravity torques against pinocchio, and in simulation: the hand floats."""

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dexstack.model import HANDS
from dexstack.model.gravity import GravityCompensation
from dexstack.model.hand import load_hand
from dexstack.model.scene import build_scene


@pytest.mark.parametrize("side", HANDS)
def test_equals_pinocchio(side, pinocchio):
    hand = load_hand(side)
    gravity = GravityCompensation(hand)
    model = pinocchio.buildModelFromUrdf(str(hand.urdf_path))
    R_WP = Rotation.from_quat(hand.quat_WP, scalar_first=True).as_matrix()
    model.gravity.linear = R_WP.T @ np.array([0.0, 0.0, -9.81])
    data = model.createData()
    index = [model.joints[model.getJointId(name)].idx_q for name in hand.joint_names]
    for q in np.random.default_rng(0).uniform(hand.lower, hand.upper, (20, 16)):
        q_pin = np.zeros(model.nq)
        q_pin[index] = q
        expected = pinocchio.computeGeneralizedGravity(model, data, q_pin)[index]
        np.testing.assert_allclose(gravity(q), expected, atol=1e-10)


def test_the_hand_floats_under_its_gravity_torques():
    hand = load_hand("right")
    gravity = GravityCompensation(hand)
    model = build_scene(hand, None).compile()
    data = mujoco.MjData(model)
    data.qpos[:] = hand.home
    for _ in range(500):
        data.qfrc_applied[:] = gravity(data.qpos)
        mujoco.mj_step(model, data)
    np.testing.assert_allclose(data.qpos, hand.home, atol=1e-9)


def test_the_torques_fit_the_motors():
    hand = load_hand("right")
    gravity = GravityCompensation(hand)
    for q in np.random.default_rng(1).uniform(hand.lower, hand.upper, (50, 16)):
        assert np.all(np.abs(gravity(q)) < 0.5 * hand.effort)
