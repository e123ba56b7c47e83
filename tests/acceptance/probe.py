"""A node that listens to a running graph, for rigs and tests."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.msg import SetParametersResult
from rcl_interfaces.srv import SetParameters
from rclpy.exceptions import InvalidHandle
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger

from dexstack.nodes.console import read_state
from dexstack.nodes.wire import LATCHED, REPORTS, BadMessage
from tests.acceptance.programs import until

EVERY = QoSProfile(depth=5000, reliability=ReliabilityPolicy.BEST_EFFORT)
"""After a pause of the machine the simulator catches up and sends seconds of samples at once."""


class Probe:
    """Records diagnostics, rollout state, and the hand's applied commands and torques with their time
    of arrival (monotonic clock [s])."""

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
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._spin)
        self._thread.start()

    def _spin(self) -> None:
        with contextlib.suppress(ExternalShutdownException):
            while not self._closing.is_set():
                with contextlib.suppress(InvalidHandle):  # destroyed while the executor used it
                    self._executor.spin_once(0.2)

    def _on_report(self, message: DiagnosticArray) -> None:
        for status in message.status:
            name = status.name.rpartition("/")[2]
            self.reports[name] = status
            self.heard[name] = time.monotonic()

    def _on_state(self, message: String) -> None:
        with contextlib.suppress(BadMessage):  # tests publish malformed ones
            self.states.append(read_state(message))

    def values(self, node: str) -> dict[str, str]:
        """Return the key-value pairs of a node's newest diagnostics."""
        return {kv.key: kv.value for kv in self.reports[node].values} if node in self.reports else {}

    def pid(self, node: str) -> int:
        return int(self.values(node).get("pid", 0))

    def phase(self) -> str:
        return self.states[-1]["phase"] if self.states else ""

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        self._executor.shutdown()
        self.node.destroy_node()  # otherwise it stays in the domain until it is collected
        self.context.try_shutdown()


def call(node: Node, service: str, kind: Any = Trigger, timeout: float = 30.0, **fields: Any) -> Any:
    """Return the response of a service; another thread spins the node.

    Raises:
        TimeoutError: no such service, or no answer in ``timeout`` [s].
    """
    client = node.create_client(kind, service)
    try:
        if not client.wait_for_service(20.0):
            raise TimeoutError(f"{service} is not available")
        future = client.call_async(kind.Request(**fields))
        if not until(future.done, timeout):
            raise TimeoutError(f"{service} does not answer")
        return future.result()
    finally:
        node.destroy_client(client)


def put_from(node: Node, target: str, name: str, value: Any, timeout: float = 300.0) -> SetParametersResult:
    """Set a parameter of another node through its service; the first use of an engine compiles it."""
    message = Parameter(name, value=value).to_parameter_msg()
    return call(node, f"{target}/set_parameters", SetParameters, timeout, parameters=[message]).results[0]
