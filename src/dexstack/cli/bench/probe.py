"""A node that listens to a running graph: for benchmarks and tests."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.exceptions import InvalidHandle
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from dexstack.nodes.console import read_state
from dexstack.nodes.wire import LATCHED, REPORTS, BadMessage

EVERY = QoSProfile(depth=5000, reliability=ReliabilityPolicy.BEST_EFFORT)
"""After a pause of the machine the simulator makes up for it: seconds of samples come at once, and
whoever counts them needs each."""


class Probe:
    """Listens to a graph: diagnostics, rollout state, and the hand's applied commands and torques
    with their time of arrival."""

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
            self.node.create_subscription(
                JointState, topic, lambda m, kept=kept: kept.append((time.monotonic(), m)), EVERY
            )
        self._executor = SingleThreadedExecutor(context=self.context)
        self._executor.add_node(self.node)
        self._thread = threading.Thread(target=self._spin)
        self._thread.start()

    def _spin(self) -> None:
        while True:
            try:
                self._executor.spin()
            except ExternalShutdownException:
                return
            except (
                InvalidHandle
            ):  # somebody destroyed a publisher or a client while the executor looked at it
                continue
            return

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
        return int(self.values(node).get("pid", 0))

    def phase(self) -> str:
        return self.states[-1]["phase"] if self.states else ""

    def close(self) -> None:
        self._executor.shutdown()
        self._thread.join()
        self.node.destroy_node()  # else it stays in the domain until it is collected
        self.context.try_shutdown()
