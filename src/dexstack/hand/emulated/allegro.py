"""An emulated Allegro hand on a CAN bus: its firmware, as far as the bus can see it, in front of
any plant.

:class:`EmulatedHand` is the firmware without input or output: frames in, frames out, latched torque. Like the real one it keeps the last
torque for ever, forgets everything when its power is cycled, and speaks only when asked or after its period was set.
:class:`EmulatorLoop` connects one to a bus and a plant in real time. Run as a program it is a hand in a process of its own, with the
plant behind it; lines of JSON on standard input change its faults while it runs, and every line is answered by its state::

    python -m dexstack.hand.emulated.allegro --interface udp_multicast --channel 239.74.163.2:6100
    {"loss": 0.2}                {"silent_finger": 2}             {"power_cycle": true}
    {}
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import heapq
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dexstack.config import make_params
from dexstack.errors import ConfigError
from dexstack.hand.allegro import protocol
from dexstack.hand.allegro.bus import CanBus
from dexstack.hand.allegro.protocol import FINGERS, JOINTS, Command, Frame, HandInfo, ProtocolError, split_id
from dexstack.hand.emulated.plant import LARGEST_LAG, PLANTS, add_fields, emulated_plant, serve
from dexstack.hand.params import BusParams, EmulatedHandParams, FaultParams, MotorFaultParams
from dexstack.model import HAND_NAMES
from dexstack.process.realtime import make_realtime

OVERLOAD = 0x20
"""Error code of a V5's motor."""


