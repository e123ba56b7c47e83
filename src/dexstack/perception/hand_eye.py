"""Camera pose and joint zeros from tags on the fingertips in several postures, by bundle adjustment.

    min over X_PC, z, X_LT,f   Σ ρ( ‖u − f π(X_PC⁻¹ X_PL(q − z) X_LT,f p_T)‖ / σ ) + ‖z/σ_z‖² +
    ‖(X_LT,f ⊖ nominal)/σ_T‖²

over all pictures, fingers f and corners, with the encoders' angles q. The camera is calibrated
relative to the planner's model of the hand. A tilted cap cannot be distinguished from the zero of
the joint that carries it; σ_T is the cap's tolerance. Every second picture is held out for a second
calibration, which is compared with the first one, see :class:`HandEye`.

The depth of a RealSense is not used: all corners together determine the distance, and stereo is
unreliable at the edge of a cap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares

from dexstack.errors import ConfigError
from dexstack.model.hand import HandModel
from dexstack.perception.bundle import Tag, TagBundle
from dexstack.perception.camera import CameraModel
from dexstack.perception.pose import corner_sigma, single_poses
from dexstack.perception.se3 import Transform, difference, exp, log
from dexstack.perception.tags import Detection

FIRST_TAG = 50
"""Number of the index finger's tag; those of the other fingers follow."""
EDGE = 0.020
"""Edge of the tags [m]."""
HEIGHT = 0.015
"""Height of the print above the centre of the fingertip [m]."""
ZERO, SEAT = 0.1, (0.0005, np.radians(0.5))
"""Standard deviations of a joint's zero [rad] and of a cap's seat [m, rad]."""
LEAST = 6
"""Smallest number of pictures of a finger's tag, in each half."""
LARGEST_MM, LARGEST_DEG = 2.0, 1.0
"""Largest held-out errors of an accepted calibration."""
CANDIDATES = 12


class Look(NamedTuple):
    """One posture of the hand at rest, and its picture."""

    q: np.ndarray
    """(16,) the encoders' angles, without offsets [rad]."""
    found: Sequence[Detection]


class HandEye(NamedTuple):
    """Result of a calibration."""

    X_PC: Transform
    """The camera in the palm frame."""
    zeros: np.ndarray
    """(16,) joint angle = reported angle − zero [rad]."""
    pictures: int
    seen: dict[int, int]
    """Number of pictures of each tag."""
    reprojection: float
    """Root mean square reprojection error in the pictures used [px]."""
    held_out: float
    """The same in the held-out pictures, as a distance at the hand [m]."""
    apart: np.ndarray
    """(6,) camera pose from the held-out pictures relative to that from the others [m, rad], palm
    frame."""
    zeros_apart: float
    """Largest difference of a joint's zero between the two [rad]."""

    @property
    def errors(self) -> tuple[float, float]:
        """Held-out errors: the larger of corners and camera [mm], and of camera and zeros [°]."""
        shift, turn = (float(np.linalg.norm(self.apart[k : k + 3])) for k in (0, 3))
        return 1e3 * max(self.held_out, shift), float(np.degrees(max(self.zeros_apart, turn)))

    @property
    def trouble(self) -> str:
        """Reason to reject the calibration; empty without one."""
        mm, degrees = self.errors
        if mm <= LARGEST_MM and degrees <= LARGEST_DEG:
            return ""
        return (
            f"the held-out pictures are off by {mm:.1f} mm and {degrees:.1f}°, {LARGEST_MM:g} mm and "
            f"{LARGEST_DEG:g}° are allowed: a cap "
            "is loose or on the wrong finger, the camera moved, or the hand was not at rest"
        )


LOWER = np.array([-0.15, 0.0, 0.1, 0.1] * 3 + [0.4, 0.7, 0.0, 0.0])
UPPER = np.array([0.15, 0.8, 0.8, 0.8] * 3 + [1.0, 1.0, 0.6, 0.7])
"""Range of the sweep [rad]: fingers and thumb do not touch in it, and no joint reaches its stop if its
zero is off by 0.1 rad."""


