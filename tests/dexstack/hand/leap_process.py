"""Emulated LEAP motors on a pseudo-terminal, in a process of their own."""

from typing import Any

from tests.dexstack.hand.emulated import HandProcess, until


class Process(HandProcess):
    """Emulated LEAP motors behind the terminal ``path``."""

    def __init__(self, path: str, *arguments: str) -> None:
        self.path = path
        super().__init__("leap", path, *arguments, "--emulator-priority", "0")

    def wait(self, condition: Any, seconds: float = 20.0) -> dict[str, Any]:
        """The state as soon as ``condition`` holds of it."""
        return until(lambda: s if condition(s := self.set()) else None, seconds, "a state of the motors")
