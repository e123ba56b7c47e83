"""The interface of all engines: a model that is advanced in steps."""

from __future__ import annotations

import abc
from collections.abc import Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, NamedTuple

import mujoco
import numpy as np
from numpy.typing import ArrayLike

from dexengines.collision import Geom, body_name, read_collision
from dexengines.errors import EngineError
from dexengines.features import refuse
from dexengines.forces import Forces
from dexengines.materials import Materials
from dexengines.report import Contact
from dexengines.trouble import Watch

NEAR = 0.05
"""Largest distance at which geoms are compared [m]."""


class State(NamedTuple):
    """State of a scene, read-only arrays; of a rollout, with one row per state."""

    time: float | np.ndarray
    """[s]"""
    q: np.ndarray
    """(nq,) as MuJoCo's ``qpos``."""
    v: np.ndarray
    """(nv,) as ``qvel``."""
    activation: np.ndarray
    """(na,) of actuators with a state."""


def stack(states: Iterable[State]) -> State:
    """Stack states as rows of one."""
    return State(*(np.array(column) for column in zip(*states, strict=True)))


class Scene(abc.ABC):
    """A MuJoCo model that one engine advances in steps of ``model.opt.timestep``.

    Args:
        model: compiled; not changed.
        materials: see :func:`dexengines.materials.read_materials`.
        whole: names of the mesh geoms that collide as they are, of engines that can.

    Raises:
        EngineError: the model has a feature or a shape that the engine does not support.
    """

    engine: ClassVar[str]
    lacks: ClassVar[tuple[str, ...]] = ()
    """Features that the engine does not support, of :data:`dexengines.features.FEATURES`."""
    fills: ClassVar[bool] = False
    """The engine takes concave meshes as they are: option ``whole``, the names of their geoms."""
    deepest: ClassVar[float] = 0.25
    """Overlap of geoms over the smaller's least half extent above which :meth:`trouble` names them."""
    continuous: ClassVar[bool] = False
    """The engine finds collisions within a step, so that no body passes through another."""
    bounces: ClassVar[bool] = False
    """The engine simulates restitution; others report that they ignore it."""
    batch_key: Hashable = ""
    """Equal for scenes of one class that :meth:`rollout_many` can take together."""

    def __init__(self, model: mujoco.MjModel, materials: Materials = None, whole: Sequence[str] = ()) -> None:
        self.model = model
        self.dt = float(model.opt.timestep)
        """Length of a step [s]."""
        self.collision = read_collision(model, materials)
        refuse(self.engine, model, self.lacks, self.collision)
        self._forces = Forces(model)
        self._watch = Watch(model, self.collision, self.deepest, whole, self.continuous)
        self._last: State | None = None
        self.notes: tuple[str, ...] = ()
        """Sentences on what was made of the model's geometry by :func:`dexengines.load`."""

    activation: np.ndarray
    """(na,) of actuators that have a state."""

    @property
    def apart(self) -> str:
        """Sentence that names the bodies that do not collide because they overlap as built, or
        empty."""
        names = ", ".join(f"'{a}' and '{b}'" for a, b in self.collision.nested)
        return f"these overlap as built and do not collide: {names}" if names else ""

    # --- implemented by engines ---

    @property
    @abc.abstractmethod
    def time(self) -> float:
        """Simulated time [s]."""

    @abc.abstractmethod
    def values(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the engine's positions (nq,) and velocities (nv,), not copied."""

    @abc.abstractmethod
    def place(
        self, q: np.ndarray, v: np.ndarray, time: float = 0.0, activation: np.ndarray | None = None
    ) -> None:
        """Set positions (nq,), velocities (nv,) and activations (na,), zero if None, and discard
        guesses and counts of earlier steps."""

    @abc.abstractmethod
    def advance(self, tau: np.ndarray) -> bool:
        """Advance by one step under generalised forces ``tau`` (nv,).

        Returns:
            True if the state is finite.

        Raises:
            FloatingPointError: the step failed, with the reason.
        """

    def damp(self, damping: np.ndarray) -> None:
        """Set the implicit joint damping (nv,) [N s/m or N m s/rad] of the following steps."""
        raise NotImplementedError

    @abc.abstractmethod
    def _contacts(self, control: np.ndarray) -> list[Contact]:
        """Return the contacts at the current state under a control; may advance the engine."""

    def _own_trouble(self) -> str:
        """Return a sentence on the engine's own problems since the last reset, or empty."""
        return ""

    def _stored(self) -> float:
        """Return the energy of deformed contacts [J], as far as the engine knows it."""
        return 0.0

    # --- called by users ---

    def trouble(self) -> str:
        """Return a sentence on steps since the last reset that cannot be trusted, or empty: what the
        engine counted, and states that no physics gives (:mod:`dexengines.trouble`)."""
        seen = self._watch.sentence() if self._watch.time == self.time else ""
        return "; ".join(part for part in (self._own_trouble(), self._ignored(), seen) if part)

    def _ignored(self) -> str:
        """Return a sentence on a material that the engine does not simulate, or empty."""
        for g in self.collision.geoms if not self.bounces else ():
            if g.material.restitution > 0.0:
                return f"the {self.engine} engine ignores the restitution of '{g.name}'"
        return ""

    def reset(self, keyframe: str | None = None) -> State:
        """Set and return the model's initial state, or that of a keyframe.

        Raises:
            EngineError: the model has no such keyframe.
        """
        data = mujoco.MjData(self.model)
        if keyframe is not None:
            key = mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_KEY, keyframe)
            if key < 0:
                raise EngineError(f"the model has no keyframe '{keyframe}'")
            mujoco.mj_resetDataKeyframe(self.model, data, key)
        self._set_state(State(0.0, data.qpos, data.qvel, data.act))
        return self._now()

    def step(self, state: State, control: ArrayLike | None = None) -> State:
        """Return the state one step later under controls (nu,), zero if None.

        Fastest from the state that the last call returned.

        Raises:
            EngineError: wrong sizes, or numbers that are not finite.
            FloatingPointError: the simulation diverged.
        """
        control = self._control(control)
        if state is not self._last:
            self._set_state(state)
        if not self._drive(control):
            raise self.diverged(self.time)
        return self._now()

    def rollout(self, state: State, controls: ArrayLike) -> State:
        """Return the states (T + 1, …) under controls (T, nu), the initial state first."""
        controls = np.asarray(controls, float)
        if controls.shape[1:] != (self.model.nu,) or not np.isfinite(controls).all():
            controls = np.array([self._control(control) for control in controls])  # reports the wrong one
        if state is not self._last:
            self._set_state(state)
        self._last = None
        passed = State(*(np.empty((len(controls) + 1, *np.shape(first))) for first in state))
        for column, first in zip(passed, state, strict=True):
            column[0] = first
        time, q, v, activation = passed
        for k, control in enumerate(controls, 1):
            if not self._drive(control):
                raise self.diverged(self.time)
            time[k], activation[k] = self.time, self.activation
            q[k], v[k] = self.values()
        return passed

    @classmethod
    def rollout_many(
        cls, scenes: Sequence[Scene], states: Sequence[State], controls: np.ndarray, threads: int
    ) -> State:
        """Return rollouts (N, T + 1, …) from N states under controls (N, T, nu); see
        :func:`dexengines.batch.rollout`."""
        turns: dict[int, list[int]] = {}
        for k, scene in enumerate(scenes):
            turns.setdefault(id(scene), []).append(k)  # one thread per scene
        with ThreadPoolExecutor(threads) as pool:
            found = pool.map(
                lambda turn: [(k, scenes[k].rollout(states[k], controls[k])) for k in turn], turns.values()
            )
            return stack(
                states
                for _, states in sorted((pair for part in found for pair in part), key=lambda pair: pair[0])
            )

    def contacts(self, state: State, control: ArrayLike | None = None) -> list[Contact]:
        """Return the contacts at a state, with their forces there or, for engines that compute
        impulses, the mean forces over the next step."""
        control = self._control(control)
        self._set_state(state)
        self._last = None
        return self._contacts(control)

    def diverged(self, time: float) -> FloatingPointError:
        """Return the error for states that are not finite at a time [s]."""
        return FloatingPointError(f"the simulation diverged at {time:.3f} s ({self.engine})")

    def _control(self, control: ArrayLike | None) -> np.ndarray:
        return (
            np.zeros(self.model.nu)
            if control is None
            else _finite("control of the scene", "control", control, self.model.nu)
        )

    def _set_state(self, state: State) -> None:
        m, where = self.model, f"state of the {self.engine} scene"
        q, v, act = (
            _finite(where, n, x, k)
            for n, x, k in (
                ("q", state.q, m.nq),
                ("v", state.v, m.nv),
                ("activation", state.activation, m.na),
            )
        )
        self.place(q, v, float(state.time), act)

    def _now(self) -> State:
        q, v, activation = (x.copy() for x in (*self.values(), self.activation))
        for x in (q, v, activation):
            x.flags.writeable = False  # the last state is recognised by its identity
        self._last = State(self.time, q, v, activation)
        return self._last

    def _drive(self, control: np.ndarray) -> bool:
        """Advance by one step with actuators, whose forces MuJoCo computes."""
        tau, rate = self._forces.at(*self.values(), control, self.activation)
        if self.model.na:
            self.activation += self.dt * rate
        return self.push(tau)

    def push(self, tau: np.ndarray) -> bool:
        """:meth:`advance` under generalised forces (nv,) that include those of :class:`Forces`."""
        if self._forces.dry:
            self.damp(self._forces.damping(self.values()[1]))
        return self._watched(tau)

    def _watched(self, tau: np.ndarray) -> bool:
        """:meth:`advance`, seen by the watch."""
        watch, (q, v) = self._watch, self.values()
        if watch.time != self.time:
            watch.begin(q, v)
        finite = self.advance(tau)
        q, v = self.values()
        if finite:
            watch.after(q, v, self._pushed(tau), self._stored)
        watch.time = self.time
        return finite

    def _pushed(self, tau: np.ndarray) -> np.ndarray:
        """Return the generalised forces (nv,) of the last step, those of motors included."""
        return tau

    # --- contact reports ---

    def _contact(self, a: Geom, b: Geom, data: mujoco.MjData, force_W: np.ndarray | None = None) -> Contact:
        """Return the contact of two geoms at their nearest points by MuJoCo's distances, at the
        poses in ``data``."""
        ends = np.zeros(6)
        gap = mujoco.mj_geomDistance(self.model, data, a.id, b.id, NEAR, ends)
        normal = ends[3:] - ends[:3]
        size = np.linalg.norm(normal)
        normal = np.sign(gap) * normal / size if size > 0.0 else np.full(3, np.nan)
        return self._report(
            a, b, 0.5 * (ends[:3] + ends[3:]), normal, gap, np.zeros(3) if force_W is None else force_W
        )

    def _report(
        self,
        a: Geom,
        b: Geom,
        point_W: np.ndarray,
        normal_W: np.ndarray,
        gap: float,
        force_W: np.ndarray,
        area: float = np.nan,
    ) -> Contact:
        bodies = (body_name(self.model, int(self.model.geom_bodyid[g.id])) for g in (a, b))
        pressure = float(force_W @ normal_W / area) if area > 0.0 else np.nan
        return Contact(*bodies, a.name, b.name, point_W, normal_W, float(gap), force_W, area, pressure)


def _finite(where: str, name: str, value: ArrayLike, count: int) -> np.ndarray:
    try:
        array = np.array(value, float)
    except (TypeError, ValueError):
        array = np.zeros(0)
    if array.shape != (count,) or not np.isfinite(array).all():
        raise EngineError(
            f"{where}: '{name}' must be {count} finite number{'s' if count != 1 else ''}, got {value!r}"
        )
    return array
