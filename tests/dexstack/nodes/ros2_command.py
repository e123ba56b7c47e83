"""The `ros2` command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def ros2(*arguments: str, timeout: float = 60.0) -> str:
    """Return the output of the command; fail the test if it fails."""
    done = subprocess.run([program(), *arguments], capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, f"ros2 {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout


def listed(*arguments: str) -> set[str]:
    """Return the output lines of the command after enough time for discovery."""
    return set(ros2(*arguments, "--no-daemon", "--spin-time", "10").splitlines())


def program() -> str:
    """Return the program next to the interpreter, or on the path."""
    local = Path(sys.executable).with_name("ros2")
    return str(local) if local.exists() else "ros2"