class EmulatedHand:
    """The firmware.

    Args:
        side: ``"right"`` or ``"left"``.
        params: who it is.
        device: its number on the bus.
        seed: of jitter and loss.
    """

    def __init__(
        self, side: str = "right", params: EmulatedHandParams | None = None, device: int = 0, seed: int = 0
    ) -> None:
        self.params = p = params or EmulatedHandParams()
        self.left = side == "left"
        self.serial = p.emulated_serial
        if p.emulated_hardware == "V5":  # its serial number tells the side
            self.serial = f"{self.serial[:3]:3}{'L' if self.left else 'R'}{self.serial[4:]}"
        self.hardware = protocol.hardware(p.emulated_hardware).of(self.serial)
        self._limits = self.hardware.limit.reshape(FINGERS, -1).tolist()
        self.device = device
        self.faults = FaultParams()
        self._heard: np.ndarray | None = None
        self._offsets = np.array(p.zero_offsets)
        self._rng = np.random.default_rng(seed)
        self._queue: list[tuple[float, int, Frame]] = []
        self._sequence = 0
        self.over_limit = 0
        """Torque frames beyond a limit of this hardware, since the beginning; must stay 0."""
        self.torque_frames = self.sets = self.frames = 0
        self.largest = 0.0
        """Largest share of its limit that any torque took while it was on the bus."""
        self.power_cycle()

    def power_cycle(self, t: float = 0.0) -> None:
        """As after the power came back at time ``t`` [s]: servo off, nothing periodic, no
        torque."""
        self.servo = False
        self.counts = np.zeros(JOINTS, np.int16)
        self.periods = (0, 0, 0)
        self._next = [0.0, 0.0, 0.0]
        self._queue.clear()
        self.limp_since: float | None = t
        """When the motors last lost their torque [s]; None while they have some."""

    @property
    def torque(self) -> np.ndarray:
        """What the motors do now (16,) [N·m]."""
        if not self.servo:
            return np.zeros(JOINTS)
        f, counts = self.faults, self.counts
        if f.swapped_torque_bytes:
            counts = np.clip(counts.byteswap(), -self.hardware.limit, self.hardware.limit)
        torque = np.zeros(JOINTS)
        for finger, where in enumerate(f.motor_order):
            torque[4 * where : 4 * where + 4] += self.hardware.counts_to_torque(counts)[
                4 * finger : 4 * finger + 4
            ]
        return torque * f.motor_gain

    def receive(self, frame: Frame, t: float) -> None:
        """A frame from the bus at time ``t`` [s]."""
        command, device = split_id(frame.id)
        if device != self.device:
            return
        self.frames += 1
        if Command.TORQUE <= command < Command.TORQUE + FINGERS and not frame.remote:
            self._check_torque(command - Command.TORQUE, frame.data)  # also what gets lost was put on the bus
        if self.faults.bus_off or self._lost():
            return
        with contextlib.suppress(ProtocolError):
            if frame.remote:
                self._answer(command, t)
            elif Command.TORQUE <= command < Command.TORQUE + FINGERS:
                self.counts[4 * (command - Command.TORQUE) :][:4] = protocol.read_four(frame.data)
            elif command == Command.SERVO_ON:
                self.servo = not self.faults.refuses_servo
            elif command == Command.SERVO_OFF:
                self.servo = False
            elif command == Command.PERIOD:
                self.periods = protocol.read_period(frame.data)
                self._next = [t, t, t]
        self._note_limp(t)

    def due(self, t: float, q: np.ndarray) -> list[Frame]:
        """The frames that go onto the bus by time ``t`` [s], the joints being at ``q`` (16,)
        [rad]."""
        position, imu, temperature = self.periods
        if position and t >= self._next[0] - 1e-9:
            self._next[0] = self._after(self._next[0], 1e-3 * position, t)
            self.sets += 1
            if not self.faults.silent:
                counts = self._encoders(q).tolist()
                for finger in range(FINGERS):
                    if finger != self.faults.silent_finger:
                        self._say(
                            protocol.position(finger, counts[4 * finger : 4 * finger + 4], self.device), t
                        )
        if imu and t >= self._next[1] - 1e-9:
            self._next[1] = self._after(self._next[1], 1e-3 * imu, t)
            self._say(protocol.imu(0, 0, 0, self.device), t)
        if temperature and t >= self._next[2] - 1e-9:
            self._next[2] = self._after(self._next[2], 1e-3 * temperature, t)
            for sensor, celsius in enumerate(self.faults.celsius):
                self._say(self.hardware.temperature(sensor, celsius, self.device), t)
            if self.faults.overloaded_motor >= 0:
                self._say(protocol.motor_error(self.faults.overloaded_motor, OVERLOAD, self.device), t)
        out = []
        while self._queue and self._queue[0][0] <= t + 1e-9:
            out.append(heapq.heappop(self._queue)[2])
        return [] if self.faults.bus_off else out

    def _encoders(self, q: np.ndarray) -> np.ndarray:
        """Position counts (16,) of the joints at ``q`` [rad], as they are wired."""
        f = self.faults
        angles = (q + self._offsets) * f.encoder_gain
        angles = np.concatenate([angles[4 * k : 4 * k + 4] for k in f.encoder_order])
        if f.encoder_noise:
            angles += f.encoder_noise * self._rng.standard_normal(JOINTS)
        if f.leap_joint >= 0:
            angles[f.leap_joint] += f.encoder_leap
        counts = self.hardware.angle_to_counts(angles)
        if f.frozen_joint >= 0 and self._heard is not None:
            counts[f.frozen_joint] = self._heard[f.frozen_joint]
        self._heard = counts
        return counts.byteswap() if f.swapped_angle_bytes else counts

    def next_due(self, t: float) -> float:
        """When :meth:`due` will next have something to do; infinite when it has not been asked for
        anything."""
        times = [at for at, period in zip(self._next, self.periods, strict=True) if period]
        return min([*times, self._queue[0][0]] if self._queue else times, default=float("inf"))

    def state(self) -> dict[str, Any]:
        """For those who test."""
        return {
            "servo": self.servo,
            "limp": self.limp_since is not None,
            "limp_since": self.limp_since,
            "periods": list(self.periods),
            "counts": self.counts.tolist(),
            "sets": self.sets,
            "torque_frames": self.torque_frames,
            "over_limit": self.over_limit,
            "largest": self.largest,
        }

    def _answer(self, command: int, t: float) -> None:
        if command == Command.INFO and not self.faults.silent_status:
            version = self.hardware.generation << 8 | 2
            f = self.faults
            value = HandInfo(
                version, 0x0405, self.left, 54, self.servo, f.over_temperature, f.communication_fault
            )
            self._say(protocol.info(value, self.device), t)
        elif command == Command.SERIAL:
            self._say(protocol.serial(self.serial, self.device), t)

    def _check_torque(self, finger: int, data: bytes) -> None:
        self.torque_frames += 1
        share = max(
            abs(c) / limit for c, limit in zip(protocol.read_four(data), self._limits[finger], strict=True)
        )
        self.over_limit += share > 1.0
        self.largest = max(self.largest, share)

    def _note_limp(self, t: float) -> None:
        if self.servo and self.counts.any():
            self.limp_since = None
        elif self.limp_since is None:
            self.limp_since = t

    def _say(self, frame: Frame, t: float) -> None:
        if self._lost():
            return
        f = self.faults
        at = t + f.latency + (f.jitter * self._rng.random() if f.jitter else 0.0)
        self._sequence += 1
        heapq.heappush(self._queue, (at, self._sequence, frame))

    def _lost(self) -> bool:
        return self.faults.loss > 0.0 and self._rng.random() < self.faults.loss

    def _after(self, last: float, period: float, t: float) -> float:
        """The next multiple of a period; what was missed while the process did not run is not made
        up for."""
        return last + period if t - last < LARGEST_LAG else t + period


