"""An Allegro hand on a CAN bus: start-up, identity, complete sets of joint angles in, torques out,
faults, shut-down.

Start-up (:meth:`CanHand.start`): flush, servo off, request information and serial number, check
them, set the period, wait for the first complete set of finger frames, zero torque, servo on, and
wait until the hand reports it. Shut-down (:meth:`CanHand.close`): zero torque, period 0, servo off.

While the servo is off, joint angles that the hand does not send by itself are requested. The serial
number is the only answer that is required. A hand that answers requests for its information during
start-up is asked for it while it is driven, too; a missing answer is no fault. To firmware that
never answers, every command is sent ATTEMPTS times, and its serial number, requested after servo
off, confirms that commands arrive.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from dexstack.errors import ConfigError
from dexstack.hand.allegro import protocol
from dexstack.hand.allegro.bus import CanBus, Computer
from dexstack.hand.allegro.guard import Guard
from dexstack.hand.allegro.protocol import (
    FINGERS,
    JOINTS,
    Command,
    Frame,
    HandInfo,
    ProtocolError,
    Status,
    describe_status,
    frame_id,
    split_id,
)
from dexstack.hand.bus_hand import ATTEMPTS, LOOK, START_TIMEOUT, BusHand
from dexstack.hand.calibration import load_offsets
from dexstack.hand.link import FaultKind, Feedback, HandFault
from dexstack.hand.params import BusParams, CanHandParams

ASK_TIMEOUT = 0.1
"""Time for the answer to one request [s]."""
POLL_AFTER = 0.25
"""Silence with the servo off after which joint angles are requested [s]: by then the period was set
ATTEMPTS times."""
LATE = 0.01
"""A set that waited longer than this to be read is skipped if there is a newer one [s]."""
CLOCK_JUMP = 0.02
"""Change of the system's clock between two sets that counts as a jump [s]."""
SERVO_OFF_IN_ROW = 3
"""Consecutive reports of a servo that is off that count as a fault."""
PLAUSIBLE = range(0, 111)
"""Temperatures that a working sensor can report [°C]."""


