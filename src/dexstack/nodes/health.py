"""Diagnostics of the nodes of one namespace."""

from __future__ import annotations

import time

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.node import Node

SILENCE = 3.5
"""Age of diagnostics from which a node counts as silent [s]."""


class Health:
    """Newest diagnostics of the nodes in the namespace of ``node``."""

    def __init__(self, node: Node) -> None:
        self._mine = node.get_namespace().rstrip("/") + "/"
        self._reports: dict[str, tuple[float, DiagnosticStatus]] = {}

    def note(self, message: DiagnosticArray) -> None:
        """Take in a message; ``/diagnostics`` is shared, so reports of other namespaces are skipped."""
        now = time.monotonic()
        for status in message.status:
            if status.name.startswith(self._mine):
                self._reports[status.name.removeprefix(self._mine)] = (now, status)

    def values(self, node: str) -> dict[str, str]:
        """Return the newest values of a node."""
        return {kv.key: kv.value for kv in self._reports[node][1].values} if node in self._reports else {}

    def rows(self) -> list[tuple[str, str, str]]:
        """Return (name, ok | warn | error | silent, message) of every node."""
        now = time.monotonic()
        rows = []
        for name, (heard, status) in sorted(self._reports.items()):
            level = {b"\x00": "ok", b"\x01": "warn"}.get(status.level, "error")
            if now - heard > SILENCE:
                rows.append((name, "silent", f"silent for {now - heard:.0f} s"))
            else:
                rows.append((name, level, status.message))
        return rows
