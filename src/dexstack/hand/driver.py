"""The hand's driver: every complete set of joint angles is answered by one set of torques.

Control law (:class:`dexstack.hand.servo.ServoLaw`, the same object for a simulated, an emulated and
a real hand), at each feedback::

    tau = clip( kp (q_applied − q) − kd qd + tau_g(q),  −effort, effort )

with q_applied the command after joint limits and slew limit and qd low-passed; then, for a hand on
a bus, ``counts = trunc(clip(tau × counts_per_Nm, −limit, limit))`` per joint and generation
(:class:`dexstack.hand.allegro.protocol.Hardware`).

Zero torque (LIMP) without a fresh command; HOLD, then LIMP, when commands stop: see the servo. In
addition, the servo of a hand on a bus is switched *off* (zero torque frames, then servo off,
repeated until the hand confirms it):

* when :meth:`HandDriver.turn` finds a fault: no complete set of angles for ``feedback_timeout``,
  one finger missing for as long, the controller off the bus or the interface gone, over-temperature
  or internal communication fault reported, a motor that reports an error, the hand's servo gone off
  by itself, the guard dead, late answers, lost sets of angles, a sensor that is too hot, or joints
  that do not move as their torques should make them (:mod:`dexstack.hand.watch`). The fault stays
  until :meth:`HandDriver.enable`, which runs the whole start-up again;
* by :meth:`HandDriver.stop`, at once, in every state;
* by :meth:`HandDriver.close`, at every exit from the driver's thread, from ``with driver:`` and
  from the hand node: return, exception, SIGINT, SIGTERM;
* by the guard process (:mod:`dexstack.hand.allegro.guard`), when this process is killed or hangs.
  The servo is never on without it.

Nothing can remove the torque while the bus carries no frames: then servo off is the first command
when it does again. The last resort is the hand's power switch.
"""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np

from dexstack.hand.link import FaultKind, Feedback, HandFault, Link
from dexstack.hand.servo import Fault, ServoLaw, ServoMode, ServoOutput
from dexstack.hand.states import HandState, StateStore

Command = tuple[np.ndarray, float | None]


class Turn(NamedTuple):
    """Feedback and output of one turn."""

    feedback: Feedback
    output: ServoOutput


