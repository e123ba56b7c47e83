"""The mount's errors in the covariance of poses, and the watch over the mount by the base's plate."""

from dataclasses import replace

import cv2
import numpy as np
import pytest

from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.perception.bundle import base_bundle, object_bundle
from dexstack.perception.camera import CameraModel
from dexstack.perception.camera_params import MOUNT, EstimatorParams, SimulatedCameraParams
from dexstack.perception.estimator import PoseEstimator, Sight
from dexstack.perception.mount_doubt import MountDoubt, turned
from dexstack.perception.mount_watch import LARGEST, ROW, MountState, MountWatch
from dexstack.perception.pose import solve_bundle
from dexstack.perception.se3 import Transform, difference, exp
from dexstack.perception.simulated import SimulatedCamera
from dexstack.perception.tags import Detection, TagDetector
from tests.dexstack.perception.studio import TILTED

HAND, CUBE, BASE = load_hand("right"), load_object("cube"), base_bundle()
X_WP = Transform.of_pose([*HAND.p_WP, *HAND.quat_WP])
START = CUBE.start("allegro")
IDEAL = SimulatedCameraParams().camera
TURN = np.radians(2.0) * np.array([0.6, 0.0, 0.8])


def moved(X_WC: Transform, turn: np.ndarray, shift: np.ndarray | float = 0.0) -> Transform:
    return Transform(exp(turn) @ X_WC.R, X_WC.p + shift)


def corners(X_WC: Transform, rng: np.random.Generator, noise: float = 0.05) -> list[Detection]:
    """Return the plate's tags in the picture of a camera at ``X_WC``, with a detector's errors [px]."""
    X_CP = X_WC.inverse.compose(X_WP)
    return [
        Detection(
            t,
            IDEAL.project(X_CP.apply(tag.corners)) + noise * rng.normal(size=(4, 2)),
            99.0,
            np.ones(4, bool),
        )
        for t, tag in BASE.tags.items()
    ]


def watch_over(X_WC: Transform = MOUNT, *, learn: bool = False, correct: bool = True, **params) -> MountWatch:
    return MountWatch(BASE, X_WP, X_WC, EstimatorParams(**params), learn, correct)


# --- covariance --------------------------------------------------------------------------------------


def test_the_change_with_the_focal_length_is_a_finite_difference(studio):
    found = TagDetector().detect(studio.grey(TILTED))
    seen = solve_bundle(found, studio.bundle, studio.camera)
    step = 1e-3
    ends = [
        solve_bundle(found, studio.bundle, CameraModel.ideal(640, 480, 615.0 * (1.0 + e))).X_CO
        for e in (step, -step)
    ]
    np.testing.assert_allclose(difference(*ends) / (2 * step), seen.focal, atol=2e-3)
    assert seen.focal[2] == pytest.approx(TILTED.p[2], rel=0.03), "mostly the distance"


def test_a_mounts_error_acts_with_its_lever_arm():
    """Closed form, sampled errors of the mount, and the same uncertainty about another pivot."""
    p = EstimatorParams(mount_error_position=0.002, mount_error_rotation=0.01)
    doubt, p_WO = MountDoubt.calibrated(MOUNT, p), np.array([0.0, 0.02, 0.03])
    P = doubt.of_object(p_WO, np.zeros(6), 0.0)
    arm = np.linalg.norm(p_WO - MOUNT.p)
    assert np.trace(P[:3, :3]) == pytest.approx(3 * 0.002**2 + 2 * (0.01 * arm) ** 2)
    np.testing.assert_allclose(P[3:, 3:], 0.01**2 * np.eye(3))
    rng, X_WO = np.random.default_rng(0), Transform(np.eye(3), p_WO)
    X_CO = MOUNT.inverse.compose(X_WO)
    errors = []
    for _ in range(4000):
        wrong = moved(MOUNT, rng.normal(0, 0.01, 3), rng.normal(0, 0.002, 3))
        errors.append(difference(wrong.compose(X_CO), X_WO))
    scale = np.sqrt(np.outer(np.diag(P), np.diag(P)))
    assert np.abs((np.cov(np.transpose(errors)) - P) / scale).max() < 0.06
    there = MountDoubt(np.ones(3), doubt.of_object(np.ones(3), np.zeros(6), 0.0), np.zeros(6))
    np.testing.assert_allclose(there.of_object(p_WO, np.zeros(6), 0.0), P, atol=1e-15)


def test_an_estimate_holds_pixels_and_calibration(studio):
    grey = studio.grey(TILTED)
    exact = EstimatorParams(mount_error_position=0.0, mount_error_rotation=0.0, focal_error=0.0)
    wide = replace(exact, focal_error=0.02)
    still = Transform(np.eye(3), np.zeros(3))
    a, b = (PoseEstimator(studio.bundle, studio.camera, still, p).process(0.0, grey) for p in (exact, wide))
    more = b.estimate.covariance - a.estimate.covariance
    np.testing.assert_allclose(more, 0.02**2 * np.outer(a.seen.focal, a.seen.focal), atol=1e-12)
    assert np.sqrt(more[2, 2]) == pytest.approx(0.02 * 0.4, rel=0.03)


