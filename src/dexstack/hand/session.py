"""A hand that a program without ROS drives, with the driver, guard, watch, limits and consent of the hand
node."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dexstack.config import make_params
from dexstack.errors import ConfigError, check_names
from dexstack.hand.commissioning import check_commissioned
from dexstack.hand.driver import HandDriver, Turn
from dexstack.hand.emulated.process import ENCODER_NOISE, EmulatedHandProcess, own_bus
from dexstack.hand.link import FaultKind, HandFault
from dexstack.hand.links import EMULATED, Settings, interface_of, link_to, wiring_of
from dexstack.hand.params import BusParams, CanHandParams, HandParams, MotorParams, needs_person
from dexstack.hand.servo import ServoLaw, ServoParams
from dexstack.hand.states import StateFile
from dexstack.hand.watch import WatchParams
from dexstack.model.gravity import GravityCompensation
from dexstack.model.hand import load_hand

BLOCKS = (HandParams, ServoParams, WatchParams, BusParams, CanHandParams, MotorParams)
"""Parameter blocks of a session, those of the hand node."""


def on_terminal(question: str) -> bool:
    """Ask a person on the terminal; return False without one."""
    if not sys.stdin.isatty():
        return False
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


class HandSession:
    """One hand, driven in a thread between :meth:`open` and :meth:`close`; a context manager.

    The hand is limp until the first target. Without a new one for ``command_timeout`` it holds, then goes
    limp after ``hold_timeout``. A fault switches its servo off; after that only another session moves it,
    with a new consent.

    Args:
        parameters: of the hand node (:data:`BLOCKS`) by name. ``interface`` may also be ``emulated``, the
            default: a hand without an object, simulated in a process of its own; or ``auto``.
        consent: called with a question before a hand that can injure is enabled; returns whether a person
            agrees.

    Raises:
        ConfigError: an unknown parameter, or a value out of range.
    """

    def __init__(
        self, parameters: Mapping[str, Any] | None = None, consent: Callable[[str], bool] = on_terminal
    ) -> None:
        values, known = dict(parameters or {}), [f.name for block in BLOCKS for f in fields(block)]
        check_names("parameter of the hand", values, known)
        self.model = load_hand(str(values.get("hand", HandParams.hand)))
        """The hand's model, with the joints' names and limits."""
        interface = values.pop("interface", EMULATED)
        self._emulated = interface == EMULATED
        if not self._emulated:
            values["interface"] = interface_of(self.model, interface)
        blocks = {block: make_params(block, values, ignore_unknown=True) for block in BLOCKS}
        self._blocks, self._consent = blocks, consent
        if blocks[HandParams].gravity_frame:
            raise ConfigError("'gravity_frame' needs ROS; give 'gravity'")
        self._by_person = needs_person(blocks[HandParams], blocks[BusParams])
        self._stack = contextlib.ExitStack()
        self._driver: HandDriver | None = None
        self._turn: Turn | None = None
        self._target: np.ndarray | None = None

    @property
    def is_open(self) -> bool:
        """True between :meth:`open` and :meth:`close`, also after a fault."""
        return self._driver is not None

    def open(self) -> None:
        """Find the hand, ask for consent, and enable it.

        Raises:
            HandFault: the hand cannot be driven, or consent was not given.
            ConfigError: no driver for the hand, a missing extra, or a real hand that was not commissioned.
        """
        if self.is_open:
            raise ConfigError("the hand is open already")
        begun = threading.Event()

        def note(turn: Turn) -> None:
            self._turn = turn
            begun.set()

        with contextlib.ExitStack() as stack:
            driver = self._make_driver(stack)
            try:
                driver.ready()
                if self._by_person:
                    self._ask(driver)
            except BaseException:
                driver.close()
                raise
            driver.servo.enable()
            driver.on_turn = note
            stack.enter_context(driver)
            while not begun.wait(0.01) and driver.fault is None:
                pass
            if driver.fault is not None:
                raise driver.fault
            self._driver, self._stack = driver, stack.pop_all()

    def _make_driver(self, stack: contextlib.ExitStack) -> HandDriver:
        """Return the driver, with an emulated hand that lives as long as ``stack`` in front of it."""
        b, bus = self._blocks, self._blocks[BusParams]
        if self._emulated:
            bus = own_bus(self.model)
            arguments = ("--hand", b[HandParams].hand, "--plant", "hand", "--encoder-noise", ENCODER_NOISE)
            stack.enter_context(EmulatedHandProcess(bus, *map(str, arguments)))
        gravity = GravityCompensation(self.model, b[HandParams].gravity)
        watch = wiring_of(self.model).watch(b[WatchParams])
        link = link_to(self.model, bus, Settings(b[CanHandParams], b[MotorParams]))
        return HandDriver(link, ServoLaw(self.model, b[ServoParams], gravity, watch))

    def _ask(self, driver: HandDriver) -> None:
        """Ask for consent. Raises HandFault, ConfigError."""
        status = driver.link.status()
        serial = status["serial"]
        check_commissioned(self._blocks[CanHandParams].calibration_dir, serial)
        driver.store = StateFile(self._blocks[HandParams].state_dir, serial)
        kept = driver.store.read()
        before = f" (before: {kept.why})" if kept is not None and kept.why else ""
        if not self._consent(f"The hand {serial} on {status['bus']} will move{before}. Continue?"):
            raise HandFault(FaultKind.STOPPED, "no consent to move", "answer on a terminal with y")

    def close(self) -> None:
        """Leave the hand limp."""
        self._driver = self._turn = self._target = None
        self._stack.close()

    def __enter__(self) -> HandSession:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def q(self) -> np.ndarray:
        """Return the newest joint positions (N,) [rad].

        Raises:
            HandFault: the hand is not driven.
        """
        return self._newest().feedback.q.copy()

    def send(self, q: ArrayLike) -> np.ndarray:
        """Set a target for the joints.

        Args:
            q: joint positions (N,) [rad]. One outside the joint limits is clipped; one that is not finite
                is not sent.

        Returns:
            The newest target that was sent (N,) [rad]; without any, the joint positions.

        Raises:
            HandFault: the hand is not driven.
            ConfigError: another number of joints.
        """
        newest, target = self._newest(), np.asarray(q, float)
        if target.shape != (self.model.lower.size,):
            raise ConfigError(f"a target has {self.model.lower.size} joints, got {target.shape}")
        if np.isfinite(target).all():
            self._target = np.clip(target, self.model.lower, self.model.upper)
            self._driver.command(self._target)
        return (newest.feedback.q if self._target is None else self._target).copy()

    def _newest(self) -> Turn:
        """Return the newest turn of the driver. Raises HandFault."""
        if self._driver is None or self._turn is None:
            raise HandFault(FaultKind.STOPPED, "the hand is not open", "open it")
        if self._driver.fault is not None:
            raise self._driver.fault
        return self._turn
