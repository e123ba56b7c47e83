"""One rule for uncertain poses: the controller averages them, and moves as slowly."""

import numpy as np
import pytest

from dexstack.control.controller import Measurement
from dexstack.control.params import BlindParams
from dexstack.geometry.rotations import geodesic_angle
from dexstack.sim.sensor import PoseSensor
from tests.dexstack.control.stubs import StubSupervisor, stub_controller

HOME, GOAL = np.zeros(16), np.array([0.0, 0.0, 0.05, 1.0, 0.0, 0.0, 0.0])
POSE = np.array([0.01, -0.02, 0.04, 0.1, 0.7, -0.1, 0.7])
POSE[3:] /= np.linalg.norm(POSE[3:])
LIMITS = BlindParams().blind_position, BlindParams().blind_rotation


def assumed(poses, deviation, period=0.02):
    """Return controller and supervisor after the measured poses, the latter with the assumed ones."""
    supervisor = StubSupervisor(HOME)
    controller = stub_controller(supervisor)
    for k, pose_WO in enumerate(poses):
        controller.answer(Measurement(pose_WO, HOME, k * period, HOME, deviation=deviation), GOAL)
    return controller, np.array([observation.pose_WO for observation, _ in supervisor.asked])


@pytest.mark.parametrize("doubt", [0.8, 1.5])
def test_the_assumed_pose_is_as_certain_as_a_picture_at_full_speed(doubt):
    sensor = PoseSensor(pose_noise_position=doubt * LIMITS[0], pose_noise_rotation=doubt * LIMITS[1])
    measure = sensor.begin(0.02, np.random.default_rng(0))
    measured = np.array([measure(lambda later: (POSE, HOME)).pose_WO for _ in range(3000)])
    measured[::2, 3:] *= -1.0  # the same rotations
    controller, poses = assumed(measured, sensor.deviation)
    settled = poses[200:]
    assert np.abs((settled[:, :3] - POSE[:3]).std(axis=0)).max() < 0.55 * LIMITS[0]
    turns = [geodesic_angle(pose[3:], POSE[3:]) for pose in settled]
    assert np.sqrt(np.mean(np.square(turns)) / 3.0) < 0.55 * LIMITS[1]
    share = 0.25 / doubt**2
    assert controller.speed == controller.supervisor.speed == pytest.approx(share)
    raw = (measured[:, :3] - POSE[:3]).std()
    assert settled[:, :3].std(axis=0).mean() / raw == pytest.approx(np.sqrt(share / (2.0 - share)), rel=0.2)


def test_a_certain_pose_is_taken_as_it_is():
    rng = np.random.default_rng(1)
    measured = [np.concatenate([rng.normal(size=3), POSE[3:]]) for _ in range(3)]
    controller, poses = assumed(measured, (0.5 * LIMITS[0], 0.5 * LIMITS[1]))
    np.testing.assert_array_equal(poses, measured)
    assert controller.speed == 1.0


def test_nothing_is_averaged_across_a_gap():
    far = POSE + np.array([0.05, 0, 0, 0, 0, 0, 0])
    _, near = assumed([POSE, far], LIMITS)
    _, after = assumed([POSE, far], LIMITS, period=0.5)
    np.testing.assert_allclose(near[-1][0], POSE[0] + 0.25 * 0.05)
    np.testing.assert_array_equal(after[-1], far)
