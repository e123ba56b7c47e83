"""Calibration of the camera's pose in the palm frame, from pictures of the tags on the hand's base."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import yaml
from scipy.optimize import least_squares

from dexstack.errors import ConfigError
from dexstack.files import write_text
from dexstack.model.description import number_list, quaternion, read_yaml
from dexstack.model.hand import HandModel
from dexstack.perception.bundle import TagBundle
from dexstack.perception.camera import CameraModel
from dexstack.perception.hand_eye import HandEye
from dexstack.perception.pose import solve_bundle
from dexstack.perception.se3 import Transform, difference, exp
from dexstack.perception.tags import Detection

PLATE, FINGERS = "plate", "fingers"
"""Tags by which a mount was measured."""


class CameraCalibration(NamedTuple):
    """Result of a calibration."""

    X_PC: Transform
    """The camera in the palm frame."""
    reprojection: float
    """Root mean square reprojection error of a corner [px]."""
    worst: float
    """Largest reprojection error [px]."""
    spread: np.ndarray
    """(6,) standard deviation from picture to picture [m, rad], along the palm's axes."""
    pictures: int
    tags: tuple[int, ...]
    """Tags used."""
    outliers: tuple[int, ...]
    """Tags of the base that do not agree with its YAML."""
    focal_ratio: float
    """Best-fitting focal length relative to the camera's: far from 1 if the intrinsics, or the tags'
    printed size, are wrong."""
    focal_sigma: float
    """Standard deviation of that ratio."""


def calibrate_camera(
    pictures: Sequence[Sequence[Detection]], base: TagBundle, camera: CameraModel
) -> CameraCalibration:
    """Calibrate the camera's pose from several pictures of tags at rest in the palm frame.

    Raises:
        ConfigError: too few pictures show the tags, or the tags contradict the bundle.
    """
    solved = [
        (d, s) for d in pictures if (s := solve_bundle(d, base, camera)) is not None and s.other is None
    ]
    if len(solved) < 3:
        raise ConfigError(
            f"{len(solved)} of {len(pictures)} pictures show tags of the bundle '{base.name}' clearly "
            "enough; three are needed"
        )
    means = []
    for tag in sorted({t for _, s in solved for t in (*s.tags, *s.outliers)}):
        # at rest: the median corners of all pictures are one picture with less noise
        shown = [d for found, _ in solved for d in found if d.tag == tag]
        corners, clear = (np.array([getattr(d, key) for d in shown]) for key in ("corners", "clear"))
        means.append(Detection(tag, np.median(corners, axis=0), 100.0, clear.mean(axis=0) > 0.5))
    mean = solve_bundle(means, base, camera)
    if mean is None:
        raise ConfigError(
            f"the tags of the bundle '{base.name}' contradict each other: check its YAML, and that nothing "
            "moved"
        )
    X_PC = mean.X_CO.inverse
    means = [d for d in means if d.tag in mean.tags]
    each = np.array([difference(s.X_CO.inverse, X_PC) for _, s in solved])
    expected = [camera.project(mean.X_CO.apply(base.tags[d.tag].corners)) for d in means]
    misses = np.linalg.norm(np.array([d.corners for d in means]) - expected, axis=2)
    ratio, sigma = _focal_ratio(means, base, camera, mean.X_CO)
    return CameraCalibration(
        X_PC=X_PC,
        reprojection=float(np.sqrt((misses**2).mean())),
        worst=float(misses.max()),
        spread=each.std(axis=0),
        pictures=len(solved),
        tags=mean.tags,
        outliers=mean.outliers,
        focal_ratio=ratio,
        focal_sigma=sigma,
    )


