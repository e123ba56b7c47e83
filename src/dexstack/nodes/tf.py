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
