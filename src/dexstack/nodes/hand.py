"""The hand node: runs the joint servo on every feedback of the hand, real or simulated.

The servo law, its limits and its watchdog are :class:`dexstack.hand.servo.ServoLaw`, the same object for every transport. The worker is
paced by the hand's own feedback. Whatever ends it, the last thing it sends is zero torque.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from dexstack.config import param
from dexstack.hand.servo import ServoLaw, ServoMode, ServoParams
from dexstack.model.gravity import GravityCompensation
from dexstack.model.hand import load_hand
from dexstack.nodes.common import OK, PATIENCE, WARN, StackNode, run_node
from dexstack.nodes.wire import COMMAND, SENSOR, SERVO, JointReader, JointSample, JointWriter, WaitSet


@dataclass(frozen=True)
class HandParams:
    """Parameters of the hand node, beside those of the servo."""

    hand: str = param("right", "side of the hand, or the path of a hand's YAML")
    applied_command_every: int = param(3, "publish hand/applied_command at every n-th feedback", 1, 1000)


class Transport(Protocol):
    """How the node reaches a hand."""

    def read(self, timeout: float) -> JointSample | None:
        """The newest feedback (joint angles [rad] and their time), None after ``timeout`` [s] without any."""

    def write(self, tau: np.ndarray, t: float) -> None:
        """Send joint torques (N,) [N·m] in answer to the feedback of time ``t``."""


class TopicTransport:
    """A simulated hand: feedback and torques as topics."""

    def __init__(self, node: StackNode, names: Sequence[str]) -> None:
        self._feedback = node.newest(JointState, "hand/feedback", SERVO, JointReader(names, "position"))
        self._wait = WaitSet(node, self._feedback)
        self._torque = JointWriter(names, "effort")
        self._to_simulator = node.create_publisher(JointState, "hand/torque", SERVO)

    def read(self, timeout: float) -> JointSample | None:
        self._wait.wait(timeout)
        return self._feedback.take()

    def write(self, tau: np.ndarray, t: float) -> None:
        self._torque.effort[:] = tau
        self._to_simulator.publish(self._torque.at(t))


class HandNode(StackNode):
    """See the module's docstring."""

    LIVE = frozenset({"applied_command_every", *(f.name for f in fields(ServoParams))})

    def __init__(self) -> None:
        super().__init__("hand", HandParams, ServoParams)

    def configure(self) -> None:
        self._hand = load_hand(self.params(HandParams).hand)
        names = self._hand.joint_names
        self._gravity = GravityCompensation(self._hand)
        self._servo = ServoLaw(self._hand, self.params(ServoParams), self._gravity)
        self._transport: Transport = TopicTransport(self, names)
        self._commands = self.newest(JointState, "joint_command", COMMAND, JointReader(names, "position", finite=False))
        self._state = JointWriter(names, "position", "velocity", "effort")
        self._applied = JointWriter(names, "position")
        self._to_state = self.create_publisher(JointState, "joint_states", SENSOR)
        self._to_applied = self.create_publisher(JointState, "hand/applied_command", SENSOR)
        self.create_service(Trigger, "~/enable", lambda _, response: self._answer(response, self._enable))
        self.create_service(Trigger, "~/stop", lambda _, response: self._answer(response, self._disable))

    def apply(self, block: Any) -> None:
        if isinstance(block, ServoParams):
            # A new law starts limp and takes the next command up gently, which is what a changed gain should do.
            servo = ServoLaw(self._hand, block, self._gravity)
            servo.enabled = self._servo.enabled
            self._servo = servo

    def begin(self) -> None:
        self._servo.reset()
        self._commands.take()
        self._ticks = 0
        self._ticks_reported = 0
        self._has_feedback = False

    def work(self) -> None:
        sample = self._transport.read(PATIENCE)
        self._has_feedback = sample is not None
        if sample is None:
            return
        servo = self._servo
        t = self.time = sample.t
        command = self._commands.take()
        if command is not None and servo.enabled:
            fault = servo.set_command(command.values, command.t or t)  # an unstamped command, as people type it, is as new as it comes
            if fault is not None:
                self.drop("joint_command", fault.value)
        output = servo.step(sample.values, t)
        self._transport.write(output.tau, t)
        self._mode = output.mode
        state = self._state
        state.position[:], state.velocity[:], state.effort[:] = sample.values, output.qd, output.tau
        self._to_state.publish(state.at(t))
        if self._ticks % self.params(HandParams).applied_command_every == 0:
            self._applied.position[:] = output.q_applied
            self._to_applied.publish(self._applied.at(t))
        self._ticks += 1

    def finish(self) -> None:
        self._servo.reset()
        self._transport.write(np.zeros(len(self._hand.joint_names)), self.time)

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        rate, self._ticks_reported = self._ticks - self._ticks_reported, self._ticks
        if not self._has_feedback:
            return WARN, "no feedback from the hand", {}
        mode = self._mode.name.lower()
        values: dict[str, Any] = {"mode": mode, "rate_hz": rate, "enabled": self._servo.enabled}
        values.update({f"fault {fault.value}": count for fault, count in self._servo.faults.items() if count})
        if not self._servo.enabled:
            return WARN, "stopped by service", values
        return (OK if self._mode is ServoMode.TRACK else WARN), mode, values

    def _answer(self, response: Trigger.Response, action: Any) -> Trigger.Response:
        response.success = self.in_worker(action)
        response.message = "" if response.success else "the hand node is not active"
        return response

    def _enable(self) -> None:
        self._servo.enable()

    def _disable(self) -> None:
        self._servo.disable()
        # The servo loop only speaks when the hand does; a stop must not wait for that.
        self._transport.write(np.zeros(len(self._hand.joint_names)), self.time)


def main() -> int:
    return run_node(HandNode)


if __name__ == "__main__":
    sys.exit(main())
