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
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import pytest
import rclpy
from geometry_msgs.msg import PoseWithCovarianceStamped
from rcl_interfaces.msg import SetParametersResult
from rcl_interfaces.srv import SetParameters
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from dexstack.model.hand import load_hand
from dexstack.nodes.common import StackNode
from dexstack.nodes.wire import fill_pose, set_stamp

LOOK = 0.02
"""Time between two checks of a condition [s]."""
DEXSTACK = (sys.executable, "-m", "dexstack.cli.main")
NODES = ("simulator", "hand", "contact_detector", "mpc", "task", "console")
HAND = load_hand("right")
PUSH = np.clip(HAND.home + 0.2, HAND.lower, HAND.upper)


def joint_state(t: float, names: Any = HAND.joint_names, **fields: Any) -> JointState:
    """Return a message of time ``t`` with these fields (position, effort)."""
    message = JointState(name=list(names))
    set_stamp(message.header.stamp, t)
    for field, values in fields.items():
        setattr(message, field, array("d", values))
    return message


def pose_message(
    values: Any, t: float = 0.0, frame: str = "world", kind: Any = PoseWithCovarianceStamped
) -> Any:
    """Return a message of time ``t`` with this pose (7,)."""
    message = kind()
    message.header.frame_id = frame
    set_stamp(message.header.stamp, t)
    fill_pose(message.pose.pose if kind is PoseWithCovarianceStamped else message.pose, values)
    return message


def node_class(module: str) -> type[StackNode]:
    """Return the node class of a module."""
    names = vars(importlib.import_module(module)).values()
    (found,) = (
        x for x in names if isinstance(x, type) and x.__module__ == module and issubclass(x, StackNode)
    )
    return found


@contextlib.contextmanager
def spinning(domain: int, *make: Callable[[], Node], arguments: tuple[str, ...] = ()) -> Iterator[list[Node]]:
    """Create nodes, spin them in the executor of the first in a thread, and destroy them at the end.

    Args:
        arguments: ROS arguments.
    """
    rclpy.init(args=["--ros-args", *arguments], domain_id=domain)
    executor, nodes = getattr(make[0], "EXECUTOR", SingleThreadedExecutor)(), []

    def spin() -> None:
        with contextlib.suppress(ExternalShutdownException):
            executor.spin()

    thread = threading.Thread(target=spin)
    try:
        for one in make:
            nodes.append(one())
            executor.add_node(nodes[-1])
        thread.start()
        yield nodes
    finally:
        for node in nodes:
            if isinstance(node, StackNode):
                node.stop_worker()
        executor.shutdown()
        if thread.ident is not None:
            thread.join()
        for node in nodes:
            node.destroy_node()
        rclpy.try_shutdown()


def put(node: Node, **parameters: Any) -> None:
    """Set parameters of a node in this process."""
    for name, value in parameters.items():
        (result,) = node.set_parameters([Parameter(name, value=value)])
        assert result.successful, f"{name}: {result.reason}"


def call(node: Node, service: str, kind: Any = Trigger, timeout: float = 30.0, **fields: Any) -> Any:
    """Return the response of a service; another thread spins the node."""
    client = node.create_client(kind, service)
    assert client.wait_for_service(20.0)
    future = client.call_async(kind.Request(**fields))
    wait_until(future.done, timeout, f"an answer from {service}")
    return future.result()


def put_from(node: Node, target: str, name: str, value: Any) -> SetParametersResult:
    """Set a parameter of another node through its service."""
    message = Parameter(name, value=value).to_parameter_msg()
    # The first use of an engine compiles it.
    return call(node, f"{target}/set_parameters", SetParameters, 300.0, parameters=[message]).results[0]


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


class Pair(NamedTuple):
    """A node under test and its counterpart, both spun by a thread."""

    node: StackNode
    peer: Node

    def activate(self) -> None:
        assert self.node.autostart()

    def call(self, service: str) -> Trigger.Response:
        return call(self.peer, service)


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
