"""The `ros2` command, where it is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def ros2(*arguments: str, timeout: float = 60.0) -> str:
    """What the command prints; fails the test if it fails."""
    done = subprocess.run([program(), *arguments], capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, f"ros2 {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout


def listed(*arguments: str) -> set[str]:
    """The lines that the command prints once it has had time to find everybody."""
    return set(ros2(*arguments, "--no-daemon", "--spin-time", "10").splitlines())


def program() -> str:
    """Beside the interpreter, or on the path."""
    beside = Path(sys.executable).with_name("ros2")
    return str(beside) if beside.exists() else "ros2"
