"""Assumed poses: closed forms with one plane of contact, statistics of correlated noise, flips, gaps, and
a finger that carries the object."""

import numpy as np
import pytest

from dexstack.contact.contact import empty_contacts
from dexstack.control.params import TrackerParams
from dexstack.control.trackers import PERSISTENT, ContactTracker
from dexstack.geometry.rotations import geodesic_angle
from dexstack.perception.se3 import Transform, difference, exp
from dexstack.sim.sensor import PoseSensor
from tests.acceptance.tracking import CHI2_95
from tests.dexstack.control.stubs import StubDetector, StubPredictor

Q, STILL = np.zeros(16), np.array([0.0, 0.0, 0.03, 1.0, 0.0, 0.0, 0.0])
HALF = 0.028
"""Half of the edge of a cube that lies on a floor at z = 0 [m]."""
PERIOD = 0.04


class Floor(StubDetector):
    """The centre and the four lower corners of a cube above a floor at z = 0."""

    def detect(self, pose_WO, q):
        contacts, X = empty_contacts(12), Transform.of_pose(pose_WO)
        corners = np.array([[x, y, -1.0] for x, y in ((0, 0), (1, 1), (1, -1), (-1, 1), (-1, -1))])
        contacts.p_W[:5] = X.apply(HALF * corners)
        contacts.nhat_W[:5], contacts.phi[:5], contacts.active[:5] = (0, 0, -1), contacts.p_W[:5, 2], True
        return contacts


class Carried(StubPredictor):
    """The object moves with the first joint along x [m per rad]."""

    def follow(self, seen, q_then):
        way = np.concatenate([[q_then[0] - seen.q[0]], np.zeros(6)])
        return seen._replace(pose_WO=seen.pose_WO + way, q=q_then)


def tracker(detector=None, **params):
    return ContactTracker(
        detector or StubDetector(), Carried(), TrackerParams(**{"filter_from": 0.0} | params)
    )


def turned(axis, angle, pose_WO=STILL):
    X = Transform.of_pose(pose_WO)
    return Transform(exp(angle * np.asarray(axis, float)) @ X.R, X.p).pose


def test_exact_poses_are_taken_as_they_are():
    measured = np.array([0.1, 0.2, 0.3, 0.6, 0.0, 0.8, 0.0])
    assert tracker(Floor()).track(0.0, measured, Q, (0.0, 0.0)).pose_WO is measured


def test_only_uncertain_poses_are_filtered():
    low = np.array([0.01, -0.02, HALF - 0.003, 1.0, 0.0, 0.0, 0.0])
    filtered = tracker(Floor(), filter_from=TrackerParams().filter_from)
    for k, (deviation, taken) in enumerate(
        [((0.0014, 0.06), True), ((0.0016, 0.0), False), ((0.0, 0.07), False), ((0.0014, 0.06), True)]
    ):
        assert (filtered.track(0.02 * k, low, Q, deviation).pose_WO is low) == taken


@pytest.mark.parametrize("sigma", [0.0005, 0.004])
def test_an_overlap_is_resolved_as_far_as_the_pose_is_uncertain(sigma):
    """Level on a floor, five points weigh the same: z = Σ φ/σ² against z/P."""
    error = 0.002
    low = np.array([0.01, -0.02, HALF - 0.003, 1.0, 0.0, 0.0, 0.0])
    found = tracker(Floor(), contact_error=error).track(0.0, low, Q, (sigma, 0.01)).pose_WO
    gain = 5.0 * sigma**2 / (error**2 + 5.0 * sigma**2)
    np.testing.assert_allclose(found[:3], [0.01, -0.02, HALF - 0.003 * (1.0 - gain)], atol=1e-6)
    assert geodesic_angle(found[3:], low[3:]) < 1e-6


def test_a_cube_measured_askew_in_the_floor_lies_flat_and_one_in_the_air_stays():
    askew = turned((1.0, 0.0, 0.0), 0.1, np.array([0.0, 0.0, HALF, 1.0, 0.0, 0.0, 0.0]))
    found = tracker(Floor(), contact_error=1e-4).track(0.0, askew, Q, (1e-4, 0.1)).pose_WO
    assert Transform.of_pose(found).apply(HALF * np.array([[1, 1, -1], [1, -1, -1]]))[:, 2].min() > -5e-4
    assert geodesic_angle(found[3:], STILL[3:]) < 0.02
    above = askew + np.array([0, 0, 0.02, 0, 0, 0, 0])
    np.testing.assert_allclose(tracker(Floor()).track(0.0, above, Q, (1e-3, 0.1)).pose_WO, above, atol=1e-12)


def test_errors_agree_with_the_covariance_where_noise_is_correlated():
    sensor = PoseSensor(pose_noise_position=0.005, pose_noise_rotation=0.1, pose_noise_time=0.3)
    nees, late = [], []
    for seed in range(16):
        measure = sensor.begin(PERIOD, np.random.default_rng(seed))
        filtered = tracker(pose_error_time=0.3, drift_position=1e-4, drift_rotation=1e-3)
        for k in range(100):
            pose_WO = filtered.track(
                k * PERIOD, measure(lambda later: (STILL, Q)).pose_WO, Q, sensor.deviation
            ).pose_WO
            error = difference(Transform.of_pose(pose_WO), Transform.of_pose(STILL))
            nees.append(error @ np.linalg.solve(filtered.covariance, error))
        late.append(error)
    assert 0.85 < np.mean(np.array(nees) < CHI2_95) < 0.99
    # 4 s of noise with 0.3 s of memory and its first value are 4.6 / 0.6 independent pictures
    assert np.std(np.array(late)[:, :3]) == pytest.approx(0.005 * np.sqrt(0.6 / 4.6), rel=0.3)


def test_a_flip_is_rejected_and_a_pose_that_persists_is_taken():
    filtered, flipped = tracker(), turned((0.0, 0.0, 1.0), np.pi / 2)
    for k in range(30):
        filtered.track(k * PERIOD, STILL, Q, (0.001, 0.1))
    t, count = 30 * PERIOD, int(PERSISTENT / PERIOD)
    for k in range(count):
        seen = filtered.track(t + k * PERIOD, flipped, Q, (0.001, 0.1))
        assert geodesic_angle(seen.pose_WO[3:], STILL[3:]) < 0.01
    assert geodesic_angle(filtered.track(2.0, STILL, Q, (0.001, 0.1)).pose_WO[3:], STILL[3:]) < 0.01
    for k in range(count + 1):
        seen = filtered.track(2.04 + k * PERIOD, flipped, Q, (0.001, 0.1))
    assert geodesic_angle(seen.pose_WO[3:], flipped[3:]) < 1e-6


def test_what_is_held_moves_with_the_joints_while_no_picture_comes():
    filtered = tracker(drift_position=1e-4, slip_position=0.05)
    for k in range(30):
        before = filtered.track(k * PERIOD, STILL, Q, (0.005, 0.1))
    q, there = np.array(Q), np.array(STILL)
    q[0], there[0] = 0.02, 0.02
    after = filtered.track(30 * PERIOD + 1.0, there + np.array([0.004, 0, 0, 0, 0, 0, 0]), q, (0.005, 0.1))
    assert abs(after.pose_WO[0] - 0.02) < 0.002
    assert before.deviation[0] < after.deviation[0] < 0.005, "less certain than before, more than a picture"
    later = filtered.track(1e3, STILL, q, (0.005, 0.1))
    np.testing.assert_array_equal(later.pose_WO, STILL)
