"""What the tests of nodes share: messages, nodes in the process of the test, and stand-ins."""

import contextlib
import importlib
import threading
from array import array
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import rclpy
from geometry_msgs.msg import PoseWithCovarianceStamped
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from dexstack.model.hand import load_hand
from dexstack.nodes import mpc
from dexstack.nodes.common import StackNode
from dexstack.nodes.mpc import MpcNode
from dexstack.nodes.wire import Newest, fill_pose, seconds, set_stamp
from tests.acceptance.probe import call
from tests.acceptance.programs import until

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


def wait_until(condition: Callable[[], Any], timeout: float, what: str) -> Any:
    """Return the first true value of ``condition``; fail the test on a timeout."""
    return until(condition, timeout) or pytest.fail(f"waited {timeout:g} s for {what}")


class Pair(NamedTuple):
    """A node under test and its counterpart, both spun by a thread."""

    node: StackNode
    peer: Node

    def activate(self) -> None:
        assert self.node.autostart()

    def call(self, service: str) -> Trigger.Response:
        return call(self.peer, service)


class Goal(SimpleNamespace):
    """Stand-in for the handle of one goal of an action server."""

    def __init__(self, request: Any) -> None:
        super().__init__(request=request, is_cancel_requested=False, feedback=[], status="")
        self.publish_feedback = self.feedback.append
        for end, status in (("succeed", "succeeded"), ("abort", "aborted"), ("canceled", "canceled")):
            setattr(self, end, partial(setattr, self, "status", status))


def turn_of(task: Coroutine[Any, Any, Any], tick: Callable[[], None]) -> Callable[[], tuple[Any] | None]:
    """Return a function that runs ``tick`` and one step of an action's callback, as an executor does; it
    returns the result in a tuple once there is one."""

    def turn() -> tuple[Any] | None:
        tick()
        try:
            task.send(None)
        except StopIteration as end:
            return (end.value,)
        return None

    return turn


class FedInput(Newest):
    """An input whose samples a test appends to ``samples``."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.samples: list[Any] = []

    def take_all(self) -> list[Any]:
        taken, self.samples = self.samples, []
        return taken


class FedMpc(MpcNode):
    """An mpc node without middleware: :meth:`feed` hands it samples, :meth:`work` runs one turn."""

    def __init__(self) -> None:
        self.inputs: dict[str, FedInput] = {}
        self.commands: list[tuple[float, list[float]]] = []
        super().__init__()

    def newest(self, msg_type: Any, topic: str, qos: Any, decode: Any) -> FedInput:
        self.inputs[topic] = FedInput(self, msg_type, topic, qos, decode, self.drop)
        return self.inputs[topic]

    def create_publisher(self, msg_type: Any, topic: str, *args: Any, **kwargs: Any) -> Any:
        if not topic.startswith(("joint_command", "mpc/")):
            return super().create_publisher(msg_type, topic, *args, **kwargs)
        keep = self._keep if topic == "joint_command" else lambda message: None
        return SimpleNamespace(publish=keep, get_subscription_count=lambda: 1)

    def _keep(self, message: JointState) -> None:
        self.commands.append((seconds(message.header.stamp), list(message.position)))

    def feed(self, topic: str, sample: Any) -> None:
        self.inputs[topic].samples.append(sample)

    def sent(self) -> list[tuple[float, list[float]]]:
        """Return the commands since the last call: stamp [s], positions (N,)."""
        sent, self.commands = self.commands, []
        return sent


@contextlib.contextmanager
def fed_mpc(domain: int, monkeypatch: pytest.MonkeyPatch, **parameters: Any) -> Iterator[FedMpc]:
    """Configure and activate an mpc node with these parameters."""
    monkeypatch.setattr(mpc, "WaitSet", lambda *_: SimpleNamespace(wait=lambda timeout: True))
    given = {"realtime_priority": 0, **parameters}  # the process is that of all tests
    arguments = [f"{name}:={value}" for name, value in given.items()]
    rclpy.init(domain_id=domain, args=["--ros-args", *(x for a in arguments for x in ("-p", a))])
    node = FedMpc()
    try:
        node.configure()
        node.begin()
        yield node
    finally:
        node.destroy_node()
        rclpy.shutdown()