@pytest.mark.parametrize("error", [0.02, -0.02])
def test_a_focal_errors_part_cancels_between_plate_and_object(error):
    """The corrected mount and its stated change with the focal length, against a camera that has it."""
    wrong, rng = CameraModel.ideal(640, 480, 615.0 * (1.0 + error)), np.random.default_rng(1)
    watch = watch_over(focal_error=0.001)
    for k in range(ROW):
        watch.judge(float(k), corners(MOUNT, rng, 0.01), wrong)
    assert watch.state is MountState.CORRECTED
    off = difference(watch.X_WC.compose(MOUNT.inverse).compose(X_WP), X_WP)
    np.testing.assert_allclose(off, error * watch.doubt.focal, atol=1.5e-3)
    bundle = object_bundle("cube")
    X_CO = MOUNT.inverse.compose(Transform(TILTED.R, np.array(START.pose_WO[:3])))
    X_CO = Transform(TILTED.R, X_CO.p)
    found = [
        Detection(t, IDEAL.project(X_CO.apply(tag.corners)), 99.0, np.ones(4, bool))
        for t, tag in bundle.tags.items()
        if (X_CO.R @ tag.normal) @ X_CO.apply(tag.corners).mean(axis=0) < 0.0
    ]
    seen = solve_bundle(found, bundle, wrong)
    before, after = (
        np.linalg.norm(X.compose(seen.X_CO).p - MOUNT.compose(X_CO).p) for X in (MOUNT, watch.X_WC)
    )
    assert after < 0.5 * before
    X_WO = watch.X_WC.compose(seen.X_CO)
    bound = watch.doubt.of_object(X_WO.p, turned(watch.X_WC.R) @ seen.focal, abs(error))
    assert np.linalg.norm(difference(X_WO, MOUNT.compose(X_CO))[:3]) < 2.0 * np.sqrt(np.trace(bound[:3, :3]))


# --- the watch ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def film():
    """Pictures of a hand at rest by a camera that is turned by 2 degrees in the middle: 4 before and 6
    after."""
    greys = []
    for X_WC, count in ((MOUNT, 4), (moved(MOUNT, TURN), 6)):
        camera = SimulatedCamera(
            HAND, CUBE, object_bundle("cube"), SimulatedCameraParams(), X_WC, base=BASE, seed=3
        )
        for _ in range(count):
            greys.append(cv2.cvtColor(camera.picture(HAND.home, START.pose_WO), cv2.COLOR_RGB2GRAY))
    return greys


def follow(film, **params):
    """Process one picture a second; return the watch, the estimates and the news."""
    p = EstimatorParams(frozen_after=1e5, coast=5.0, **params)
    estimator, watch = PoseEstimator(object_bundle("cube"), IDEAL, MOUNT, p), watch_over(**params)
    estimates, news = [], []
    for t, grey in enumerate(film):
        outcome = estimator.process(float(t), grey)
        news.append(watch.follow(float(t), grey, estimator, outcome.sight))
        estimates.append(outcome.estimate)
    return watch, estimates, news


def error_of(estimate) -> np.ndarray:
    return difference(estimate.X_WO, Transform.of_pose(START.pose_WO))


@pytest.mark.slow
def test_a_camera_that_moves_is_noticed_and_its_mount_corrected(film):
    watch, estimates, news = follow(film)
    assert [bool(n) for n in news] == [False] * 6 + [True] + [False] * 3, "after three looks in a row"
    assert "its mount is corrected by" in news[6] and watch.state is MountState.CORRECTED
    before, after = (np.linalg.norm(error_of(estimates[k])[:3]) for k in (6, 8))
    assert before > 0.010 and after < 0.0015
    assert np.linalg.norm(error_of(estimates[-1])[3:]) < np.radians(0.5)
    true = moved(MOUNT, TURN)
    off = difference(watch.X_WC.compose(true.inverse).compose(X_WP), X_WP)
    assert np.linalg.norm(off[:3]) < 1e-3 and np.linalg.norm(off[3:]) < 3e-3
    assert watch.values()["mount"] == "corrected" and watch.values()["mount_off_m"] < 1e-3


@pytest.mark.slow
def test_a_moved_camera_is_reported_and_its_poses_become_uncertain(film):
    watch, estimates, news = follow(film, mount_watch="report")
    assert watch.X_WC is MOUNT and watch.state is MountState.MOVED
    (said,) = filter(None, news)
    assert "off by" in said and "calibrate" in said and "the camera has moved" in watch.trouble
    error, P = error_of(estimates[-1]), estimates[-1].covariance
    assert error @ np.linalg.solve(P, error) < 12.6 < error @ np.linalg.solve(estimates[3].covariance, error)


