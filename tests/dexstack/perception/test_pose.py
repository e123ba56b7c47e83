"""Tag detection and bundle pose against the renderer's ground truth."""

import cv2
import numpy as np
import pytest

from dexstack.errors import ConfigError
from dexstack.geometry.rotations import quaternion_of, rotation_matrix
from dexstack.perception.bundle import Tag, TagBundle
from dexstack.perception.camera import CameraModel
from dexstack.perception.camera_params import SimulatedCameraParams
from dexstack.perception.pose import solve_bundle
from dexstack.perception.se3 import Transform, difference, exp, log
from dexstack.perception.tags import Detection, TagDetector, bitmap
from experiments.perception.pictures import measure_static
from tests.acceptance.tracking import CHI2_95
from tests.dexstack.perception.studio import FRONTAL, TILTED, Studio, any_pose


def ideal(bundle: TagBundle, camera: CameraModel, X_CO: Transform, tags: tuple[int, ...]) -> list[Detection]:
    """Return detections without error."""
    return [
        Detection(t, camera.project(X_CO.apply(bundle.tags[t].corners)), 99.0, np.ones(4, bool)) for t in tags
    ]


def test_exp_and_log_are_inverse():
    rng = np.random.default_rng(0)
    for _ in range(50):
        v = rng.normal(size=3)
        v *= rng.uniform(0, 3.1) / np.linalg.norm(v)
        assert np.allclose(log(exp(v)), v, atol=1e-9)
        assert np.allclose(rotation_matrix(quaternion_of(exp(v))), exp(v), atol=1e-12)
        assert np.allclose(exp(v), cv2.Rodrigues(v)[0], atol=1e-12)


def test_the_bitmap_is_the_printed_tag():
    """Upright in the picture, the corners are in the order upper left, upper right, lower right, lower
    left."""
    for tag in (0, 5, 41, 586):
        picture = np.pad(np.kron(bitmap(tag), np.ones((9, 9), np.uint8)), 30, constant_values=255)
        (found,) = TagDetector(decimate=1.0).detect(cv2.GaussianBlur(picture, (0, 0), 0.7))
        low, high = 30 + 9 - 0.5, 30 + 81 - 0.5
        assert found.tag == tag and found.clear.all()
        # edges along the pixels are the worst case
        assert np.abs(found.corners - [[low, low], [high, low], [high, high], [low, high]]).max() < 0.3
    with pytest.raises(ConfigError, match="not 587"):
        bitmap(587)


def test_the_pose_of_exact_corners_is_exact():
    studio = Studio(pixel_noise=0.0)
    rng = np.random.default_rng(1)
    for _ in range(20):
        X = any_pose(rng)
        tags = tuple(
            t
            for t, tag in studio.bundle.tags.items()
            if (X.R @ tag.normal) @ X.apply(tag.corners).mean(axis=0) < -0.1
        )
        if not tags:
            continue
        seen = solve_bundle(ideal(studio.bundle, studio.camera, X, tags), studio.bundle, studio.camera)
        assert seen.tags == tags and seen.residual < 1e-4
        assert np.abs(difference(seen.X_CO, X)).max() < 1e-6


def test_lens_distortion_is_corrected():
    flat = Studio().bundle
    camera = CameraModel(
        640,
        480,
        np.array([[615.0, 0, 322], [0, 612.0, 241], [0, 0, 1]]),
        np.array([0.12, -0.25, 0.001, -0.002, 0.05]),
    )
    seen = solve_bundle(ideal(flat, camera, TILTED, (0, 2, 4)), flat, camera) or solve_bundle(
        ideal(flat, camera, TILTED, (0, 3, 5)), flat, camera
    )
    assert np.abs(difference(seen.X_CO, TILTED)).max() < 1e-4


def test_a_misplaced_tag_is_an_outlier(studio):
    found = TagDetector(decimate=1.0).detect(studio.grey(TILTED))
    assert len(found) == 3
    wrong = dict(studio.bundle.tags)
    t = found[1].tag
    wrong[t] = Tag(
        t, wrong[t].edge, Transform(wrong[t].X_OT.R, wrong[t].X_OT.p + wrong[t].X_OT.R @ [0.006, 0.0, 0.0])
    )
    seen = solve_bundle(found, TagBundle("askew", wrong), studio.camera)
    assert seen.outliers == (t,)
    assert np.linalg.norm(difference(seen.X_CO, TILTED)[:3]) < 1e-3


def test_the_corners_of_a_covered_edge_do_not_count():
    """A finger over one edge shifts its corners; with half of the corners the distance is half as
    accurate."""
    studio = Studio()
    ratios = []
    for _ in range(10):
        grey = studio.grey(FRONTAL)
        whole = next(d for d in TagDetector(decimate=1.0).detect(grey) if d.tag == 0)
        assert whole.clear.all()
        x, y = whole.corners[2:].mean(axis=0)
        covered = cv2.circle(grey.copy(), (round(x), round(y) + 10), 14, 120, -1, cv2.LINE_AA)
        touched = next(d for d in TagDetector(decimate=1.0).detect(covered) if d.tag == 0)
        assert not touched.clear[2:].any() and touched.clear[:2].all()
        seen, free = (solve_bundle([d], studio.bundle, studio.camera) for d in (touched, whole))
        assert seen.covered and not free.covered
        ratios.append(np.sqrt(seen.covariance[2, 2] / free.covariance[2, 2]))
    assert min(ratios) > 1.5 and np.median(ratios) > 1.8


