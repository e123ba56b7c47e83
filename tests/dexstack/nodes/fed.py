"""An mpc node without middleware: samples are handed to it, and its messages are collected."""

from __future__ import annotations

import copy

import rclpy

from dexstack.nodes import mpc as module
from dexstack.nodes.mpc import MpcNode
from dexstack.nodes.wire import Newest


class FedInput(Newest):
    """An input whose samples a test appends to ``samples``."""

    def __init__(self, *args):
        super().__init__(*args)
        self.samples = []

    def take_all(self):
        taken, self.samples = self.samples, []
        return taken


class Collector:
    """A publisher that keeps its messages."""

    def __init__(self):
        self.published = []

    def publish(self, message):
        self.published.append(copy.deepcopy(message))  # the node fills one message again and again

    def get_subscription_count(self):
        return 1


class NoWait:
    """A wait set that does not wait."""

    def __init__(self, node, *inputs):
        pass

    def wait(self, timeout):
        return True


class FedMpc(MpcNode):
    """The mpc node on fed inputs; call :meth:`work` for each turn."""

    def __init__(self):
        self.inputs, self.outputs, self.commands = {}, {}, []
        super().__init__()

    def newest(self, msg_type, topic, qos, decode):
        self.inputs[topic] = FedInput(self, msg_type, topic, qos, decode, self.drop)
        return self.inputs[topic]

    def create_publisher(self, msg_type, topic, *args, **kwargs):
        if not topic.startswith(("joint_command", "mpc/")):
            return super().create_publisher(msg_type, topic, *args, **kwargs)
        self.outputs[topic] = Collector()
        return self.outputs[topic]

    def feed(self, topic, sample):
        self.inputs[topic].samples.append(sample)

    def sent(self):
        """Commands published since the last call: (stamp [s], positions (N,))."""
        messages, out = self.outputs["joint_command"].published, []
        for message in messages:
            stamp = message.header.stamp
            out.append((stamp.sec + 1e-9 * stamp.nanosec, list(message.position)))
        messages.clear()
        return out


def fed_mpc(domain, monkeypatch, **parameters):
    """A configured and activated node with these parameters; a generator for fixtures."""
    monkeypatch.setattr(module, "WaitSet", NoWait)
    given = {"realtime_priority": 0, **parameters}  # the process is that of all tests
    arguments = [a for name, value in given.items() for a in ("-p", f"{name}:={value}")]
    rclpy.init(domain_id=domain, args=["--ros-args", *arguments])
    node = FedMpc()
    try:
        node.configure()
        node.begin()
        yield node
    finally:
        node.destroy_node()
        rclpy.shutdown()
