"""What an action server hands to its callback, for actions whose types cannot be had here."""

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
    """Gives a turn to what an action executes, as an executor does, after a tick of the world: the
    result as soon as there is one."""

    def turn() -> tuple[Any] | None:
        tick()
        try:
            task.send(None)
        except StopIteration as end:
            return (end.value,)
        return None

    return turn
