"""The frames of a hand as a tree: world → palm → links → tips."""

from __future__ import annotations

from typing import NamedTuple

import mujoco
import numpy as np

from dexstack.model.hand import HandModel
from dexstack.model.scene import wxyz
from dexstack.model.urdf import Joint, read_urdf

PALM = "palm"


class Frame(NamedTuple):
    """The pose of a frame in its parent's."""

    parent: str
    name: str
    p: np.ndarray
    """(3,) [m]"""
    quat: np.ndarray
    """(4,) wxyz"""


class FrameTree:
    """All frames of one hand; the names of links are the URDF's, so that a viewer that has the URDF
    finds them."""

    def __init__(self, hand: HandModel) -> None:
        _, _, joints = read_urdf(hand.urdf_path)
        root = hand.bodies[0].name
        self.mount = (
            Frame("world", PALM, hand.p_WP, hand.quat_WP),
            Frame(PALM, root, np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0])),
        )
        """Where the URDF's root stands in the world, which the URDF does not say."""
        links = (Frame(j.parent, j.child, j.p_PC, wxyz(j.R_PC)) for j in joints if j.kind == "fixed")
        self.fixed = (*self.mount, *links)
        """Frames that never move."""
        self._hand = hand
        self._moving: tuple[Joint, ...] = tuple(j for j in joints if j.kind == "revolute")

    def moving(self, q: np.ndarray) -> list[Frame]:
        """The frames of the links at the joint angles ``q`` (N,) [rad]."""
        frames = []
        for joint, angle in zip(self._moving, self._hand.hinge_angles(q), strict=True):
            turn, quat = np.empty(4), np.empty(4)
            mujoco.mju_axisAngle2Quat(turn, joint.axis, angle)
            mujoco.mju_mulQuat(quat, wxyz(joint.R_PC), turn)
            frames.append(Frame(joint.parent, joint.child, joint.p_PC, quat))
        return frames
