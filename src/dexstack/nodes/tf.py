"""Frames as messages on ``/tf``, where tf2_msgs is installed (it is not on PyPI).

All graphs share ``/tf``. A graph in a namespace prefixes the names of its frames (``left/palm``), as
robot_state_publisher does with its ``frame_prefix``; only ``world`` is common to all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from geometry_msgs.msg import TransformStamped
from rclpy.node import Node

from dexstack.model.frames import Frame
from dexstack.nodes.frames import tf_message as tf_message
from dexstack.nodes.wire import WORLD, set_stamp
from dexstack.perception.se3 import Transform

OBJECT = "object"
"""Name of the object's frame."""


def frame_prefix(node: Node) -> str:
    """Return the prefix of the names of all frames of a node's graph."""
    namespace = node.get_namespace().strip("/")
    return f"{namespace}/" if namespace else ""


def frames_message(kind: Any, t: float, frames: Iterable[Frame], prefix: str = "") -> Any:
    """Return :func:`transforms` as one message of type TFMessage, ``kind``."""
    return kind(transforms=transforms(t, frames, prefix))


def transforms(t: float, frames: Iterable[Frame], prefix: str = "") -> list[TransformStamped]:
    """Return frames as messages, stamped ``t`` [s], with ``prefix`` before all names but ``world``."""

    def prefixed(name: str) -> str:
        return name if name == WORLD else prefix + name

    messages = []
    for frame in frames:
        message = TransformStamped(child_frame_id=prefixed(frame.name))
        message.header.frame_id = prefixed(frame.parent)
        set_stamp(message.header.stamp, t)
        v, r = message.transform.translation, message.transform.rotation
        v.x, v.y, v.z = map(float, frame.p)
        r.w, r.x, r.y, r.z = map(float, frame.quat)
        messages.append(message)
    return messages


class StaticFrames:
    """Poses of frames in their parents, from ``/tf_static``."""

    def __init__(self) -> None:
        self._parents: dict[str, tuple[str, Transform]] = {}

    def note(self, message: Any) -> None:
        """Take in a TFMessage; the last transform of a frame counts."""
        for stamped in message.transforms:
            v, r = stamped.transform.translation, stamped.transform.rotation
            X_PF = Transform.of_pose([v.x, v.y, v.z, r.w, r.x, r.y, r.z])
            self._parents[stamped.child_frame_id.lstrip("/")] = stamped.header.frame_id.lstrip("/"), X_PF

    def root(self, frame: str) -> tuple[str, Transform]:
        """Return the topmost ancestor of ``frame`` (itself without a parent) and its pose in that."""
        X, seen = Transform.of_pose([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]), set[str]()
        while frame in self._parents and frame not in seen:
            seen.add(frame)
            frame, X_PF = self._parents[frame]
            X = X_PF.compose(X)
        return frame, X