def postures(count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw joint angles (count, 16) [rad], independently for every joint so that all are
    observable."""
    return rng.uniform(LOWER, UPPER, (count, LOWER.size))


def fingertip_bundle(hand: HandModel) -> TagBundle:
    """Return the tags on the fingertips' caps, each in the frame of its last link: the print faces
    the direction of bending, its upper edge outwards."""
    tags = {}
    for k, tip in enumerate(hand.fingertips):
        along = tip.p_BT / np.linalg.norm(tip.p_BT)
        normal = np.cross(hand.bodies[tip.body].axis, along)
        R = np.column_stack([np.cross(along, normal), along, normal])
        tags[FIRST_TAG + k] = Tag(FIRST_TAG + k, EDGE, Transform(R, tip.p_BT + HEIGHT * normal))
    return TagBundle("fingertips", tags)


def calibrate_hand_eye(looks: Sequence[Look], hand: HandModel, camera: CameraModel) -> HandEye:
    """Calibrate the camera's pose and the joints' zeros from pictures of a hand in several postures.

    Raises:
        ConfigError: too few pictures show the tags of a finger.
    """
    bundle = fingertip_bundle(hand)
    looks = [
        Look(look.q, [d for d in look.found if d.tag in bundle.tags and d.clear.all()]) for look in looks
    ]
    seen = {t: sum(d.tag == t for look in looks for d in look.found) for t in bundle.tags}
    used, held = looks[::2], looks[1::2]
    for half in (used, held):
        for tag in bundle.tags:
            count = sum(d.tag == tag for look in half for d in look.found)
            if count < LEAST:
                finger = ("index", "middle", "ring", "thumb")[tag - FIRST_TAG]
                raise ConfigError(
                    f"the sweep did not see enough of tag {tag} ({finger}): {seen[tag]} of {len(looks)} "
                    "pictures show it clearly, "
                    f"{2 * LEAST} are needed; move the camera so that it sees all fingertips"
                )
    fit = _Fit(used, hand, bundle, camera)
    x = fit.solve(fit.start())
    other = _Fit(held, hand, bundle, camera)
    y = other.solve(x)
    X_PC = fit.camera_pose(x)
    return HandEye(
        X_PC=X_PC,
        zeros=x[6:22],
        pictures=len(looks),
        seen=seen,
        reprojection=float(np.sqrt((fit.misses(x) ** 2).mean())),
        held_out=float(np.sqrt(((other.misses(x) * other.depths(x) / camera.focal) ** 2).mean())),
        apart=difference(other.camera_pose(y), X_PC),
        zeros_apart=float(np.abs(y[6:22] - x[6:22]).max()),
    )


class _Fit:
    """Adjustment of one set of pictures; unknowns are the camera (6: translation and rotation
    vector), zeros (16), seats (4 × 6)."""

    def __init__(
        self, looks: Sequence[Look], hand: HandModel, bundle: TagBundle, camera: CameraModel
    ) -> None:
        self._hand, self._bundle, self._camera = hand, bundle, camera
        self._rows = []
        """By finger: reported angles (n, 4), corners in the plane z = 1 (n, 4, 2), their σ [px]
        (n,)."""
        for tag in bundle.tags:
            here = [(look.q, d.corners) for look in looks for d in look.found if d.tag == tag]
            j = 4 * (tag - FIRST_TAG)
            rows = ((q[j : j + 4], camera.normalised(c), corner_sigma(c)) for q, c in here)
            self._rows.append(tuple(map(np.array, zip(*rows, strict=True))))

    def start(self) -> np.ndarray:
        """Return the unknowns with zeros of zero and the best camera pose of those from single
        tags."""
        candidates = []
        for f, ((q, uv, _), tag) in enumerate(zip(self._rows, self._bundle.tags.values(), strict=True)):
            R, p = self._chain(f, q, np.zeros(4))
            for k in np.linspace(0, len(q) - 1, CANDIDATES // 4).astype(int):
                candidates += [
                    Transform(R[k], p[k]).compose(X_CL.inverse)
                    for X_CL in single_poses(tag.edge, tag.X_OT, uv[k])
                ]
        if not candidates:
            raise ConfigError("the tags are seen in a way that no pose explains")
        rows = [np.concatenate([X.p, log(X.R), np.zeros(40)]) for X in candidates]
        return min(rows, key=lambda x: float(np.log1p(self.misses(x) ** 2).sum()))

    def solve(self, x: np.ndarray) -> np.ndarray:
        """Return the best unknowns (46,), starting from ``x``."""
        seat = np.tile(np.repeat(SEAT, 3), 4)

        def residuals(x: np.ndarray) -> np.ndarray:
            scale = np.concatenate([np.repeat(1.0 / sigma, 8) for *_, sigma in self._rows])
            return np.concatenate([self._errors(x).ravel() * scale, x[6:22] / ZERO, x[22:] / seat])

        for f_scale, ftol in ((30.0, 1e-3), (3.0, 1e-6)):
            options = {"loss": "soft_l1", "f_scale": f_scale, "x_scale": "jac", "ftol": ftol}
            x = least_squares(residuals, x, max_nfev=60, **options).x
        return x

    def camera_pose(self, x: np.ndarray) -> Transform:
        return Transform(exp(x[3:6]), x[:3])

    def misses(self, x: np.ndarray) -> np.ndarray:
        """Return the reprojection error (4 n,) of every corner [px]."""
        return np.linalg.norm(self._errors(x), axis=1)

    def depths(self, x: np.ndarray) -> np.ndarray:
        """Return the depth (4 n,) of every corner in the camera frame [m]."""
        return self._corners(x)[:, 2]

    def _errors(self, x: np.ndarray) -> np.ndarray:
        """Return the reprojection errors (4 n, 2) [px]."""
        p_C = self._corners(x)
        seen = np.concatenate([uv.reshape(-1, 2) for _, uv, _ in self._rows])
        return (p_C[:, :2] / np.maximum(p_C[:, 2:], 1e-3) - seen) * self._camera.focal

    def _corners(self, x: np.ndarray) -> np.ndarray:
        """Return the corners (4 n, 3) in the camera frame [m]."""
        X_CP, found = self.camera_pose(x).inverse, []
        for f, ((q, _, _), tag) in enumerate(zip(self._rows, self._bundle.tags.values(), strict=True)):
            seat = x[22 + 6 * f : 28 + 6 * f]
            X_LT = tag.X_OT.compose(Transform(exp(seat[3:]), seat[:3]))
            corners_L = X_LT.apply(tag.X_OT.inverse.apply(tag.corners))
            R, p = self._chain(f, q, x[6 + 4 * f : 10 + 4 * f])
            found.append(X_CP.apply((np.einsum("nij,kj->nki", R, corners_L) + p[:, None]).reshape(-1, 3)))
        return np.concatenate(found)

    def _chain(self, finger: int, q: np.ndarray, zeros: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return rotations (n, 3, 3) and origins (n, 3) of a finger's last link in the palm frame at
        reported angles (n, 4)."""
        R, p = np.broadcast_to(np.eye(3), (len(q), 3, 3)), np.zeros((len(q), 3))
        for j in range(4):
            body = self._hand.bodies[1 + 4 * finger + j]
            K = np.cross(np.eye(3), body.axis)
            angle = (q[:, j] - zeros[j])[:, None, None]
            turn = np.eye(3) + np.sin(angle) * K + (1.0 - np.cos(angle)) * K @ K
            p = p + R @ body.p_PB
            R = R @ body.R_PB_at_zero @ turn
        return R, p
