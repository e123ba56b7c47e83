"""The simulated pose sensor: noise, delay, a drifting clock, and outages."""

import numpy as np
import pytest

from dexstack.geometry.rotations import geodesic_angle
from dexstack.sim.sensor import PoseSensor, PoseStream

POSE = np.array([0.01, -0.02, 0.03, *np.array([0.5, -0.5, 0.1, 0.7]) / 1.0])
POSE[3:] /= np.linalg.norm(POSE[3:])
DT, PERIOD = 0.002, 0.0334


def still(later: float) -> tuple[np.ndarray, np.ndarray]:
    """The object and one joint do not move."""
    return POSE, np.zeros(1)


def test_a_perfect_sensor_changes_nothing_and_draws_nothing():
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(PoseSensor().begin(PERIOD, rng)(still).pose_WO, POSE)
    assert rng.random() == np.random.default_rng(0).random()


def test_noise_has_the_stated_spread():
    sensor, rng = PoseSensor(pose_noise_position=0.001, pose_noise_rotation=0.0175), np.random.default_rng(1)
    measure = sensor.begin(PERIOD, rng)
    measured = np.array([measure(still).pose_WO for _ in range(4000)])
    np.testing.assert_allclose((measured[:, :3] - POSE[:3]).std(axis=0), 0.001, rtol=0.05)
    np.testing.assert_allclose(np.linalg.norm(measured[:, 3:], axis=1), 1.0, atol=1e-12)
    squared = np.mean([geodesic_angle(m[3:], POSE[3:]) ** 2 for m in measured])
    assert squared == pytest.approx(3 * 0.0175**2, rel=0.05)


def test_correlated_noise_has_the_stated_spread_and_time_constant():
    sensor = PoseSensor(pose_noise_position=0.005, pose_noise_rotation=0.1, pose_noise_time=0.3)
    rng, errors = np.random.default_rng(2), []
    for _ in range(400):
        measure = sensor.begin(PERIOD, rng)
        errors.append([measure(still).pose_WO[:3] - POSE[:3] for _ in range(20)])
    e = np.array(errors)
    np.testing.assert_allclose(e.std(axis=(0, 2)), 0.005, rtol=0.1)
    lags = np.array([1, 5, 9])
    kept = [np.mean(e[:, lag:] * e[:, :-lag]) / np.mean(e**2) for lag in lags]
    np.testing.assert_allclose(kept, np.exp(-lags * PERIOD / 0.3), atol=0.04)


# --- in a trial -----------------------------------------------------------------------------------


def seen(sensor: PoseSensor, seconds: float = 15.0, seed: int = 0) -> np.ndarray:
    """Return of every picture its arrival, the age of its pose, the time between pose and joint angles,
    and the time of the newest joint angles [s]; x of the pose and the one joint are the time [s]."""
    stream, rows = PoseStream(sensor, PERIOD, DT, np.random.default_rng(seed)), []
    for k in range(round(seconds / DT)):
        stream.note(np.array([k * DT, 0, 0, 1, 0, 0, 0]), np.array([k * DT]))
        picture = stream.take()
        if picture is not None:
            rows.append(
                (k * DT, k * DT - picture.pose_WO[0], picture.q[0] - picture.pose_WO[0], picture.q_now[0])
            )
    return np.array(rows)


def test_without_delay_the_picture_is_of_this_moment():
    t, age, apart, then = seen(PoseSensor()).T
    assert not age.any() and not apart.any()
    np.testing.assert_array_equal(then, t)
    np.testing.assert_allclose(t, np.arange(len(t)) * PERIOD, atol=DT)


def test_a_late_picture_has_its_own_joint_angles_and_the_newest_ones():
    t, age, apart, then = seen(PoseSensor(pose_delay=0.06))[5:].T
    np.testing.assert_allclose(age, 0.06, atol=1e-9)
    np.testing.assert_allclose(apart, 0.0, atol=1e-9)
    np.testing.assert_array_equal(then, t)


def test_the_estimated_clock_removes_jitter():
    t, age, apart, _ = seen(PoseSensor(pose_delay=0.06, pose_jitter=0.005))[30:].T
    further = age - 0.06
    assert further.min() > -1e-9 and np.all(np.diff(t) > -1e-9)
    assert np.sqrt(np.mean(further**2)) == pytest.approx(0.005, rel=0.3), "half a normal distribution"
    assert np.abs(apart).max() < 0.001, "by the arrival alone it would be 5 ms"


@pytest.mark.parametrize(("drift", "worst"), [(20.0, 0.0), (-20.0, 0.0002)])
def test_drift_is_followed(drift, worst):
    """Without an estimate the error would be 1.2 ms at the end; of a slow clock the smallest delay in the
    window of 10 s is the oldest."""
    apart = seen(PoseSensor(pose_delay=0.06, pose_drift=drift), seconds=60.0)[:, 2]
    assert np.abs(apart).max() == pytest.approx(worst, abs=2e-5)


def test_outages_are_random_and_have_the_stated_length():
    sensor = PoseSensor(pose_delay=0.06, pose_outage=1.0, pose_outage_interval=2.0)
    rows = seen(sensor, seconds=60.0)
    gaps = np.diff(rows[:, 0])
    long = gaps[gaps > 2 * PERIOD]
    assert 10 < len(long) < 30, "about one in three seconds"
    assert long.min() > 1.0 - DT and np.median(long) < 1.0 + 3 * PERIOD
    assert np.array_equal(rows, seen(sensor, seconds=60.0)), "repeatable"
    assert not np.array_equal(rows[:50], seen(sensor, seconds=60.0, seed=1)[:50])
