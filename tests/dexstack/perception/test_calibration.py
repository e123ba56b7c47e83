"""Camera pose, tag layout and printed sheets, each against its ground truth."""

import dataclasses
import re

import cv2
import matplotlib as mpl
import numpy as np
import pytest

from dexstack.cli.main import main
from dexstack.config import make_params
from dexstack.errors import ConfigError
from dexstack.model.hand import load_hand
from dexstack.perception.bundle import Tag, TagBundle, base_bundle, load_bundle, object_bundle
from dexstack.perception.calibration import calibrate_camera, load_mount
from dexstack.perception.camera import CameraModel
from dexstack.perception.camera_params import MOUNT, MountParams, usual_mount
from dexstack.perception.layout import learn_layout
from dexstack.perception.se3 import Transform, difference, exp
from dexstack.perception.sheet import place, rectangles, whole, write_sheet
from dexstack.perception.sources import read_folder, simulated_hand
from dexstack.perception.tags import Detection, TagDetector, bitmap
from tests.dexstack.perception.studio import Studio, any_pose


@pytest.mark.parametrize("side", ["right", "left"])
def test_the_cameras_pose_is_found(tmp_path, side):
    """The command, its file, and the frame conventions from palm to world."""
    path = tmp_path / "mount.yaml"
    command = ["calibrate", "camera", "--source", "sim", "--hand", side, "--pictures", "8"]
    assert main([*command, "--output", str(path), "--json", str(tmp_path / "r.json")]) == 0
    way = difference(load_mount(path, load_hand(side)), usual_mount(side))
    assert np.linalg.norm(way[:3]) < 1.5e-3 and np.linalg.norm(way[3:]) < 4e-3
    picture = cv2.imread(str(path.with_suffix(".png")))
    assert picture.shape == (480, 640, 3)


def test_the_default_pose_is_mirrored_for_a_left_hand_and_a_chosen_one_is_not():
    lists = {f.name: list(f.default) for f in dataclasses.fields(MountParams)}  # as a node's parameters
    right, left = (make_params(MountParams, lists).X_WC(side) for side in ("right", "left"))
    assert right == MOUNT
    mirror = np.diag([1.0, -1.0, 1.0])
    np.testing.assert_allclose(left.p, mirror @ right.p)
    np.testing.assert_allclose(left.R[:, 2], mirror @ right.R[:, 2], atol=1e-12)
    assert np.linalg.det(left.R) > 0
    chosen = MountParams(camera_position=(0.0, 0.1, 0.4))
    assert np.allclose(chosen.X_WC("left").p, [0.0, 0.1, 0.4])


def test_wrong_intrinsics_and_a_moved_tag_are_detected():
    recording = simulated_hand("right", 6, 0)
    base = base_bundle()
    found = [TagDetector(decimate=1.0).detect(p) for p in recording.pictures]
    good = calibrate_camera(found, base, recording.camera)
    assert good.reprojection < 0.15 and abs(good.focal_ratio - 1.0) < 3 * good.focal_sigma + 0.01
    K = recording.camera.K.copy()
    K[[0, 1], [0, 1]] *= 1.15
    wrong = calibrate_camera(found, base, CameraModel(640, 480, K, np.zeros(0)))
    assert wrong.focal_ratio == pytest.approx(1 / 1.15, abs=0.02)
    assert 1.0 - wrong.focal_ratio > 3 * wrong.focal_sigma
    askew = dict(base.tags)
    askew[40] = Tag(40, 0.024, Transform(askew[40].X_OT.R, askew[40].X_OT.p + np.array([0.0, 0.008, 0.0])))
    without = calibrate_camera(found, TagBundle("base", askew), recording.camera)
    assert without.outliers == (40,) and np.abs(difference(without.X_PC, good.X_PC)[:3]).max() < 2e-3
    with pytest.raises(ConfigError, match="0 of 2 pictures show tags"):
        calibrate_camera([[], []], base, recording.camera)


def observed(
    truth: TagBundle, camera: CameraModel, X_CO: Transform, rng: np.random.Generator
) -> list[Detection]:
    """Return the detections in a picture of ``truth``, with a detector's errors."""
    found = []
    for tag in truth.tags.values():
        p_C = X_CO.apply(tag.corners)
        if (X_CO.R @ tag.normal) @ p_C.mean(axis=0) < -0.3 * np.linalg.norm(p_C.mean(axis=0)):
            corners = camera.project(p_C) + rng.normal(0, 0.06, (4, 2))
            found.append(Detection(tag.tag, corners, 99.0, np.ones(4, bool)))
    return found


def displaced(tag: Tag, rng: np.random.Generator) -> Tag:
    R = exp(rng.normal(0, 0.1, 3)) @ tag.X_OT.R
    return Tag(tag.tag, tag.edge, Transform(R, tag.X_OT.p + rng.normal(0, 0.003, 3)))


@pytest.mark.parametrize("anchor", [None, 2])
def test_a_roughly_known_layout_is_learned(anchor):
    rng = np.random.default_rng(0)
    nominal, camera = object_bundle("cube"), Studio().camera
    tags = {t: tag if t == anchor else displaced(tag, rng) for t, tag in nominal.tags.items()}
    truth = TagBundle("cube", tags)
    pictures = [observed(truth, camera, any_pose(rng, 0.35), rng) for _ in range(40)]
    layout = learn_layout(pictures, nominal, camera, anchor)
    assert layout.residual < 0.15 and set(layout.bundle.tags) == set(truth.tags)
    first = 2 if anchor is None else anchor  # relative to one tag, the frame does not matter
    for t in truth.tags:
        a, b = (x.tags[first].X_OT.inverse.compose(x.tags[t].X_OT) for x in (layout.bundle, truth))
        way = difference(a, b)
        assert np.linalg.norm(way[:3]) < 0.5e-3 and np.linalg.norm(way[3:]) < 0.01, t
    if anchor is not None:
        assert np.abs(difference(layout.bundle.tags[2].X_OT, nominal.tags[2].X_OT)).max() < 1e-9
    assert max(p for p, _ in layout.moved.values()) > 2e-3


