"""What an action's callback waits for: set by a node's worker, awaited in its executor."""

from __future__ import annotations

from typing import Any

from rclpy.task import Future


class Awaited:
    """One value.

    Args:
        node: whose executor waits.
    """

    def __init__(self, node: Any) -> None:
        self.result: Future = Future()
        """To ``await``."""
        self._node = node

    def set(self, value: Any) -> None:
        """From any thread, once."""
        self.result.set_result(value)
        if self._node.executor is not None:
            self._node.executor.wake()  # who waits for the result is looked at when the executor turns
