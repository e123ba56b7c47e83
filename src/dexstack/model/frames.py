"""Frame tree of a hand: world → palm → links → tips."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dexstack.geometry.rotations import quaternion_of, quaternion_product
from dexstack.geometry.symmetry import about
from dexstack.model.hand import HandModel
from dexstack.model.urdf import Joint, read_urdf

PALM = "palm"


class Frame(NamedTuple):
    """Pose of a frame in its parent frame."""

    parent: str
    name: str
    p: np.ndarray
    """(3,) [m]"""
    quat: np.ndarray
    """(4,) wxyz"""


class FrameTree:
    """All frames of one hand, with the URDF's link names, as viewers of the URDF need them."""

    def __init__(self, hand: HandModel) -> None:
        _, _, joints = read_urdf(hand.urdf_path)
        root = hand.bodies[0].name
        self.mount = (
            Frame("world", PALM, hand.p_WP, hand.quat_WP),
            Frame(PALM, root, np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0])),
        )
        """Pose of the URDF's root in the world, which is not in the URDF."""
        links = (Frame(j.parent, j.child, j.p_PC, quaternion_of(j.R_PC)) for j in joints if j.kind == "fixed")
        self.fixed = (*self.mount, *links)
        """Frames of fixed pose."""
        self._hand = hand
        self._moving: tuple[Joint, ...] = tuple(j for j in joints if j.kind == "revolute")

    def moving(self, q: np.ndarray) -> list[Frame]:
        """Return the frames of the moving links at the joint angles ``q`` (N,) [rad]."""
        quats = (
            quaternion_product(quaternion_of(joint.R_PC), about(joint.axis, angle))
            for joint, angle in zip(self._moving, self._hand.hinge_angles(q), strict=True)
        )
        return [Frame(j.parent, j.child, j.p_PC, quat) for j, quat in zip(self._moving, quats, strict=True)]
