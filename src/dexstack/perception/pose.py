"""Pose of a tag bundle from all of its corners in an image.

The corners' places p_O are known and their pixels observed. The pose X_CO minimises

    Σ_i ρ(‖ u_i − f π(X_CO p_O,i) ‖ / σ_i),     ρ Cauchy's, robust to misread and misplaced tags,

by Gauss–Newton over left perturbations (δp, δθ) along the camera's axes, in the undistorted plane z
= 1 times the focal length f. It starts from both poses of every single tag (a square seen nearly
flat fits two, mirrored in the line of sight: OpenCV's IPPE) and from a filter's prediction. A second
visible face resolves the ambiguity, otherwise the prediction does. The covariance is s² (JᵀJ)⁻¹,
residuals and J in units of σ, with s² from the residuals, shrunk towards 1 because one tag leaves
only two degrees of freedom. It holds the noise of the corners only; errors of the calibration are added by
:mod:`dexstack.perception.mount_doubt`. σ_i is larger for tags that are small or seen from the side
(:func:`corner_sigma`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import cv2
import numpy as np

from dexstack.perception.bundle import CORNERS, TagBundle
from dexstack.perception.camera import CameraModel
from dexstack.perception.se3 import Transform, difference, exp
from dexstack.perception.tags import Detection

SIGMA = 0.055
"""Expected standard deviation of a corner's coordinate of a large tag [px]."""
CLEAR = 30.0
"""Width of a tag in the picture below which σ grows [px]."""
PRIOR_FREEDOM = 8.0
"""Degrees of freedom of the expected σ."""
COVERED = 20.0
"""Factor on σ of a corner at a partly covered edge."""
OUTLIER = 10.0
"""Root mean square residual of an outlier tag's corners [σ]."""
DECIDED = 12.0
"""Difference of χ² between the two best poses above which the image alone decides."""
SQUARE = 30.0
"""Largest χ² of a pose's only tag (2 degrees of freedom); above it the corners are not a square's."""
SAME = np.radians(4.0)
"""Angle below which poses are the same [rad]."""
_ITERATIONS = 12


@dataclass(frozen=True)
class BundlePose:
    """Pose of a body in an image."""

    X_CO: Transform
    covariance: np.ndarray
    """(6, 6) of (δp, δθ) along the camera's axes [m, rad]."""
    tags: tuple[int, ...]
    """Tags used."""
    outliers: tuple[int, ...]
    """Tags of the bundle that do not fit the pose."""
    residual: float
    """Root mean square residual of the corners' coordinates [px]."""
    focal: np.ndarray
    """(6,) change of (δp, δθ) with a relative error of the focal length, along the camera's axes [m,
    rad]; mostly the distance, along the optical axis."""
    other: Transform | None = None
    """A second pose that the image alone cannot exclude."""
    sure: bool = True
    """True if uncovered tags on faces of clearly different directions agree; a single face may be
    seen mirrored."""
    covered: bool = False
    """True if every tag used is partly covered, so that the error may far exceed the covariance."""


def solve_bundle(
    detections: Sequence[Detection], bundle: TagBundle, camera: CameraModel, expected: Transform | None = None
) -> BundlePose | None:
    """Return the body's pose in the camera frame; None if no tag of the bundle is detected or fits.

    Args:
        expected: predicted X_CO, which decides between poses that fit about equally well.
    """
    seen = [d for d in detections if d.tag in bundle.tags]
    if not seen:
        return None
    points = np.stack([bundle.tags[d.tag].corners for d in seen])  # (n, 4, 3)
    normals = np.stack([bundle.tags[d.tag].normal for d in seen])
    pixels = np.stack([camera.normalised(d.corners) for d in seen])  # (n, 4, 2) in the plane z = 1
    sigma = np.stack([corner_sigma(d.corners) * np.where(d.clear, 1.0, COVERED) for d in seen])
    fits: list[_Fit] = []
    for X in _starts(seen, bundle, points, pixels, camera.focal / sigma, expected):
        fits.append(_fit(X, points, normals, pixels, camera.focal / sigma))
        if fits[-1].inliers.sum() >= 2 and fits[-1].inliers.all() and _not_flat(normals):
            break  # no other pose fits two faces as well
    ranked = sorted((f for f in fits if f.inliers.any()), key=lambda f: f.cost)
    if not ranked:
        return None
    best, *others = _distinct(ranked, key=lambda f: f.X)
    others = [f for f in others if f.inliers.sum() == best.inliers.sum() and f.chi2 < best.chi2 + DECIDED]
    if expected is not None:
        best = min([best, *others], key=lambda f: np.linalg.norm(difference(f.X, expected)[3:]))
        others = []
    n = 8 * int(best.inliers.sum())
    whole = best.inliers & np.array([bool(d.clear.all()) for d in seen])
    variance = (PRIOR_FREEDOM + best.chi2) / (PRIOR_FREEDOM + n - 6)
    return BundlePose(
        best.X,
        variance * np.linalg.inv(best.JTJ),
        tuple(d.tag for d, good in zip(seen, best.inliers, strict=True) if good),
        tuple(d.tag for d, good in zip(seen, best.inliers, strict=True) if not good),
        float(np.sqrt((best.squares * sigma**2).sum() / n)),
        _by_focal(best, points, pixels, camera.focal / sigma),
        others[0].X if others else None,
        sure=bool(whole.any()) and _not_flat(normals[whole]),
        covered=not whole.any() or (whole.sum() == 1 and bool(best.squares[whole].sum() > SQUARE)),
    )