@pytest.mark.slow
def test_a_watch_that_is_off_looks_at_nothing(film):
    watch, _, news = follow(film[:2], mount_watch="off")
    assert watch.state is MountState.OFF and not any(news) and watch.values() == {"mount": "off"}


@pytest.mark.slow
def test_a_mount_without_errors_is_never_reported():
    rng, watch = np.random.default_rng(0), watch_over()
    for k in range(120):
        watch.judge(float(k), corners(MOUNT, rng, 0.08), IDEAL)
        assert watch.state is MountState.KEPT or k < 1
    assert watch.corrections == 0 and watch.X_WC is MOUNT
    assert np.sqrt(np.diag(watch.doubt.covariance)).max() < 0.004


@pytest.mark.parametrize(("degrees", "news"), [(0.2, False), (0.8, True)])
def test_the_threshold_lies_near_the_floor(degrees, news):
    rng, watch = np.random.default_rng(0), watch_over(focal_error=0.0)
    T = exp(np.radians(degrees) * np.array([0.0, 1.0, 0.0]))  # about the palm's origin
    there = Transform(T @ MOUNT.R, T @ MOUNT.p)
    for k in range(10):
        watch.judge(float(k), corners(there, rng), IDEAL)
    assert watch.corrections == news


def test_single_disturbed_pictures_and_a_hidden_plate_change_nothing():
    rng, watch = np.random.default_rng(0), watch_over()
    away = moved(MOUNT, np.array([0.0, 0.0, 0.05]))
    assert watch.state is MountState.UNWATCHED, "before the first look"
    for k in range(30):
        watch.judge(float(k), corners(away if k % 3 else MOUNT, rng), IDEAL)
    assert watch.state is MountState.KEPT and watch.X_WC is MOUNT
    doubt = watch.doubt
    for k in range(30, 40):
        watch.judge(float(k), corners(away, rng)[:1], IDEAL)
        covered = [d._replace(clear=np.array([True, True, False, False])) for d in corners(away, rng)]
        watch.judge(k + 0.5, covered, IDEAL)
    assert watch.state is MountState.UNWATCHED and watch.doubt is doubt and watch.X_WC is MOUNT
    assert watch.values() == {"mount": "not watched"}


def test_a_large_displacement_is_reported_only():
    rng, watch = np.random.default_rng(0), watch_over()
    away = moved(MOUNT, np.array([0.0, 0.0, 1.2 * LARGEST[1]]))
    for k in range(5):
        watch.judge(float(k), corners(away, rng), IDEAL)
    assert watch.state is MountState.MOVED and watch.X_WC is MOUNT
    for k in range(5, 10):
        watch.judge(float(k), corners(MOUNT, rng), IDEAL)
    assert watch.state is MountState.KEPT and not watch.trouble


def test_a_mount_by_the_fingers_is_watched_without_trust_in_the_plates_seat():
    """A plate 2 degrees askew is taken as it sits; a later move of the camera is corrected."""
    rng, askew = np.random.default_rng(0), moved(MOUNT, np.radians(2.0) * np.array([0.0, 1.0, 0.0]))
    watch = watch_over(learn=True)
    for k in range(10):
        watch.judge(float(k), corners(askew, rng), IDEAL)
    assert watch.state is MountState.KEPT and watch.X_WC is MOUNT
    assert np.diag(watch.doubt.covariance)[0] > 0.001**2, "the mount is no more certain than before"
    for k in range(10, 20):
        watch.judge(float(k), corners(moved(askew, TURN), rng), IDEAL)
    off = difference(watch.X_WC, moved(MOUNT, TURN))
    assert watch.corrections == 1 and np.linalg.norm(off[:3]) < 2e-3 and np.linalg.norm(off[3:]) < 5e-3


@pytest.mark.slow
def test_looks_are_rare_and_skip_repeated_pictures(film, monkeypatch):
    watch = watch_over()
    looks = []
    monkeypatch.setattr(watch, "judge", lambda t, *rest: looks.append(t) is not None)
    estimator = PoseEstimator(object_bundle("cube"), IDEAL, MOUNT, EstimatorParams())
    monkeypatch.setattr(watch, "_looked", 0.0)
    assert not watch.due(0.9) and watch.due(1.0) and watch.due(-1.0)
    watch.follow(2.0, film[0], estimator, Sight.FROZEN)
    watch.follow(0.5, film[0], estimator, Sight.SEEN)
    assert not looks
    watch.follow(2.0, film[0], estimator, Sight.LOST)
    assert looks == [2.0]
