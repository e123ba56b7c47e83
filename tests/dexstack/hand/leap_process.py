"""Emulated LEAP motors on a pseudo-terminal, in a process of their own."""

from typing import Any

from tests.dexstack.hand.emulated import HandProcess, until

STICKY = ("--dry-friction", "0.1")


class Process(HandProcess):
    """Emulated LEAP motors behind the terminal ``path``, whose joints stay where they are without torque: dry
    friction is larger than their weight."""

    def __init__(self, path: str, *arguments: str) -> None:
        self.path = path
        super().__init__("leap", path, *STICKY, *arguments, "--emulator-priority", "0")

    def wait(self, condition: Any, seconds: float = 20.0) -> dict[str, Any]:
        """The state as soon as ``condition`` holds of it."""
        return until(lambda: s if condition(s := self.set()) else None, seconds, "a state of the motors")