class CanHand(BusHand):
    """See the module's docstring.

    Args:
        side: ``"right"`` or ``"left"``, checked against what the hand reports.
        bus: the bus.
        params: parameters of the driver.
        computer: clocks and buses; one in simulated time is in
            :mod:`dexstack.hand.emulated.lockstep`.

    Raises:
        ConfigError: this generation is known too little to drive a real one.
    """

    stream_remedy = (
        "ip -details -statistics link show   (errors? bit rate 1 Mbit/s? termination?); "
        "see hardware/README.md"
    )
    check_cables = "check the cable and the termination of the bus; dexstack diagnose hand"
    _port: CanBus | None

    def __init__(
        self, side: str, bus: BusParams, params: CanHandParams | None = None, computer: Computer | None = None
    ) -> None:
        super().__init__(JOINTS, bus, params, computer or Computer())
        p = self.params
        self.hardware = protocol.hardware(p.hardware)
        if bus.hardware and self.hardware.missing:
            raise ConfigError(
                f"a {self.hardware.name} on {bus.interface} is not driven; missing: {self.hardware.missing}"
            )
        self.period = 1e-3 * p.can_period
        self._side = side
        self._guard: Guard | None = None
        self._wants_guard = p.guard and bus.interface != "virtual"  # a virtual bus ends with its process
        self.info: HandInfo | None = None
        """The newest; None without any."""
        self.reports_status = False
        """The hand answers requests for its information."""
        self._celsius = np.zeros(JOINTS, int)
        self.clock_jumps = self.bad_frames = 0
        self.answered = 0.0
        """System time at which the newest set's last torque frame was handed to the bus [s]."""
        self._forget_stream()

    @property
    def rad_per_count(self) -> float:
        return self.hardware.rad_per_count

    # --- start and end

    def _open_port(self) -> CanBus:
        return self.computer.open_bus(self.bus)

    def open(self) -> None:
        super().open()
        if self._wants_guard and (self._guard is None or not self._guard.alive):
            if self._guard is not None:
                self._guard.close()
            self._guard = Guard(self.bus, self.params.guard_timeout)
            if not self._guard.wait_ready():
                remedy = f"python -m dexstack.hand.allegro.guard   on {self.bus}"
                raise HandFault(FaultKind.GUARD, "the guard process does not start", remedy)

    def identify(self) -> tuple[HandInfo | None, str]:
        """Switch the servo off; return the hand's information, None from firmware that does not
        answer, and its serial number.

        Raises:
            HandFault: no answer, or not the configured hand.
        """
        self.open()
        try:
            with self._faults():
                self._port.flush()
                self.on = self.off_confirmed = False
                self._send_off()
                self._ask_identity()
        except ProtocolError as error:
            text = f"the hand answered with {error}"
            raise HandFault(FaultKind.NO_ANSWER, text, "switch the hand off and on") from None
        self._check_identity()
        self.hardware = protocol.hardware(self.params.hardware).of(self.serial)
        self.offsets = load_offsets(self.params.calibration_dir, self.serial)
        return self.info, self.serial

    def _ask_identity(self) -> None:
        answer = self._ask(Command.INFO)
        self.reports_status = answer is not None
        self.info = None if answer is None else protocol.read_info(answer)
        if self.info is not None:
            self._note_power(self.info)
        answer = self._ask(Command.SERIAL)
        if answer is None:
            remedy = "switch the hand on; check CAN_H, CAN_L and the termination (hardware/README.md)"
            raise HandFault(FaultKind.NO_ANSWER, f"no hand on {self.bus} reports a serial number", remedy)
        self.serial = protocol.read_serial(answer)
        if not self.reports_status:
            self._note_power(None)

    def _check_identity(self) -> None:
        self.side = found = self.hardware.side(self.serial, self.info) or self._side
        if found != self._side:
            text = f"this is a {found} hand ({self.serial}), a {self._side} one is configured"
            raise HandFault(FaultKind.WRONG_HAND, text, f"use hand:={found}, or connect the other hand")
        if self.info is not None and self.info.generation != self.hardware.generation:
            text = (
                f"this hand has hardware version 0x{self.info.hardware_version:04x}, "
                f"{self.hardware.name} is configured"
            )
            raise HandFault(FaultKind.WRONG_HAND, text, f"use hardware:=V{self.info.generation}")

    def introduction(self) -> str:
        info = self.info
        if info is None:
            return (
                f"{self.serial}, {self.side} (configured): it does not answer requests for its "
                f"information, {self._calibrated}"
            )
        self._check_health()
        versions = f"hardware 0x{info.hardware_version:04x}, firmware 0x{info.firmware_version:04x}"
        found = (self.serial, self.side, versions, f"{info.temperature} °C", self._calibrated, self.warning())
        return ", ".join(filter(None, found))

    def stream(self) -> None:
        """Start the hand's joint angles and temperatures, and wait for the first complete set; the
        servo stays off.

        Raises:
            HandFault: they do not come.
        """
        self._forget_stream()
        self.on = False
        clock = self.computer.monotonic
        deadline, asked = clock() + START_TIMEOUT, 0.0
        with self._faults():
            while clock() <= deadline:
                if clock() > asked + ASK_TIMEOUT:  # repeated, as a frame may get lost
                    asked = clock()
                    self._set_period()
                if self._read(LOOK) is not None:
                    return
        missing = ", ".join(str(f) for f in range(FINGERS) if f not in self._last_set)
        raise HandFault(
            FaultKind.FEEDBACK_LOST,
            f"no complete set of joint angles within {START_TIMEOUT:g} s; nothing from finger "
            f"{missing or 'any'}",
            "switch the hand off and on; check the finger's cable if it is always the same",
        )

    def _switch_on(self, abandon: Callable[[], bool]) -> None:
        self._send_torque(np.zeros(JOINTS, np.int16))
        if self._guard is not None:
            self._guard.arm(self.reports_status)
        self._unanswered, self._said_off = 0, -round(START_TIMEOUT / self.params.status_period)
        self.on, self.off_confirmed, self.info = True, False, None
        clock = self.computer.monotonic
        deadline, asked, commands = clock() + START_TIMEOUT, 0.0, 0
        # Firmware that reports nothing counts as on after ATTEMPTS commands.
        while not (
            self.info is not None and self.info.servo_on if self.reports_status else commands >= ATTEMPTS
        ):
            self._check_abandoned(abandon)
            if clock() > asked + ASK_TIMEOUT:
                asked = clock()
                if self._polls:
                    self._set_period()
                self._port.send(protocol.servo_on(self.bus.device))
                commands += 1
            self.read(LOOK)
            if clock() > deadline:
                remedy = "check the hand's power supply and its emergency stop"
                raise HandFault(FaultKind.SERVO_OFF, "the hand does not switch its servo on", remedy)
        self._said_off = 0

    def _before_close(self) -> None:
        self._port.send(protocol.set_period(0, 0, 0, self.bus.device))
        self._port.send(protocol.servo_off(self.bus.device))  # the vendor's order: period, then servo

    def _confirm_off(self) -> None:
        with contextlib.suppress(ProtocolError):
            for _ in range(ATTEMPTS):
                answer = self._ask(self._question)
                if answer is not None:
                    self._note_power(protocol.read_info(answer) if self.reports_status else None)
                if self.off_confirmed:
                    return
                self._send_off()

    def close(self) -> None:
        super().close()
        if self._guard is not None:
            self._guard.close()  # fires if the servo could not be switched off
            self._guard = None

    # --- to the hand

    def _write(self, tau: np.ndarray) -> None:
        if self._guard is not None and self._guard.fired:
            text = "the guard switched the servo off: this process was suspended"
            raise HandFault(FaultKind.GUARD, text, "see real-time scheduling in hardware/README.md")
        self._send_torque(self.hardware.torque_to_counts(tau))
        self.answered = self.computer.system()

    def _set_period(self) -> None:
        p = self.params
        self._port.send(protocol.set_period(p.can_period, 0, p.temperature_period, self.bus.device))

    def _send_torque(self, counts: np.ndarray) -> None:
        values = counts.tolist()
        for finger in range(FINGERS):
            self._port.send(protocol.set_torque(finger, values[4 * finger : 4 * finger + 4], self.bus.device))

    def _send_off(self) -> None:
        self._send_torque(np.zeros(JOINTS, np.int16))
        self._port.send(protocol.servo_off(self.bus.device))

    @property
    def _question(self) -> Command:
        """The request whose answer shows that commands arrive."""
        return Command.INFO if self.reports_status else Command.SERIAL

    def _ask(self, command: Command) -> bytes | None:
        """Return the answer to a request, None without one; other frames are dropped."""
        wanted = frame_id(command, self.bus.device)
        for _ in range(ATTEMPTS):
            self._port.send(protocol.request(command, self.bus.device))
            deadline = self.computer.monotonic() + ASK_TIMEOUT
            while (left := deadline - self.computer.monotonic()) > 0.0:
                received = self._port.receive(left)
                if received is not None and received[0].id == wanted and not received[0].remote:
                    return received[0].data
        return None

    def _poll(self, now: float) -> None:
        """Send the requests that are due at time ``now`` [s]."""
        if now >= self._next_status:
            self._next_status = now + self.params.status_period
            self._poll_status()
        if not self.on and now >= self._next_angles and (self._polls or self._silent >= POLL_AFTER):
            self._polls = True
            self._next_angles = now + self.period
            for finger in range(FINGERS):
                self._port.send(protocol.request(Command.POSITION + finger, self.bus.device))

    def _poll_status(self) -> None:
        if self.on:
            if self._guard is not None and not self._guard.alive:
                remedy = "enable again, which starts another one"
                raise HandFault(FaultKind.GUARD, "the guard process died", remedy)
        elif not self.off_confirmed:
            self._send_off()
        if not self.reports_status and (self.on or self.off_confirmed):
            return
        self._unanswered += 1
        if self._unanswered % 2:  # one request at a time: an answer must be that to the newest
            self._asked = self.computer.system()
            self._port.send(protocol.request(self._question, self.bus.device))

    # --- from the hand

    def _read(self, timeout: float) -> Feedback | None:
        clock = self.computer.monotonic
        deadline = clock() + timeout
        while True:
            if self._guard is not None:
                self._guard.beat()
            now = clock()
            self._poll(now)
            wait = min(LOOK, max(deadline - now, 0.0))
            received = self._port.receive(wait)
            if received is None:
                self._silent += wait
                if self.on and self._silent >= self.params.feedback_timeout - 1e-9:
                    text = f"no joint angles for {1e3 * self._silent:.0f} ms"
                    raise HandFault(FaultKind.FEEDBACK_LOST, text, "dexstack diagnose hand")
                if clock() >= deadline:
                    return None
                continue
            frame, arrival = received
            try:
                complete = self._take(frame, arrival)
            except ProtocolError:
                self.bad_frames += 1
                continue
            if complete:
                late = self.computer.system() - arrival > LATE
                if not (late and self._port.pending()):  # after a pause only the newest set counts
                    return self._feedback(arrival)

    def _take(self, frame: Frame, arrival: float) -> bool:
        """Process one frame; True when it completes a set of joint angles."""
        command, device = split_id(frame.id)
        if frame.remote or device != self.bus.device:
            return False
        if Command.POSITION <= command < Command.POSITION + FINGERS:
            return self._take_finger(command - Command.POSITION, protocol.read_four(frame.data))
        if command == Command.INFO:
            self.info = protocol.read_info(frame.data)
            self._unanswered = 0
            self._take_info(self.info)
            took = arrival - self._asked
            remedy = "is the bus or this computer overloaded? see real-time scheduling in hardware/README.md"
            self._count_late(took if took < 1.0 else 0.0, self.params.answer_timeout, remedy)
        elif command == Command.SERIAL and not self.on and not self.reports_status:
            self._unanswered = 0
            self._note_power(None)
        elif Command.TEMPERATURE <= command < Command.TEMPERATURE + FINGERS:
            self._take_temperatures(command - Command.TEMPERATURE, protocol.read_temperatures(frame.data))
        elif command == Command.ERROR and self.hardware.has_motor_errors:
            motor, trouble = protocol.read_motor_error(frame.data)
            if self.on and trouble:
                remedy = "check that joint, switch the hand off and on, then enable again"
                raise HandFault(FaultKind.MOTOR, f"the motor of joint {motor} reports: {trouble}", remedy)
        return False

    def _take_finger(self, finger: int, counts: tuple[int, ...]) -> bool:
        if finger in self._set:  # the next set began before this one was complete
            self.missed += 1
            self._missed_in_row += 1
            self._last_set = frozenset(self._set)
            self._set.clear()
            self._count_set(lost=True)
            if self.on and self._missed_in_row * self.params.can_period >= 1e3 * self.params.feedback_timeout:
                lost = ", ".join(str(f) for f in range(FINGERS) if f not in self._last_set)
                text = f"no joint angles from finger {lost} in {self._missed_in_row} sets"
                raise HandFault(
                    FaultKind.FINGER_LOST, text, "check that finger's cable; dexstack diagnose hand"
                )
        self._set[finger] = counts
        if len(self._set) < FINGERS:
            return False
        for f, values in self._set.items():
            self._counts[4 * f : 4 * f + 4] = values
        self._set.clear()
        self._last_set = frozenset(range(FINGERS))
        self._missed_in_row, self._silent = 0, 0.0
        self.sets += 1
        self._count_set(lost=False)
        return True

    def _feedback(self, arrival: float) -> Feedback:
        system, now = self.computer.system(), self.computer.monotonic()
        offset = system - now
        if abs(offset - self._offset) > CLOCK_JUMP:
            self.clock_jumps += 1
        self._offset = offset
        self.arrival = arrival
        waited = system - arrival  # in the receive queue
        self._t = t = max(self._t, now - (waited if 0.0 <= waited < 0.1 else 0.0))
        return Feedback(t, t + offset, self.hardware.counts_to_angle(self._counts) - self.offsets)

    def _forget_stream(self) -> None:
        super()._forget_stream()
        self._set: dict[int, tuple[int, ...]] = {}
        self._last_set: frozenset[int] = frozenset()
        self._counts = np.zeros(JOINTS, np.int16)
        self._missed_in_row = self._unanswered = self._said_off = 0
        self._asked = self.computer.system()
        self._next_status = self._next_angles = 0.0
        self._polls = False

    # --- what the hand reports about itself

    def _note_power(self, info: HandInfo | None) -> None:
        """Note whether the hand confirms that its servo is off, which disarms the guard; None: it
        answered another request."""
        self.off_confirmed = info is None or not info.servo_on
        if self.off_confirmed and self._guard is not None and self._guard.alive:
            self._guard.disarm()

    def _take_info(self, info: HandInfo) -> None:
        if not self.on:
            self._note_power(info)
            return
        self._check_health()
        self._said_off = 0 if info.servo_on else self._said_off + 1
        if self._said_off >= SERVO_OFF_IN_ROW:
            remedy = "was the hand switched off and on? Then enable again"
            raise HandFault(FaultKind.SERVO_OFF, "the hand's servo went off by itself", remedy)

    def _bits(self, mask: int) -> int:
        return self.info.status & mask if self.info is not None and self.hardware.has_status else 0

    def _check_health(self) -> None:
        bits = self._bits(self.params.status_faults)
        if not bits:
            return
        text = (
            f"the hand reports {describe_status(bits)} (status 0x{self.info.status:02x}, "
            f"{self.info.temperature} °C)"
        )
        if bits & (Status.OVER_TEMPERATURE | Status.PALM_TEMPERATURE):
            remedy = "let it cool down with the power off, then enable again"
            raise HandFault(FaultKind.OVER_TEMPERATURE, text, remedy)
        remedy = (
            "switch the hand off and on; firmware that sets this bit on a hand in order needs "
            "another status_faults"
        )
        raise HandFault(FaultKind.COMMUNICATION, text, remedy)

    def _take_temperatures(self, finger: int, celsius: tuple[int, ...]) -> None:
        for joint, value in enumerate(celsius, FINGERS * finger):
            self._celsius[joint] = value
            if self.on and value in PLAUSIBLE:
                self._check_hot(f"the sensor of joint {joint}", value)

    @property
    def temperatures(self) -> list[int]:
        return [c for c in self._celsius.tolist() if c in PLAUSIBLE] or [0]

    def warning(self) -> str:
        bits = self._bits(self.params.status_warnings & ~self.params.status_faults)
        texts = (
            [f"the hand reports {describe_status(bits)} (status 0x{self.info.status:02x})"] if bits else []
        )
        wrong = [f"{j} ({c} °C)" for j, c in enumerate(self._celsius.tolist()) if c not in PLAUSIBLE]
        if wrong:
            texts.append(f"implausible temperature of joint {', '.join(wrong)}")
        return "; ".join(texts)

    def _status(self) -> dict[str, Any]:
        values: dict[str, Any] = {"tells_status": self.reports_status}
        if self.info is not None:
            values |= {
                "hardware_version": f"0x{self.info.hardware_version:04x}",
                "firmware_version": f"0x{self.info.firmware_version:04x}",
                "status": f"0x{self.info.status:02x}",
                "over_temperature": bool(self.info.status & Status.OVER_TEMPERATURE),
                "temperature": self.info.temperature,
            }
        values |= {f"temperature_{joint}": t for joint, t in enumerate(self._celsius.tolist())}
        values |= {"clock_jumps": self.clock_jumps, "bad_frames": self.bad_frames, "warning": self.warning()}
        if self._wants_guard:
            values["guard_pid"] = self._guard.pid if self._guard is not None and self._guard.alive else 0
        return values
