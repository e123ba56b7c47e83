"""A scene that runs in real time while its engine changes."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import mujoco
import numpy as np

from dexstack.plants import engine_errors
from dexstack.plants.base import Contact, Patch, PatchPlant
from dexstack.plants.engines import EngineError, Scene, load

LONGEST = 0.05
"""Longest wall time of one :meth:`LiveRun.advance` [s]; an engine that needs longer runs slower than real
time."""


class LiveRun:
    """A model in one engine, which may be replaced by another at the present state.

    One thread calls :meth:`advance` and :meth:`touching`; requests of other threads take effect there,
    between two steps.

    Args:
        model: compiled.
        engine: first engine.
        keyframe: initial state and constant controls; None: the model's initial state without
            controls.
        materials: a YAML file; see :func:`dexengines.load`.

    Raises:
        ConfigError: see :func:`dexengines.load`; there is no such keyframe.
        FloatingPointError: the first step diverges.
    """

    @engine_errors()
    def __init__(
        self, model: mujoco.MjModel, engine: str, keyframe: str | None = None, materials: Path | None = None
    ) -> None:
        self._model, self._materials = model, materials
        self.start = self.state = load(model).reset(keyframe)
        self.control = np.zeros(model.nu) if keyframe is None else model.key(keyframe).ctrl.copy()
        self._run, self._query = self._load(engine)
        self.said = self._run.apart
        """Last message, one sentence: a rejected scene, geoms that do not collide, or a failure."""
        self.stopped = False
        """True after the motion diverged, until a restart or another engine."""
        self._lock = threading.Lock()
        self._requested: str | None = None
        self.awaited = ""
        """Engine that is being prepared; empty if none is."""
        self._ready: tuple[Scene, Scene] | None = None
        self._restart = False
        self._preparing = False

    @property
    def engine(self) -> str:
        """Name of the present engine."""
        return self._run.engine

    @property
    def trouble(self) -> str:
        """Failures that the engine reports of its steps, see
        :class:`dexstack.plants.base.WatchedPlant`."""
        return self._run.trouble()

    def ask(self, engine: str) -> None:
        """Continue in this engine as soon as it is compiled; of several requests the last counts."""
        with self._lock:
            self._requested, self.awaited, self.said = engine, engine, f"{engine} is being prepared"
            if not self._preparing:
                self._preparing = True
                threading.Thread(target=self._prepare, name="prepare engine", daemon=True).start()

    def restart(self) -> None:
        """Start again from the initial state."""
        self._restart = True

    def advance(self, seconds: float) -> None:
        """Advance by this simulated time [s], or for LONGEST of wall time."""
        with self._lock:
            ready, self._ready = self._ready, None
        if ready is not None:
            self._take(ready)
        if self._restart:
            self._restart, self.stopped, self.said = False, False, self._run.apart
            self.state = self.start
        end, until = time.perf_counter() + LONGEST, float(self.state.time) + seconds - 0.5 * self._run.dt
        while not self.stopped and self.state.time < until and time.perf_counter() < end:
            try:
                self.state = self._run.step(self.state, self.control)
            except (EngineError, FloatingPointError) as error:
                self.stopped, self.said = True, str(error)

    def touching(self) -> tuple[list[Contact], list[Patch]]:
        """Return the contacts at the present state, and their surfaces if the engine has them, without
        changing the run."""
        try:
            contacts = self._query.contacts(self.state, self.control)
        except (EngineError, FloatingPointError):
            return [], []
        return contacts, self._query.patches() if isinstance(self._query, PatchPlant) else []

    def _load(self, engine: str) -> tuple[Scene, Scene]:
        """Return a scene to run and one to query contacts, since a query sets the state, which a run
        would take as a new start."""
        run, query = (load(self._model, engine, materials=self._materials) for _ in range(2))
        run.step(self.state, self.control)  # compiles
        query.contacts(self.state, self.control)
        return run, query

    def _prepare(self) -> None:
        while True:
            with self._lock:
                requested, self._requested = self._requested, None
                if requested is None:
                    self._preparing = False
                    return
            try:
                ready = self._load(requested)
            except (EngineError, FloatingPointError) as error:
                ready, said = None, str(error)
            with self._lock:
                if self._requested is None:
                    self._ready, self.awaited = ready, ""
                    self.said = self.said if ready else said

    def _take(self, ready: tuple[Scene, Scene]) -> None:
        """Switch to the new engine if it can step from the present state; otherwise keep the old one."""
        try:
            self.state = ready[0].step(self.state, self.control)
        except (EngineError, FloatingPointError) as error:
            self.said = str(error)
        else:
            (self._run, self._query), self.stopped, self.said = ready, False, ready[0].apart