@dataclass(frozen=True)
class _Fit:
    X: Transform
    cost: float
    """Robust cost over all tags."""
    chi2: float
    """Sum of squares over the tags that fit [σ²]."""
    squares: np.ndarray
    """(n, 4) squared residuals of the tags that fit, 0 for the others [σ²]."""
    inliers: np.ndarray
    """(n,) bool"""
    JTJ: np.ndarray
    """(6, 6) over the tags that fit [σ² per m and rad]."""


T = TypeVar("T")


def _starts(
    seen: Sequence[Detection],
    bundle: TagBundle,
    points: np.ndarray,
    pixels: np.ndarray,
    scale: np.ndarray,
    expected: Transform | None,
) -> Iterator[Transform]:
    """Yield initial poses: the predicted one, then the most promising ones of single tags."""
    if expected is not None:
        yield expected
    own = [
        X
        for d, uv in zip(seen, pixels, strict=True)
        for X in single_poses(bundle.tags[d.tag].edge, bundle.tags[d.tag].X_OT, uv)
    ]
    yield from _promising(own, points, pixels, scale)


def single_poses(edge: float, X_OT: Transform, uv: np.ndarray) -> list[Transform]:
    """Return the poses X_CO from the normalised corners (4, 2) of one tag."""
    try:
        _, rotations, shifts, _ = cv2.solvePnPGeneric(
            edge * CORNERS, uv.reshape(4, 1, 2), np.eye(3), None, flags=cv2.SOLVEPNP_IPPE_SQUARE
        )
    except cv2.error:  # not the corners of a square
        return []
    X_TO = X_OT.inverse
    poses = [
        Transform(cv2.Rodrigues(r)[0], t.ravel()).compose(X_TO)
        for r, t in zip(rotations, shifts, strict=True)
    ]
    return [X for X in poses if np.isfinite(X.R).all() and np.isfinite(X.p).all() and X.p[2] > 0.0]


def corner_sigma(corners: np.ndarray) -> float:
    """Return the expected standard deviation of a coordinate of the corners (4, 2) of a tag [px]."""
    a, b, c, d = corners
    sides = np.sqrt(((corners - corners[[1, 2, 3, 0]]) ** 2).sum(axis=1))
    area = 0.5 * abs((c[0] - a[0]) * (d[1] - b[1]) - (c[1] - a[1]) * (d[0] - b[0]))
    width = area / max(float(sides.max()), 1e-9)
    return SIGMA * max(1.0, CLEAR / max(width, 1e-3)) ** 2


