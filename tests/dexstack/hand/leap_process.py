"""Emulated LEAP motors on a pseudo-terminal, in a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any


class Process:
    """An emulated hand in a process of its own."""

    def __init__(self, path: str, *arguments: str) -> None:
        self.path = path
        command = [
            sys.executable,
            "-m",
            "dexstack.hand.emulated.leap",
            "--plant",
            "standing",
            "--channel",
            path,
            *arguments,
        ]
        self._process = subprocess.Popen(
            [*command, "--emulator-priority", "0"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        assert json.loads(self._process.stdout.readline())["ready"]

    def set(self, **changes: Any) -> dict[str, Any]:
        self._process.stdin.write(json.dumps(changes) + "\n")
        return json.loads(self._process.stdout.readline())

    def wait(self, condition: Any, seconds: float = 20.0) -> dict[str, Any]:
        """The state as soon as ``condition`` holds of it."""
        end = time.monotonic() + seconds
        while not condition(state := self.set()):
            assert time.monotonic() < end, state
            time.sleep(0.01)
        return state

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(10.0)
        self._process.stdout.close()
