"""A simulated colour camera: pictures of the scene with lens blur, motion blur and sensor noise."""

from __future__ import annotations

import cv2
import mujoco
import numpy as np

from dexstack.model.hand import HandModel
from dexstack.model.objects import ObjectModel
from dexstack.model.scene import JointLayout, build_scene
from dexstack.perception.bundle import Tag, TagBundle
from dexstack.perception.camera_params import SimulatedCameraParams
from dexstack.perception.render import FINE, TagPainter
from dexstack.perception.se3 import Transform, between, difference

MOST_SHUTTER_STEPS = 4
_NOISE_SLACK = 100_003
"""Excess length of the noise, which is drawn once: every picture starts at a random offset in it."""


def moved(bundle: TagBundle, X_AB: Transform) -> TagBundle:
    """Return the tags in frame A instead of their body's frame B."""
    return TagBundle(
        bundle.name, {k: Tag(t.tag, t.edge, X_AB.compose(t.X_OT)) for k, t in bundle.tags.items()}
    )


class SimulatedCamera:
    """A camera that takes pictures of a hand (or none) and a tagged object.

    Args:
        bundle: tags of the object, or None.
        X_WC: the optical frame in the world.
        base: tags on the hand's base in the palm frame, or None.
        fingertips: one tag per finger in the frame of its last link, or None.
    """

    def __init__(
        self,
        hand: HandModel | None,
        obj: ObjectModel,
        bundle: TagBundle | None,
        params: SimulatedCameraParams,
        X_WC: Transform,
        *,
        base: TagBundle | None = None,
        fingertips: TagBundle | None = None,
        seed: int = 0,
    ) -> None:
        self.params, self.camera, self.X_WC = params, params.camera, X_WC
        model = build_scene(hand, obj).compile()
        if hand is not None and base is not None:
            base = moved(base, Transform.of_pose([*hand.p_WP, *hand.quat_WP]))
        carried = []
        if hand is not None and fingertips is not None:
            links = [hand.bodies[tip.body].name for tip in hand.fingertips]
            carried = [
                (model.body(link).id, tag) for link, tag in zip(links, fingertips.tags.values(), strict=True)
            ]
        self._painter = TagPainter(model, bundle, self.camera, X_WC, base, carried)
        self._data = mujoco.MjData(model)
        self._model, self._layout = model, JointLayout(model)
        self._reach = float(np.abs(obj.surface.vertices).max())
        self._rng = np.random.default_rng(seed)
        count = 3 * self.camera.width * self.camera.height
        self._noise = np.round(
            self._rng.normal(0.0, max(params.pixel_noise, 1e-9), count + _NOISE_SLACK)
        ).astype(np.int16)

    def picture(
        self, q: np.ndarray, pose_WO: np.ndarray, before: tuple[np.ndarray, np.ndarray] | None = None
    ) -> np.ndarray:
        """Take a picture, (height, width, 3) uint8 RGB.

        Args:
            q: joint angles (16,) [rad], (0,) without a hand, when the shutter closes.
            pose_WO: the object's pose (7,) then.
            before: both when the shutter opened, for the motion blur between; None: at rest.
        """
        image = self._draw(q, pose_WO) if before is None else self._exposed(q, pose_WO, *before)
        if self.params.lens_blur > 0.0:
            image = cv2.GaussianBlur(image, (0, 0), self.params.lens_blur)
        if self.params.pixel_noise > 0.0:
            start = int(self._rng.integers(_NOISE_SLACK))
            noise = self._noise[start : start + image.size].reshape(image.shape)
            image = cv2.add(image, noise, dtype=cv2.CV_8U)
        return image

    def _exposed(
        self, q: np.ndarray, pose_WO: np.ndarray, q0: np.ndarray, pose_WO0: np.ndarray
    ) -> np.ndarray:
        then, now = Transform.of_pose(pose_WO0), Transform.of_pose(pose_WO)
        steps = self._steps(difference(now, then), now.p)
        fine = int(np.ceil(FINE / np.sqrt(steps)))  # instants and pixel parts average alike
        total = np.zeros((self.camera.height, self.camera.width, 3), np.uint16)
        for s in (np.arange(steps) + 0.5) / steps:
            image = self._draw(q0 + s * (q - q0), between(then, now, s).pose, fine)
            if steps == 1:
                return image
            total += image
        return (total // steps).astype(np.uint8)

    def _draw(self, q: np.ndarray, pose_WO: np.ndarray, fine: int = FINE) -> np.ndarray:
        self._data.qpos[:] = np.concatenate([self._layout.coordinates(q), pose_WO])
        mujoco.mj_kinematics(self._model, self._data)
        return self._painter.render(self._data, fine)

    def _steps(self, way: np.ndarray, p_WO: np.ndarray) -> int:
        """Return the number of instants between which no point of the object moves by more than half
        a pixel, at most :data:`MOST_SHUTTER_STEPS`."""
        metres = np.linalg.norm(way[:3]) + 1.7 * self._reach * np.linalg.norm(way[3:])
        depth = max(float(self.X_WC.inverse.apply(p_WO[None])[0, 2]), 0.05)
        return int(np.clip(np.ceil(metres * self.camera.focal / depth / 0.5), 1, MOST_SHUTTER_STEPS))
