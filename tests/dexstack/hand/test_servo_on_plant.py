"""The servo on the simulated hand: it holds against gravity and follows a step."""

import numpy as np

from dexstack.hand.servo import ServoParams
from dexstack.model.objects import load_object
from dexstack.plants.mujoco import MujocoPlant
from tests.dexstack.hand.emulated import HAND, PUSH
from tests.dexstack.hand.wired import Driven, computer

AWAY = np.array([0.0, 0.0, -1.0, 1.0, 0.0, 0.0, 0.0])
"""Pose of the object, which is not part of these tests."""


def error(target: np.ndarray, **servo) -> float:
    """Return the largest deviation from ``target`` [rad] after 2 s."""
    plant = MujocoPlant(HAND, load_object("cube"))
    on = computer(plant=plant)
    with Driven(on, ServoParams(**servo)) as hand:
        plant.reset(HAND.home, AWAY)
        hand.push(2.0, target)
        assert hand.fault is None
        return float(np.abs(plant.joint_position - target).max())


def test_gravity_compensation_removes_the_sag():
    assert error(HAND.home) < 2e-3
    assert error(HAND.home, gravity_compensation=False) > 0.02


def test_a_step_is_followed():
    assert error(HAND.home + (PUSH - HAND.home) * 2.0 / 3.0) < 0.01
