"""The action FollowJointTrajectory on top of the trajectory node, where control_msgs is installed
(rclpy from PyPI comes without it)."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from rclpy.action import ActionServer, CancelResponse
from rclpy.node import Node
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from dexstack.errors import ConfigError
from dexstack.hand.trajectory import FollowParams, Phase, Waypoints
from dexstack.nodes.awaited import Awaited
from dexstack.nodes.wire import BadMessage, seconds, set_stamp

FEEDBACK = 0.05
"""Time between two messages of feedback [s]."""
ANY = 1e3
"""Tolerance that disables a check [rad]."""


class Asker:
    """Receives progress and outcome of a motion, in the worker of the trajectory node; this class
    ignores them."""

    def progress(self, t: float, names: Sequence[str], target: np.ndarray, q: np.ndarray) -> None:
        """Report target and angles (N,) [rad] of the joints of these names at time ``t`` [s]."""

    def ended(self, phase: Phase, why: str, *, on_the_way: bool = False) -> None:
        """Report the end: done, failed (``on_the_way``: before the last point), cancelled, or refused
        (IDLE)."""


IGNORED = Asker()


@dataclass(frozen=True)
class Request:
    """A requested motion."""

    start: float
    """Time at which it begins [s]; 0: at once."""
    motion: Waypoints | None
    """None: stop the running motion."""
    tolerances: FollowParams | None = None
    """None: those of the node."""
    asker: Asker = IGNORED
    came: float = field(default_factory=time.monotonic)


def read_motion(message: JointTrajectory) -> tuple[float, Waypoints | None]:
    """Return start [s] (0: at once) and motion; None: stop the running motion."""
    if not message.points:
        return 0.0, None
    if len({(len(point.positions), len(point.velocities)) for point in message.points}) > 1:
        raise BadMessage("points of different sizes")
    positions, velocities = (
        np.array([getattr(p, name) for p in message.points], float) for name in ("positions", "velocities")
    )
    times = np.array(
        [point.time_from_start.sec + 1e-9 * point.time_from_start.nanosec for point in message.points]
    )
    try:
        return seconds(message.header.stamp), Waypoints(
            tuple(message.joint_names), times, positions, velocities if velocities.size else None
        )
    except ConfigError as error:
        raise BadMessage(str(error)) from None


def serve(node: Node, ask: Callable[[Request], bool]) -> None:
    """Offer the action, where control_msgs is installed.

    Args:
        ask: passes a request to the trajectory node; returns False if that is not active.
    """
    if importlib.util.find_spec("control_msgs") is None:
        return
    from control_msgs.action import FollowJointTrajectory

    action = FollowAction(node, ask, FollowJointTrajectory)
    ActionServer(
        node,
        FollowJointTrajectory,
        "joint_trajectory/follow_joint_trajectory",
        action.execute,
        cancel_callback=action.cancel,
    )


class FollowAction:
    """Callbacks of the action server, in the executor's thread.

    Args:
        kind: the type of the action, control_msgs FollowJointTrajectory.
    """

    def __init__(self, node: Any, ask: Callable[[Request], bool], kind: Any) -> None:
        self._node, self._ask, self._kind = node, ask, kind

    async def execute(self, handle: Any) -> Any:
        """Follow one goal to its end; return the result."""
        goal, kind = handle.request, self._kind.Result
        asker = _Goal(self._node, handle, self._kind.Feedback)
        try:
            start, motion = read_motion(goal.trajectory)
            if motion is None:
                raise BadMessage("a goal without points")
            request = Request(start, motion, tolerances(goal, self._node.params(FollowParams)), asker)
        except BadMessage as error:
            handle.abort()
            return kind(error_code=kind.INVALID_GOAL, error_string=str(error))
        if not self._ask(request):
            handle.abort()
            return kind(error_code=kind.INVALID_GOAL, error_string="the trajectory node is not active")
        phase, why, on_the_way = await asker.end.result
        if phase is Phase.DONE:
            handle.succeed()
            return kind(error_code=kind.SUCCESSFUL)
        if phase is Phase.CANCELLED and handle.is_cancel_requested:
            handle.canceled()
        else:
            handle.abort()
        tolerance = kind.PATH_TOLERANCE_VIOLATED if on_the_way else kind.GOAL_TOLERANCE_VIOLATED
        return kind(
            error_code={Phase.FAILED: tolerance, Phase.IDLE: kind.INVALID_GOAL}.get(phase, kind.SUCCESSFUL),
            error_string=why,
        )

    def cancel(self, handle: Any) -> CancelResponse:
        """Stop the running motion."""
        return CancelResponse.ACCEPT if self._ask(Request(0.0, None)) else CancelResponse.REJECT


class _Goal(Asker):
    """Passes the outcome of one goal from the worker to the executor."""

    def __init__(self, node: Any, handle: Any, feedback: Any) -> None:
        self.end: Awaited = Awaited(node)
        """(phase, why, on the way)"""
        self._handle, self._feedback = handle, feedback
        self._reported = -np.inf

    def progress(self, t: float, names: Sequence[str], target: np.ndarray, q: np.ndarray) -> None:
        if 0.0 <= t - self._reported < FEEDBACK:
            return
        self._reported = t
        points = (JointTrajectoryPoint(positions=x.tolist()) for x in (target, q, target - q))
        message = self._feedback(joint_names=list(names))
        set_stamp(message.header.stamp, t)
        message.desired, message.actual, message.error = points
        self._handle.publish_feedback(message)

    def ended(self, phase: Phase, why: str, *, on_the_way: bool = False) -> None:
        self.end.set((phase, why, on_the_way))


def tolerances(goal: Any, default: FollowParams) -> FollowParams:
    """Return the tolerances of a goal: the tightest of any joint applies to all; 0 means that of the
    node, a negative one disables the check."""

    def tightest(given: Any, own: float) -> float:
        values = [ANY if x.position < 0.0 else x.position for x in given if x.position != 0.0]
        return min(values, default=own)

    wait = seconds(goal.goal_time_tolerance)
    return replace(
        default,
        path_tolerance=tightest(goal.path_tolerance, default.path_tolerance),
        goal_tolerance=tightest(goal.goal_tolerance, default.goal_tolerance),
        goal_time=wait if wait > 0.0 else default.goal_time,
    )
