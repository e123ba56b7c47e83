"""Frames as messages on /tf: tf2_msgs comes with ROS 2, not from PyPI, so that whoever publishes frames asks here first."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from typing import Any

from geometry_msgs.msg import TransformStamped

from dexstack.model.frames import Frame
from dexstack.nodes.wire import set_stamp


def tf_message() -> Any:
    """The message type TFMessage, or None where tf2_msgs is not installed."""
    if importlib.util.find_spec("tf2_msgs") is None:
        return None
    from tf2_msgs.msg import TFMessage

    return TFMessage


def transforms(t: float, frames: Iterable[Frame]) -> list[TransformStamped]:
    """Frames as messages, stamped ``t`` [s]."""
    messages = []
    for frame in frames:
        message = TransformStamped(child_frame_id=frame.name)
        message.header.frame_id = frame.parent
        set_stamp(message.header.stamp, t)
        v, r = message.transform.translation, message.transform.rotation
        v.x, v.y, v.z = map(float, frame.p)
        r.w, r.x, r.y, r.z = map(float, frame.quat)
        messages.append(message)
    return messages
