"""Poses of frames at past times, from ``/tf`` and ``/tf_static``, where tf2_msgs is installed (it is not on
PyPI).

The graph's frame ``world`` is the one in which the palm is fixed. On an arm it moves: there
``robot_state`` publishes it as a child of the palm, whose pose the arm's frames give.
"""

from __future__ import annotations

import importlib.util
import threading
from collections import deque
from typing import Any

import numpy as np
from geometry_msgs.msg import TransformStamped
from rclpy.node import Node
from rclpy.qos import QoSProfile

from dexstack.errors import ConfigError
from dexstack.model.mount import GravityParams
from dexstack.nodes.wire import STATIC, WORLD, seconds
from dexstack.perception.se3 import Transform, between

KEPT = 10.0
"""Time for which poses of moving frames are kept [s]."""
BACK = 1.0
"""A pose that is older than the newest by more than this means that the clock was set back [s]."""
GRAVITY_LAG = 0.1
"""Age of the poses that give the direction of gravity, so that newer ones surround them [s]."""


def tf_message() -> Any:
    """Return the message type TFMessage; None if tf2_msgs is not installed."""
    if importlib.util.find_spec("tf2_msgs") is None:
        return None
    from tf2_msgs.msg import TFMessage

    return TFMessage


class FrameBuffer:
    """Poses of frames relative to each other over time, from ``/tf`` and ``/tf_static``; may be used by
    several threads."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}
        self._poses: dict[str, deque[tuple[float, Transform]]] = {}
        """Times [s] and poses in the parent, ascending; one of time NaN for a fixed frame."""
        self._lock = threading.Lock()

    def note(self, message: Any, *, fixed: bool = False) -> None:
        """Take in a TFMessage from ``/tf``, or of ``fixed`` frames from ``/tf_static``."""
        with self._lock:
            for stamped in message.transforms:
                self._note(stamped, fixed)

    def _note(self, stamped: TransformStamped, fixed: bool) -> None:
        v, r = stamped.transform.translation, stamped.transform.rotation
        X_PF = Transform.of_pose([v.x, v.y, v.z, r.w, r.x, r.y, r.z])
        t = np.nan if fixed else seconds(stamped.header.stamp)
        frame, parent = stamped.child_frame_id.lstrip("/"), stamped.header.frame_id.lstrip("/")
        poses = self._poses.setdefault(frame, deque())
        if fixed or self._parents.get(frame) != parent or (poses and not t > poses[-1][0] - BACK):
            poses.clear()
        elif poses and t <= poses[-1][0]:
            return
        self._parents[frame] = parent
        poses.append((t, X_PF))
        while poses[-1][0] - poses[0][0] > KEPT:
            poses.popleft()

    def pose(self, frame: str, of: str, t: float) -> Transform:
        """Return the pose of the frame ``of`` in ``frame`` at time ``t`` [s]; 0: the newest.

        Raises:
            ConfigError: The frames are not connected, or a pose on the way is not known at that time.
        """
        (here, X_RA), (there, X_RB) = self.root(frame, t), self.root(of, t)
        if here != there:
            raise ConfigError(f"/tf does not connect '{of}' to '{frame}'")
        return X_RA.inverse.compose(X_RB)

    def root(self, frame: str, t: float = 0.0) -> tuple[str, Transform]:
        """Return the topmost ancestor of a frame (itself without a parent) and the frame's pose in it at
        time ``t`` [s]; 0: the newest.

        Raises:
            ConfigError: There is a loop, or a pose on the way is not known at that time.
        """
        X, seen = Transform(np.eye(3), np.zeros(3)), set[str]()
        with self._lock:
            while frame in self._parents:
                if frame in seen:
                    raise ConfigError(f"/tf has a loop at '{frame}'")
                seen.add(frame)
                X = self._at(frame, t).compose(X)
                frame = self._parents[frame]
        return frame, X

    def _at(self, frame: str, t: float) -> Transform:
        """Return the pose of a frame in its parent, interpolated."""
        poses = self._poses[frame]
        first, (last, newest) = poses[0][0], poses[-1]
        if t == 0.0 or np.isnan(last):
            return newest
        if not first <= t <= last:
            gap = f"{t - last:.3f} s after the newest" if t > last else f"{first - t:.3f} s before the oldest"
            raise ConfigError(f"the pose of '{frame}' is needed {gap} on /tf")
        k = next(k for k in range(len(poses) - 1, -1, -1) if poses[k][0] <= t)
        if poses[k][0] == t:
            return poses[k][1]
        (before, X_0), (after, X_1) = poses[k], poses[k + 1]
        share = (t - before) / (after - before)
        return between(X_0, X_1, share)


class FrameListener(FrameBuffer):
    """A buffer that listens to ``/tf`` and ``/tf_static``.

    Raises:
        ConfigError: tf2_msgs is not installed.
    """

    def __init__(self, node: Node) -> None:
        super().__init__()
        kind = tf_message()
        if kind is None:
            raise ConfigError("tf2_msgs is not installed, so poses cannot be converted between frames")
        node.create_subscription(kind, "/tf", self.note, QoSProfile(depth=100))
        node.create_subscription(kind, "/tf_static", lambda m: self.note(m, fixed=True), STATIC)


class GravitySource:
    """Gravity in the world, in which the palm is fixed: the parameter, or for a hand that turns its
    direction from ``/tf``."""

    def __init__(self, params: GravityParams, frames: FrameBuffer | None) -> None:
        """
        Args:
            frames: poses of frames; None only without ``gravity_frame``.
        """
        self._params, self._frames = params, frames
        self.gravity = tuple(params.gravity)
        """(3,) as last found [m/s²]."""
        self.trouble = ""
        """Why the direction is not known now; empty if it is."""

    @property
    def turns(self) -> bool:
        """True if the direction comes from ``/tf``."""
        return bool(self._params.gravity_frame)

    def update(self, t: float) -> bool:
        """Take the direction at time ``t`` [s], less :data:`GRAVITY_LAG`; without one keep the last.
        Return whether it is known."""
        if not self.turns:
            return True
        assert self._frames is not None
        try:
            up = self._frames.pose(WORLD, self._params.gravity_frame, t - GRAVITY_LAG).R[:, 2]
        except ConfigError as error:
            self.trouble = f"the last known direction of gravity is used: {error}"
            return False
        size = float(np.linalg.norm(self._params.gravity))
        self.gravity, self.trouble = tuple((-size * up).tolist()), ""
        return True
