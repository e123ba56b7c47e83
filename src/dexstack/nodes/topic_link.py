"""The link of the hand node to a simulated hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sensor_msgs.msg import JointState

from dexstack.hand.link import Feedback, Link
from dexstack.nodes.common import StackNode
from dexstack.nodes.wire import SERVO, JointReader, JointWriter, WaitSet


class TopicLink(Link):
    """A simulated hand, which is always ready: feedback and torques as topics, on simulated time."""

    def __init__(self, node: StackNode, names: Sequence[str]) -> None:
        self._feedback = node.newest(JointState, "hand/feedback", SERVO, JointReader(names, "position"))
        self._wait = WaitSet(node, self._feedback)
        self._torque = JointWriter(names, "effort")
        self._to_simulator = node.create_publisher(JointState, "hand/torque", SERVO)
        self._t = 0.0

    def read(self, timeout: float) -> Feedback | None:
        self._wait.wait(timeout)
        sample = self._feedback.take()
        if sample is None:
            return None
        self._t = sample.t
        return Feedback(sample.t, sample.t, sample.values)

    def write(self, tau: np.ndarray) -> None:
        self._torque.effort[:] = tau
        self._to_simulator.publish(self._torque.at(self._t))

    def servo_off(self) -> None:
        self.write(np.zeros_like(self._torque.effort))

    close = servo_off

    def from_stamp(self, stamp: float) -> float:
        return stamp

    def status(self) -> dict[str, Any]:
        return {}
