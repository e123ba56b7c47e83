"""Pictures for calibration, from a folder, a RealSense, or simulated."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from dexstack.errors import ConfigError
from dexstack.model.description import number_list, read_yaml
from dexstack.model.hand import HandModel, load_hand
from dexstack.model.objects import load_object
from dexstack.perception.bundle import base_bundle, object_bundle
from dexstack.perception.camera import CameraModel
from dexstack.perception.camera_params import RealSenseParams, SimulatedCameraParams, usual_mount
from dexstack.perception.hand_eye import fingertip_bundle
from dexstack.perception.images import to_grey
from dexstack.perception.realsense import RealSenseCamera
from dexstack.perception.se3 import Transform, exp
from dexstack.perception.simulated import SimulatedCamera

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")
CAMERA_FILE = "camera.yaml"
PATIENCE = 20.0
"""Longest time until a camera's next picture [s]."""


class PictureSet(NamedTuple):
    """Grey pictures of one camera."""

    pictures: list[np.ndarray]
    camera: CameraModel


def read_camera_file(path: Path) -> CameraModel:
    """Read intrinsics from a YAML with width, height, K (9 numbers), distortion_model and
    distortion.

    Raises:
        ConfigError: a missing or malformed file.
    """
    document = read_yaml(path, ("width", "height", "K"), ("distortion_model", "distortion"))
    size = number_list(path, "width and height", [document["width"], document["height"]], 2)
    d = document.get("distortion") or []
    try:
        return CameraModel.of_info(
            int(size[0]),
            int(size[1]),
            str(document.get("distortion_model") or ("plumb_bob" if d else "")),
            number_list(path, "distortion", d, len(d)),
            number_list(path, "K", document["K"], 9),
        )
    except ConfigError as error:
        raise ConfigError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from None


def read_folder(folder: Path) -> PictureSet:
    """Read all pictures of a folder, with the intrinsics in its ``camera.yaml``.

    Raises:
        ConfigError: no pictures, an unreadable one or one of another size, or no intrinsics.
    """
    camera = read_camera_file(folder / CAMERA_FILE)
    pictures = []
    for path in sorted(p for p in folder.iterdir() if p.suffix.lower() in SUFFIXES):
        picture = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
        if picture is None:
            raise ConfigError(f"{path} is not a picture")
        if picture.shape != (camera.height, camera.width):
            raise ConfigError(
                f"{path} has {picture.shape[1]} x {picture.shape[0]} pixels, {folder / CAMERA_FILE} is for "
                f"{camera.width} x {camera.height}"
            )
        pictures.append(picture)
    if not pictures:
        raise ConfigError(f"there are no pictures ({', '.join(SUFFIXES)}) in {folder}")
    return PictureSet(pictures, camera)


def take_realsense(
    params: RealSenseParams,
    count: int,
    wait: float,
    camera: RealSenseCamera | None = None,
    patience: float = PATIENCE,
) -> PictureSet:
    """Take ``count`` pictures with a connected camera, with pauses of ``wait`` [s].

    Raises:
        ConfigError: the camera cannot be opened, or sends no frame in ``patience`` [s].
    """
    camera = camera or RealSenseCamera(params)
    pictures: list[np.ndarray] = []
    model: CameraModel | None = None
    camera.start()
    try:
        while len(pictures) < count:
            frame = camera.take(patience)
            if frame is None:
                raise ConfigError(camera.trouble or "the camera sends no frames")
            model = frame.camera
            pictures.append(to_grey(frame.data, frame.width, frame.height, frame.encoding))
            time.sleep(wait)
    finally:
        camera.stop()
    assert model is not None
    return PictureSet(pictures, model)


def simulated_hand(side: str, count: int, seed: int) -> PictureSet:
    """Take simulated pictures of the hand's base from the camera's default pose."""
    hand, obj = load_hand(side), load_object("cube")
    params = SimulatedCameraParams()
    camera = SimulatedCamera(
        hand, obj, object_bundle("cube"), params, usual_mount(hand.side), base=base_bundle(), seed=seed
    )
    start = obj.start("allegro", hand.side)
    pictures = [_grey(camera.picture(hand.pose(start.hand_pose), start.pose_WO)) for _ in range(count)]
    return PictureSet(pictures, camera.camera)


FINE = SimulatedCameraParams(image_width=1280, image_height=720, focal_length=920.0)
"""A D435i at its higher resolution."""


def fingertip_camera(hand: HandModel, seed: int) -> tuple[SimulatedCamera, Transform]:
    """Return a simulated camera that sees caps on the fingertips, and its pose in the palm frame.

    The pose differs from the default by up to 2 cm and 3° along every axis, drawn by the seed.
    """
    rng = np.random.default_rng(seed)
    usual = usual_mount(hand.side)
    X_WC = Transform(usual.R @ exp(rng.uniform(-0.05, 0.05, 3)), usual.p + rng.uniform(-0.02, 0.02, 3))
    tips = fingertip_bundle(hand)
    camera = SimulatedCamera(
        hand, load_object("cube"), None, FINE, X_WC, base=base_bundle(), fingertips=tips, seed=seed
    )
    return camera, Transform.of_pose([*hand.p_WP, *hand.quat_WP]).inverse.compose(X_WC)


def simulated_object(name: str, count: int, seed: int, distance: float = 0.35) -> PictureSet:
    """Take simulated pictures of an object alone from all sides."""
    rng = np.random.default_rng(seed)
    params = SimulatedCameraParams()
    camera = SimulatedCamera(
        None, load_object(name), object_bundle(name), params, Transform(np.eye(3), np.zeros(3)), seed=seed
    )
    pictures = []
    for _ in range(count):
        axis = rng.normal(size=3)
        X = Transform(
            exp(axis / np.linalg.norm(axis) * rng.uniform(0, np.pi)),
            np.array([*rng.uniform(-0.05, 0.05, 2), distance]),
        )
        pictures.append(_grey(camera.picture(np.zeros(0), X.pose)))
    return PictureSet(pictures, camera.camera)


def _grey(rgb: np.ndarray) -> np.ndarray:
    return cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
