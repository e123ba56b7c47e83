"""The simulated pose sensor: nothing where there is no noise, the stated spread where there is, late by its delay in the loop."""

import numpy as np
import pytest

from dexstack.geometry.rotations import geodesic_angle
from dexstack.sim.sensor import PoseSensor

POSE = np.array([0.01, -0.02, 0.03, *np.array([0.5, -0.5, 0.1, 0.7]) / 1.0])
POSE[3:] /= np.linalg.norm(POSE[3:])


def test_a_perfect_sensor_changes_nothing_and_draws_nothing():
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(PoseSensor().measure(POSE, rng), POSE)
    assert rng.random() == np.random.default_rng(0).random()


def test_noise_has_the_stated_spread():
    sensor, rng = PoseSensor(pose_noise_position=0.001, pose_noise_rotation=0.0175), np.random.default_rng(1)
    measured = np.array([sensor.measure(POSE, rng) for _ in range(4000)])
    np.testing.assert_allclose((measured[:, :3] - POSE[:3]).std(axis=0), 0.001, rtol=0.05)
    np.testing.assert_allclose(np.linalg.norm(measured[:, 3:], axis=1), 1.0, atol=1e-12)
    squared = np.mean([geodesic_angle(m[3:], POSE[3:]) ** 2 for m in measured])
    assert squared == pytest.approx(3 * 0.0175**2, rel=0.05)