def _focal_ratio(
    means: Sequence[Detection], base: TagBundle, camera: CameraModel, X_CO: Transform
) -> tuple[float, float]:
    """Return the factor on the focal length with which the tags fit best, and its standard deviation;
    the pose is adjusted with it."""
    points = np.concatenate([base.tags[d.tag].corners for d in means])
    uv = np.concatenate([camera.normalised(d.corners) for d in means])

    def residuals(x: np.ndarray) -> np.ndarray:
        p_C = Transform(exp(x[3:6]) @ X_CO.R, X_CO.p + x[:3]).apply(points)
        return (x[6] * p_C[:, :2] / p_C[:, 2:] - uv).ravel()

    fit = least_squares(residuals, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], x_scale="jac", xtol=1e-12, ftol=1e-12)
    variance = max(2.0 * fit.cost / max(uv.size - 7, 1), (0.03 / camera.focal) ** 2)
    return float(fit.x[6]), float(np.sqrt(variance * np.linalg.pinv(fit.jac.T @ fit.jac)[6, 6]))


def save_mount(path: str | Path, c: CameraCalibration | HandEye, camera: CameraModel) -> None:
    """Write a file for :func:`load_mount`.

    Raises:
        ConfigError: the file cannot be written.
    """
    document = {
        "position": [round(float(x), 6) for x in c.X_PC.p],
        "quaternion": [round(float(x), 8) for x in c.X_PC.pose[3:]],
        "reprojection_px": round(c.reprojection, 4),
        "pictures": c.pictures,
        "measured": f"{datetime.now():%Y-%m-%d %H:%M}",
        "by": FINGERS if isinstance(c, HandEye) else PLATE,
        "camera": camera.document(),
    }
    text = yaml.safe_dump(document, sort_keys=False, default_flow_style=None)
    comment = "# The camera's optical frame in the palm frame [m, w x y z]. Written by dexstack calibrate."
    write_text(path, f"{comment}\n{text}")


def load_mount(path: str | Path, hand: HandModel) -> Transform:
    """Read the optical frame in the world, X_WC.

    Raises:
        ConfigError: a missing or malformed file.
    """
    path = Path(path)
    document = _read_mount(path)
    position = number_list(path, "position", document["position"], 3)
    X_PC = Transform.of_pose([*position, *quaternion(path, "quaternion", document["quaternion"])])
    return Transform.of_pose([*hand.p_WP, *hand.quat_WP]).compose(X_PC)


def measured_by_fingers(path: str | Path) -> bool:
    """Return whether a mount was measured by the fingertips' tags, without the plate on the base.

    Raises:
        ConfigError: a missing or malformed file.
    """
    return _read_mount(Path(path)).get("by") == FINGERS


def _read_mount(path: Path) -> dict[str, Any]:
    document = read_yaml(
        path, ("position", "quaternion"), ("reprojection_px", "pictures", "measured", "by", "camera")
    )
    if document.get("by", PLATE) not in (PLATE, FINGERS):
        raise ConfigError(f"{path}: 'by' must be {PLATE} or {FINGERS}, got {document['by']!r}")
    return document


def reprojection_picture(
    image: np.ndarray, found: Sequence[Detection], bundle: TagBundle, camera: CameraModel, X_CO: Transform
) -> Any:
    """Draw the detected tags (green) and the reprojection errors, 50 times enlarged (red), as (height,
    width, 3) uint8 RGB."""
    picture = cv2.cvtColor(image, cv2.COLOR_GRAY2RGB) if image.ndim == 2 else image.copy()
    for d in found:
        if d.tag not in bundle.tags:
            continue
        expected = camera.project(X_CO.apply(bundle.tags[d.tag].corners))
        cv2.polylines(
            picture, [np.round(16 * d.corners).astype(np.int32)], True, (40, 200, 60), 1, cv2.LINE_AA, 4
        )
        for seen, there in zip(d.corners, expected, strict=True):
            far = seen + 50.0 * (there - seen)
            a, b = (tuple(np.round(16 * x).astype(int).tolist()) for x in (seen, far))
            cv2.line(picture, a, b, (230, 60, 40), 1, cv2.LINE_AA, 4)
        x, y = np.round(d.corners.mean(axis=0)).astype(int).tolist()
        miss = np.linalg.norm(d.corners - expected, axis=1).mean()
        font = cv2.FONT_HERSHEY_SIMPLEX, 0.4, (40, 80, 230), 1, cv2.LINE_AA
        cv2.putText(picture, f"{d.tag}: {miss:.2f} px", (x - 30, y), *font)
    return picture
