"""What the nodes of a namespace say of themselves on ``/diagnostics``."""

from __future__ import annotations

import time

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.node import Node

SILENCE = 3.5
"""A node whose diagnostics are older than this is shown as silent [s]."""


class Health:
    """Collects the reports of the nodes in ``node``'s namespace."""

    def __init__(self, node: Node) -> None:
        self._mine = node.get_namespace().rstrip("/") + "/"
        self._reports: dict[str, tuple[float, DiagnosticStatus]] = {}

    def note(self, message: DiagnosticArray) -> None:
        """Take a message in; ``/diagnostics`` is everybody's, so others' reports are left out."""
        now = time.monotonic()
        for status in message.status:
            if status.name.startswith(self._mine):
                self._reports[status.name.removeprefix(self._mine)] = (now, status)

    def values(self, node: str) -> dict[str, str]:
        """Newest values of a node."""
        return {kv.key: kv.value for kv in self._reports[node][1].values} if node in self._reports else {}

    def rows(self) -> list[tuple[str, str, str]]:
        """(name, ok | warn | error | silent, message) of every node heard of."""
        now = time.monotonic()
        rows = []
        for name, (heard, status) in sorted(self._reports.items()):
            level = {b"\x00": "ok", b"\x01": "warn"}.get(status.level, "error")
            if now - heard > SILENCE:
                rows.append((name, "silent", f"silent for {now - heard:.0f} s"))
            else:
                rows.append((name, level, status.message))
        return rows
