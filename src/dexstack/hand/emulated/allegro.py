"""An emulated Allegro hand on a CAN bus: firmware in front of any plant.

:class:`EmulatedHand` is the firmware without input or output: frames in, frames out, latched
torque. Like the real one it keeps the last torque indefinitely, loses its settings with its power,
and sends only answers until its period is set. :class:`EmulatorLoop` connects one to a bus and a
plant in real time. As a program it is a hand in a process of its own; lines of JSON on standard
input change its faults, and each is answered by its state::

    python -m dexstack.hand.emulated.allegro --interface udp_multicast --channel 239.74.163.2:6100
    {"loss": 0.2}                {"silent_finger": 2}             {"power_cycle": true}
    {}
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dexstack.hand.allegro import protocol
from dexstack.hand.allegro.bus import CanBus
from dexstack.hand.allegro.protocol import FINGERS, JOINTS, Frame, Status
from dexstack.hand.emulated import allegro_frames as frames
from dexstack.hand.emulated.firmware import Firmware
from dexstack.hand.emulated.plant import LARGEST_LAG, run_program, start_arguments
from dexstack.hand.params import BusParams, EmulatedHandParams, FaultParams, MotorFaultParams

OVERLOAD = 0x20
"""Error code of a V5's motor."""


class EmulatedHand(Firmware):
    """The firmware.

    Args:
        side: ``"right"`` or ``"left"``.
        params: its identity.
        device: its number on the bus.
        seed: of jitter and loss.
        recorded: by identifier the contents that are sent in turn instead of the hand's own, e.g. of
            a captured hand (:func:`dexstack.hand.allegro.capture.contents`); the servo bit of the
            information follows the servo.
    """

    def __init__(
        self,
        side: str = "right",
        params: EmulatedHandParams | None = None,
        device: int = 0,
        seed: int = 0,
        recorded: Mapping[int, Sequence[bytes]] | None = None,
    ) -> None:
        super().__init__(params, seed)
        p = self.params
        self.left = side == "left"
        self.serial = p.emulated_serial
        if p.emulated_hardware == "V5":  # its serial number encodes the side
            self.serial = f"{self.serial[:3]:3}{'L' if self.left else 'R'}{self.serial[4:]}"
        self.hardware = protocol.hardware(p.emulated_hardware).of(self.serial)
        self._limits = self.hardware.limit.reshape(FINGERS, -1)
        self.device = device
        self._recorded: dict[int, Iterator[bytes]] = {
            identifier: itertools.cycle(contents) for identifier, contents in (recorded or {}).items()
        }
        self._read: np.ndarray | None = None
        self.frames = 0
        self.on_bus_off: Callable[[], None] = lambda: None
        """Called when the fault ``bus_off`` begins."""
        self.power_cycle()

    def power_cycle(self, t: float = 0.0) -> None:
        super().power_cycle(t)
        self.servo = False
        self.counts = np.zeros(JOINTS, np.int16)
        self.periods = (0, 0, 0)
        self._next = [0.0, 0.0, 0.0]
        self._requests: list[int] = []

    @property
    def torque(self) -> np.ndarray:
        """Torques of the motors (16,) [N·m]."""
        if not self.servo:
            return np.zeros(JOINTS)
        f, counts = self.faults, self.counts
        if f.swapped_torque_bytes:
            counts = np.clip(counts.byteswap(), -self.hardware.limit, self.hardware.limit)
        torque = np.zeros((FINGERS, JOINTS // FINGERS))
        np.add.at(torque, list(f.motor_order), self.hardware.counts_to_torque(counts).reshape(torque.shape))
        return torque.ravel() * f.motor_gain

    def receive(self, frame: Frame, t: float) -> None:
        """Process a frame from the bus at time ``t`` [s]."""
        if frame.id & 3 != self.device:
            return
        self.frames += 1
        finger = None if frame.remote else frames.TORQUE.index(frame.id)
        if finger is not None:  # a lost frame was on the bus, too
            counts = frames.TORQUE.values(frame.data)
            self.torque_frames += 1
            if counts is not None:
                self._note_torque(float(np.max(np.abs(np.array(counts, float)) / self._limits[finger])))
        if self.faults.bus_off or self._happens(self.faults.loss):
            return
        if frame.remote:
            self._requests.append(frame.id)
        elif finger is not None:
            if counts is not None:
                self.counts[4 * finger : 4 * finger + 4] = counts
        elif frames.SERVO_ON.index(frame.id) is not None:
            self.servo = not self.faults.refuses_servo
        elif frames.SERVO_OFF.index(frame.id) is not None:
            self.servo = False
        elif frames.PERIOD.index(frame.id) is not None and (periods := frames.PERIOD.values(frame.data)):
            self.periods = periods
            self._next = [t, t, t]
        self._note_limp(self.servo and bool(self.counts.any()), t)

    def due(self, t: float, q: np.ndarray) -> list[Frame]:
        """Return the frames on the bus by time ``t`` [s], with the joints at ``q`` (16,) [rad]."""
        for request in self._requests:
            self._answer(request, t, q)
        self._requests.clear()
        if self._is_due(0, t):
            self.sets += 1
            if not (self.faults.silent_while_off and not self.servo):
                self._say_angles(range(FINGERS), t, q)
        if self._is_due(1, t):
            self._say(frames.IMU.frame((0, 0, 0), 0, self.device), t)
        if self._is_due(2, t):
            self._say_temperatures(range(FINGERS), t)
            if self.faults.overloaded_motor >= 0:
                self._say(frames.ERROR.frame((self.faults.overloaded_motor, OVERLOAD), 0, self.device), t)
        return self._sent(t)

    def next_due(self, t: float) -> float:
        """Return when :meth:`due` has something to send next; infinite if nothing is requested."""
        if self._requests:
            return t
        times = [at for at, period in zip(self._next, self.periods, strict=True) if period]
        return min([*times, self._queue[0][0]] if self._queue else times, default=float("inf"))

    def inject(self, faults: FaultParams | MotorFaultParams) -> None:
        before = self.faults.bus_off
        super().inject(faults)
        self.servo &= not self.faults.refuses_servo
        if self.faults.bus_off and not before:
            self.on_bus_off()

    def state(self) -> dict[str, Any]:
        return {
            **super().state(),
            "servo": self.servo,
            "periods": list(self.periods),
            "counts": self.counts.tolist(),
        }

    def _is_due(self, stream: int, t: float) -> bool:
        """Return True if a periodic message is due; messages missed while the process did not run
        are skipped."""
        last, period = self._next[stream], 1e-3 * self.periods[stream]
        if not period or t < last - 1e-9:
            return False
        self._next[stream] = last + period if t - last < LARGEST_LAG else t + period
        return True

    def _answer(self, identifier: int, t: float, q: np.ndarray) -> None:
        """Answer a remote request."""
        if frames.INFO.index(identifier) is not None:
            if not self.faults.silent_status:
                self._say(frames.INFO.frame(self._info(), 0, self.device), t)
        elif frames.SERIAL.index(identifier) is not None:
            self._say(frames.SERIAL.frame((self.serial.encode("ascii")[:8],), 0, self.device), t)
        elif frames.IMU.index(identifier) is not None:
            self._say(frames.IMU.frame((0, 0, 0), 0, self.device), t)
        elif (finger := frames.POSITION.index(identifier)) is not None:
            self._say_angles((finger,), t, q)
        elif (finger := frames.TEMPERATURE.index(identifier)) is not None:
            self._say_temperatures((finger,), t)
        elif (finger := frames.TORQUE.index(identifier)) is not None:
            self._say(frames.TORQUE.frame(self.counts[4 * finger :][:4].tolist(), finger, self.device), t)

    def _info(self) -> tuple[int, ...]:
        f = self.faults
        status = self.servo * Status.SERVO_ON | f.over_temperature * Status.OVER_TEMPERATURE
        status |= f.communication_fault * Status.COMMUNICATION | f.further_status
        return self.hardware.generation << 8 | 2, 0x0405, self.left, 54, status

    def _say_angles(self, fingers: Sequence[int], t: float, q: np.ndarray) -> None:
        if self.faults.silent:
            return
        counts = self._encoders(q).tolist()
        for finger in fingers:
            if finger != self.faults.silent_finger:
                self._say(frames.POSITION.frame(counts[4 * finger :][:4], finger, self.device), t)

    def _say_temperatures(self, fingers: Sequence[int], t: float) -> None:
        for finger in fingers:
            self._say(frames.TEMPERATURE.frame([self.faults.celsius[finger]] * 4, finger, self.device), t)

    def _encoders(self, q: np.ndarray) -> np.ndarray:
        """Return the position counts (16,) of the joints at ``q`` [rad]."""
        f = self.faults
        counts = self.hardware.angle_to_counts(self._angles(q, f.encoder_order))
        if f.frozen_joint >= 0 and self._read is not None:
            counts[f.frozen_joint] = self._read[f.frozen_joint]
        self._read = counts
        return counts.byteswap() if f.swapped_angle_bytes else counts

    def _say(self, frame: Frame, t: float) -> None:
        if frame.id in self._recorded:
            data = bytearray(next(self._recorded[frame.id]))
            if frames.INFO.index(frame.id) is not None:
                data[6] = data[6] & 0xFE | self.servo
            frame = Frame(frame.id, bytes(data))
        if not self._happens(self.faults.loss):
            self._send(frame, t)


class EmulatorLoop:
    """An emulated hand between a bus and a plant.

    Args:
        hand: the firmware.
        bus: an open bus.
    """

    def __init__(self, hand: EmulatedHand, bus: CanBus) -> None:
        self.hand = hand
        self._bus = bus
        self.close = bus.close
        hand.on_bus_off = bus.announce_bus_off

    def run_until(self, t: float, now: Callable[[], float], q: np.ndarray) -> None:
        """Serve the bus until ``now()`` reaches ``t`` [s], with the joints at ``q`` (16,) [rad]."""
        while True:
            time_now = now()
            for frame in self.hand.due(time_now, q):
                self._bus.send(frame)
            received = self._bus.receive(max(0.0, min(t, self.hand.next_due(time_now)) - time_now))
            if received is not None:
                self.hand.receive(received[0], now())
            elif time_now >= t:
                return


def from_arguments(argv: Sequence[str] | None) -> tuple[EmulatedHand, Any, BusParams]:
    """Return an emulated hand, its plant and its bus from the arguments of the program.

    Raises:
        ConfigError: invalid arguments.
    """
    args, hand_model, plant = start_arguments(
        "allegro", "right", (BusParams, EmulatedHandParams, FaultParams), argv
    )
    bus, params, faults = args
    hand = EmulatedHand(hand_model.side, params, bus.device)
    hand.inject(faults)
    return hand, plant, bus


def main(argv: list[str] | None = None) -> int:
    return run_program(
        lambda: from_arguments(argv),
        lambda hand, bus: EmulatorLoop(hand, CanBus(bus)),
        lambda hand, bus: {"bus": str(bus), "serial": hand.serial},
    )


if __name__ == "__main__":
    sys.exit(main())
