"""The hand's driver: every complete set of joint angles is answered by one set of torques.

Control law (:class:`dexstack.hand.servo.ServoLaw`, the same object for a simulated, an emulated and a real hand), at each feedback::

    tau = clip( kp (q_applied − q) − kd qd + tau_g(q),  −effort, effort )

with q_applied the command after joint limits and slew limit and qd low-passed; then, for a hand on
a bus, ``counts = trunc(clip(tau × counts_per_Nm, −limit, limit))`` per joint and generation
(:class:`dexstack.hand.allegro.protocol.Hardware`).

Zero torque (LIMP) without a fresh command; HOLD, then LIMP, when commands stop: see the servo. On
top of that, the servo of a hand on a bus is switched *off* (zero torque frames, then servo off,
repeated until the hand confirms it):

* when :meth:`HandDriver.turn` finds a fault: no complete set of angles for ``feedback_timeout``,
  one finger missing for as long, the controller off the bus or the interface gone, over-temperature
  or internal communication fault reported, a motor that reports an error, the hand's servo gone off
  by itself, the guard dead, answers late, sets of angles lost, a sensor too hot or impossible, or
  joints that do not do what their torques should make them do (:mod:`dexstack.hand.watch`). The
  fault stays until :meth:`HandDriver.enable`, which runs the whole start-up again;
* by :meth:`HandDriver.stop`, at once, whatever the hand does;
* by :meth:`HandDriver.close`, which every way out of the driver's thread, of ``with driver:`` and
  of the hand node passes: return, exception, SIGINT, SIGTERM;
* by the guard process (:mod:`dexstack.hand.allegro.guard`), when this process is killed or hangs.
    The servo is never on without it.

Nothing can take the torque away while the bus carries no frames at all: then servo-off is the first
thing said when it does again, and there is the hand's power switch.
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
from dexstack.hand.states import HandState, NoStore, StateStore

Command = tuple[np.ndarray, float | None]


class Turn(NamedTuple):
    """What one turn saw and did."""

    feedback: Feedback
    output: ServoOutput


class HandDriver:
    """One hand, its servo and its safety; see the module's docstring.

    Args:
        link: the way to the hand.
        servo: the law.
        commands: asked at every feedback for a new command: joint angles (N,) [rad] and their time
            on the others' clock [s] (None: now), or None when there is none. By default what
            :meth:`command` was told.
        store: where every state is written down.
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
        self.store = store or NoStore()
        self.state, self.why = HandState.OFF, ""
        """What the hand may do, and why it got there."""
        self._stop_asked = ""
        self.fault: HandFault | None = None
        """Why the hand is not driven; None when it is."""
        self.fault_counts: dict[str, int] = {}
        self._command: Command | None = None
        self._commands = commands or self._told
        self.refused: Fault | None = None
        """Why the newest command was refused; None when it was taken."""
        self.age = math.nan
        """From the stamp of the newest command that was taken, which is that of what it answers, to
        its first torque [s]."""
        self._no_torque = np.zeros(servo.n)

    def ready(self) -> None:
        """Find the hand; its servo stays off and commands are refused until :meth:`enable`.

        Raises:
            HandFault: it cannot be driven; also kept in :attr:`fault`.
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
        """Start the hand and the servo, LIMP.

        Raises:
            HandFault: the hand cannot be driven; also kept in :attr:`fault`.
        """
        self.servo.reset()
        self._commands()  # what was said before does not move the hand
        try:
            self.link.start(lambda: bool(self._stop_asked))
        except HandFault as fault:
            self._note(fault, HandState.FAULT)
            raise
        self.fault = None
        self._enter(HandState.ENABLED, "")

    def enable(self) -> None:
        """The hand may move: the whole start-up, then LIMP until a new command. Recovers from a
        fault or a stop.

        Raises:
            HandFault: the hand still cannot be driven, or somebody asked for a stop meanwhile.
        """
        self.start()
        self.servo.enable()

    def hold(self, why: str) -> None:
        """Hold what is held, with reduced torque, until :meth:`enable` or :meth:`stop`; does
        nothing unless the hand follows commands."""
        if self.state is HandState.ENABLED and self.servo.mode is not ServoMode.LIMP:
            self.servo.grip()
            self._enter(HandState.HOLD, why)

    def release(self) -> None:
        """From HOLD back to following commands."""
        if self.state is HandState.HOLD:
            self.servo.release()
            self._enter(HandState.ENABLED, "")

    def stop(self, why: str = "stopped") -> None:
        """Servo off at once, and commands are refused until :meth:`enable`."""
        self.link.servo_off()
        self.servo.disable()
        if self.state in (HandState.ENABLED, HandState.HOLD):
            self._enter(HandState.READY, why)

    def ask_stop(self, why: str) -> None:
        """From any thread: the driver's own thread stops in the turn it is in. Until :meth:`allow`
        nothing switches the servo on."""
        self._stop_asked = why

    def allow(self) -> None:
        """Whoever asks for :meth:`enable` calls this first, in the order of the requests: an
        earlier stop is answered for."""
        self._stop_asked = ""

    @property
    def stopped(self) -> bool:
        """Whether what :meth:`ask_stop` asked for was done."""
        return bool(self._stop_asked) and self.state not in (HandState.ENABLED, HandState.HOLD)

    def close(self) -> None:
        """Zero torque, period 0, servo off; never raises."""
        self.servo.reset()
        self.link.close()
        if self.state is not HandState.FAULT:
            self._enter(HandState.OFF, "")

    def command(self, q: np.ndarray, stamp: float | None = None) -> None:
        """A new target (N,) [rad] for the next turn, from any thread; ``stamp`` [s] on the others'
        clock, None for "now"."""
        self._command = (q, stamp)

    def _told(self) -> Command | None:
        command, self._command = self._command, None
        return command

    def turn(self, timeout: float) -> Turn | None:
        """Wait for a feedback and answer it; None when none came within ``timeout`` [s]. Never
        raises for what the hand does."""
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
                    f"the hand does not do what it is told: {trip}",
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

    # --- in a thread of its own

    def in_thread(self, action: Callable[[], None]) -> None:
        """Let the driver's thread call ``action`` (:meth:`enable`, :meth:`stop`) between two turns,
        and wait; raises what it raises."""
        result: Future[None] = Future()

        def errand() -> None:
            try:
                result.set_result(action())
            except Exception as error:
                result.set_exception(error)

        self._errands.put(errand)
        result.result(timeout=10.0)

    def run(self, on_turn: Any = None) -> None:
        """Turn until :meth:`end`; then leave the hand limp."""
        try:
            while not self._end.is_set():
                while not self._errands.empty():
                    self._errands.get()()
                turn = self.turn(0.05)
                if turn is not None and on_turn is not None:
                    on_turn(turn)
        finally:
            self.close()

    def __enter__(self) -> HandDriver:
        """Start the hand and its thread."""
        self._end = threading.Event()
        self._errands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        self._thread = threading.Thread(target=self.run, args=(self.on_turn,), name="servo")
        self._thread.start()
        return self

    on_turn: Any = None
    """Called with every :class:`Turn` in the driver's thread, when that runs."""

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
