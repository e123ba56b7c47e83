"""What an action server hands to its callback, for actions whose types cannot be had here."""

from __future__ import annotations

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
