"""Programs in the background, and waiting for what they do; needs no ROS."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from dexstack.cli.supervisor import graph_environment

DEXSTACK = (sys.executable, "-m", "dexstack.cli.main")
LOOK = 0.02
"""Time between two checks of a condition [s]."""
PATIENCE = 3.0
"""Largest ratio of a wait to its timeout, on a machine that pauses."""


def until(condition: Callable[[], Any], timeout: float) -> Any:
    """Return the first true value of ``condition``, or a false one after ``timeout`` [s].

    Time is counted in checks, so that a pause of the machine does not end the wait, up to PATIENCE times
    as long.
    """
    end = time.monotonic() + PATIENCE * timeout
    for _ in range(max(1, round(timeout / LOOK))):
        if (value := condition()) or time.monotonic() > end:
            return value
        time.sleep(LOOK)
    return condition()


def alive(pid: int) -> bool:
    """Return whether a process runs; one that has ended and was not waited for does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


class Program(subprocess.Popen):
    """A program in the background, interrupted at the end of its ``with`` statement.

    Args:
        folder: folder for ``out.txt`` and ``err.txt``, its output.
        env: its environment; that of this process if None.
    """

    def __init__(self, command: Sequence[str], folder: Path, env: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "out.txt").open("w") as out, (folder / "err.txt").open("w") as err:
            super().__init__(command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err)

    @property
    def out(self) -> str:
        return (self.folder / "out.txt").read_text()

    @property
    def err(self) -> str:
        return (self.folder / "err.txt").read_text()

    def children(self) -> list[int]:
        return [child.pid for child in psutil.Process(self.pid).children()]

    def interrupt(self, timeout: float = 60.0) -> int:
        """Send SIGINT, and SIGKILL to what has not ended after ``timeout`` [s]; return the exit code."""
        if self.poll() is None:
            self.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self.wait(timeout)
            self.kill()
        return self.wait()

    def __exit__(self, *error: object) -> None:
        self.interrupt()


def up(mode: str, folder: Path, *arguments: str, env: Mapping[str, str] | None = None) -> Program:
    """Start ``dexstack up`` with its results in ``folder``."""
    command = [*DEXSTACK, "up", mode, "--results", str(folder), "--no-report", *arguments]
    return Program(command, folder, env)


@contextlib.contextmanager
def own_domain() -> Iterator[int]:
    """Put this process and its children into a ROS domain that is unused on this machine and stays on
    it; yield its number."""
    before = dict(os.environ)
    os.environ.pop("ROS_DOMAIN_ID", None)
    with graph_environment() as environment:
        os.environ.update(environment)
        try:
            yield int(environment["ROS_DOMAIN_ID"])
        finally:
            os.environ.clear()
            os.environ.update(before)
