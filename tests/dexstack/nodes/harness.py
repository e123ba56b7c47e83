"""Graphs under test: `dexstack up` as a process, and nodes in the process of the test."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter

from dexstack.nodes.common import StackNode

LOOK = 0.02
"""Time between two checks of a condition [s]."""
DEXSTACK = (sys.executable, "-m", "dexstack.cli.main")
NODES = ("simulator", "hand", "contact_detector", "mpc", "task", "console")


def node_class(module: str) -> type[StackNode]:
    """Return the node class of a module."""
    names = vars(importlib.import_module(module)).values()
    (found,) = (
        x for x in names if isinstance(x, type) and x.__module__ == module and issubclass(x, StackNode)
    )
    return found


@contextlib.contextmanager
def spinning(domain: int, *make: Callable[[], Node], arguments: tuple[str, ...] = ()) -> Iterator[list[Node]]:
    """Create nodes, spin them in one executor in a thread, and destroy them at the end.

    Args:
        arguments: ROS arguments.
    """
    rclpy.init(args=["--ros-args", *arguments], domain_id=domain)
    nodes: list[Node] = []

    def spin() -> None:
        with contextlib.suppress(ExternalShutdownException):
            executor.spin()

    thread = threading.Thread(target=spin)
    try:
        for one in make:
            nodes.append(one())
        kinds = [node.EXECUTOR for node in nodes if isinstance(node, StackNode)]
        executor = (kinds or [SingleThreadedExecutor])[0]()
        for node in nodes:
            executor.add_node(node)
        thread.start()
        yield nodes
    finally:
        for node in nodes:
            if isinstance(node, StackNode):
                node.stop_worker()
        if thread.ident is not None:
            executor.shutdown()
            thread.join()
        for node in nodes:
            node.destroy_node()
        rclpy.try_shutdown()


def put(node: Node, **parameters: Any) -> None:
    """Set parameters of a node in this process."""
    for name, value in parameters.items():
        (result,) = node.set_parameters([Parameter(name, value=value)])
        assert result.successful, f"{name}: {result.reason}"


def wait_until(condition: Callable[[], Any], timeout: float, what: str) -> Any:
    """Return the first true value of ``condition``; fail the test on a timeout.

    Time is counted in checks, so that a pause of the machine does not fail the test.
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
        command = [*DEXSTACK, "up", mode, "--results", str(results), "--no-report", *arguments]
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
            self.process.kill()  # the nodes end with it
            self.process.wait()
            wait_until(lambda: not any(alive(pid) for pid in nodes), 20, "the nodes to end")
