"""Stand-in for the goal handle of an action server."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any


class Handle:
    """One goal."""

    def __init__(self, request: Any) -> None:
        self.request = request
        self.is_cancel_requested = False
        self.feedback: list[Any] = []
        self.status = ""

    def publish_feedback(self, message: Any) -> None:
        self.feedback.append(message)

    def succeed(self) -> None:
        self.status = "succeeded"

    def abort(self) -> None:
        self.status = "aborted"

    def canceled(self) -> None:
        self.status = "canceled"


def turn_of(task: Coroutine[Any, Any, Any], tick: Callable[[], None]) -> Callable[[], tuple[Any] | None]:
    """Return a function that runs ``tick`` and one step of an action's callback, as an executor does; it
    returns the result in a tuple once there is one."""

    def turn() -> tuple[Any] | None:
        tick()
        try:
            task.send(None)
        except StopIteration as end:
            return (end.value,)
        return None

    return turn
