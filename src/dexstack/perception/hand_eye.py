"""Camera pose and joint zeros from tags on the fingertips while the servo moves them: a joint
bundle adjustment.

    min over X_PC, z, X_LT,f   Σ ρ( ‖u − f π(X_PC⁻¹ X_PL(q − z) X_LT,f p_T)‖ / σ ) + ‖z/σ_z‖² +
    ‖(X_LT,f ⊖ nominal)/σ_T‖²

over all pictures, fingers f and corners, where q is what the encoders say. The hand itself is the
ruler: the camera is calibrated to what the planner thinks the hand is. A cap that is askew on its
link cannot be told from the zero of the joint that carries it; σ_T says how well it sits. Every
second picture is held out: what they say alone is compared with what the others say, see
:class:`HandEye`.

The depth of a RealSense is not used: the corners of all pictures together say the distance, and
stereo says little on the edge of a cap.
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
from dexstack.perception.se3 import Transform, difference, exp
from dexstack.perception.tags import Detection

FIRST_TAG = 50
"""The tag on the index finger; the others' follow."""
EDGE = 0.020
"""Of the tags [m]."""
HEIGHT = 0.015
"""Of the print above the centre of the fingertip [m]."""
ZERO, SEAT = 0.1, (0.0005, np.radians(0.5))
"""Standard deviations: of a joint's zero [rad], of a cap's seat [m, rad]."""
LEAST = 6
"""Pictures that must show a finger's tag, in each half."""
LARGEST_MM, LARGEST_DEG = 2.0, 1.0
"""Largest held-out errors of a calibration that is kept."""
CANDIDATES = 12


class Look(NamedTuple):
    """The hand at rest, and a picture of it."""

    q: np.ndarray
    """(16,) as the encoders say, without any offset [rad]."""
    found: Sequence[Detection]


class HandEye(NamedTuple):
    """Outcome of a calibration."""

    X_PC: Transform
    """The camera in the palm frame."""
    zeros: np.ndarray
    """(16,) joint angle = reported angle − zero [rad]."""
    pictures: int
    seen: dict[int, int]
    """By tag: pictures that show it."""
    reprojection: float
    """Root mean square of a corner's distance in the pictures that were used [px]."""
    held_out: float
    """The same of those that were not, the camera and the zeros being what the others say, as a
    distance at the hand [m]."""
    apart: np.ndarray
    """(6,) camera of the held-out pictures alone against that of the others [m, rad], palm
    frame."""
    zeros_apart: float
    """Largest difference of a joint's zero between the two [rad]."""

    @property
    def errors(self) -> tuple[float, float]:
        """Held-out errors [mm, °]: the larger ones of corners and camera, and of camera and
        zeros."""
        shift, turn = (float(np.linalg.norm(self.apart[k : k + 3])) for k in (0, 3))
        return 1e3 * max(self.held_out, shift), float(np.degrees(max(self.zeros_apart, turn)))

    @property
    def trouble(self) -> str:
        """Why it must not be kept; empty where it may."""
        mm, degrees = self.errors
        if mm <= LARGEST_MM and degrees <= LARGEST_DEG:
            return ""
        return (
            f"the held-out pictures are off by {mm:.1f} mm and {degrees:.1f}°, {LARGEST_MM:g} mm and {LARGEST_DEG:g}° are allowed: a cap "
            "is loose or on the wrong finger, the camera moved, or the hand was not at rest"
        )


LOWER = np.array([-0.15, 0.0, 0.1, 0.1] * 3 + [0.4, 0.7, 0.0, 0.0])
UPPER = np.array([0.15, 0.8, 0.8, 0.8] * 3 + [1.0, 1.0, 0.6, 0.7])
"""Where the sweep takes the joints: fingers and thumb do not meet there, nor does a joint its stop
where its zero is off by 0.1 [rad]."""


def postures(count: int, rng: np.random.Generator) -> np.ndarray:
    """(count, 16) joint angles, drawn anew for every joint, so that each is told from the
    others."""
    return rng.uniform(LOWER, UPPER, (count, LOWER.size))


def fingertip_bundle(hand: HandModel) -> TagBundle:
    """The tags on the fingertips' caps, each in the frame of its own last link: print to where the
    finger bends, upper edge outwards."""
    tags = {}
    for k, tip in enumerate(hand.fingertips):
        along = tip.p_BT / np.linalg.norm(tip.p_BT)
        normal = np.cross(hand.bodies[tip.body].axis, along)
        R = np.column_stack([np.cross(along, normal), along, normal])
        tags[FIRST_TAG + k] = Tag(FIRST_TAG + k, EDGE, Transform(R, tip.p_BT + HEIGHT * normal))
    return TagBundle("fingertips", tags)


