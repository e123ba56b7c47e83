"""Base of the links to hands on a bus (CAN, serial line): opening and closing, errors of the
transport, loss statistics, temperatures and identity."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dexstack.hand.link import Clocks, FaultKind, Feedback, HandFault, TransportError, never
from dexstack.hand.params import BusParams, CanHandParams
from dexstack.process.realtime import drop_realtime, lock_memory, make_realtime

ATTEMPTS = 3
"""Number of times that a request, or a command without confirmation, is sent."""
LOOK = 0.01
"""Longest single wait [s]. Silence is counted in these, so that a machine that was paused does not
look like a silent hand."""
START_TIMEOUT = 0.5
"""Time until the first complete set of joint angles, and until the servo is on [s]."""
LATE_IN_ROW = 3
"""Late answers in a row that count as a fault."""
WINDOW = 0.5
"""Time over which lost sets are counted [s]."""


class BusHand(ABC):
    """A link (:class:`dexstack.hand.link.Link`) to a hand on a bus.

    Between :meth:`start` and :meth:`close` every failure ends in :meth:`servo_off` and a
    :class:`HandFault`; only another start recovers.

    Args:
        joints: number of joints n.
        bus: the bus or line.
        params: timing, temperatures, priority and files.
        computer: the clocks.
    """

    stream_remedy: str
    """Remedy for a bus that loses sets of joint angles."""
    check_cables: str
    """Remedy where many sets are lost."""
    period: float
    """Time between two sets of joint angles [s]."""
    rad_per_count: float
    """Resolution of the joint angles [rad]."""

    def __init__(self, joints: int, bus: BusParams, params: CanHandParams | None, computer: Clocks) -> None:
        self.params, self.bus, self.computer = params or CanHandParams(), bus, computer
        self._port: Any = None
        self.on = False
        """The servo is on, as far as known."""
        self.off_confirmed = False
        """The hand itself reported that its servo is off."""
        self.serial = self.side = ""
        self.offsets = np.zeros(joints)
        """Zero offsets (n,) [rad]: joint angle = measured angle − offset."""
        self.realtime = self.locked = False
        self.sets = self.missed = 0
        self.arrival = 0.0
        """System time of the newest set [s]."""
        self._t = 0.0
        self._offset = computer.system() - computer.monotonic()

    # --- what differs between the kinds of bus

    @abstractmethod
    def _open_port(self) -> Any:
        """Return an open bus. Raises TransportError."""

    @abstractmethod
    def identify(self) -> tuple[Any, str]:
        """Switch the servo off; return what the hand reports about itself and its serial number,
        under which calibration and commissioning are kept. Raises HandFault."""

    @abstractmethod
    def introduction(self) -> str:
        """Return a description of the hand after :meth:`identify`. Raises HandFault if it is not in
        order."""

    @abstractmethod
    def stream(self) -> None:
        """Wait for the first complete set of joint angles; the servo stays off. Raises
        HandFault."""

    @abstractmethod
    def _check_health(self) -> None:
        """Raise HandFault for what :meth:`identify` found wrong."""

    @abstractmethod
    def _switch_on(self, abandon: Callable[[], bool]) -> None:
        """Switch the servo on with zero torque. Raises HandFault, TransportError."""

    @abstractmethod
    def _read(self, timeout: float) -> Feedback | None:
        """See :meth:`read`. Raises HandFault, TransportError."""

    @abstractmethod
    def _write(self, tau: np.ndarray) -> None:
        """Send torques (n,) [N·m]. Raises HandFault, TransportError."""

    @abstractmethod
    def _send_off(self) -> None:
        """Send zero torque and servo off. Raises TransportError."""

    @abstractmethod
    def _confirm_off(self) -> None:
        """Wait until the hand confirms that its servo is off, and repeat the command until
        then. Raises TransportError."""

    def _before_close(self) -> None:  # noqa: B027
        """Send the last commands of :meth:`close`, if there are any. Raises TransportError."""

    @property
    @abstractmethod
    def temperatures(self) -> list[int]:
        """Plausible temperatures reported by the hand [°C]; [0] without any."""

    @abstractmethod
    def _status(self) -> dict[str, Any]:
        """Return the values of :meth:`status` that only this kind of bus has."""

    @property
    def latched(self) -> list[str]:
        """Names of the motors that :meth:`identify` found switched off by their own protection until a
        reboot."""
        return []

    def reboot(self) -> None:  # noqa: B027
        """Reboot the :attr:`latched` motors, whose cause a person has removed. Raises HandFault for
        motors that stay in trouble."""

    # --- start and end

    def open(self) -> None:
        """Open the bus; nothing moves. Raises HandFault."""
        priority = self.params.realtime_priority
        if priority and not self.realtime:
            self.realtime, self.locked = make_realtime(priority), lock_memory()
        if self._port is None:
            with self._faults():
                self._port = self._open_port()

    def ready(self) -> None:
        """Identify the hand, check it and start its stream; the servo stays off. Raises
        HandFault."""
        self.identify()
        self._check_health()
        self.stream()

    def start(self, abandon: Callable[[], bool] = never) -> None:
        """Run the whole start-up; afterwards the servo is on with zero torque.

        Raises:
            HandFault: the hand cannot be driven, or ``abandon()`` returned True; the servo is off.
        """
        self.ready()
        with self._faults(off=True):
            self._switch_on(abandon)

    def servo_off(self) -> None:
        """Send zero torque and servo off; never raises. Until the hand confirms, :meth:`read`
        repeats it."""
        self.on = self.off_confirmed = False
        if self._port is not None:
            try:
                self._send_off()
            except TransportError as error:
                if error.lost:
                    self._drop()

    def close(self) -> None:
        """Switch the servo off and return to ordinary scheduling; never raises."""
        if self._port is not None:
            self.servo_off()
            with contextlib.suppress(TransportError):
                if self._port is not None:
                    self._before_close()
                    if not self.off_confirmed:
                        self._confirm_off()
            self._drop()
        if self.realtime:
            drop_realtime()
            self.realtime = False

    # --- the stream

    def read(self, timeout: float) -> Feedback | None:
        """Return the next complete set of joint angles, None after ``timeout`` [s] without one.

        Raises:
            HandFault: the hand or the bus failed while the servo was on; servo off was sent.
        """
        if self._port is None:
            self.computer.sleep(min(timeout, LOOK))
            self._reopen_to_stop()
            return None
        try:
            return self._read(timeout)
        except TransportError as error:
            fault, lost = error.fault(), error.lost
        except HandFault as failed:
            fault, lost = failed, False
        was_on = self.on
        self.servo_off()
        if lost:
            self._drop()
        if was_on:
            raise fault
        self.computer.sleep(min(timeout, LOOK))
        return None

    def write(self, tau: np.ndarray) -> None:
        """Send joint torques (n,) [N·m]; does nothing while the servo is off. Raises HandFault."""
        if not self.on:
            return
        try:
            self._write(tau)
        except TransportError as error:
            self.servo_off()
            raise error.fault() from None
        except HandFault:
            self.servo_off()
            raise

    def from_stamp(self, stamp: float) -> float:
        """Convert a stamp on the system's clock to the servo's clock [s]."""
        return stamp - self._offset

    def status(self) -> dict[str, Any]:
        """Return values for diagnostics."""
        return {
            "bus": str(self.bus),
            "serial": self.serial,
            "servo_on": self.on,
            **self._status(),
            "sets": self.sets,
            "missed_sets": self.missed,
            "calibrated": bool(self.offsets.any()),
            "realtime": self.realtime,
            "memory_locked": self.locked,
        }

    def warning(self) -> str:
        """Return a defect that does not keep the hand from being driven; empty without one."""
        return ""

    # --- shared parts of the implementations

    @property
    def _calibrated(self) -> str:
        return "calibrated" if self.offsets.any() else "not calibrated"

    def _forget_stream(self) -> None:
        self._in_window = self._lost_in_window = self._late = 0
        self._silent = 0.0

    def _count_set(self, lost: bool) -> None:
        """Count a set of joint angles; a bus that loses many within WINDOW is a fault."""
        self._in_window += 1
        self._lost_in_window += lost
        if self._in_window * self.period < WINDOW:
            return
        share, self._in_window, self._lost_in_window = self._lost_in_window / self._in_window, 0, 0
        if self.on and share > self.params.lost_share:
            text = f"{100 * share:.0f} % of the sets of joint angles in {WINDOW:g} s were incomplete"
            raise HandFault(FaultKind.FRAMES_LOST, text, self.check_cables)

    def _count_late(self, took: float, allowed: float, remedy: str) -> None:
        """Count an answer after ``took`` [s]; a hand that answers late also moves late, and would
        be driven into oscillation."""
        self._late = self._late + 1 if took > allowed else 0
        if self.on and self._late >= LATE_IN_ROW:
            text = f"the hand answers after {1e3 * took:.0f} ms, {1e3 * allowed:.0f} ms are allowed"
            raise HandFault(FaultKind.LATE, text, remedy)

    def _check_hot(self, sensor: str, celsius: int) -> None:
        limit = self.params.temperature_limit
        if celsius > limit:
            text = f"{sensor} is at {celsius} °C, {limit} °C are allowed"
            raise HandFault(FaultKind.OVER_TEMPERATURE, text, "let it cool down, then enable again")

    def _check_abandoned(self, abandon: Callable[[], bool]) -> None:
        if abandon():
            raise HandFault(FaultKind.STOPPED, "the hand was stopped during its start-up", "enable again")

    def _drop(self) -> None:
        """Close the port; the next start opens another one."""
        if self._port is not None:
            self._port.close()
            self._port = None

    def _reopen_to_stop(self) -> None:
        """After the port was lost with the servo on: open it as soon as possible, servo off."""
        if self.off_confirmed:
            return
        with contextlib.suppress(TransportError):
            self._port = self._open_port()
            self.servo_off()

    @contextlib.contextmanager
    def _faults(self, off: bool = False) -> Iterator[None]:
        """Turn a TransportError into a HandFault; ``off``: switch the servo off at any failure."""
        try:
            yield
        except TransportError as error:
            if off:
                self.servo_off()
            if error.lost or not off:
                self._drop()
            raise error.fault() from None
        except HandFault:
            if off:
                self.servo_off()
            raise
