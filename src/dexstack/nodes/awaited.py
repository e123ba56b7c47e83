"""A future that a node's worker sets and an action's callback awaits in the executor."""

from __future__ import annotations

from typing import Any

from rclpy.task import Future


class Awaited:
    """A value set once by the worker of ``node`` and awaited in its executor."""

    def __init__(self, node: Any) -> None:
        self.result: Future = Future()
        """Future to ``await``."""
        self._node = node

    def set(self, value: Any) -> None:
        """Set the value; callable once, from any thread."""
        self.result.set_result(value)
        if self._node.executor is not None:
            self._node.executor.wake()  # it checks awaited futures only when it wakes
