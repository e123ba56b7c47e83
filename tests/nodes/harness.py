"""A graph under test: `dexstack up sim` as a process, and a probe node in the test's own process that listens and meddles."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from dexstack.nodes.common import StackNode
from dexstack.nodes.console import read_state
from dexstack.nodes.wire import LATCHED, REPORTS, BadMessage

EVERY = QoSProfile(depth=5000, reliability=ReliabilityPolicy.BEST_EFFORT)
"""After a pause of the machine the simulator makes up for it: seconds of samples come at once, and a test that counts them needs each."""
LOOK = 0.02
"""Time between two looks at a condition [s]."""
NODES = ("simulator", "hand", "contact_detector", "mpc", "task", "console")


def node_class(module: str) -> type[StackNode]:
    """The node that a module defines."""
    names = vars(importlib.import_module(module)).values()
    (found,) = (x for x in names if isinstance(x, type) and x.__module__ == module and issubclass(x, StackNode))
    return found


def wait_until(condition: Callable[[], Any], timeout: float, what: str) -> Any:
    """The first true value of ``condition``; fails the test when none comes in time.

    Time is counted in looks, so that a machine that was paused meanwhile (as virtual ones are) does not fail the test.
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


class Probe:
    """Listens to a graph: diagnostics, rollout state, and the hand's applied commands and torques with their time of arrival."""

    def __init__(self, domain: int) -> None:
        self.context = rclpy.Context()
        self.context.init(domain_id=domain)
        self.node = rclpy.create_node("probe", context=self.context)
        self.reports: dict[str, Any] = {}
        self.heard: dict[str, float] = {}
        self.states: list[dict[str, Any]] = []
        self.applied: list[tuple[float, JointState]] = []
        self.torques: list[tuple[float, JointState]] = []
        self.node.create_subscription(DiagnosticArray, "/diagnostics", self._on_report, REPORTS)
        self.node.create_subscription(String, "rollout/state", self._on_state, LATCHED)
        for topic, kept in (("hand/applied_command", self.applied), ("hand/torque", self.torques)):
            self.node.create_subscription(JointState, topic, lambda m, kept=kept: kept.append((time.monotonic(), m)), EVERY)
        self._executor = SingleThreadedExecutor(context=self.context)
        self._executor.add_node(self.node)
        self._thread = threading.Thread(target=self._spin)
        self._thread.start()

    def _spin(self) -> None:
        with contextlib.suppress(ExternalShutdownException):
            self._executor.spin()

    def _on_report(self, message: DiagnosticArray) -> None:
        for status in message.status:
            name = status.name.rpartition("/")[2]
            self.reports[name] = status
            self.heard[name] = time.monotonic()

    def _on_state(self, message: String) -> None:
        with contextlib.suppress(BadMessage):  # a test may publish such
            self.states.append(read_state(message))

    def values(self, node: str) -> dict[str, str]:
        return {kv.key: kv.value for kv in self.reports[node].values} if node in self.reports else {}

    def pid(self, node: str) -> int:
        return int(self.reports[node].hardware_id) if node in self.reports else 0

    def phase(self) -> str:
        return self.states[-1]["phase"] if self.states else ""

    def close(self) -> None:
        self._executor.shutdown()
        self._thread.join()
        self.node.destroy_node()  # else it stays in the domain until it is collected
        self.context.try_shutdown()


class Run:
    """One `dexstack up`."""

    def __init__(
        self, results: Path, *arguments: str, mode: str = "sim", domain: int | None = None, env: dict[str, str] | None = None
    ) -> None:
        self.results = results
        environment = dict(os.environ if env is None else env)
        if domain is not None:
            environment["ROS_DOMAIN_ID"] = str(domain)
        command = [sys.executable, "-m", "dexstack.cli.main", "up", mode, "--results", str(results), "--no-report", *arguments]
        results.mkdir(parents=True, exist_ok=True)
        with (results / "out.txt").open("w") as out, (results / "err.txt").open("w") as err:
            self.process = subprocess.Popen(command, env=environment, stdout=out, stderr=err, stdin=subprocess.DEVNULL)

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
