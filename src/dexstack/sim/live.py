"""A scene that goes on in real time while its engine is changed."""

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
"""Most that one :meth:`LiveRun.advance` takes [s of wall time]; an engine that needs longer is
slower than real time."""


class LiveRun:
    """A model in one engine, and in another one whenever somebody asks, from where it is then.

    One thread calls :meth:`advance` and :meth:`touching`; what others ask for happens there,
    between two steps.

    Args:
        model: compiled.
        engine: to begin with.
        keyframe: to start from, with its controls, which stay; else the model's initial state,
            without any.
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
        self._run, self._look = self._made(engine)
        self.said = self._run.apart
        """The last that there was to tell: an engine that refuses the scene, what does not collide,
        or what went wrong; one sentence."""
        self.stopped = False
        """Whether the motion ended, diverged; a restart or another engine goes on."""
        self._lock = threading.Lock()
        self._wish: str | None = None
        self.awaited = ""
        """Engine that is being made ready."""
        self._ready: tuple[Scene, Scene] | None = None
        self._restart = False
        self._makes = False

    @property
    def engine(self) -> str:
        """That runs now."""
        return self._run.engine

    @property
    def trouble(self) -> str:
        """What the engine reports of its own steps; see
        :class:`dexstack.plants.base.WatchedPlant`."""
        return self._run.trouble()

    def ask(self, engine: str) -> None:
        """Go on in this engine, as soon as it is compiled; of several that are asked for meanwhile,
        in the last one."""
        with self._lock:
            self._wish, self.awaited, self.said = engine, engine, f"{engine} is being made ready"
            if not self._makes:
                self._makes = True
                threading.Thread(target=self._make, name="make engine", daemon=True).start()

    def restart(self) -> None:
        """Begin anew, from the start."""
        self._restart = True

    def advance(self, seconds: float) -> None:
        """Steps of this much simulated time, or of :data:`LONGEST`."""
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
        """Contacts at the present state, and their surfaces where the engine has some; nothing of
        the run changes."""
        try:
            contacts = self._look.contacts(self.state, self.control)
        except (EngineError, FloatingPointError):
            return [], []
        return contacts, self._look.patches() if isinstance(self._look, PatchPlant) else []

    def _made(self, engine: str) -> tuple[Scene, Scene]:
        """To run, and to look at: contacts are found from a scene that is put to a state, which a
        run would take as a new start."""
        run, look = (load(self._model, engine, materials=self._materials) for _ in range(2))
        run.step(self.state, self.control)  # compiles
        look.contacts(self.state, self.control)
        return run, look

    def _make(self) -> None:
        while True:
            with self._lock:
                wish, self._wish = self._wish, None
                if wish is None:
                    self._makes = False
                    return
            try:
                ready = self._made(wish)
            except (EngineError, FloatingPointError) as error:
                ready, said = None, str(error)
            with self._lock:
                if self._wish is None:
                    self._ready, self.awaited = ready, ""
                    self.said = self.said if ready else said

    def _take(self, ready: tuple[Scene, Scene]) -> None:
        """The new engine takes its first step from where the old one is, or the old one stays."""
        try:
            self.state = ready[0].step(self.state, self.control)
        except (EngineError, FloatingPointError) as error:
            self.said = str(error)
        else:
            (self._run, self._look), self.stopped, self.said = ready, False, ready[0].apart
