"""Frames as messages on /tf: tf2_msgs comes with ROS 2, not from PyPI, so that whoever publishes
frames asks here first.

``/tf`` is everybody's. A graph in a namespace puts it before the names of its frames
(``left/palm``), as robot_state_publisher does with its ``frame_prefix``; ``world`` alone is the
same for all.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from typing import Any

from geometry_msgs.msg import TransformStamped
from rclpy.node import Node

from dexstack.model.frames import Frame
from dexstack.nodes.wire import WORLD, set_stamp
from dexstack.perception.se3 import Transform

OBJECT = "object"
"""Name of the object's frame."""


def tf_message() -> Any:
    """The message type TFMessage, or None where tf2_msgs is not installed."""
    if importlib.util.find_spec("tf2_msgs") is None:
        return None
    from tf2_msgs.msg import TFMessage

    return TFMessage


def frame_prefix(node: Node) -> str:
    """What comes before the names of all frames of a node's graph."""
    namespace = node.get_namespace().strip("/")
    return f"{namespace}/" if namespace else ""


def prefixed(name: str, prefix: str) -> str:
    """A frame's name in the graph with this prefix."""
    return name if name == WORLD else prefix + name


def transforms(t: float, frames: Iterable[Frame], prefix: str = "") -> list[TransformStamped]:
    """Frames as messages, stamped ``t`` [s], with ``prefix`` before all names but the world's."""

    messages = []
    for frame in frames:
        message = TransformStamped(child_frame_id=prefixed(frame.name, prefix))
        message.header.frame_id = prefixed(frame.parent, prefix)
        set_stamp(message.header.stamp, t)
        v, r = message.transform.translation, message.transform.rotation
        v.x, v.y, v.z = map(float, frame.p)
        r.w, r.x, r.y, r.z = map(float, frame.quat)
        messages.append(message)
    return messages


class StaticFrames:
    """What ``/tf_static`` says: which frame stands where in its parent."""

    def __init__(self) -> None:
        self._parents: dict[str, tuple[str, Transform]] = {}

    def note(self, message: Any) -> None:
        """Take in a TFMessage; of a frame that is told twice the last counts."""
        for told in message.transforms:
            v, r = told.transform.translation, told.transform.rotation
            X_PF = Transform.of_pose([v.x, v.y, v.z, r.w, r.x, r.y, r.z])
            self._parents[told.child_frame_id.lstrip("/")] = told.header.frame_id.lstrip("/"), X_PF

    def root(self, frame: str) -> tuple[str, Transform]:
        """The frame in which all above ``frame`` stand, and where ``frame`` is in it; itself where
        nobody tells of a parent."""
        X, seen = Transform.of_pose([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]), set[str]()
        while frame in self._parents and frame not in seen:
            seen.add(frame)
            frame, X_PF = self._parents[frame]
            X = X_PF.compose(X)
        return frame, X
