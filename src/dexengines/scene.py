"""A model in an engine: what users drive, whatever the engine."""

from __future__ import annotations

import abc
from collections.abc import Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, NamedTuple

import mujoco
import numpy as np
from numpy.typing import ArrayLike

from dexengines.collision import Geom, Materials, body_name, read_collision
from dexengines.errors import EngineError
from dexengines.features import refuse
from dexengines.forces import Forces
from dexengines.report import Contact

NEAR = 0.05
"""Geoms farther apart are not looked at [m]."""


class State(NamedTuple):
    """Where everything is, arrays that cannot be written; of a rollout, with one row per state."""

    time: float | np.ndarray
    """[s]"""
    q: np.ndarray
    """(nq,) laid out as MuJoCo's ``qpos``."""
    v: np.ndarray
    """(nv,) as ``qvel``."""
    activation: np.ndarray
    """(na,) of actuators that have a state."""


def stack(states: Iterable[State]) -> State:
    """States as rows of one."""
    return State(*(np.array(column) for column in zip(*states, strict=True)))


class Scene(abc.ABC):
    """A MuJoCo model that one engine advances in steps of ``model.opt.timestep``.

    Args:
        model: compiled; the scene keeps it as it is.
        materials: see :func:`dexengines.collision.read_collision`.

    Raises:
        EngineError: a feature that the engine lacks, by name; a shape it does not take.
    """

    engine: ClassVar[str]
    lacks: ClassVar[tuple[str, ...]] = ()
    """Names in :data:`dexengines.features.FEATURES`."""
    batch_key: Hashable = ""
    """The same for scenes of one class that :meth:`rollout_many` takes together."""

    def __init__(self, model: mujoco.MjModel, materials: Materials = None) -> None:
        self.model = model
        self.dt = float(model.opt.timestep)
        """Length of a step [s]."""
        self.collision = read_collision(model, materials)
        refuse(self.engine, model, self.lacks, self.collision)
        self._forces = Forces(model)
        self._last: State | None = None

    activation: np.ndarray
    """(na,) of actuators that have a state."""

    @property
    def apart(self) -> str:
        """Which bodies do not collide because they overlap as built, one sentence; empty if none
        do."""
        names = ", ".join(f"'{a}' and '{b}'" for a, b in self.collision.nested)
        return f"these overlap as built and do not collide: {names}" if names else ""

    # --- what an engine does ----------------------------------------------------------------------------------------------------------

    @property
    @abc.abstractmethod
    def time(self) -> float:
        """Since the start [s]."""

    @abc.abstractmethod
    def values(self) -> tuple[np.ndarray, np.ndarray]:
        """The engine's own positions (nq,) and velocities (nv,), not copies."""

    @abc.abstractmethod
    def place(
        self, q: np.ndarray, v: np.ndarray, time: float = 0.0, activation: np.ndarray | None = None
    ) -> None:
        """Be at positions (nq,), velocities (nv,) and activations (na,), or zeros; what was learned
        from earlier steps is forgotten."""

    @abc.abstractmethod
    def advance(self, tau: np.ndarray) -> bool:
        """One step under generalised forces (nv,) besides those of the actuators; whether the state
        is finite after it.

        Raises:
            FloatingPointError: the engine knows more of what went wrong.
        """

    def damp(self, damping: np.ndarray) -> None:
        """Take this joint damping (nv,) [N s/m or N m s/rad], implicitly, from the next step on."""
        raise NotImplementedError

    @abc.abstractmethod
    def _contacts(self, control: np.ndarray) -> list[Contact]:
        """At the present state under a control; may advance the engine."""

    def trouble(self) -> str:
        """Return a sentence on what went wrong since the last reset; empty if nothing did."""
        return ""

    # --- what users call --------------------------------------------------------------------------------------------------------------

    def reset(self, keyframe: str | None = None) -> State:
        """The model's initial state, or that of a keyframe.

        Raises:
            EngineError: there is no such keyframe.
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
        """The state one step later, under the actuators' controls (nu,); zeros if None. A step from
        the last one's result is the fastest.

        Raises:
            EngineError: sizes that are not the model's, or numbers that are not finite.
            FloatingPointError: the simulation diverged.
        """
        control = self._control(control)
        if state is not self._last:
            self._set_state(state)
        if not self._drive(control):
            raise self.diverged(self.time)
        return self._now()

    def rollout(self, state: State, controls: ArrayLike) -> State:
        """States (T + 1, …), the first among them, under controls (T, nu)."""
        controls = np.asarray(controls, float)
        if controls.shape[1:] != (self.model.nu,) or not np.isfinite(controls).all():
            controls = np.array(
                [self._control(control) for control in controls]
            )  # says which number is wrong
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
        """Rollouts (N, T + 1, …), each from its state under its controls (N, T, nu); see
        :func:`dexengines.batch.rollout`."""
        turns: dict[int, list[int]] = {}
        for k, scene in enumerate(scenes):
            turns.setdefault(id(scene), []).append(k)  # a scene does one thing at a time
        with ThreadPoolExecutor(threads) as pool:
            found = pool.map(
                lambda turn: [(k, scenes[k].rollout(states[k], controls[k])) for k in turn], turns.values()
            )
            return stack(
                states
                for _, states in sorted((pair for part in found for pair in part), key=lambda pair: pair[0])
            )

    def contacts(self, state: State, control: ArrayLike | None = None) -> list[Contact]:
        """Who touches whom at a state, with the forces there or, of engines that know impulses
        only, their mean over the next step."""
        control = self._control(control)
        self._set_state(state)
        self._last = None
        return self._contacts(control)

    def diverged(self, time: float) -> FloatingPointError:
        """What to raise where states are not finite, at a time [s]."""
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
            x.flags.writeable = (
                False  # so that the last state, known again by its identity, is still what it was
            )
        self._last = State(self.time, q, v, activation)
        return self._last

    def _drive(self, control: np.ndarray) -> bool:
        """One step with actuators; MuJoCo computes their forces."""
        tau, rate = self._forces.at(*self.values(), control, self.activation)
        if self.model.na:
            self.activation += self.dt * rate
        return self.push(tau)

    def push(self, tau: np.ndarray) -> bool:
        """One step under generalised forces (nv,) that include those of :class:`Forces`; as
        :meth:`advance`."""
        if self._forces.dry:
            self.damp(self._forces.damping(self.values()[1]))
        return self.advance(tau)

    # --- for reports ------------------------------------------------------------------------------------------------------------------

    def _contact(self, a: Geom, b: Geom, data: mujoco.MjData, force_W: np.ndarray | None = None) -> Contact:
        """Where two geoms are nearest by MuJoCo's distances, at the poses in ``data``."""
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
