"""Action ReachGoal of the task node, available where dexstack_msgs is built; ``goal_pose``,
``rollout/state`` and ``~/cancel`` provide the same without it."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rclpy.action import ActionServer, CancelResponse

from dexstack.nodes.awaited import Awaited
from dexstack.nodes.wire import BadMessage, set_stamp

if TYPE_CHECKING:
    from dexstack.nodes.task import TaskNode

SUPERSEDED = "superseded"


def serve(node: TaskNode) -> None:
    """Offer the action if dexstack_msgs is installed."""
    if importlib.util.find_spec("dexstack_msgs") is None:
        return
    from dexstack_msgs.action import ReachGoal

    action = GoalAction(node, ReachGoal)
    ActionServer(node, ReachGoal, "task/reach_goal", action.execute, cancel_callback=action.cancel)


class GoalAction:
    """Callbacks of the action server, in the executor's thread.

    Args:
        node: task node; the action uses its ``reach``, ``cancel`` and ``executor``.
        kind: type of the action, ReachGoal of dexstack_msgs.
    """

    def __init__(self, node: TaskNode, kind: Any) -> None:
        self._node, self._kind = node, kind

    async def execute(self, handle: Any) -> Any:
        """Pursue one goal to its end and return the result."""
        follower = Follower(self._node, handle, self._kind.Feedback)
        try:
            taken = self._node.reach(self._node.read_pose(handle.request.goal), follower)
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
        result = self._kind.Result(phase=phase, **_errors(state))
        set_stamp(result.elapsed, max(0.0, state.get("elapsed", 0.0)))
        return result

    def cancel(self, handle: Any) -> CancelResponse:
        """End the rollout."""
        return CancelResponse.ACCEPT if self._node.cancel() else CancelResponse.REJECT


class Follower:
    """Observer of one goal: the worker of the task node reports to it, the executor awaits its end."""

    def __init__(self, node: TaskNode, handle: Any, feedback: Any) -> None:
        self.end: Awaited = Awaited(node)
        """Phase and state at the end."""
        self._handle, self._feedback = handle, feedback

    def progress(self, state: Mapping[str, Any], time_left: float) -> None:
        """Publish feedback.

        Args:
            state: as on ``rollout/state``.
            time_left: time until the rollout has failed [s].
        """
        message = self._feedback(phase=state["phase"], **_errors(state))
        set_stamp(message.time_left, max(0.0, time_left))
        self._handle.publish_feedback(message)

    def ended(self, phase: str, state: Mapping[str, Any]) -> None:
        """Report the end, once: a final phase of the task or :data:`SUPERSEDED`, and the last state."""
        self.end.set((phase, state))


def _errors(state: Mapping[str, Any]) -> dict[str, float]:
    names = {"orientation_error": "error", "position_error": "position_error"}
    return {field: float(state.get(key, 0.0)) for field, key in names.items()}
