"""A LEAP hand on a serial line: Dynamixel motors behind the same :class:`dexstack.hand.link.Link`
as a hand on CAN.

The servo's torques become registers in current-based position mode: the motor moves to a goal
position with at most a goal current. A torque is the goal current that produces it, and the goal is
the joint's limit on its side. So the motor itself stops at the joint's limit, and if this process
dies the remaining torque ends there at the latest (in current mode it would push past every limit).
The current is bounded in :meth:`LeapHand._goals`, the last step before the line. Within about 10°
of a limit a motor pushes towards it more weakly, by its own position controller; one beyond the
limit is drawn back to it.

The motors' bus watchdog stops them after ``bus_watchdog`` without a packet: they then hold their
position with the current they had. Torque is off at the start, and is switched off by every fault,
:meth:`LeapHand.servo_off` and :meth:`LeapHand.close`; until the motors confirm it,
:meth:`LeapHand.read` repeats it. Every setting is read back before the next is made, and goals
without current are set before the torque goes on.

Motors send only answers: :meth:`LeapHand.read` asks all of them once per ``motor_period`` (sync
read; not the fast one, whose answers end with the first motor that is silent). The alert bit of
every answer is checked at once; the health of one motor after the other is read. A motor that has
switched itself off (overload, heat, shock) stays off until its supply is switched or
:meth:`LeapHand.reboot`, which only a person asks for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dexstack.hand.bus_hand import ATTEMPTS, LOOK, START_TIMEOUT, BusHand
from dexstack.hand.calibration import load_offsets
from dexstack.hand.leap import protocol as dynamixel
from dexstack.hand.leap.line import Line, SerialLine
from dexstack.hand.leap.motor_bus import JOINTS, START_PATIENCE, MotorBus
from dexstack.hand.leap.protocol import MOTOR_IDS, Health, Identity, Register, Table
from dexstack.hand.link import Clocks, FaultKind, Feedback, HandFault, never
from dexstack.hand.params import BusParams, CanHandParams, MotorParams
from dexstack.model.hand import HandModel

LENGTHS = 5
"""After an incomplete set the next request asks for another number of bytes, so that a late answer
to the previous one is not accepted."""
BOOT_TIMEOUT = 2.0
"""Time until a motor answers after a reboot [s]."""
CELSIUS = (-20, 125)
"""Temperatures that a working sensor can report [°C]."""
REALTIME_HINT = "see real-time scheduling in hardware/README.md; then enable again"
WIZARD = "set its drive mode to 0 with the Dynamixel Wizard"


class LeapHand(BusHand):
    """See the module's docstring.

    Args:
        hand: its model; joint limits bound the motors' goals.
        bus: the line.
        params: parameters of the driver.
        motors: its motors.
        open_line: opens the line; one in simulated time is in :mod:`dexstack.hand.emulated.leap`.

    Raises:
        ConfigError: dynamixel-sdk is not installed, or unknown motors.
    """

    rad_per_count = dynamixel.RAD_PER_COUNT
    stream_remedy = (
        "cat /sys/bus/usb-serial/devices/ttyUSB0/latency_timer   (must be 1 ms); short "
        "cables? see 'LEAP' in docs/hardware.md"
    )
    check_cables = "check cables, supply and baud rate; dexstack diagnose hand"

    def __init__(
        self,
        hand: HandModel,
        bus: BusParams,
        params: CanHandParams | None = None,
        motors: MotorParams | None = None,
        open_line: Callable[[BusParams, MotorParams, float], Line] = SerialLine,
    ) -> None:
        self.motors = motors or MotorParams()
        # the clocks are those of the line once it is open
        super().__init__(len(MOTOR_IDS), bus, params, Clocks())
        self._bus = MotorBus(1.25 * self.motors.motor_timeout)
        self.motor = dynamixel.motor_named(self.motors.motor)
        self.side = hand.side
        """As configured: the motors do not report it."""
        self._names = hand.joint_names
        self._lower, self._upper = hand.lower, hand.upper
        limit = min(self.motors.current_limit or self.motor.largest_current, self.motor.largest_current)
        self._most = int(1e3 * limit + 1e-6)
        self._open_line = open_line
        self.period = self.motors.motor_period
        self.identities: dict[int, Identity] = {}
        """By joint."""
        self.health: dict[int, Health] = {}
        """The newest, by joint."""
        self._forget_stream()

    # --- start and end

    def _open_port(self) -> Line:
        self.computer = self._bus.line = line = self._open_line(self.bus, self.motors, self._bus.patience)
        return line

    def identify(self) -> tuple[dict[int, Identity], str]:
        """Switch the torque off; return the motors' identities by joint and the serial number.

        Motors have no serial number: it is that of the USB adapter, which stays with the hand, or
        the name of the channel.

        Raises:
            HandFault: a motor does not answer or does not match the configuration.
        """
        self.open()
        with self._faults():
            self.on = self.off_confirmed = False
            self._send_off()
            identities = self._bus.ask_all(Table.IDENTITY)
            found = {j: dynamixel.read_identity(data) for j, data in identities.items()}
            if len(found) == len(JOINTS):
                health = self._bus.ask_all(Table.HEALTH)
                self.health |= {j: dynamixel.read_health(data) for j, data in health.items()}
                self.off_confirmed = len(health) == len(JOINTS) and not any(
                    h.torque for h in self.health.values()
                )
        self.identities = found
        self._check_identities()
        channel = re.sub(r"[^A-Za-z0-9]+", "_", Path(self.bus.where).name)
        self.serial = f"LEAP_{self._port.serial_number or channel}"
        self.offsets = load_offsets(self.params.calibration_dir, self.serial)
        return found, self.serial

    def _check_identities(self) -> None:
        missing = [j for j in JOINTS if j not in self.identities]
        wizard = "with the Dynamixel Wizard"
        if len(missing) == len(JOINTS):
            text = f"no motor on {self.bus} answers at {self.motors.baud_rate} baud"
            remedy = (
                f"switch the hand's supply on; check the cable; {wizard}: numbers 0 to 15, this baud rate"
            )
            raise HandFault(FaultKind.NO_ANSWER, text, remedy)
        if missing:
            remedy = (
                f"check its cable; {wizard}: its number, which no other motor may have, and its baud rate"
            )
            raise HandFault(FaultKind.NO_ANSWER, f"{self._list(missing)} does not answer", remedy)
        models = {m.model: m.name for m in dynamixel.MOTORS.values()}
        for joint, identity in self.identities.items():
            motor = self._list([joint])
            if identity.model != self.motor.model:
                known = models.get(identity.model, f"model {identity.model}")
                text = f"{motor} is a {known}, {self.motor.name} is configured"
                remedy = f"set the parameter motor: {known}, or replace that motor"
            elif identity.drive_mode & dynamixel.REVERSED:
                text, remedy = f"{motor} is reversed by its drive mode", WIZARD
            elif identity.drive_mode & dynamixel.ON_BY_GOAL:
                text, remedy = f"the drive mode of {motor} switches its torque on with any goal", WIZARD
            else:
                continue
            raise HandFault(FaultKind.WRONG_HAND, text, remedy)

    def introduction(self) -> str:
        self._check_health()
        firmware = "/".join(str(x) for x in sorted({i.firmware for i in self.identities.values()}))
        volts = min(h.volts for h in self.health.values())
        found = f"{self.serial}, {len(self.identities)} motors {self.motor.name}, firmware {firmware}"
        return f"{found}, {max(self.temperatures)} °C, {volts:.1f} V, {self._calibrated}"

    @property
    def latched(self) -> list[str]:
        return [self._list([j]) for j, health in sorted(self.health.items()) if health.errors]

    def reboot(self) -> None:
        with self._faults():
            joints = [j for j, health in self.health.items() if health.errors]
            self._bus.reboot(joints)
            end = self.computer.monotonic() + BOOT_TIMEOUT
            silent = joints
            while silent and self.computer.monotonic() < end:
                self.computer.sleep(LOOK)
                found = self._bus.ask(Table.HEALTH, silent, START_PATIENCE)[0]
                self.health |= {j: dynamixel.read_health(data) for j, data in found.items()}
                silent = [j for j in silent if j not in found]
        if silent:
            text = f"{self._list(silent)} does not answer {BOOT_TIMEOUT:g} s after its reboot"
            raise HandFault(FaultKind.NO_ANSWER, text, "switch the hand's supply off and on")
        self._check_health()

    def stream(self) -> None:
        """Wait for the first complete set of joint angles, from motors that answer without delay;
        the torque stays off.

        Raises:
            HandFault: it does not come.
        """
        self._forget_stream()
        self.on = False
        with self._faults():
            self._set(Table.RETURN_DELAY, self._same(b"\0"), "an answer without delay", never)
            end = self.computer.monotonic() + START_TIMEOUT
            while self._read(self.period) is None:
                if self.computer.monotonic() > end:
                    text = (
                        f"no complete set of joint angles within {START_TIMEOUT:g} s; nothing from "
                        f"{self._list(self._silent_joints)}"
                    )
                    raise HandFault(FaultKind.FEEDBACK_LOST, text, self.stream_remedy)

    def _switch_on(self, abandon: Callable[[], bool]) -> None:
        watchdog = max(1, math.floor(self.motors.bus_watchdog / dynamixel.WATCHDOG_UNIT + 1e-9))
        self._silence_allowed = watchdog * dynamixel.WATCHDOG_UNIT
        mode = bytes((dynamixel.CURRENT_BASED_POSITION,))
        self._set(Table.OPERATING_MODE, self._same(mode), "current-based position mode", abandon)
        gains = {j: dynamixel.gains(MOTOR_IDS[j]) for j in JOINTS}
        self._set(Table.GAINS, gains, "its gains", abandon)
        self._set(Table.BUS_WATCHDOG, self._same(b"\0"), "its bus watchdog cleared", abandon)
        self._set_no_current(abandon)
        self.off_confirmed = False
        self._set(Table.TORQUE_ENABLE, self._same(b"\1"), "its torque on", abandon)
        self._set(Table.BUS_WATCHDOG, self._same(bytes((watchdog,))), "its bus watchdog", abandon)
        self._set_no_current(never)
        self.on = True

    def _set_no_current(self, abandon: Callable[[], bool]) -> None:
        goals = self._goals(np.zeros(len(MOTOR_IDS)))
        self._set(Table.GOALS, goals, "a goal without current", abandon)

    def _set(
        self, register: Register, values: Mapping[int, bytes], content: str, abandon: Callable[[], bool]
    ) -> None:
        """Write a register until every motor confirms it; values that are set already are not
        written again."""
        end = self.computer.monotonic() + START_TIMEOUT
        while True:
            answers = self._ask(register, patience=START_PATIENCE)
            wrong = {j: data for j, data in values.items() if answers.get(j) != data}
            if not wrong:
                return
            self._check_abandoned(abandon)
            if self.computer.monotonic() > end:
                text = f"{self._list(list(wrong))} does not take {content}"
                raise HandFault(FaultKind.SERVO_OFF, text, "check the hand's supply; switch it off and on")
            self._bus.send(register, wrong)

    def _send_off(self) -> None:
        self._bus.send(Table.TORQUE_ENABLE, self._same(b"\0"))

    def _confirm_off(self, attempts: int = ATTEMPTS) -> None:
        for _ in range(attempts):
            self._send_off()
            answers, _ = self._bus.ask(Table.TORQUE_ENABLE)
            self.off_confirmed = len(answers) == len(JOINTS) and not any(d[0] for d in answers.values())
            if self.off_confirmed:
                return

    # --- to the motors

    def _write(self, tau: np.ndarray) -> None:
        silent = self.computer.monotonic() - self._bus.spoke
        if silent > self._silence_allowed:
            text = f"this process was silent for {1e3 * silent:.0f} ms: the motors' bus watchdog stopped them"
            raise HandFault(FaultKind.GUARD, text, REALTIME_HINT)
        self._bus.send(Table.GOALS, self._goals(tau))

    def _goals(self, tau: np.ndarray) -> dict[int, bytes]:
        """Return the goals by joint for torques (16,) [N·m], with currents and positions within
        their limits."""
        current = np.trunc(1e3 * np.nan_to_num(tau) / self.motor.torque_constant)
        current = np.clip(current, -self._most, self._most).astype(int)
        goal = np.where(current > 0, self._upper, self._lower) + self.offsets
        position = np.where(current == 0, self._counts, dynamixel.angle_to_counts(goal))
        pairs = zip(np.abs(current).tolist(), position.tolist(), strict=True)
        return {j: dynamixel.goals(most, at) for j, (most, at) in enumerate(pairs)}

    @staticmethod
    def _same(data: bytes) -> dict[int, bytes]:
        return dict.fromkeys(JOINTS, data)

    # --- from the motors

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
            self._next = max(self._next + self.period, now)  # missed turns are skipped
            if not self.on and not self.off_confirmed and now >= self._next_health:
                self._next_health = now + self.params.status_period
                self._confirm_off(1)
            feedback = self._ask_angles()
            if feedback is not None or clock.monotonic() >= end:
                return feedback

    def _ask(self, register: Register, patience: float | None = None) -> dict[int, bytes]:
        """Read a register of all motors; an alert while the torque is on is checked. Raises
        LineError, HandFault."""
        found, alerts = self._bus.ask(register, patience=patience)
        if self.on:
            for joint in alerts:
                self._check_motor(joint)
        return found

    def _ask_angles(self) -> Feedback | None:
        clock = self.computer
        asked, offset = clock.monotonic(), clock.system() - clock.monotonic()
        answers = self._ask(Table.PRESENT._replace(size=Table.PRESENT.size + self._more))
        took = clock.monotonic() - asked
        self._silent_joints = [j for j in JOINTS if j not in answers]
        self._count_set(bool(self._silent_joints))
        if self._silent_joints:
            self.missed += 1
            self._more = (self._more + 1) % LENGTHS
            # bounded: a machine that was paused does not look like a silent hand
            self._silent += max(min(took, self._bus.patience), self.period)
            if self.on and self._silent >= self.params.feedback_timeout - 1e-9:
                self._raise_silence(bool(answers))
            return None
        self._silent = 0.0
        self._count_late(took, self.motors.motor_timeout, self.stream_remedy)
        now = clock.monotonic()
        if self.on and now >= self._next_health:
            self._next_health = now + self.params.status_period
            self._turn = (self._turn + 1) % len(JOINTS)
            self._check_motor(self._turn)
        self._counts[:] = [dynamixel.PRESENT.unpack_from(answers[j])[2] for j in JOINTS]
        self.sets += 1
        self._offset, self._t = offset, max(self._t, asked)
        self.arrival = self._t + offset
        return Feedback(self._t, self.arrival, dynamixel.counts_to_angle(self._counts) - self.offsets)

    def _raise_silence(self, some: bool) -> None:
        duration = f"for {1e3 * self._silent:.0f} ms"
        if some:
            text = f"no complete answer from {self._list(self._silent_joints)} {duration}"
            remedy = "check that motor's cable and supply; dexstack diagnose hand"
            raise HandFault(FaultKind.FINGER_LOST, text, remedy)
        remedy = "check the supply and the adapter; dexstack diagnose hand"
        raise HandFault(FaultKind.FEEDBACK_LOST, f"no motor answers {duration}", remedy)

    def _forget_stream(self) -> None:
        super()._forget_stream()
        self._counts = np.full(len(MOTOR_IDS), dynamixel.ZERO)
        self._silent_joints: list[int] = []
        self._next = self._next_health = self._t = self._bus.spoke = 0.0
        self._silence_allowed = self.motors.bus_watchdog
        self._more, self._turn = 0, -1

    # --- health of the motors

    def _check_motor(self, joint: int) -> None:
        """Read and check the health of one motor; no answer is no fault."""
        data = self._bus.ask(Table.HEALTH, [joint])[0].get(joint)
        if data is not None:
            self.health[joint] = dynamixel.read_health(data)
            self._check(joint)

    def _check_health(self) -> None:
        for joint in sorted(self.health):
            self._check(joint)

    def _check(self, joint: int) -> None:
        """Raise HandFault if that motor cannot be driven."""
        motor, health = self._list([joint]), self.health[joint]
        if health.errors:
            kind = FaultKind.OVER_TEMPERATURE if health.errors & dynamixel.OVERHEATING else FaultKind.MOTOR
            remedy = (
                "check that joint, let it cool down; dexstack diagnose hand --reboot, or switch the hand's "
                "supply off and on; then enable again"
            )
            raise HandFault(kind, f"{motor} reports: {dynamixel.describe_errors(health.errors)}", remedy)
        low, high = self.motors.lowest_supply, self.motors.highest_supply
        if not low <= health.volts <= high:
            text = f"{motor} gets {health.volts:.1f} V, {low:g} to {high:g} V are allowed"
            remedy = (
                "the supply must give 5 V under load: is it strong enough, are its cables thick and short?"
            )
            raise HandFault(FaultKind.MOTOR, text, remedy)
        if not CELSIUS[0] <= health.celsius <= CELSIUS[1]:
            remedy = "its sensor is broken: replace the motor"
            raise HandFault(FaultKind.TEMPERATURE, f"{motor} reports {health.celsius} °C", remedy)
        self._check_hot(motor, health.celsius)
        if self.on and health.watchdog == dynamixel.WATCHDOG_FIRED:
            text = (
                f"the bus watchdog of {motor} stopped it after {self._silence_allowed:g} s without a packet"
            )
            raise HandFault(FaultKind.GUARD, text, REALTIME_HINT)
        if self.on and not health.torque:
            remedy = "was the supply interrupted? Then enable again"
            raise HandFault(FaultKind.SERVO_OFF, f"the torque of {motor} went off by itself", remedy)

    @property
    def temperatures(self) -> list[int]:
        return [h.celsius for h in self.health.values()] or [0]

    def _status(self) -> dict[str, Any]:
        values: dict[str, Any] = {"motor": self.motor.name, "bad_packets": self._bus.bad_packets}
        values |= {f"temperature_{j}": h.celsius for j, h in self.health.items()}
        if self.health:
            values["lowest_supply"] = min(h.volts for h in self.health.values())
        return values

    def _list(self, joints: Sequence[int]) -> str:
        if len(joints) == len(JOINTS):
            return "all motors"
        return ", ".join(f"motor {MOTOR_IDS[j]} ({self._names[j]})" for j in joints) or "any motor"