class EmulatorLoop:
    """An emulated hand between a bus and a plant.

    Args:
        hand: the firmware.
        bus: an open bus.
    """

    def __init__(self, hand: EmulatedHand, bus: CanBus) -> None:
        self.hand = hand
        self._bus = bus

    def close(self) -> None:
        """Close the bus."""
        self._bus.close()

    def inject(self, faults: FaultParams | MotorFaultParams) -> None:
        """Change what is wrong; a hand on CAN knows nothing of the faults of motors on a serial
        line."""
        if isinstance(faults, MotorFaultParams):
            return
        if faults.bus_off and not self.hand.faults.bus_off:
            self._bus.announce_bus_off()
        self.hand.faults = faults
        self.hand.servo &= not faults.refuses_servo

    def change(self, changes: Mapping[str, Any], t: float) -> None:
        """Change some of what is wrong at time ``t`` [s], by the names of :class:`FaultParams`;
        ``power_cycle`` switches it off and on.

        Raises:
            ConfigError: there is no such fault, or it cannot be so large.
        """
        if changes.get("power_cycle"):
            self.hand.power_cycle(t)
        faults = {name: value for name, value in changes.items() if name != "power_cycle"}
        self.inject(make_params(FaultParams, {**dataclasses.asdict(self.hand.faults), **faults}))

    def run_until(self, t: float, now: Callable[[], float], q: np.ndarray) -> None:
        """Serve the bus until ``now()`` reaches ``t`` [s], the joints standing at ``q`` (16,)
        [rad]."""
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
    """An emulated hand, the plant behind it and its bus from the arguments of the program.

    Raises:
        ConfigError: they cannot be used.
    """
    parser = argparse.ArgumentParser(
        prog="dexstack.hand.emulated.allegro", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--hand", default="right", help=HAND_NAMES)
    parser.add_argument(
        "--plant", default="mujoco", choices=("mujoco", *PLANTS), help="what is behind the hand"
    )
    parser.add_argument("--object", default="cube", help="object of the mujoco plant")
    for cls in (BusParams, EmulatedHandParams, FaultParams):
        add_fields(cls, parser)
    args = vars(parser.parse_args(argv))
    bus, params, faults = (
        make_params(cls, args, ignore_unknown=True) for cls in (BusParams, EmulatedHandParams, FaultParams)
    )
    plant, side = emulated_plant(args["plant"], args["hand"], args["object"], "allegro")
    hand = EmulatedHand(side, params, bus.device)
    hand.faults = faults
    return hand, plant, bus


def main(argv: list[str] | None = None) -> int:
    try:
        hand, plant, bus_params = from_arguments(argv)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    if hand.params.emulator_priority:
        make_realtime(hand.params.emulator_priority)
    bus = CanBus(bus_params)
    serve(EmulatorLoop(hand, bus), plant, {"bus": str(bus.params), "serial": hand.serial})
    bus.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
