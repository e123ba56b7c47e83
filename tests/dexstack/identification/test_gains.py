"""Gains with which a hand of other motors and joints moves as the model that a policy was trained with."""

import numpy as np
import pytest

from dexstack.control.policies.mapping import PolicyMapping
from dexstack.environments.hand import HandEnv
from dexstack.errors import ConfigError
from dexstack.identification.gains import matching_gains
from dexstack.model.hand import load_hand
from dexstack.tasks.base import World

DAMPING = load_hand("right").damping
KP, KD = 2.0, 0.1
WEAKER = World(torque=0.7, joint_damping=1.3)


def test_gains_by_hand():
    mapping = PolicyMapping(kp=3.0, kd=0.2, joint_damping=0.1)
    found = matching_gains(mapping, np.full(16, 0.15), World(torque=0.5, joint_damping=1.0))
    assert found == pytest.approx((6.0, (0.2 + 0.1 - 0.15) / 0.5, 0.0))
    found = matching_gains(mapping, np.full(16, 0.4), World())
    assert found == pytest.approx((3.0, 0.0, 0.1))


def test_the_models_own_gains_stay():
    assert matching_gains(PolicyMapping(kp=KP, kd=KD), DAMPING, World()) == pytest.approx((KP, KD, 0.0))


def test_a_mapping_without_gains_is_refused():
    with pytest.raises(ConfigError, match="does not have 'kp'"):
        matching_gains(PolicyMapping(), DAMPING, World())


def motion(kp, kd, world):
    """Joint positions (20, 16) while the fingers open from rest by the same targets."""
    env = HandEnv(plant="mujoco", set={"kp": kp, "kd": kd}, features=("q",), action="target", world=world)
    env.reset(seed=0)
    target = env.simulation.setup.rest - 0.15
    return np.array([env.step(target)[0] for _ in range(20)])


def test_a_weaker_hand_moves_as_the_model():
    """The difference that the motors make falls to less than half; what is left is the weight that weaker
    motors balance less, and the low-pass of the speed."""
    expected, mapping = motion(KP, KD, World()), PolicyMapping(kp=KP, kd=KD)
    gains = matching_gains(mapping, DAMPING, WEAKER)
    before = np.abs(motion(KP, KD, WEAKER) - expected).max()
    after = np.abs(motion(gains.kp, gains.kd, WEAKER) - expected).max()
    assert before > 0.02 and after < before / 2.0