class HandDriver:
    """One hand, its servo and its safety; see the module's docstring.

    Args:
        link: connection to the hand.
        servo: the law.
        commands: called at every feedback; returns a new command, joint angles (N,) [rad] and their
            time on the clock of the graph [s] (None: now), or None. Default: the argument of
            :meth:`command`.
        store: stores every state.
    """

    def __init__(
        self,
        link: Link,
        servo: ServoLaw,
        commands: Callable[[], Command | None] | None = None,
        store: StateStore | None = None,
    ) -> None:
        self.link = link
        self.servo = servo
        self.store = store or StateStore()
        self.state, self.why = HandState.OFF, ""
        """State of the hand, and the reason for it."""
        self._stop_asked = ""
        self.fault: HandFault | None = None
        """Why the hand is not driven; None if it is."""
        self.fault_counts: dict[str, int] = {}
        self._command: Command | None = None
        self._commands = commands or self._take_command
        self.refused: Fault | None = None
        """Why the newest command was refused; None if it was taken."""
        self.age = math.nan
        """Time from the stamp of the newest accepted command, which is that of its observation, to
        its first torque [s]."""
        self._no_torque = np.zeros(servo.n)

    def ready(self) -> None:
        """Find the hand; its servo stays off and commands are refused until :meth:`enable`.

        Raises:
            HandFault: it cannot be driven; also in :attr:`fault`.
        """
        self.servo.reset()
        self.servo.disable()
        try:
            self.link.ready()
        except HandFault as fault:
            self._note(fault, HandState.OFF)
            raise
        self.fault = None
        self._enter(HandState.READY, "")

    def start(self) -> None:
        """Start the hand and the servo; the mode is LIMP.

        Raises:
            HandFault: the hand cannot be driven; also in :attr:`fault`.
        """
        self.servo.reset()
        self._commands()  # discard older commands
        try:
            self.link.start(lambda: bool(self._stop_asked))
        except HandFault as fault:
            self._note(fault, HandState.FAULT)
            raise
        self.fault = None
        self._enter(HandState.ENABLED, "")

    def enable(self) -> None:
        """Run the whole start-up, then stay LIMP until a new command. Recovers from a fault or a
        stop.

        Raises:
            HandFault: the hand still cannot be driven, or a stop was requested meanwhile.
        """
        self.start()
        self.servo.enable()

    def hold(self, why: str) -> None:
        """Hold the applied target with reduced torque until :meth:`enable` or :meth:`stop`; no-op
        unless the hand follows commands."""
        if self.state is HandState.ENABLED and self.servo.mode is not ServoMode.LIMP:
            self.servo.grip()
            self._enter(HandState.HOLD, why)

    def release(self) -> None:
        """Return from HOLD to following commands."""
        if self.state is HandState.HOLD:
            self.servo.release()
            self._enter(HandState.ENABLED, "")

    def stop(self, why: str = "stopped") -> None:
        """Switch the servo off at once and refuse commands until :meth:`enable`."""
        self.link.servo_off()
        self.servo.disable()
        if self.state in (HandState.ENABLED, HandState.HOLD):
            self._enter(HandState.READY, why)

    def ask_stop(self, why: str) -> None:
        """Request a stop, from any thread; the driver's thread stops in its current turn. Until
        :meth:`allow` the servo cannot be switched on."""
        self._stop_asked = why

    def allow(self) -> None:
        """Cancel earlier requests to stop; to be called before :meth:`enable`, in the order of the
        requests."""
        self._stop_asked = ""

    @property
    def stopped(self) -> bool:
        """True if the stop requested by :meth:`ask_stop` is done."""
        return bool(self._stop_asked) and self.state not in (HandState.ENABLED, HandState.HOLD)

    def close(self) -> None:
        """Zero torque, period 0, servo off; never raises."""
        self.servo.reset()
        self.link.close()
        if self.state is not HandState.FAULT:
            self._enter(HandState.OFF, "")

    def command(self, q: np.ndarray, stamp: float | None = None) -> None:
        """Set a target (N,) [rad] for the next turn, from any thread; ``stamp`` [s] on the clock of
        the graph, None for "now"."""
        self._command = (q, stamp)

    def _take_command(self) -> Command | None:
        command, self._command = self._command, None
        return command

    def turn(self, timeout: float) -> Turn | None:
        """Wait for a feedback and answer it; return None without one within ``timeout`` [s], and
        after a fault."""
        try:
            feedback = self.link.read(timeout)
            if self._stop_asked and self.state in (HandState.ENABLED, HandState.HOLD):
                self.stop(self._stop_asked)
            if feedback is None:
                return None
            self.refused = None
            command = self._commands()
            if command is not None and self.servo.enabled:
                q, stamp = command
                t = feedback.t if stamp is None else self.link.from_stamp(stamp)
                self.refused = self.servo.set_command(q, t)
                if self.refused is None:
                    self.age = feedback.t - t
            output = self.servo.step(feedback.q, feedback.t)
            if self.servo.trip is not None and self.fault is None:
                self.link.servo_off()
                trip = self.servo.trip
                raise HandFault(
                    FaultKind(trip.kind.value),
                    f"the hand does not follow its torques: {trip}",
                    "dexstack diagnose hand --all",
                )
            if self.fault is None:
                self.link.write(output.tau)
            elif output.mode is not ServoMode.LIMP:
                self.servo.reset()
                output = ServoOutput(
                    self._no_torque.copy(), np.full_like(output.tau, np.nan), output.qd, ServoMode.LIMP
                )
            return Turn(feedback, output)
        except HandFault as fault:
            self._note(fault, HandState.FAULT)
            self.servo.reset()
            return None

    def _enter(self, state: HandState, why: str) -> None:
        self.state, self.why = state, why
        self.store.note(state, why)

    def _note(self, fault: HandFault, state: HandState) -> None:
        self.fault = fault
        self._enter(HandState.READY if fault.kind is FaultKind.STOPPED else state, str(fault))
        self.fault_counts[fault.kind.value] = self.fault_counts.get(fault.kind.value, 0) + 1

    # --- in its own thread

    def in_thread(self, action: Callable[[], None]) -> None:
        """Have the driver's thread call ``action`` (:meth:`enable`, :meth:`stop`) between two turns,
        and wait; exceptions are passed on."""
        result: Future[None] = Future()

        def task() -> None:
            try:
                result.set_result(action())
            except Exception as error:
                result.set_exception(error)

        self._tasks.put(task)
        result.result(timeout=10.0)

    def run(self) -> None:
        """Turn until the ``with`` statement or the program ends, then leave the hand limp."""
        try:
            while not self._end.is_set() and threading.main_thread().is_alive():
                while not self._tasks.empty():
                    self._tasks.get()()
                turn = self.turn(0.05)
                if turn is not None and self.on_turn is not None:
                    self.on_turn(turn)
        finally:
            self.close()

    def __enter__(self) -> HandDriver:
        """Start the hand and its thread."""
        self._end = threading.Event()
        self._tasks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        self._thread = threading.Thread(target=self.run, name="servo")
        self._thread.start()
        return self

    on_turn: Any = None
    """Called with every :class:`Turn` in the driver's thread."""

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