def calibrate_hand_eye(looks: Sequence[Look], hand: HandModel, camera: CameraModel) -> HandEye:
    """The camera's pose and the joints' zeros, from looks at a hand that was moved about.

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
                    f"the sweep did not see enough of tag {tag} ({finger}): {seen[tag]} of {len(looks)} pictures show it clearly, "
                    f"{2 * LEAST} are needed; move the camera so that it sees all fingertips"
                )
    fit = _Fit(used, hand, bundle, camera)
    x = fit.solve(fit.start())
    other = _Fit(held, hand, bundle, camera)
    y = other.solve(x)
    X_PC = fit.camera_pose(x)
    return HandEye(
        X_PC,
        x[6:22],
        len(looks),
        seen,
        float(np.sqrt((fit.misses(x) ** 2).mean())),
        float(np.sqrt(((other.misses(x) * other.depths(x) / camera.focal) ** 2).mean())),
        difference(other.camera_pose(y), X_PC),
        float(np.abs(y[6:22] - x[6:22]).max()),
    )


class _Fit:
    """The adjustment of one set of pictures; the unknowns are camera (6: shift and rotation
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
            q, corners = np.array([q[j : j + 4] for q, _ in here]), [c for _, c in here]
            self._rows.append(
                (
                    q,
                    np.array([camera.normalised(c) for c in corners]),
                    np.array([corner_sigma(c) for c in corners]),
                )
            )

    def start(self) -> np.ndarray:
        """Of the poses that single tags give with zeros of zero, the one that explains all best."""
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
        rows = [np.concatenate([X.p, _rotvec(X.R), np.zeros(40)]) for X in candidates]
        return min(rows, key=lambda x: float(np.log1p(self.misses(x) ** 2).sum()))

    def solve(self, x: np.ndarray) -> np.ndarray:
        """The best unknowns (46,), from ``x`` on."""
        seat = np.tile(np.repeat(SEAT, 3), 4)

        def residuals(x: np.ndarray) -> np.ndarray:
            scale = np.concatenate([np.repeat(1.0 / sigma, 8) for *_, sigma in self._rows])
            return np.concatenate([self._errors(x).ravel() * scale, x[6:22] / ZERO, x[22:] / seat])

        near = least_squares(
            residuals, x, loss="soft_l1", f_scale=30.0, x_scale="jac", ftol=1e-3, max_nfev=60
        ).x
        return least_squares(
            residuals, near, loss="soft_l1", f_scale=3.0, x_scale="jac", ftol=1e-6, max_nfev=60
        ).x

    def camera_pose(self, x: np.ndarray) -> Transform:
        return Transform(exp(x[3:6]), x[:3])

    def misses(self, x: np.ndarray) -> np.ndarray:
        """(4 n,) distance of every corner from where it should be [px]."""
        return np.linalg.norm(self._errors(x), axis=1)

    def depths(self, x: np.ndarray) -> np.ndarray:
        """(4 n,) of every corner before the camera [m]."""
        return self._corners(x)[:, 2]

    def _errors(self, x: np.ndarray) -> np.ndarray:
        """(4 n, 2) [px]"""
        p_C = self._corners(x)
        seen = np.concatenate([uv.reshape(-1, 2) for _, uv, _ in self._rows])
        return (p_C[:, :2] / np.maximum(p_C[:, 2:], 1e-3) - seen) * self._camera.focal

    def _corners(self, x: np.ndarray) -> np.ndarray:
        """(4 n, 3) camera frame."""
        X_CP, found = self.camera_pose(x).inverse, []
        for f, ((q, _, _), tag) in enumerate(zip(self._rows, self._bundle.tags.values(), strict=True)):
            seat = x[22 + 6 * f : 28 + 6 * f]
            corners_L = tag.X_OT.compose(Transform(exp(seat[3:]), seat[:3])).apply(
                tag.X_OT.inverse.apply(tag.corners)
            )
            R, p = self._chain(f, q, x[6 + 4 * f : 10 + 4 * f])
            found.append(X_CP.apply((np.einsum("nij,kj->nki", R, corners_L) + p[:, None]).reshape(-1, 3)))
        return np.concatenate(found)

    def _chain(self, finger: int, q: np.ndarray, zeros: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rotations (n, 3, 3) and origins (n, 3) of a finger's last link in the palm frame at
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


def _rotvec(R: np.ndarray) -> np.ndarray:
    return difference(Transform(R, np.zeros(3)), Transform(np.eye(3), np.zeros(3)))[3:]