def test_a_layout_needs_pictures_with_several_tags():
    rng = np.random.default_rng(1)
    nominal, camera = object_bundle("cube"), Studio().camera
    alone = [observed(nominal, camera, any_pose(rng), rng)[:1] for _ in range(10)]
    with pytest.raises(ConfigError, match="no picture shows two tags"):
        learn_layout(alone, nominal, camera)
    with pytest.raises(ConfigError, match="has no tag 99"):
        learn_layout(alone, nominal, camera, anchor=99)


def test_the_layout_command_finds_the_tags(tmp_path):
    path = tmp_path / "tags.yaml"
    command = ["calibrate", "tags", "--source", "sim", "--pictures", "12"]
    assert main([*command, "--output", str(path), "--json", str(tmp_path / "r.json")]) == 0
    assert np.abs(load_bundle(path).points - object_bundle("cube").points).max() < 1e-3


def test_a_sheet_is_true_to_scale(tmp_path):
    """Read back from the PDF: page size and the black squares."""
    with mpl.rc_context({"pdf.compression": 0}):
        assert write_sheet(tmp_path / "a.pdf", object_bundle("cube"), "a4") == 1
    text = (tmp_path / "a.pdf").read_bytes().decode("latin-1")
    mm = 72 / 25.4
    box = [float(x) for x in re.search(r"/MediaBox\s*\[\s*([\d. ]+)\]", text)[1].split()]
    assert box[2:] == pytest.approx([210 * mm, 297 * mm], abs=0.01)
    sides = []
    for path in re.findall(r"((?:[\d.]+ [\d.]+ [ml]\n)+)h\n", text):
        points = np.array([line.split()[:2] for line in path.splitlines()], float)
        sides.append(np.ptp(points, axis=0) / mm)
    squares = [s for s in sides if s == pytest.approx([40.0, 40.0], abs=0.01)]
    borders = [s for s in sides if s == pytest.approx([50.0, 50.0], abs=0.01)]
    assert len(squares) == len(borders) == 6


@pytest.mark.parametrize("name", ["cube", "foambrick", "stick"])
def test_a_printed_tag_is_detected_upright(name):
    for tag in object_bundle(name).tags.values():
        scale = 6.0  # px per mm
        size = round(whole(tag) * scale)
        page = np.full((size, size), 255, np.uint8)
        for white, left, bottom, width, height in rectangles(tag):
            columns = np.round(np.array([left, left + width]) * scale).astype(int)
            rows = np.round((whole(tag) - np.array([bottom + height, bottom])) * scale).astype(int)
            page[rows[0] : rows[1], columns[0] : columns[1]] = 255 if white else 0
        small = cv2.resize(page, (100, 100), interpolation=cv2.INTER_AREA)
        modules = cv2.resize(small, (10, 10), interpolation=cv2.INTER_AREA)
        assert np.abs(modules.astype(int) - bitmap(tag.tag)).max() < 60
        (found,) = TagDetector(decimate=1.0).detect(np.pad(small, 30, constant_values=255))
        assert found.tag == tag.tag and found.corners[0] == pytest.approx([39.5, 39.5], abs=1.0)


def test_tags_on_a_sheet_do_not_overlap():
    big = TagBundle("big", {t: Tag(t, 0.06, Transform(np.eye(3), np.zeros(3))) for t in range(9)})
    pages = place(big, "letter")
    assert len(pages) > 1 and sum(map(len, pages)) == 9
    for page in pages:
        spots = np.array([(left, bottom) for _, left, bottom in page])
        apart = np.abs(spots[:, None] - spots[None]).max(axis=2) + 1e3 * np.eye(len(spots))
        assert apart.min() > 75.0 and spots.min() > 10.0
    with pytest.raises(ConfigError, match="does not fit"):
        place(TagBundle("huge", {0: Tag(0, 0.2, Transform(np.eye(3), np.zeros(3)))}), "a4")
    with pytest.raises(ConfigError, match="paper must be one of"):
        place(big, "a0")


def png(height: int, width: int) -> bytes:
    return cv2.imencode(".png", np.zeros((height, width), np.uint8))[1].tobytes()


CAMERA = b"width: 640\nheight: 480\nK: [600, 0, 320, 0, 600, 240, 0, 0, 1]\n"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "cannot read"),
        ({"camera.yaml": CAMERA}, "no pictures"),
        ({"camera.yaml": CAMERA, "b.png": png(48, 64)}, r"b\.png has 64 x 48 pixels"),
        ({"camera.yaml": CAMERA, "b.png": b"no picture"}, r"b\.png is not a picture"),
        (
            {
                "camera.yaml": b"width: 640\nheight: 480\nK: [0, 0, 0, 0, 0, 0, 0, 0, 0]\n",
                "a.png": png(480, 640),
            },
            "all zero",
        ),
    ],
)
def test_folders_of_pictures_are_checked(tmp_path, files, message):
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        read_folder(tmp_path)


def test_a_folder_of_pictures_is_read(tmp_path):
    (tmp_path / "camera.yaml").write_bytes(CAMERA)
    (tmp_path / "a.png").write_bytes(png(480, 640))
    assert len(read_folder(tmp_path).pictures) == 1