def _residuals(
    X: Transform, points: np.ndarray, pixels: np.ndarray, scale: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return residuals (n, 4, 2) in units of σ, with ``scale`` (n, 4) = f / σ, and points (n, 4, 3)
    in the camera frame."""
    p_C = points @ X.R.T + X.p
    return scale[..., None] * (pixels - p_C[..., :2] / np.maximum(p_C[..., 2:], 1e-3)), p_C


def _promising(
    starts: list[Transform], points: np.ndarray, pixels: np.ndarray, scale: np.ndarray
) -> list[Transform]:
    """Return at most three starts, of least cost, because each takes a fit."""
    if len(starts) <= 3:
        return starts

    def cost(X: Transform) -> float:
        r, _ = _residuals(X, points, pixels, scale)
        return float(np.log1p((r**2).mean(axis=(1, 2)) / 25.0**2).sum())

    return _distinct(sorted(starts, key=cost), key=lambda X: X)[:3]


def _jacobian(X: Transform, p_C: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the Jacobian (n, 4, 2, 6) of the projection [σ] with respect to (δp, δθ)."""
    z = np.maximum(p_C[..., 2], 1e-3)
    x, y = p_C[..., 0] / z, p_C[..., 1] / z
    a, b, c = (p_C - X.p).transpose(2, 0, 1)  # δp_C = δp + δθ × (a, b, c)
    J = np.empty((*p_C.shape[:2], 2, 6))
    for k, (w, along) in enumerate(((x, (0.0, c, -b)), (y, (-c, 0.0, a)))):
        J[..., k, 0], J[..., k, 1], J[..., k, 2] = (1.0, 0.0, -w) if k == 0 else (0.0, 1.0, -w)
        for i, (du, dw) in enumerate(zip(along, (b, -a, 0.0), strict=True)):
            J[..., k, 3 + i] = du - w * dw
    return J * (scale / z)[..., None, None]


def _fit(
    X: Transform, points: np.ndarray, normals: np.ndarray, pixels: np.ndarray, scale: np.ndarray
) -> _Fit:
    for k in range(_ITERATIONS):
        r, p_C = _residuals(X, points, pixels, scale)
        # from wide to narrow: all tags count at a distant start, at the end only those that fit
        width = 5.0 * max(1.0, 2.0 ** (4 - k))
        weight = np.repeat(1.0 / (1.0 + (r**2).mean(axis=(1, 2)) / width**2), 8)
        J = _jacobian(X, p_C, scale).reshape(-1, 6)
        weighted = (J * weight[:, None]).T
        H = weighted @ J
        try:
            step = np.linalg.solve(H + 1e-9 * np.diag(np.diag(H)), weighted @ r.ravel())
        except np.linalg.LinAlgError:
            break
        step *= min(1.0, 0.5 / max(float(np.sqrt(step[3:] @ step[3:])), 1e-12))
        X = Transform(exp(step[3:]) @ X.R, X.p + step[:3])
        if k >= 4 and np.abs(step).max() < 1e-5:
            break
    r, p_C = _residuals(X, points, pixels, scale)
    mean2 = (r**2).mean(axis=(1, 2))
    # a tag that fits faces the camera
    facing = np.einsum("ni,ni->n", normals @ X.R.T, p_C.mean(axis=1)) < 0.0
    inliers = facing & (mean2 < OUTLIER**2) & (X.p[2] > 0.0)
    cost = float(np.where(facing, np.log1p(mean2 / 25.0), 10.0).sum())
    J = _jacobian(X, p_C[inliers], scale[inliers]) if inliers.any() else np.zeros((0, 4, 2, 6))
    squares = np.where(inliers[:, None], (r**2).sum(axis=2), 0.0)
    return _Fit(X, cost, float(squares.sum()), squares, inliers, np.einsum("nijk,nijl->kl", J, J))


def _by_focal(fit: _Fit, points: np.ndarray, pixels: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the change (6,) of the pose with ln f: a focal length too long by ε has the points of the
    plane z = 1 too near the axis by ε, which the normal equations translate into the pose."""
    points, pixels, scale = points[fit.inliers], pixels[fit.inliers], scale[fit.inliers]
    J = _jacobian(fit.X, points @ fit.X.R.T + fit.X.p, scale).reshape(-1, 6)
    return -np.linalg.solve(fit.JTJ, J.T @ (scale[..., None] * pixels).ravel())


def _not_flat(normals: np.ndarray) -> bool:
    """Return true if the tags face clearly different directions."""
    return bool((normals @ normals.T).min() < 0.9)


def _distinct(ranked: Sequence[T], key: Callable[[T], Transform]) -> list[T]:
    """Return the first of all items with the same pose."""
    kept: list[T] = []
    for item in ranked:
        if all(np.linalg.norm(difference(key(item), key(other))[3:]) > SAME for other in kept):
            kept.append(item)
    return kept
