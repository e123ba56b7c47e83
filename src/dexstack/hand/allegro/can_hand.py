"""An Allegro hand on a CAN bus: start-up, identity, complete sets of joint angles in, torques out,
faults, shut-down.

Start-up (:meth:`CanHand.start`): flush, servo off, ask information and serial number, check them,
zero torque, set the period, wait for the first complete set of finger frames, servo on, and wait
until the hand says so. Shut-down (:meth:`CanHand.close`): zero torque, period 0, servo off. Between
the two, every failure ends in :meth:`CanHand.servo_off` and a :class:`HandFault`; only a new start
leaves it.

The serial number is all that a hand must answer. A hand that answers requests for its information
at the start is asked for it while it is driven; what it says is judged, that it says nothing is no
fault. Firmware that never answers is told everything ATTEMPTS times instead, and its serial number,
asked for after servo off, shows that the word got through.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from dexstack.errors import ConfigError
from dexstack.hand.allegro import protocol
from dexstack.hand.allegro.bus import BusError, CanBus, Computer, Trouble
from dexstack.hand.allegro.guard import Guard
from dexstack.hand.allegro.protocol import (
    FINGERS,
    JOINTS,
    Command,
    Frame,
    HandInfo,
    ProtocolError,
    frame_id,
    split_id,
)
from dexstack.hand.calibration import load_offsets
from dexstack.hand.link import FaultKind, Feedback, HandFault, never
from dexstack.hand.params import BusParams, CanHandParams
from dexstack.process.realtime import lock_memory, make_ordinary, make_realtime

LOOK = 0.01
"""Longest single wait for a frame [s]; silence is counted in these, so that a machine that was
paused does not look like a silent hand."""
ASK_TIMEOUT = 0.1
"""Time the hand gets to answer a question, each of ATTEMPTS times [s]."""
ATTEMPTS = 3
STREAM_TIMEOUT = 0.5
"""Time until the first complete set after the period was set, and until the servo is on [s]."""
TEMPERATURE_PERIOD = 200
"""[ms]"""
LATE = 0.01
"""A set that waited longer than this to be read is skipped if there is a newer one [s]."""
CLOCK_JUMP = 0.02
"""A system clock that moves by more than this between two sets has jumped [s]."""
LATE_IN_ROW = 3
"""Late answers in a row that count as a fault."""
WINDOW = 0.5
"""Time over which lost sets are counted [s]."""
CELSIUS = (-20, 125)
"""What a working sensor can say [°C]."""


class CanHand:
    """See the module's docstring.

    Args:
        side: ``"right"`` or ``"left"``, what the hand must say it is.
        bus: where it is.
        params: how to drive it.
        computer: its clocks and buses; one in simulated time is in
            :mod:`dexstack.hand.emulated.lockstep`.

    Raises:
        ConfigError: nobody knows enough about this generation to drive a real one.
    """

    def __init__(
        self, side: str, bus: BusParams, params: CanHandParams | None = None, computer: Computer | None = None
    ) -> None:
        self.params = p = params or CanHandParams()
        self.hardware = protocol.hardware(p.hardware)
        if bus.hardware and self.hardware.missing:
            raise ConfigError(
                f"a {self.hardware.name} on {bus.interface} is not driven; missing: {self.hardware.missing}"
            )
        self._side = side
        self.bus = bus
        self.computer = computer or Computer()
        self._bus: CanBus | None = None
        self._guard: Guard | None = None
        self._wants_guard = p.guard and bus.interface != "virtual"  # a virtual bus ends with its process
        self.on = False
        """The servo is on, as far as we know."""
        self.off_confirmed = False
        """The hand itself said that its servo is off."""
        self.info: HandInfo | None = None
        """The newest; None while the hand said nothing of the kind."""
        self.tells = False
        """The hand answers requests for its information."""
        self.serial = self.side = ""
        self.temperatures = [0] * self.hardware.sensors
        """[°C]"""
        self.offsets = np.zeros(JOINTS)
        """Zero offsets of this hand [rad]: joint angle = measured angle − offset."""
        self.realtime = self.locked = False
        self.sets = self.missed = self.clock_jumps = self.bad_frames = 0
        self.arrival = self.answered = 0.0
        """System time at which the newest set's last frame arrived, and at which its last torque
        frame was handed to the bus [s]."""
        self._offset = self.computer.system() - self.computer.monotonic()
        self._t = 0.0
        self._forget_stream()

    # --- start and end ------------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Open the bus and post the guard; nothing moves.

        Raises:
            HandFault: that failed.
        """
        p = self.params
        if p.realtime_priority and not self.realtime:
            self.realtime, self.locked = make_realtime(p.realtime_priority), lock_memory()
        try:
            if self._bus is None:
                self._bus = self.computer.open_bus(self.bus)
        except BusError as error:
            raise _fault(error) from None
        if self._wants_guard and (self._guard is None or not self._guard.alive):
            if self._guard is not None:
                self._guard.close()
            self._guard = Guard(self.bus, p.guard_timeout)
            if not self._guard.wait_ready():
                raise HandFault(
                    FaultKind.GUARD,
                    "the guard process does not start",
                    f"python -m dexstack.hand.allegro.guard   on {self.bus}",
                )

    def identify(self) -> tuple[HandInfo | None, str]:
        """Servo off, then who the hand is: its information, None from firmware that keeps it to
        itself, and its serial number.

        Raises:
            HandFault: nobody answers, or it is not the hand that was configured.
        """
        self.open()
        try:
            self._bus.flush()
            self.servo_off()
            answer = self._ask(Command.INFO)
            self.tells = answer is not None
            self.info = None if answer is None else protocol.read_info(answer)
            if self.info is not None:
                self._note_power(self.info)
            answer = self._ask(Command.SERIAL)
            if answer is None:
                text, mend = (
                    f"nobody on {self.bus} says its serial number",
                    "switch the hand on; check CAN_H, CAN_L and the termination",
                )
                raise HandFault(FaultKind.NO_ANSWER, text, f"{mend} (hardware/README.md)")
            self.serial = protocol.read_serial(answer)
            if not self.tells:
                self._note_power(None)
        except BusError as error:
            self._reopen()
            raise _fault(error) from None
        except ProtocolError as error:
            raise HandFault(
                FaultKind.NO_ANSWER, f"the hand answered with {error}", "switch the hand off and on"
            ) from None
        self._check_identity()
        self.hardware = protocol.hardware(self.params.hardware).of(self.serial)
        self.offsets = load_offsets(self.params.calibration_dir, self.serial)
        return self.info, self.serial

    def introduction(self) -> str:
        """Who the hand is and that it is well, after :meth:`identify`.

        Raises:
            HandFault: it is not well.
        """
        info, calibrated = self.info, "calibrated" if self.offsets.any() else "not calibrated"
        if info is None:
            return f"{self.serial}, {self.side} as far as one can tell: it does not answer requests for its information, {calibrated}"
        self._judge_status(info)
        versions = f"hardware 0x{info.hardware_version:04x}, firmware 0x{info.firmware_version:04x}"
        return f"{self.serial}, {self.side}, {versions}, {info.temperature} °C, {calibrated}"

    @property
    def period(self) -> float:
        """Time between two sets of joint angles [s]."""
        return 1e-3 * self.params.can_period

    @property
    def rad_per_count(self) -> float:
        """Resolution of the joint angles [rad]."""
        return self.hardware.rad_per_count

    mend_stream = "ip -details -statistics link show   (errors? bit rate 1 Mbit/s? termination?); see hardware/README.md"
    """What mends a bus that loses sets of angles."""

    def stream(self) -> None:
        """Have the hand send its joint angles and temperatures, and wait for the first complete
        set; the servo stays off.

        Raises:
            HandFault: they do not come.
        """
        try:
            self._forget_stream()
            self.on = False
            deadline, asked = self.computer.monotonic() + STREAM_TIMEOUT, 0.0
            while True:
                if self.computer.monotonic() > asked + ASK_TIMEOUT:  # again, as a frame may get lost
                    asked = self.computer.monotonic()
                    self._bus.send(
                        protocol.set_period(self.params.can_period, 0, TEMPERATURE_PERIOD, self.bus.device)
                    )
                if self._read(LOOK) is not None:
                    return
                if self.computer.monotonic() > deadline:
                    missing = ", ".join(str(f) for f in range(FINGERS) if f not in self._last_set)
                    text = f"no complete set of joint angles within {STREAM_TIMEOUT:g} s; nothing from finger {missing or 'any'}"
                    raise HandFault(
                        FaultKind.FEEDBACK_LOST,
                        text,
                        "switch the hand off and on; check the finger's cable if it is always the same",
                    )
        except BusError as error:
            self._reopen()
            raise _fault(error) from None

    def ready(self) -> None:
        """Who the hand is, whether it is well, and its stream; the servo stays off.

        Raises:
            HandFault: it cannot be driven.
        """
        info, _ = self.identify()
        if info is not None:
            self._judge_status(info)
        self.stream()

    def start(self, abandon: Callable[[], bool] = never) -> None:
        """The whole start-up; afterwards the servo is on with zero torque.

        Raises:
            HandFault: the hand cannot be driven, or ``abandon()`` said so meanwhile; the servo is
                off.
        """
        self.ready()
        try:
            self._send_torque(np.zeros(JOINTS, np.int16))
            if self._guard is not None:
                self._guard.arm(self.tells)
            self._unanswered, self._said_off = 0, -round(STREAM_TIMEOUT / self.params.status_period)
            self.on, self.off_confirmed = True, False
            deadline, asked, said = self.computer.monotonic() + STREAM_TIMEOUT, 0.0, 0
            self.info = None
            while not self._switched_on(said):
                if abandon():
                    raise HandFault(
                        FaultKind.STOPPED, "the hand was stopped while it was started", "enable again"
                    )
                if self.computer.monotonic() > asked + ASK_TIMEOUT:
                    asked = self.computer.monotonic()
                    self._bus.send(protocol.servo_on(self.bus.device))
                    said += 1
                self.read(LOOK)
                if self.computer.monotonic() > deadline:
                    raise HandFault(
                        FaultKind.SERVO_OFF,
                        "the hand does not switch its servo on",
                        "check the hand's power supply and its emergency stop",
                    )
            self._said_off = 0
        except BusError as error:
            self.servo_off()
            raise _fault(error) from None
        except HandFault:
            self.servo_off()
            raise

    def _switched_on(self, said: int) -> bool:
        """Whether the hand says that its servo is on; one that says nothing was told often
        enough."""
        return (self.info is not None and self.info.servo_on) if self.tells else said >= ATTEMPTS

    def servo_off(self) -> None:
        """Zero torque and servo off; never raises. While the hand has not confirmed, :meth:`read`
        repeats it and the guard stays armed."""
        self.on = False
        self.off_confirmed = False
        with contextlib.suppress(BusError):
            self._send_off()

    def close(self) -> None:
        """Zero torque, period 0, servo off, whatever state everything is in, then ordinary
        scheduling again; never raises."""
        if self._bus is not None:
            self.servo_off()
            with contextlib.suppress(BusError):
                self._bus.send(protocol.set_period(0, 0, 0, self.bus.device))
                self._bus.send(
                    protocol.servo_off(self.bus.device)
                )  # as the vendor has it: period, then servo
            if not self.off_confirmed:
                self._wait_off()
            self._bus.close()
            self._bus = None
        if self._guard is not None:
            self._guard.close()  # fires if the servo could not be switched off
            self._guard = None
        if self.realtime:  # what this process does and starts without a hand has no business before others
            make_ordinary()
            self.realtime = False

    # --- the stream ----------------------------------------------------------------------------------------------------------------

    def read(self, timeout: float) -> Feedback | None:
        """The next complete set of joint angles; None after ``timeout`` [s] without one.

        Raises:
            HandFault: the hand or the bus failed while the servo was on; the servo was told to go
                off.
        """
        if self._bus is None:
            self.computer.sleep(min(timeout, LOOK))
            self._speak_again()
            return None
        try:
            return self._read(timeout)
        except BusError as error:
            fault = _fault(error)
            lost = (
                error.trouble is not Trouble.BUS_OFF
            )  # a controller that is off the bus comes back; an interface that went away does not
        except HandFault as failed:
            fault, lost = failed, False
        was_on = self.on
        self.servo_off()
        if lost:
            self._reopen()
        if was_on:
            raise fault
        self.computer.sleep(min(timeout, LOOK))
        return None

    def write(self, tau: np.ndarray) -> None:
        """Send joint torques (16,) [N·m]; nothing while the servo is off.

        Raises:
            HandFault: the bus did not take them, or the guard had to act meanwhile.
        """
        if not self.on:
            return
        try:
            if self._guard is not None and self._guard.fired:
                raise HandFault(
                    FaultKind.GUARD,
                    "the guard took the torque away: this process hung",
                    "see real-time scheduling in hardware/README.md",
                )
            self._send_torque(self.hardware.torque_to_counts(tau))
            self.answered = self.computer.system()
        except BusError as error:
            self.servo_off()
            raise _fault(error) from None
        except HandFault:
            self.servo_off()
            raise

    def from_stamp(self, stamp: float) -> float:
        """Time on the servo's clock of a stamp on the system's clock [s]."""
        return stamp - self._offset

    def status(self) -> dict[str, Any]:
        """For diagnostics."""
        values: dict[str, Any] = {
            "bus": str(self.bus),
            "serial": self.serial,
            "servo_on": self.on,
            "tells_status": self.tells,
        }
        if self.info is not None:
            values |= {
                "hardware_version": f"0x{self.info.hardware_version:04x}",
                "firmware_version": f"0x{self.info.firmware_version:04x}",
                "over_temperature": self.info.over_temperature,
                "temperature": self.info.temperature,
            }
        values |= {f"temperature_{sensor}": t for sensor, t in enumerate(self.temperatures)}
        values |= {
            "sets": self.sets,
            "missed_sets": self.missed,
            "clock_jumps": self.clock_jumps,
            "bad_frames": self.bad_frames,
        }
        if self._wants_guard:
            values["guard_pid"] = self._guard.pid if self._guard is not None and self._guard.alive else 0
        values["calibrated"] = bool(self.offsets.any())
        values |= {"realtime": self.realtime, "memory_locked": self.locked}
        return values

    # --- inside --------------------------------------------------------------------------------------------------------------------

    def _read(self, timeout: float) -> Feedback | None:
        deadline = self.computer.monotonic() + timeout
        while True:
            if self._guard is not None:
                self._guard.beat()
            now = self.computer.monotonic()
            if now >= self._next_status:
                self._next_status = now + self.params.status_period
                self._poll_status()
            wait = min(LOOK, max(deadline - now, 0.0))
            received = self._bus.receive(wait)
            if received is None:
                self._silent += wait
                if self.on and self._silent >= self.params.feedback_timeout - 1e-9:
                    raise HandFault(
                        FaultKind.FEEDBACK_LOST,
                        f"no joint angles for {1e3 * self._silent:.0f} ms",
                        "dexstack diagnose hand",
                    )
                if self.computer.monotonic() >= deadline:
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
                if not (late and self._bus.pending()):  # after a pause only the newest set counts
                    return self._feedback(arrival)

    def _take(self, frame: Frame, arrival: float) -> bool:
        """Sort one frame in; True when it completes a set."""
        command, device = split_id(frame.id)
        if frame.remote or device != self.bus.device:
            return False
        if Command.POSITION <= command < Command.POSITION + FINGERS:
            return self._take_finger(command - Command.POSITION, protocol.read_four(frame.data))
        if command == Command.INFO:
            self.info = protocol.read_info(frame.data)
            self._unanswered = 0
            self._judge(self.info)
            self._judge_answer(arrival)
        elif command == Command.SERIAL and not self.on and not self.tells:
            self._unanswered = 0
            self._note_power(None)
        elif Command.TEMPERATURE <= command < Command.TEMPERATURE + FINGERS:
            for sensor, celsius in self.hardware.read_temperatures(command - Command.TEMPERATURE, frame.data):
                self.temperatures[sensor] = celsius
                self._judge_temperature(f"sensor {sensor}", celsius)
        elif command == Command.ERROR:
            motor, trouble = self.hardware.read_motor_error(frame.data)
            if self.on and trouble:
                text = f"the motor of joint {motor} reports: {trouble}"
                raise HandFault(
                    FaultKind.MOTOR,
                    text,
                    "look after that joint, switch the hand off and on, then enable again",
                )
        return False

    def _take_finger(self, finger: int, counts: tuple[int, ...]) -> bool:
        if finger in self._set:  # the next set has begun before this one was complete
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

    def _count_set(self, lost: bool) -> None:
        """Sets that are lost now and then are skipped; a bus that loses many cannot be relied
        on."""
        self._in_window += 1
        self._lost_in_window += lost
        if self._in_window * self.params.can_period < 1e3 * WINDOW:
            return
        share, self._in_window, self._lost_in_window = self._lost_in_window / self._in_window, 0, 0
        if self.on and share > self.params.lost_share:
            text = f"{100 * share:.0f} % of the sets of joint angles in {WINDOW:g} s were incomplete"
            raise HandFault(
                FaultKind.FRAMES_LOST,
                text,
                "check the cable and the termination of the bus; dexstack diagnose hand",
            )

    def _feedback(self, arrival: float) -> Feedback:
        system, now = self.computer.system(), self.computer.monotonic()
        offset = system - now
        if abs(offset - self._offset) > CLOCK_JUMP:
            self.clock_jumps += 1
        self._offset = offset
        self.arrival = arrival
        waited = self.computer.system() - arrival  # in the receive queue
        self._t = t = max(self._t, now - (waited if 0.0 <= waited < 0.1 else 0.0))
        return Feedback(t, t + offset, self.hardware.counts_to_angle(self._counts) - self.offsets)

    def _note_power(self, info: HandInfo | None) -> None:
        """Whether the hand confirms that its servo is off; then the guard may stand at ease. None:
        it answered something else."""
        self.off_confirmed = info is None or not info.servo_on
        if self.off_confirmed and self._guard is not None and self._guard.alive:
            self._guard.disarm()

    def _judge(self, info: HandInfo) -> None:
        """What the hand says about itself while its servo is on."""
        if not self.on:
            self._note_power(info)
            return
        self._judge_status(info)
        self._said_off = 0 if info.servo_on else self._said_off + 1
        if self._said_off >= 3:
            raise HandFault(
                FaultKind.SERVO_OFF,
                "the hand's servo went off by itself",
                "was the hand switched off and on? Then enable again",
            )

    def _judge_status(self, info: HandInfo) -> None:
        too_hot, incommunicative = self.hardware.trouble(info)
        if too_hot:
            text = f"the hand reports over-temperature ({info.temperature} °C)"
            raise HandFault(
                FaultKind.OVER_TEMPERATURE, text, "let it cool down with the power off, then enable again"
            )
        if incommunicative:
            raise HandFault(
                FaultKind.COMMUNICATION,
                "the hand reports an internal communication fault",
                "switch the hand off and on",
            )

    def _judge_answer(self, arrival: float) -> None:
        """A hand that answers late also moves late, and would be driven into swinging."""
        took = arrival - self._asked
        self._late = self._late + 1 if self.params.answer_timeout < took < 1.0 else 0
        if self.on and self._late >= LATE_IN_ROW:
            text = f"the hand answers after {1e3 * took:.0f} ms, {1e3 * self.params.answer_timeout:.0f} ms are allowed"
            raise HandFault(
                FaultKind.LATE,
                text,
                "is the bus or this computer overloaded? see real-time scheduling in hardware/README.md",
            )

    def _judge_temperature(self, what: str, celsius: int) -> None:
        if not self.on:
            return
        if not CELSIUS[0] <= celsius <= CELSIUS[1]:
            text = f"{what} of the hand says {celsius} °C"
            raise HandFault(
                FaultKind.TEMPERATURE, text, "a sensor or its cable is broken: dexstack diagnose hand"
            )
        if celsius > self.params.temperature_limit:
            text = f"{what} of the hand is at {celsius} °C, {self.params.temperature_limit} °C are allowed"
            raise HandFault(FaultKind.OVER_TEMPERATURE, text, "let it cool down, then enable again")

    def _poll_status(self) -> None:
        if self.on:
            if self._guard is not None and not self._guard.alive:
                raise HandFault(
                    FaultKind.GUARD, "the guard process died", "enable again: a new one will be posted"
                )
        elif not self.off_confirmed:
            self._send_off()
        if not self.tells and (self.on or self.off_confirmed):
            return  # it has nothing to say
        self._unanswered += 1
        if self._unanswered % 2:  # one question at a time: an answer must be that to the newest
            self._asked = self.computer.system()
            self._bus.send(protocol.request(Command.INFO if self.tells else Command.SERIAL, self.bus.device))

    def _speak_again(self) -> None:
        """The interface went away with the servo on, for all we know: as soon as there is one
        again, the servo off."""
        if self.off_confirmed:
            return
        with contextlib.suppress(BusError):
            self._bus = self.computer.open_bus(self.bus)
            self.servo_off()

    def _ask(self, command: Command) -> bytes | None:
        """The answer to a question, None without one; other frames are dropped."""
        wanted = frame_id(command, self.bus.device)
        for _ in range(ATTEMPTS):
            self._bus.send(protocol.request(command, self.bus.device))
            deadline = self.computer.monotonic() + ASK_TIMEOUT
            while (left := deadline - self.computer.monotonic()) > 0.0:
                received = self._bus.receive(left)
                if received is not None and received[0].id == wanted and not received[0].remote:
                    return received[0].data
        return None

    def _check_identity(self) -> None:
        self.side = found = self.hardware.side(self.serial, self.info) or self._side
        if found != self._side:
            raise HandFault(
                FaultKind.WRONG_HAND,
                f"this is a {found} hand ({self.serial}), a {self._side} one is configured",
                f"use hand:={found}, or connect the other hand",
            )
        if self.info is not None and self.info.generation != self.hardware.generation:
            text = f"this hand has hardware version 0x{self.info.hardware_version:04x}, {self.hardware.name} is configured"
            raise HandFault(FaultKind.WRONG_HAND, text, f"use hardware:=V{self.info.generation}")

    def _send_torque(self, counts: np.ndarray) -> None:
        values = counts.tolist()
        for finger in range(FINGERS):
            self._bus.send(protocol.set_torque(finger, values[4 * finger : 4 * finger + 4], self.bus.device))

    def _send_off(self) -> None:
        self._send_torque(np.zeros(JOINTS, np.int16))
        self._bus.send(protocol.servo_off(self.bus.device))

    def _wait_off(self) -> None:
        """Give the hand a moment to confirm; what it does not confirm is said again."""
        with contextlib.suppress(BusError, ProtocolError):
            for _ in range(ATTEMPTS):
                answer = self._ask(Command.INFO if self.tells else Command.SERIAL)
                if answer is not None:
                    self._note_power(protocol.read_info(answer) if self.tells else None)
                if self.off_confirmed:
                    return
                self._send_off()

    def _reopen(self) -> None:
        """Drop the bus handle, so that the next start opens a new one."""
        if self._bus is not None:
            self._bus.close()
            self._bus = None

    def _forget_stream(self) -> None:
        self._set: dict[int, tuple[int, ...]] = {}
        self._last_set: frozenset[int] = frozenset()
        self._counts = np.zeros(JOINTS, np.int16)
        self._missed_in_row = self._unanswered = self._said_off = self._late = self._in_window = (
            self._lost_in_window
        ) = 0
        self._asked = self.computer.system()
        self._silent = self._next_status = 0.0


def _fault(error: BusError) -> HandFault:
    return HandFault(
        FaultKind.BUS_OFF if error.trouble is Trouble.BUS_OFF else FaultKind.BUS, str(error), error.mend
    )
