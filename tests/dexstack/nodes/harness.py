"""A graph under test: `dexstack up sim` as a process, and a probe node in the test's own process
that listens and meddles."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from dexstack.nodes.common import StackNode

LOOK = 0.02
"""Time between two looks at a condition [s]."""
NODES = ("simulator", "hand", "contact_detector", "mpc", "task", "console")


def node_class(module: str) -> type[StackNode]:
    """The node that a module defines."""
    names = vars(importlib.import_module(module)).values()
    (found,) = (
        x for x in names if isinstance(x, type) and x.__module__ == module and issubclass(x, StackNode)
    )
    return found


def wait_until(condition: Callable[[], Any], timeout: float, what: str) -> Any:
    """The first true value of ``condition``; fails the test when none comes in time.

    Time is counted in looks, so that a machine that was paused meanwhile (as virtual ones are) does
    not fail the test.
    """
    for _ in range(max(1, round(timeout / LOOK))):
        value = condition()
        if value:
            return value
        time.sleep(LOOK)
    pytest.fail(f"waited {timeout:g} s for {what}")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children(pid: int) -> list[int]:
    return [child.pid for child in psutil.Process(pid).children()]


class Run:
    """One `dexstack up`."""

    def __init__(
        self,
        results: Path,
        *arguments: str,
        mode: str = "sim",
        domain: int | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        self.results = results
        environment = dict(os.environ if env is None else env)
        if domain is not None:
            environment["ROS_DOMAIN_ID"] = str(domain)
        command = [
            sys.executable,
            "-m",
            "dexstack.cli.main",
            "up",
            mode,
            "--results",
            str(results),
            "--no-report",
            *arguments,
        ]
        results.mkdir(parents=True, exist_ok=True)
        with (results / "out.txt").open("w") as out, (results / "err.txt").open("w") as err:
            self.process = subprocess.Popen(
                command, env=environment, stdout=out, stderr=err, stdin=subprocess.DEVNULL
            )

    @property
    def err(self) -> str:
        return (self.results / "err.txt").read_text()

    @property
    def out(self) -> str:
        return (self.results / "out.txt").read_text()

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(20.0)

    def close(self) -> None:
        if self.process.poll() is None:
            nodes = children(self.process.pid)
            self.process.kill()  # the nodes end with it, and with them their part in the domain
            self.process.wait()
            wait_until(lambda: not any(alive(pid) for pid in nodes), 20, "the nodes to end")
