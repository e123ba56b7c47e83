"""The filter: its covariance against samples of the model, rejected observations, and the estimator
on top of it."""

import numpy as np
import pytest

from dexstack.perception.camera_params import EstimatorParams, SimulatedCameraParams
from dexstack.perception.estimator import PoseEstimator, Sight
from dexstack.perception.filter import AGREE, PoseFilter
from dexstack.perception.se3 import Transform, difference, exp
from experiments.perception.pictures import measure_tracking
from tests.acceptance.tracking import CHI2_95, Motion, occlusions
from tests.dexstack.perception.studio import FRONTAL, TILTED

STILL = Transform(np.eye(3), np.zeros(3))
SIGMA = np.array([1e-3] * 3 + [5e-3] * 3)


def wander(rng: np.random.Generator, p: EstimatorParams, seconds: float, dt: float) -> list[Transform]:
    """Draw a motion from the filter's model."""
    v, X, path = np.zeros(6), STILL, []
    q = np.array([p.acceleration_noise] * 3 + [p.turn_noise] * 3)
    for _ in range(round(seconds / dt)):
        v = v * (1 - dt / p.velocity_memory) + q * np.sqrt(dt) * rng.normal(size=6)
        X = Transform(exp(v[3:] * dt) @ X.R, X.p + v[:3] * dt)
        path.append(X)
    return path


def make(p: EstimatorParams) -> PoseFilter:
    return PoseFilter(p.acceleration_noise, p.turn_noise, p.velocity_memory)


def test_normalised_errors_are_chi_square_on_the_model_and_through_occlusions():
    p = EstimatorParams(turn_noise=3.0)
    nees = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        path = wander(rng, p, 10.0, 1 / 300)[::10]
        hidden = occlusions(len(path), 30.0, 0.3, rng)
        f = make(p)
        for k, X in enumerate(path):
            e = SIGMA * rng.normal(size=6)
            if hidden[k] and f.running:
                f.predict(k / 30)
            else:
                assert f.update(k / 30, Transform(exp(e[3:]) @ X.R, X.p + e[:3]), np.diag(SIGMA**2))
            d = difference(f.X, X)
            nees.append(d @ np.linalg.solve(f.covariance, d))
    assert np.mean(nees) == pytest.approx(6.0, rel=0.15)
    assert (np.array(nees) < CHI2_95).mean() > 0.92


def test_the_predicted_covariance_is_the_spread_of_the_model():
    p = EstimatorParams(turn_noise=3.0, acceleration_noise=0.2)
    f = make(p)
    f.update(0.0, STILL, np.diag(SIGMA**2))
    f.P[6:] = f.P[:, 6:] = 0.0  # at rest for certain
    f.predict(0.2)
    ends = np.array(
        [difference(wander(np.random.default_rng(s), p, 0.2, 2e-3)[-1], STILL) for s in range(250)]
    )
    assert np.sqrt(np.diag(f.covariance) - SIGMA**2) == pytest.approx(ends.std(axis=0), rel=0.2)


def test_a_wrong_observation_is_rejected_and_a_new_place_is_accepted_when_it_persists():
    f = make(EstimatorParams())
    for k in range(30):
        f.update(k / 30, STILL, np.diag(SIGMA**2))
    far = Transform(exp(np.array([0.0, 1.0, 0.0])), np.array([0.1, 0.0, 0.0]))
    assert not f.update(1.0, far, np.diag(SIGMA**2))
    assert np.abs(difference(f.X, STILL)).max() < 1e-3
    assert f.update(1.0 + 1 / 30, STILL, np.diag(SIGMA**2))
    taken = [f.update(1.1 + k / 30, far, np.diag(SIGMA**2)) for k in range(AGREE)]
    assert taken == [False] * (AGREE - 1) + [True]
    assert np.abs(difference(f.X, far)).max() < 1e-9


@pytest.fixture(scope="module")
def swinging() -> Motion:
    """The cube swings before the camera, with two or three faces in view."""
    t = np.arange(0.0, 8.0, 0.02)
    turns, places = np.zeros((2, len(t), 3))
    turns[:, 2], places[:, 2] = 0.5 * np.sin(2.0 * t), 0.04 + 0.01 * np.sin(3.0 * t)
    pose = [Transform(exp(turn), place).pose for turn, place in zip(turns, places, strict=True)]
    return Motion(t, np.zeros((len(t), 0)), np.array(pose))


@pytest.mark.slow
def test_errors_on_a_film_with_occlusions_agree_with_the_covariance(swinging):
    r = measure_tracking(swinging, SimulatedCameraParams(), 0.3, seed=0)
    assert r.occluded > 0.2 * r.frames and r.wrong_jumps == 0
    nees = np.concatenate([r.seen.nees, r.predicted.nees])
    assert (nees < CHI2_95).mean() > 0.9
    assert np.percentile(r.seen.shift, 95) < 1e-3 and np.degrees(np.percentile(r.seen.turn, 95)) < 1.0


def test_the_pose_is_lost_after_the_coasting_time(studio):
    estimator = PoseEstimator(
        studio.bundle, studio.camera, STILL, EstimatorParams(coast=0.2, frozen_after=1.0)
    )
    grey, nothing = studio.grey(TILTED), np.full((480, 640), 90, np.uint8)
    assert estimator.process(0.0, nothing).estimate is None
    first = estimator.process(0.1, grey)
    assert first.sight is Sight.SEEN and first.estimate.t == 0.1
    spread = np.trace(first.estimate.covariance)
    for t in (0.15, 0.2, 0.25, 0.3):
        later = estimator.process(t, nothing)
        assert later.sight is Sight.PREDICTED and np.trace(later.estimate.covariance) > spread
        spread = np.trace(later.estimate.covariance)
    lost = estimator.process(0.35, nothing)
    assert lost.sight is Sight.LOST and lost.estimate is None
    assert estimator.process(0.4, grey).sight is Sight.SEEN


def test_pictures_out_of_order_are_not_used(studio):
    estimator = PoseEstimator(studio.bundle, studio.camera, STILL, EstimatorParams())
    grey = studio.grey(TILTED)
    assert estimator.process(5.0, grey).sight is Sight.SEEN
    assert estimator.process(4.9, grey).sight is Sight.STALE and estimator.process(5.0, grey).estimate is None
    assert estimator.process(0.0, grey).sight is Sight.SEEN, "a clock that was set back restarts it"


def test_a_covariance_in_the_world_turns_with_the_camera(studio):
    grey = studio.grey(FRONTAL)
    X_WC = Transform(exp(np.array([0.0, 0.0, np.pi / 2])), np.zeros(3))
    pixels = EstimatorParams(mount_error_position=0.0, mount_error_rotation=0.0, focal_error=0.0)
    estimators = [PoseEstimator(studio.bundle, studio.camera, X, pixels) for X in (STILL, X_WC)]
    # one face needs a second picture
    here, there = ([e.process(t, grey) for t in (1.0, 1.03)][-1].estimate for e in estimators)
    assert np.allclose(there.X_WO.p, X_WC.R @ here.X_WO.p)
    swap = np.kron(np.eye(2), X_WC.R)
    assert np.allclose(there.covariance, swap @ here.covariance @ swap.T)
    assert here.covariance[2, 2] > 4 * here.covariance[0, 0], "depth is the least certain"
