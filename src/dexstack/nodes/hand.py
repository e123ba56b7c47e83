"""The hand node: one driver (:class:`dexstack.hand.driver.HandDriver`) behind topics, for a simulated, an emulated and a real hand.

With the parameter ``interface`` empty the hand is simulated: joint angles come on ``hand/feedback``, torques go to ``hand/torque``.
Otherwise it is on a CAN bus. Everything else is the same: the servo law, its limits and watchdogs, topics, services, diagnostics. The
worker is paced by the hand's own feedback. Whatever ends it, the hand is left limp; on a bus that is zero torque, period 0, servo off.

The node waits for a hand that is not there yet, and starts one again that failed before anybody moved it. Later a fault switches the servo
off and stays until ``~/enable`` is called, which goes through the whole start-up again and answers what is wrong if it still fails.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from dexstack.errors import ConfigError
from dexstack.hand.driver import Command, HandDriver
from dexstack.hand.link import FaultKind, Feedback, HandFault, Link
from dexstack.hand.params import BusParams, CanHandParams, HandParams
from dexstack.hand.servo import ServoLaw, ServoMode, ServoParams
from dexstack.model.gravity import GravityCompensation
from dexstack.model.hand import load_hand
from dexstack.nodes.common import ERROR, EXIT_CONFIG, OK, PATIENCE, WARN, StackNode, run_node
from dexstack.nodes.wire import COMMAND, SENSOR, SERVO, JointReader, JointWriter, WaitSet

RETRY = 0.5
"""Wait between two attempts to start a hand that does not answer yet [s]."""


class TopicLink:
    """A simulated hand: feedback and torques as topics, on simulated time; see :class:`dexstack.hand.link.Link`."""

    def __init__(self, node: StackNode, names: Sequence[str]) -> None:
        self._feedback = node.newest(JointState, "hand/feedback", SERVO, JointReader(names, "position"))
        self._wait = WaitSet(node, self._feedback)
        self._torque = JointWriter(names, "effort")
        self._to_simulator = node.create_publisher(JointState, "hand/torque", SERVO)
        self._t = 0.0

    def start(self) -> None:
        """Nothing to do: a simulated hand is always ready."""

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


class HandNode(StackNode):
    """See the module's docstring."""

    LIVE = frozenset({"applied_command_every", *(f.name for f in fields(ServoParams))})

    def __init__(self) -> None:
        super().__init__("hand", HandParams, ServoParams, BusParams, CanHandParams)

    def configure(self) -> None:
        self._hand = load_hand(self.params(HandParams).hand)
        names = self._hand.joint_names
        self._gravity = GravityCompensation(self._hand)
        self._newest = self.newest(JointState, "joint_command", COMMAND, JointReader(names, "position", finite=False))
        servo = ServoLaw(self._hand, self.params(ServoParams), self._gravity)
        self._driver = HandDriver(self._link(names), servo, self._take_command)
        self._state = JointWriter(names, "position", "velocity", "effort")
        self._applied = JointWriter(names, "position")
        self._to_state = self.create_publisher(JointState, "joint_states", SENSOR)
        self._to_applied = self.create_publisher(JointState, "hand/applied_command", SENSOR)
        self.create_service(Trigger, "~/enable", lambda _, response: self._answer(response, self._enable))
        self.create_service(Trigger, "~/stop", lambda _, response: self._answer(response, self._driver.stop))

    def apply(self, block: Any) -> None:
        if isinstance(block, ServoParams):
            # A new law starts limp and takes the next command up gently, which is what a changed gain should do.
            servo = ServoLaw(self._hand, block, self._gravity)
            servo.enabled = self._driver.servo.enabled
            self._driver.servo = servo

    def begin(self) -> None:
        self._started = self._moved = False
        self._try_at = 0.0
        self._reported: HandFault | None = None
        self._ticks = 0
        self._ticks_reported = 0
        self._has_feedback = False
        self._mode = ServoMode.LIMP

    def work(self) -> None:
        if not self._started and not self._start():
            return
        turn = self._driver.turn(PATIENCE)
        self._has_feedback = turn is not None
        if self._driver.fault is not self._reported:
            self._reported = fault = self._driver.fault
            if fault is not None and self._moved:
                self.get_logger().error(f"servo off: {fault}. To mend: {fault.mend}; then call the service {self.get_name()}/enable")
            elif fault is not None:  # nobody moved the hand since its start: starting again surprises nobody
                self.get_logger().warning(f"servo off: {fault}; starting the hand again")
                self._started, self._try_at = False, time.monotonic() + RETRY
        if turn is None:
            return
        if self._driver.refused is not None:
            self.drop("joint_command", self._driver.refused.value)
        (_, stamp, q), output = turn
        self.time, self._mode = stamp, output.mode
        self._moved |= output.mode is not ServoMode.LIMP
        state = self._state
        state.position[:], state.velocity[:], state.effort[:] = q, output.qd, output.tau
        self._to_state.publish(state.at(stamp))
        if self._ticks % self.params(HandParams).applied_command_every == 0:
            self._applied.position[:] = output.q_applied
            self._to_applied.publish(self._applied.at(stamp))
        self._ticks += 1

    def finish(self) -> None:
        self._driver.close()

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        driver, servo = self._driver, self._driver.servo
        rate, self._ticks_reported = self._ticks - self._ticks_reported, self._ticks
        values: dict[str, Any] = {"mode": self._mode.name.lower(), "rate_hz": rate, "enabled": servo.enabled}
        values.update({f"fault {fault.value}": count for fault, count in servo.faults.items() if count})
        values.update({f"fault {kind}": count for kind, count in driver.fault_counts.items()})
        values.update(driver.link.status())
        if driver.fault is not None:
            values.update({"fault": driver.fault.kind.value, "to mend": driver.fault.mend})
            return (ERROR if self._started else WARN), str(driver.fault), values
        if not servo.enabled:
            return WARN, "stopped by service", values
        if not self._has_feedback:
            return WARN, "no feedback from the hand", values
        return (OK if self._mode is ServoMode.TRACK else WARN), self._mode.name.lower(), values

    def _link(self, names: Sequence[str]) -> Link:
        bus = self.params(BusParams)
        if not bus.interface:
            return TopicLink(self, names)
        from dexstack.hand.can_hand import CanHand  # python-can is needed for a hand on a bus only

        return CanHand(self._hand.side, bus, self.params(CanHandParams))

    def _start(self) -> bool:
        """Start the hand; False when it has to be tried again."""
        if time.monotonic() < self._try_at:
            time.sleep(PATIENCE / 2)
            return False
        try:
            self._driver.start()
        except ConfigError as error:
            self.get_logger().fatal(str(error))
            self.end(EXIT_CONFIG)
            self._try_at = math.inf
            return False
        except HandFault as fault:
            if fault.kind is FaultKind.WRONG_HAND:
                self.get_logger().fatal(f"{fault}. To mend: {fault.mend}")
                self.end(EXIT_CONFIG)
            self.get_logger().warning(f"the hand does not start: {fault}. To mend: {fault.mend}", throttle_duration_sec=5.0)
            self._try_at = time.monotonic() + RETRY
            return False
        self._started, self._moved, self._reported = True, False, None
        return True

    def _take_command(self) -> Command | None:
        command = self._newest.take()
        if command is None:
            return None
        return command.values, command.t or None  # an unstamped command, as people type it, is as new as it comes

    def _answer(self, response: Trigger.Response, action: Any) -> Trigger.Response:
        trouble: list[HandFault] = []

        def act() -> None:
            try:
                action()
            except HandFault as fault:
                trouble.append(fault)

        response.success = self.in_worker(act, timeout=5.0) and not trouble
        if trouble:
            response.message = f"{trouble[0]}. To mend: {trouble[0].mend}"
        elif not response.success:
            response.message = "the hand node is not active"
        return response

    def _enable(self) -> None:
        self._driver.enable()
        self._started, self._moved, self._reported = True, False, None


def main() -> int:
    return run_node(HandNode)


if __name__ == "__main__":
    sys.exit(main())
