"""The action ReachGoal on top of the task node, where dexstack_msgs is built; elsewhere
``goal_pose``, ``rollout/state`` and ``~/cancel`` do the same."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from rclpy.action import ActionServer, CancelResponse

from dexstack.nodes.awaited import Awaited
from dexstack.nodes.wire import BadMessage, PoseSample, read_pose, set_stamp

SUPERSEDED = "superseded"


@runtime_checkable
class Follower(Protocol):
    """Who wants to know what becomes of a goal; called by the worker of the task node."""

    def progress(self, state: Mapping[str, Any], time_left: float) -> None:
        """A state as on ``rollout/state``, and the time until the rollout has failed [s]."""

    def ended(self, phase: str, state: Mapping[str, Any]) -> None:
        """Nothing more comes: one of the task's phases at the end, or :data:`SUPERSEDED`, and the
        last state."""


@runtime_checkable
class Tasks(Protocol):
    """What the action needs of the task node."""

    executor: Any

    def reach(self, pose: PoseSample, follower: Follower) -> bool:
        """Take a goal; false when the node is not active."""

    def cancel(self) -> bool:
        """End the rollout that runs; false when none does."""


def serve(node: Any) -> None:
    """Offer the action, where dexstack_msgs is installed."""
    if importlib.util.find_spec("dexstack_msgs") is None:
        return
    from dexstack_msgs.action import ReachGoal

    action = GoalAction(node, ReachGoal)
    ActionServer(node, ReachGoal, "task/reach_goal", action.execute, cancel_callback=action.cancel)


class GoalAction:
    """What the server calls, in the executor's thread.

    Args:
        kind: the action's type, ReachGoal of dexstack_msgs.
    """

    def __init__(self, node: Tasks, kind: Any) -> None:
        self._node, self._kind = node, kind

    async def execute(self, handle: Any) -> Any:
        """Pursue one goal to its end; the result."""
        follower = _Follower(self._node, handle, self._kind.Feedback)
        try:
            taken = self._node.reach(read_pose(handle.request.goal), follower)
        except BadMessage:
            taken = False
        if not taken:
            handle.abort()
            return self._kind.Result(phase="refused")
        phase, state = await follower.end.result
        if phase == "reached":
            handle.succeed()
        elif handle.is_cancel_requested:
            handle.canceled()
        else:
            handle.abort()
        return _filled(
            self._kind.Result(phase=phase), state, lambda message: message.elapsed, state.get("elapsed", 0.0)
        )

    def cancel(self, handle: Any) -> CancelResponse:
        """End the rollout."""
        return CancelResponse.ACCEPT if self._node.cancel() else CancelResponse.REJECT


class _Follower:
    """Carries what becomes of one goal from the worker to the executor."""

    def __init__(self, node: Tasks, handle: Any, feedback: Any) -> None:
        self.end: Awaited = Awaited(node)
        """(phase, state)"""
        self._handle, self._feedback = handle, feedback

    def progress(self, state: Mapping[str, Any], time_left: float) -> None:
        message = self._feedback(phase=state["phase"])
        self._handle.publish_feedback(_filled(message, state, lambda m: m.time_left, time_left))

    def ended(self, phase: str, state: Mapping[str, Any]) -> None:
        self.end.set((phase, state))


def _filled(message: Any, state: Mapping[str, Any], duration: Callable[[Any], Any], seconds: float) -> Any:
    message.orientation_error, message.position_error = (
        float(state.get("error", 0.0)),
        float(state.get("position_error", 0.0)),
    )
    set_stamp(duration(message), max(0.0, seconds))
    return message
