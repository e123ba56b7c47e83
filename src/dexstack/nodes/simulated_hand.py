"""The hand in front of the simulator's plant: topics to the hand node, or an emulated hand on a
bus."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from dexstack.hand.links import Emulation, wiring_of
from dexstack.hand.params import BusParams, FaultParams, MotorFaultParams
from dexstack.model.hand import HandModel
from dexstack.nodes.common import OK, WARN, WARNING, StackNode
from dexstack.nodes.wire import SERVO, JointReader, JointWriter, WaitSet
from dexstack.process.realtime import drop_realtime, make_realtime

RESET_GAP = 0.5
"""Simulated time that a reset skips [s], so that watchdogs see a gap and not a leap of the joints."""
TOO_LATE = 20
"""Skipped physics steps after which the plant counts as too slow for an emulated hand."""
STOP_TIMEOUT = 0.3
"""Time limit of a reset for the servo to go off [s]."""


class SimulatedHand:
    """The hand as the simulator needs it; what is no-op here has no meaning for some hands."""

    waits: bool
    """Simulated time waits for a slow hand node; otherwise it is the system's."""
    reset_gap: float
    """Time that a reset skips [s]."""

    def open(self) -> None:
        """Open before the first exchange. Raises ConfigError."""

    def close(self) -> None:
        """Close after the last exchange."""

    def start_time(self) -> float:
        """Return the time at which the simulation starts [s]."""
        raise NotImplementedError

    def placed(self) -> None:
        """Note that the plant was reset."""

    def wait(self, seconds: float, q: np.ndarray) -> None:
        """Wait until the next exchange, not at all if ``seconds`` is not positive; the joints are at
        ``q`` (16,) [rad]."""

    def late(self) -> None:
        """Note that physics was skipped because the plant does not keep up with the wall clock."""

    def exchange(self, t: float, q: np.ndarray, timeout: float) -> np.ndarray:
        """Pass on the joint angles ``q`` (16,) [rad] of time ``t`` [s]; return the torques (16,)
        [N·m] of the next step."""
        raise NotImplementedError

    def inject(self, faults: FaultParams | MotorFaultParams) -> None:
        """Replace faults of an emulated hand."""

    def power_cycle(self) -> None:
        """Switch an emulated hand off and on."""

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        """Return level, problem (empty: none) and values for diagnostics."""
        raise NotImplementedError


class TopicHand(SimulatedHand):
    """Waits for the hand node, which answers ``hand/feedback`` with ``hand/torque``."""

    waits = True
    reset_gap = RESET_GAP

    def __init__(self, node: StackNode, names: Sequence[str]) -> None:
        self._node = node
        self._feedback = JointWriter(names, "position")
        self._to_hand = node.create_publisher(JointState, "hand/feedback", SERVO)
        self._torques = node.newest(JointState, "hand/torque", SERVO, JointReader(names, "effort"))
        self._torque_wait = WaitSet(node, self._torques)
        self._no_torque = np.zeros(len(names))

    def open(self) -> None:
        self._answering = False
        self.timeouts = 0

    def start_time(self) -> float:
        return 0.0

    def placed(self) -> None:
        self._awaited: float | None = None

    def wait(self, seconds: float, q: np.ndarray) -> None:
        if seconds > 0.0:
            time.sleep(seconds)

    def exchange(self, t: float, q: np.ndarray, timeout: float) -> np.ndarray:
        tau = self._answer(timeout)
        self._feedback.position[:] = q
        self._to_hand.publish(self._feedback.at(t))
        self._awaited = t
        return tau

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        values = {"torque_timeouts": self.timeouts}
        return (
            (OK, "", values)
            if self._answering
            else (WARN, "the hand does not answer: its torque is zero", values)
        )

    def _answer(self, timeout: float) -> np.ndarray:
        """Return the torques for the last feedback; zero without an answer."""
        deadline = time.monotonic() + timeout
        while self._awaited is not None:
            if (sample := self._torques.take()) is not None:
                self._answering = True  # an old answer also shows that the hand node runs
                if abs(sample.t - self._awaited) < 1e-6:
                    return sample.values
            left = deadline - time.monotonic()
            if not self._answering or left <= 0.0:
                break
            self._torque_wait.wait(left)
        if self._answering and self._awaited is not None:
            self.timeouts += 1
            self._answering = False
            self._node.say(WARNING, f"no torque for {timeout:g} s: the hand is limp", about="torque")
        return self._no_torque


class EmulatedBusHand(SimulatedHand):
    """An emulated hand on a bus, in real time. Raises ConfigError if the hand cannot be emulated."""

    waits = False
    reset_gap = 0.0

    def __init__(self, node: StackNode, hand: HandModel, bus: BusParams, emulation: Emulation) -> None:
        self._stop, self._enable = (
            node.create_client(Trigger, f"hand/{name}") for name in ("stop", "enable")
        )
        self._emulation, self._bus, self._wiring = emulation, bus, wiring_of(hand)
        self._faults = {type(block): block for block in emulation.faults}
        self._hand = self._wiring.firmware(hand, bus, emulation)
        self._loop: Any = None

    def open(self) -> None:
        self._loop = self._wiring.loop(self._hand, self._bus)
        if self._emulation.params.emulator_priority:
            make_realtime(self._emulation.params.emulator_priority)
        self._hand.power_cycle()
        self._late = 0
        self._q: np.ndarray | None = None
        for block in self._faults.values():
            self._hand.inject(block)

    def close(self) -> None:
        self._loop.close()
        self._loop = None

    def start_time(self) -> float:
        return time.time()

    def placed(self) -> None:
        """Stop the hand, let the plant be reset, and enable the hand again. A hand whose servo is off
        stays off."""
        if self._loop is None or self._q is None or not (self._hand.servo and self._stop.service_is_ready()):
            return
        self._stop.call_async(Trigger.Request())
        deadline = time.monotonic() + STOP_TIMEOUT
        while self._hand.servo and time.monotonic() < deadline:
            self._loop.run_until(time.monotonic() + 0.003, time.monotonic, self._q)
        self._enable.call_async(Trigger.Request())

    def wait(self, seconds: float, q: np.ndarray) -> None:
        assert self._loop is not None
        self._q = q.copy()
        self._loop.run_until(time.monotonic() + max(seconds, 0.0), time.monotonic, q)

    def late(self) -> None:
        self._late += 1
        if self._late == TOO_LATE:  # a plant that needs a whole core must not starve other processes
            drop_realtime()

    def exchange(self, t: float, q: np.ndarray, timeout: float) -> np.ndarray:
        return self._hand.torque  # the joint angles went out when they were due

    def inject(self, faults: FaultParams | MotorFaultParams) -> None:
        self._faults[type(faults)] = faults
        if self._loop is not None:
            self._hand.inject(faults)

    def power_cycle(self) -> None:
        self._hand.power_cycle()

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        state = self._hand.state()
        values = {
            name: state[name] for name in ("servo", "limp", "sets", "torque_frames", "over_limit", "largest")
        }
        values["late"] = self._late
        if self._late >= TOO_LATE:
            return WARN, "the plant does not keep up with real time", values
        return (OK, "", values) if state["servo"] else (WARN, "the hand's servo is off", values)
