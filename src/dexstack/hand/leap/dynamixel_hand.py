"""A LEAP hand on a serial line: Dynamixel motors behind the same :class:`dexstack.hand.link.Link`
as a hand on CAN.

The servo's torques become registers in current-based position mode: the motor goes to a goal
position with no more than a goal current. A torque is the goal current that makes it, and the goal
is the joint's limit on its side. So the motor itself stops at the joint's limit, and what stays
behind when this process dies is a push that ends there at the latest (current mode would push on
past every limit). The current is bounded in :meth:`LeapHand._goals`, last before the line. Within
about 10° of a limit a motor pushes towards it more weakly, as its own position controller has it;
one beyond the limit is drawn back to it.

The motors' bus watchdog stops them when they hear nothing for ``bus_watchdog``: they then hold
where they are with what current they had. Torque is off at the start, and is switched off by every
fault, :meth:`LeapHand.servo_off` and :meth:`LeapHand.close`; while the motors have not confirmed
it, :meth:`LeapHand.read` says it again. Every setting is read back before the next is made, goals
without current before the torque goes on.

Motors speak only when asked: :meth:`LeapHand.read` asks all of them once in ``motor_period`` (sync
read; not the fast one, whose answers end with the first motor that is silent). What one reports is
judged at once: the alert bit of any answer, and its health, which one motor after the other is
asked for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dexstack.errors import ConfigError
from dexstack.hand.calibration import load_offsets
from dexstack.hand.leap import protocol as dynamixel
from dexstack.hand.leap.line import Line, LineError, SerialLine
from dexstack.hand.leap.protocol import MOTOR_IDS, Health, Identity, Register, Table
from dexstack.hand.link import FaultKind, Feedback, HandFault, never
from dexstack.hand.params import BusParams, CanHandParams, MotorParams
from dexstack.model.hand import HandModel
from dexstack.process.realtime import lock_memory, make_ordinary, make_realtime

ATTEMPTS = 3
SETTLE_TIMEOUT = 0.5
"""Time within which a setting must be made by all motors, and a first set of angles come [s]."""
START_PATIENCE = 0.05
"""How long a motor may take to say who it is: longer than an adapter that is set up badly [s]."""
LENGTHS = 5
"""After an incomplete set the next question asks for another number of bytes: an answer that comes
late is not taken for one to it."""
LATE_IN_ROW = 3
WINDOW = 0.5
"""Time over which lost sets are counted [s]."""
CELSIUS = (-20, 125)
"""What a working sensor can say [°C]."""
REST = 0.01
"""Wait while there is no line [s]."""


class LeapHand:
    """See the module's docstring.

    Args:
        hand: its model; joint limits bound the motors' goals.
        bus: the line.
        params: how to drive it.
        motors: its motors.
        open_line: opens the line; one in simulated time is in :mod:`dexstack.hand.emulated.leap`.

    Raises:
        ConfigError: dynamixel-sdk is not installed, or there is no such motor.
    """

    def __init__(
        self,
        hand: HandModel,
        bus: BusParams,
        params: CanHandParams | None = None,
        motors: MotorParams | None = None,
        open_line: Callable[[BusParams, MotorParams, float], Line] = SerialLine,
    ) -> None:
        try:
            from dynamixel_sdk import COMM_RX_TIMEOUT, COMM_SUCCESS, PacketHandler
        except ImportError as error:
            raise ConfigError(f"{error}; install the extra: pip install 'dexstack[leap]'") from None
        self._sdk, self._success, self._timeout = PacketHandler(2.0), COMM_SUCCESS, COMM_RX_TIMEOUT
        self.params, self.motors, self.bus = params or CanHandParams(), motors or MotorParams(), bus
        self.motor = dynamixel.motor_named(self.motors.motor)
        self.side = hand.side
        """As configured: motors do not know which hand they are in."""
        self._names = hand.joint_names
        self._lower, self._upper = hand.lower, hand.upper
        wanted = self.motors.current_limit or self.motor.largest_current
        self._most = int(1e3 * min(wanted, self.motor.largest_current) + 1e-6)
        self._open_line = open_line
        self._line: Line | None = None
        self.computer = Line(str(bus), self.motors.baud_rate, 0.0)
        """Its clocks; those of the line as soon as there is one."""
        self._patience = 1.25 * self.motors.motor_timeout
        self.period = self.motors.motor_period
        """Time between two sets of angles [s]."""
        self.on = False
        """The motors have torque, as far as we know."""
        self.off_confirmed = False
        """The motors themselves said that they have none."""
        self.serial = ""
        self.identities: dict[int, Identity] = {}
        """By joint."""
        self.health: dict[int, Health] = {}
        """The newest, by joint."""
        self.offsets = np.zeros(len(MOTOR_IDS))
        """Zero offsets of this hand [rad]: joint angle = measured angle − offset."""
        self.realtime = self.locked = False
        self.sets = self.missed = self.bad_packets = 0
        self.arrival = 0.0
        """System time of the newest set [s]."""
        self._forget_stream()

    rad_per_count = dynamixel.RAD_PER_COUNT
    mend_stream = "cat /sys/bus/usb-serial/devices/ttyUSB0/latency_timer   (must be 1 ms); short cables? see 'LEAP' in docs/hand.md"
    """What mends a line that loses sets of angles."""

    # --- start and end ------------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Open the line; nothing moves.

        Raises:
            HandFault: that failed.
        """
        p = self.params
        if p.realtime_priority and not self.realtime:
            self.realtime, self.locked = make_realtime(p.realtime_priority), lock_memory()
        if self._line is None:
            try:
                self._line = self._open_line(self.bus, self.motors, self._patience)
            except LineError as error:
                raise _fault(error) from None
            self.computer = self._line

    def identify(self) -> tuple[dict[int, Identity], str]:
        """Torque off, then who the motors are, by joint, and the hand's serial number.

        Motors have no serial number: it is that of the USB adapter, which stays with the hand; else
        the name of the channel.

        Raises:
            HandFault: a motor does not answer, or is not what the hand should have.
        """
        self.open()
        try:
            self.servo_off()
            found = {j: dynamixel.read_identity(data) for j, data in self._ask_all(Table.IDENTITY).items()}
            if len(found) == len(MOTOR_IDS):
                self._ask_health()
        except LineError as error:
            self._drop_line()
            raise _fault(error) from None
        self.identities = found
        self._check_identity(found)
        channel = re.sub(r"[^A-Za-z0-9]+", "_", Path(self.bus.where).name)
        self.serial = f"LEAP_{self._line.serial_number or channel}"
        self.offsets = load_offsets(self.params.calibration_dir, self.serial)
        return found, self.serial

    def introduction(self) -> str:
        """Who the hand is and that it is well, after :meth:`identify`.

        Raises:
            HandFault: it is not well.
        """
        self._judge_all()
        firmware = "/".join(str(x) for x in sorted({i.firmware for i in self.identities.values()}))
        volts, calibrated = (
            min(h.volts for h in self.health.values()),
            "calibrated" if self.offsets.any() else "not calibrated",
        )
        found = f"{self.serial}, {len(self.identities)} motors {self.motor.name}, firmware {firmware}"
        return f"{found}, {max(self.temperatures)} °C, {volts:.1f} V, {calibrated}"

    def stream(self) -> None:
        """Wait for the first complete set of joint angles, from motors that answer without delay;
        the torque stays off.

        Raises:
            HandFault: it does not come.
        """
        self._forget_stream()
        self.on = False
        try:
            self._insist(Table.RETURN_DELAY, self._same(b"\0"), "an answer without delay", never)
            end = self.computer.monotonic() + SETTLE_TIMEOUT
            while self._read(self.period) is None:
                if self.computer.monotonic() > end:
                    text = f"no complete set of joint angles within {SETTLE_TIMEOUT:g} s; nothing from {self._list(self._silent_joints)}"
                    raise HandFault(FaultKind.FEEDBACK_LOST, text, self.mend_stream)
        except LineError as error:
            self._drop_line()
            raise _fault(error) from None

    def ready(self) -> None:
        """Who the hand is, whether it is well, and its angles; the torque stays off.

        Raises:
            HandFault: it cannot be driven.
        """
        self.identify()
        self._judge_all()
        self.stream()

    def start(self, abandon: Callable[[], bool] = never) -> None:
        """The whole start-up; afterwards the motors have torque and goals without current.

        Raises:
            HandFault: the hand cannot be driven, or ``abandon()`` said so meanwhile; the torque is
                off.
        """
        self.ready()
        watchdog = max(1, math.floor(self.motors.bus_watchdog / dynamixel.WATCHDOG_UNIT + 1e-9))
        self._silence_allowed = watchdog * dynamixel.WATCHDOG_UNIT
        steps: list[tuple[Register, Callable[[], Mapping[int, bytes]], str]] = [
            (
                Table.OPERATING_MODE,
                lambda: self._same(bytes((dynamixel.CURRENT_BASED_POSITION,))),
                "current-based position mode",
            ),
            (Table.GAINS, lambda: self._same(dynamixel.gains()), "its gains"),
            (Table.BUS_WATCHDOG, lambda: self._same(b"\0"), "its bus watchdog cleared"),
            (Table.GOALS, lambda: self._goals(np.zeros(len(MOTOR_IDS))), "a goal without current"),
            (Table.TORQUE_ENABLE, lambda: self._same(b"\1"), "its torque on"),
            (Table.BUS_WATCHDOG, lambda: self._same(bytes((watchdog,))), "its bus watchdog"),
        ]
        try:
            for register, values, what in steps:
                self.off_confirmed &= register is not Table.TORQUE_ENABLE
                self._insist(register, values(), what, abandon)
            self._rest()
            self.on = True
        except LineError as error:
            self.servo_off()
            self._drop_line()
            raise _fault(error) from None
        except HandFault:
            self.servo_off()
            raise

    def servo_off(self) -> None:
        """Torque off; never raises. While the motors have not confirmed, :meth:`read` repeats
        it."""
        self.on = False
        self.off_confirmed = False
        try:
            if self._line is not None:
                self._send(Table.TORQUE_ENABLE, self._same(b"\0"))
        except LineError:
            self._drop_line()

    def close(self) -> None:
        """Torque off, whatever state everything is in, then ordinary scheduling again; never
        raises."""
        if self._line is not None:
            self.servo_off()
            for _ in range(ATTEMPTS):
                if self._line is None or self.off_confirmed:
                    break
                self._confirm_off()
            self._drop_line()
        if self.realtime:
            make_ordinary()
            self.realtime = False

    # --- the stream ----------------------------------------------------------------------------------------------------------------

    def read(self, timeout: float) -> Feedback | None:
        """The next complete set of joint angles; None after ``timeout`` [s] without one.

        Raises:
            HandFault: the hand or the line failed while the torque was on; the torque was told to
                go off.
        """
        if self._line is None:
            self.computer.sleep(min(timeout, REST))
            self._speak_again()
            return None
        try:
            return self._read(timeout)
        except LineError as error:
            fault, lost = _fault(error), True
        except HandFault as failed:
            fault, lost = failed, False
        was_on = self.on
        self.servo_off()
        if lost:
            self._drop_line()
        if was_on:
            raise fault
        self.computer.sleep(min(timeout, REST))
        return None

    def write(self, tau: np.ndarray) -> None:
        """Send joint torques (16,) [N·m]; nothing while the torque is off.

        Raises:
            HandFault: the line did not take them, or the motors' watchdog stopped them meanwhile.
        """
        if not self.on:
            return
        try:
            silent = self.computer.monotonic() - self._spoke
            if silent > self._silence_allowed:
                text = f"this process was silent for {1e3 * silent:.0f} ms: the motors' bus watchdog stopped them"
                raise HandFault(
                    FaultKind.GUARD, text, "see real-time scheduling in hardware/README.md; then enable again"
                )
            self._send(Table.GOALS, self._goals(tau))
        except LineError as error:
            self.servo_off()
            self._drop_line()
            raise _fault(error) from None
        except HandFault:
            self.servo_off()
            raise

    def from_stamp(self, stamp: float) -> float:
        """Time on the servo's clock of a stamp on the system's clock [s]."""
        return stamp - self._offset

    @property
    def temperatures(self) -> list[int]:
        """Of every motor that said so [°C]."""
        return [h.celsius for h in self.health.values()] or [0]

    def status(self) -> dict[str, Any]:
        """For diagnostics."""
        values: dict[str, Any] = {
            "bus": str(self.bus),
            "serial": self.serial,
            "servo_on": self.on,
            "motor": self.motor.name,
        }
        values |= {f"temperature_{j}": h.celsius for j, h in self.health.items()}
        if self.health:
            values["lowest_supply"] = min(h.volts for h in self.health.values())
        values |= {"sets": self.sets, "missed_sets": self.missed, "bad_packets": self.bad_packets}
        values |= {
            "calibrated": bool(self.offsets.any()),
            "realtime": self.realtime,
            "memory_locked": self.locked,
        }
        return values

    # --- what is read ---------------------------------------------------------------------------------------------------------------

    def _read(self, timeout: float) -> Feedback | None:
        clock, end = self.computer, self.computer.monotonic() + timeout
        while True:
            now = clock.monotonic()
            if self._next > end:
                clock.sleep(max(end - now, 0.0))
                return None
            if self._next > now:
                clock.sleep(self._next - now)
            now = clock.monotonic()
            self._next = max(self._next + self.period, now)  # what was missed is not made up for
            if not self.on and not self.off_confirmed and now >= self._next_health:
                self._next_health = now + self.params.status_period
                self._confirm_off()
            feedback = self._ask_angles()
            if feedback is not None or clock.monotonic() >= end:
                return feedback

    def _ask_angles(self) -> Feedback | None:
        clock = self.computer
        asked, offset = clock.monotonic(), clock.system() - clock.monotonic()
        answers = self._ask(Table.PRESENT._replace(size=Table.PRESENT.size + self._more))
        took = clock.monotonic() - asked
        self._silent_joints = [j for j in range(len(MOTOR_IDS)) if j not in answers]
        self._count_set(bool(self._silent_joints))
        if self._silent_joints:
            self.missed += 1
            self._more = (self._more + 1) % LENGTHS
            self._silent += max(
                min(took, self._patience), self.period
            )  # a machine that was paused is no silent hand
            if self.on and self._silent >= self.params.feedback_timeout - 1e-9:
                self._raise_silence(bool(answers))
            return None
        self._silent = 0.0
        self._judge_lateness(took)
        now = clock.monotonic()
        if self.on and now >= self._next_health:
            self._next_health = now + self.params.status_period
            self._turn = (self._turn + 1) % len(MOTOR_IDS)
            self._ask_health_of(self._turn)
        self._counts[:] = [dynamixel.PRESENT.unpack_from(answers[j])[2] for j in range(len(MOTOR_IDS))]
        self.sets += 1
        self._offset, self._t = offset, max(self._t, asked)
        self.arrival = self._t + offset
        return Feedback(self._t, self._t + offset, dynamixel.counts_to_angle(self._counts) - self.offsets)

    def _raise_silence(self, some: bool) -> None:
        for_long = f"for {1e3 * self._silent:.0f} ms"
        if some:
            text = f"no complete answer from {self._list(self._silent_joints)} {for_long}"
            raise HandFault(
                FaultKind.FINGER_LOST, text, "check that motor's cable and supply; dexstack diagnose hand"
            )
        raise HandFault(
            FaultKind.FEEDBACK_LOST,
            f"no motor answers {for_long}",
            "check the supply and the adapter; dexstack diagnose hand",
        )

    def _count_set(self, lost: bool) -> None:
        self._in_window += 1
        self._lost_in_window += lost
        if self._in_window * self.period < WINDOW:
            return
        share, self._in_window, self._lost_in_window = self._lost_in_window / self._in_window, 0, 0
        if self.on and share > self.params.lost_share:
            text = f"{100 * share:.0f} % of the last sets of joint angles were incomplete"
            raise HandFault(
                FaultKind.FRAMES_LOST, text, "check cables, supply and baud rate; dexstack diagnose hand"
            )

    def _judge_lateness(self, took: float) -> None:
        self._late = self._late + 1 if took > self.motors.motor_timeout else 0
        if self.on and self._late >= LATE_IN_ROW:
            text = f"a set of joint angles takes {1e3 * took:.0f} ms, {1e3 * self.motors.motor_timeout:.0f} ms are allowed"
            raise HandFault(FaultKind.LATE, text, self.mend_stream)

    def _ask_health(self) -> None:
        """Of all motors; a torque that is off everywhere is confirmed."""
        found = {j: dynamixel.read_health(data) for j, data in self._ask_all(Table.HEALTH).items()}
        self.health |= found
        self.off_confirmed = len(found) == len(MOTOR_IDS) and not any(h.torque for h in found.values())

    def _ask_health_of(self, joint: int) -> None:
        """Read and judge one motor's health; no answer says nothing."""
        data = self._ask(Table.HEALTH, [joint], alerts=False).get(joint)
        if data is not None:
            self.health[joint] = health = dynamixel.read_health(data)
            self._judge(joint, health)

    def _judge_all(self) -> None:
        for joint, health in sorted(self.health.items()):
            self._judge(joint, health)

    def _judge(self, joint: int, health: Health) -> None:
        """Raises HandFault: that motor cannot be driven."""
        who = self._list([joint])
        if health.errors:
            kind = FaultKind.OVER_TEMPERATURE if health.errors & dynamixel.OVERHEATING else FaultKind.MOTOR
            text = f"{who} reports: {dynamixel.describe_errors(health.errors)}"
            raise HandFault(
                kind,
                text,
                "look after that joint, let it cool down, switch the hand's supply off and on, then enable again",
            )
        low, high = self.motors.lowest_supply, self.motors.highest_supply
        if not low <= health.volts <= high:
            text = f"{who} gets {health.volts:.1f} V, {low:g} to {high:g} V are allowed"
            raise HandFault(
                FaultKind.MOTOR,
                text,
                "the supply must give 5 V under load: is it strong enough, are its cables thick and short?",
            )
        if not CELSIUS[0] <= health.celsius <= CELSIUS[1]:
            raise HandFault(
                FaultKind.TEMPERATURE,
                f"{who} says {health.celsius} °C",
                "its sensor is broken: replace the motor",
            )
        if health.celsius > self.params.temperature_limit:
            text = f"{who} is at {health.celsius} °C, {self.params.temperature_limit} °C are allowed"
            raise HandFault(FaultKind.OVER_TEMPERATURE, text, "let it cool down, then enable again")
        if self.on and health.watchdog == dynamixel.WATCHDOG_FIRED:
            text = f"the bus watchdog of {who} stopped it: it heard nothing for {self._silence_allowed:g} s"
            raise HandFault(
                FaultKind.GUARD, text, "see real-time scheduling in hardware/README.md; then enable again"
            )
        if self.on and not health.torque:
            raise HandFault(
                FaultKind.SERVO_OFF,
                f"the torque of {who} went off by itself",
                "was the supply interrupted? Then enable again",
            )

    def _check_identity(self, found: Mapping[int, Identity]) -> None:
        missing = [j for j in range(len(MOTOR_IDS)) if j not in found]
        if len(missing) == len(MOTOR_IDS):
            mend = "switch the hand's supply on; check the cable; with the Dynamixel Wizard: numbers 0 to 15, this baud rate"
            raise HandFault(
                FaultKind.NO_ANSWER, f"nobody on {self.bus} answers at {self.motors.baud_rate} baud", mend
            )
        if missing:
            mend = "check its cable; with the Dynamixel Wizard: its number, which no other motor may have, and its baud rate"
            raise HandFault(FaultKind.NO_ANSWER, f"{self._list(missing)} does not answer", mend)
        for joint, identity in found.items():
            if identity.model != self.motor.model:
                known = next(
                    (m.name for m in dynamixel.MOTORS.values() if m.model == identity.model),
                    f"model {identity.model}",
                )
                text = f"{self._list([joint])} is a {known}, {self.motor.name} is configured"
                raise HandFault(
                    FaultKind.WRONG_HAND, text, f"set the parameter motor: {known}, or replace that motor"
                )
            if identity.drive_mode & dynamixel.REVERSED:
                text = f"{self._list([joint])} turns the other way: its drive mode is reversed"
                raise HandFault(
                    FaultKind.WRONG_HAND, text, "set its drive mode to 0 with the Dynamixel Wizard"
                )
            if identity.drive_mode & dynamixel.ON_BY_GOAL:
                text = f"the torque of {self._list([joint])} goes on with any goal: its drive mode says so"
                raise HandFault(
                    FaultKind.WRONG_HAND, text, "set its drive mode to 0 with the Dynamixel Wizard"
                )

    # --- what is written ------------------------------------------------------------------------------------------------------------

    def _goals(self, tau: np.ndarray) -> dict[int, bytes]:
        """Goals by joint of the torques (16,) [N·m]: no current beyond the limit, no position
        beyond the joint's."""
        current = np.trunc(1e3 * np.nan_to_num(tau) / self.motor.torque_constant)
        current = np.clip(current, -self._most, self._most).astype(int)
        goal = np.where(current > 0, self._upper, self._lower) + self.offsets
        position = np.where(current == 0, self._counts, dynamixel.angle_to_counts(goal))
        pairs = zip(np.abs(current).tolist(), position.tolist(), strict=True)
        return {j: dynamixel.goals(most, at) for j, (most, at) in enumerate(pairs)}

    def _rest(self) -> None:
        """Goals without current, which the motors confirm. Raises HandFault, LineError."""
        self._insist(Table.GOALS, self._goals(np.zeros(len(MOTOR_IDS))), "a goal without current", never)

    def _same(self, data: bytes) -> dict[int, bytes]:
        return dict.fromkeys(range(len(MOTOR_IDS)), data)

    def _insist(
        self, register: Register, values: Mapping[int, bytes], what: str, abandon: Callable[[], bool]
    ) -> None:
        """Write until every motor has it, as it says itself."""
        end = self.computer.monotonic() + SETTLE_TIMEOUT
        while True:
            answers = self._ask(register, patience=START_PATIENCE)
            wrong = {
                j: data for j, data in values.items() if answers.get(j) != data
            }  # settings that last are written when they differ only
            if not wrong:
                return
            if abandon():
                raise HandFault(
                    FaultKind.STOPPED, "the hand was stopped while it was started", "enable again"
                )
            if self.computer.monotonic() > end:
                text = f"{self._list(wrong)} does not take {what}"
                raise HandFault(FaultKind.SERVO_OFF, text, "check the hand's supply; switch it off and on")
            self._send(register, wrong)

    def _confirm_off(self) -> None:
        """Say torque off again, and ask whether it is; never raises HandFault."""
        try:
            self._send(Table.TORQUE_ENABLE, self._same(b"\0"))
            answers = self._ask(Table.TORQUE_ENABLE, alerts=False)
        except LineError:
            self._drop_line()
            return
        self.off_confirmed = len(answers) == len(MOTOR_IDS) and not any(data[0] for data in answers.values())

    def _speak_again(self) -> None:
        """The line went away with the torque on, for all we know: as soon as there is one again,
        the torque off."""
        if self.off_confirmed:
            return
        try:
            self._line = self._open_line(self.bus, self.motors, self._patience)
        except LineError:
            return
        self.computer = self._line
        self.servo_off()

    # --- through the SDK ------------------------------------------------------------------------------------------------------------

    def _send(self, register: Register, values: Mapping[int, bytes]) -> None:
        """Sync write by joint. Raises LineError."""
        parameters = [byte for j, data in values.items() for byte in (MOTOR_IDS[j], *data)]
        self._spoke = self.computer.monotonic()
        result = self._sdk.syncWriteTxOnly(
            self._line, register.address, register.size, parameters, len(parameters)
        )
        if result != self._success:
            raise LineError(
                f"{self.bus} takes no packets: {self._sdk.getTxRxResult(result)}",
                "is the adapter plugged in?",
            )

    def _ask(
        self,
        register: Register,
        joints: list[int] | None = None,
        *,
        alerts: bool = True,
        patience: float | None = None,
    ) -> dict[int, bytes]:
        """Sync read by joint; who does not answer well is left out. Raises LineError, and HandFault
        for an alert while the torque is on."""
        joints = list(range(len(MOTOR_IDS))) if joints is None else joints
        by_id = {MOTOR_IDS[j]: j for j in joints}
        self._line.patience = self._patience if patience is None else patience
        self._spoke = self.computer.monotonic()
        result = self._sdk.syncReadTx(
            self._line, register.address, register.size, list(by_id), len(by_id), False
        )
        if result != self._success:
            raise LineError(
                f"{self.bus} takes no packets: {self._sdk.getTxRxResult(result)}",
                "is the adapter plugged in?",
            )
        found: dict[int, bytes] = {}
        alarmed = []
        while len(found) < len(by_id):
            packet, result = self._sdk.rxPacket(self._line, False)
            if result == self._timeout or (result != self._success and self._line.isPacketTimeout()):
                break
            if result != self._success:
                self.bad_packets += 1
                continue
            joint, length = by_id.get(packet[4]), packet[5] | packet[6] << 8
            data = bytes(
                packet[9 : 5 + length]
            )  # between header, number, length, instruction and error, and the CRC
            if joint is None or len(data) != register.size or packet[8] & ~dynamixel.ALERT:
                self.bad_packets += 1
                continue
            found[joint] = data
            if packet[8] & dynamixel.ALERT:
                alarmed.append(joint)
        if alerts and self.on:
            for joint in alarmed:
                self._ask_health_of(joint)
        return found

    def _ask_all(self, register: Register) -> dict[int, bytes]:
        """The same, and again whoever did not answer, ATTEMPTS times."""
        found: dict[int, bytes] = {}
        for _ in range(ATTEMPTS):
            missing = [j for j in range(len(MOTOR_IDS)) if j not in found]
            if missing:
                found |= self._ask(register, missing, alerts=False, patience=START_PATIENCE)
        return found

    def _drop_line(self) -> None:
        """So that the next start opens a new one."""
        if self._line is not None:
            self._line.close()
            self._line = None

    def _forget_stream(self) -> None:
        self._counts = np.full(len(MOTOR_IDS), dynamixel.ZERO)
        self._silent_joints: list[int] = []
        self._silent = self._next = self._next_health = self._t = self._spoke = 0.0
        self._offset, self._silence_allowed = getattr(self, "_offset", 0.0), self.motors.bus_watchdog
        self._more = self._late = self._in_window = self._lost_in_window = 0
        self._turn = -1

    def _list(self, joints: Any) -> str:
        if len(joints) == len(MOTOR_IDS):
            return "all motors"
        who = ", ".join(f"motor {MOTOR_IDS[j]} ({self._names[j]})" for j in joints)
        return who or "any motor"


def _fault(error: LineError) -> HandFault:
    return HandFault(FaultKind.BUS, str(error), error.mend)