def test_the_prediction_decides_between_two_poses_of_one_face():
    """A distant square looks the same in two poses."""
    studio = Studio()
    X = Transform(exp(np.array([0.45, 0.0, 0.0])) @ np.diag([1.0, -1.0, -1.0]), np.array([0.0, 0.0, 1.6]))
    (d,) = ideal(studio.bundle, studio.camera, X, (0,))
    d = d._replace(corners=d.corners + np.random.default_rng(0).normal(0, 0.05, (4, 2)))
    alone = solve_bundle([d], studio.bundle, studio.camera)
    assert alone.other is not None
    for guess in (alone.X_CO, alone.other):
        chosen = solve_bundle([d], studio.bundle, studio.camera, guess)
        assert chosen.other is None and np.linalg.norm(difference(chosen.X_CO, guess)[3:]) < 0.05


def test_there_is_no_pose_without_tags(studio):
    assert solve_bundle([], studio.bundle, studio.camera) is None
    assert (
        solve_bundle(ideal(studio.bundle, studio.camera, TILTED, (0,)), TagBundle("other", {}), studio.camera)
        is None
    )
    assert TagDetector().detect(np.full((480, 640), 90, np.uint8)) == []


def test_errors_on_pictures_are_small_and_agree_with_the_covariance():
    """The limits of `experiments.perception.pictures`, on fewer pictures."""
    r = measure_static(SimulatedCameraParams(), 60, 0.4, seed=3)
    assert r.unseen == 0 and len(r.two_faces.shift) > 30
    for k, (metres, degrees) in {50: (0.3e-3, 0.3), 95: (1e-3, 1.0)}.items():
        assert np.percentile(r.two_faces.shift, k) < metres
        assert np.degrees(np.percentile(r.two_faces.turn, k)) < degrees
    assert np.degrees(np.percentile(r.one_face.turn, 95)) < 3.0
    for errors in (r.two_faces, r.one_face):
        assert 2.0 < errors.nees.mean() < 12.0, "6 where the covariance is right"
        assert (errors.nees < CHI2_95).mean() > 0.85


@pytest.mark.parametrize(
    ("k", "d", "model", "message"),
    [
        (np.zeros(9), [], "plumb_bob", "all zero: the camera is not calibrated"),
        ([np.nan, 0, 320, 0, 600, 240, 0, 0, 1], [], "plumb_bob", "finite"),
        ([600, 0, 320, 0, -600, 240, 0, 0, 1], [], "plumb_bob", "must be positive"),
        ([600, 0, 9000, 0, 600, 240, 0, 0, 1], [], "plumb_bob", "far outside"),
        ([600, 0, 320, 0, 600, 240, 0, 0, 1], [0.1, 0.2], "plumb_bob", "2 distortion coefficients"),
        ([600, 0, 320, 0, 600, 240, 0, 0, 1], [0.1] * 8, "plumb_bob", "8 distortion coefficients"),
        ([600, 0, 320, 0, 600, 240, 0, 0, 1], [0.1] * 4, "equidistant", "'equidistant' is not known"),
        ([600, 0, 0, 0, 600, 0, 320, 240, 1], [], "plumb_bob", "row by row and without skew"),
        ([600, 40, 320, 0, 600, 240, 0, 0, 1], [], "plumb_bob", "row by row and without skew"),
    ],
)
def test_invalid_intrinsics_are_rejected(k, d, model, message):
    with pytest.raises(ConfigError, match=message):
        CameraModel.of_info(640, 480, model, d, k)


def test_rectified_pictures_with_lens_distortion_are_refused():
    K = np.array([[600.0, 0, 320], [0, 600, 240], [0, 0, 1]])
    raw, rectified = (CameraModel(640, 480, K, np.array(d)) for d in ([0.1, 0.0, 0.0, 0.0, 0.0], []))
    raw.check_topic("/camera/rectangle/image_raw")
    rectified.check_topic("/camera/image_rect_color")
    with pytest.raises(ConfigError, match=r"/camera/image_rect_color are rectified .*image_raw"):
        raw.check_topic("/camera/image_rect_color")


@pytest.mark.parametrize(
    ("model", "given", "used"),
    [
        ("plumb_bob", [0.1, 0.2, 0.0, 0.0, 0.3, 0.0, 0.0, 0.0], [0.1, 0.2, 0.0, 0.0, 0.3]),
        ("plumb_bob", [0.1, 0.2, 0.01, 0.02], [0.1, 0.2, 0.01, 0.02, 0.0]),
        ("rational_polynomial", [*[0.1] * 8, *[0.0] * 6], [0.1] * 8),
        ("rational_polynomial", [0.1] * 5, [*[0.1] * 5, 0.0, 0.0, 0.0]),
        ("equidistant", [0.0] * 4, []),
    ],
)
def test_coefficients_of_other_lengths_are_completed_or_cut_by_zeros(model, given, used):
    camera = CameraModel.of_info(640, 480, model, given, [600, 0, 320, 0, 600, 240, 0, 0, 1])
    assert camera.distortion.tolist() == used
