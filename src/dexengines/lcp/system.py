"""Bodies advanced in steps: a MuJoCo model for joints, masses and gravity, geometries for
contact."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np

from dexengines.collision import Pair, body_name, touching_bodies
from dexengines.errors import EngineError
from dexengines.features import FORCES, refuse
from dexengines.kernels import Stored
from dexengines.lcp import record as s
from dexengines.lcp.dynamics import make_motion, make_tree
from dexengines.lcp.roll import energy_at, gaps_at, roll
from dexengines.lcp.shapes import Geometry, pack

JOINTS = ("ball joint", "equality constraint", "tendon with a stop", "dry tendon friction")
LACKS = (*JOINTS, *FORCES)
"""Features of :data:`dexengines.features.FEATURES` that the system does not support."""
SETTLED = 1.0
"""Time within which bodies that overlap at the start have to part [s]."""
TOUCHING = 1e-4
"""Gap up to which an unloaded contact is reported [m]."""


class Touch(NamedTuple):
    """Contact of features of two geometries during a step."""

    a: int
    b: int
    """Places in ``geometries``, a < b."""
    gap: float
    """When it is first found in the step [m]."""
    normal_W: np.ndarray
    """(3,) unit vector from a to b."""
    point_W: np.ndarray
    """(3,) [m]"""
    impulse_W: np.ndarray
    """(3,) on b over the step [N s]."""


class LcpSystem:
    """Bodies in rigid contact, advanced in steps of ``model.opt.timestep``.

    Args:
        model: a compiled scene; its geoms, contacts and constraints are not read.
        geometries: shapes on its bodies.
        directions: friction directions per contact, at least 2; the friction polygon has twice as
            many corners.
        pairs: pairs that may touch, by places in ``geometries``; None: by MuJoCo's rules for their
            bodies.
        inertance: (nv, nv) added to the mass matrix; see :mod:`dexengines.couplings`.

    Raises:
        EngineError: the model or a geometry is not supported.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        geometries: Sequence[Geometry],
        directions: int = 2,
        pairs: Sequence[Pair] | None = None,
        inertance: np.ndarray | None = None,
    ) -> None:
        if directions < 2:
            raise EngineError(
                f"friction needs at least 2 directions per contact (a pyramid of 4 sides), got {directions}"
            )
        self.model, self.geometries = model, tuple(geometries)
        refuse("lcp", model, LACKS)
        names = {body_name(model, b): b for b in range(model.nbody)}
        if pairs is None:
            found = touching_bodies(model, [names.get(g.body, 0) for g in geometries])
            pairs = [Pair(i, j, max(geometries[i].friction, geometries[j].friction)) for i, j in found]
        friction, friction_of = _friction(geometries, pairs)
        limited = np.flatnonzero(model.jnt_limited)
        self.world = s.World(
            make_tree(model, inertance),
            pack(
                self.geometries,
                names,
                np.array([pair[:2] for pair in pairs], np.int64).reshape(-1, 2),
                friction_of,
            ),
            model.jnt_qposadr[limited].astype(np.int64).reshape(-1),
            model.jnt_dofadr[limited].astype(np.int64).reshape(-1),
            np.array(model.jnt_range[limited]).reshape(-1, 2),
            directions,
        )
        self.parameters = s.Parameters(
            np.array(model.body_mass),
            friction,
            np.array([g.restitution for g in geometries], float),
        )
        self.q, self.v, self.tau = np.array(model.qpos0), np.zeros(model.nv), np.zeros(model.nv)
        """(Q,) configuration, (V,) velocities and (V,) generalised forces, laid out as in
        MuJoCo."""
        self.time = 0.0
        """Simulated time [s]."""
        self.motion = make_motion(self.world.tree)
        self._stored: list[Stored | None] = [None] * len(s.KINDS)
        self._addresses = np.zeros(len(s.KINDS), np.int64)
        self._after = np.empty((2, model.nq)), np.empty((2, model.nv))
        self.memory: s.Memory | None = None
        self.forget()
        self._tape(64, 512)

    def _tape(self, ops: int, contacts: int) -> None:
        self.tape = s.make_tape(
            self.model.nq, self.model.nv, ops, contacts, self.world.directions, self.world.limit_q.size
        )

    def enlarge(self) -> None:
        """Double the size of the tape."""
        self._tape(2 * len(self.tape.op), 2 * len(self.tape.feature))

    def forget(self) -> None:
        """Reset counts and warm starts."""
        P, L = len(self.world.shapes.pairs), self.world.limit_q.size
        self.counts = np.zeros(10, np.int64)
        """(10,) entries of :mod:`.record`."""
        self.extremes = np.array([0.0, np.inf])
        if self.memory is None:
            self.memory = s.Memory(
                np.empty((P, 3)),
                np.empty((512, 7), np.int64),
                np.empty((512, 1 + self.world.directions), np.int64),
                np.empty(1, np.int64),
                np.empty(2 * L, np.int64),
            )
        for part in (self.memory.axis, self.memory.size, self.memory.limit_cls):
            part.fill(0)

    def twin(self) -> LcpSystem:
        """Return a copy with the same state and its own counts, which another thread may
        advance."""
        other = copy.copy(self)
        other.q, other.v, other.tau = self.q.copy(), self.v.copy(), self.tau.copy()
        other.motion = make_motion(self.world.tree)
        other._stored, other._addresses = [None] * len(s.KINDS), self._addresses.copy()
        other._after, other.memory = tuple(x.copy() for x in self._after), None
        other.forget()
        other._tape(len(self.tape.op), len(self.tape.feature))
        return other

    def reference(self) -> np.ndarray:
        """Return the addresses (5,) of the :class:`.record.Simulation` that kernels take."""
        parts = self.world, self.parameters, self.tape, self.memory, self.motion
        for k, (part, kind, stored) in enumerate(zip(parts, s.KINDS, self._stored, strict=True)):
            if stored is None or stored.value is not part:  # it was replaced
                self._stored[k] = Stored(part, kind)
                self._addresses[k] = self._stored[k].address
        return self._addresses

    def step(self, *, dt: float | None = None) -> None:
        """Advance by one time step under gravity and ``tau``.

        Raises:
            FloatingPointError: the simulation diverged, or impacts accumulate; the state remains
                that before the step.
        """
        dt = self.model.opt.timestep if dt is None else dt
        q, v = self.q.copy(), self.v.copy()
        while True:
            self.tape.size[:] = 0
            counts, extremes = self.counts.copy(), self.extremes.copy()
            status = roll(
                self.reference(), self.q, self.v, self.tau[None], dt, counts, extremes, *self._after
            )
            if status not in (s.CONTACTS_FULL, s.TAPE_FULL):
                break
            self.q[:], self.v[:] = q, v
            self.enlarge()
        self.counts, self.extremes = counts, extremes
        if status != s.FITS:
            self.q[:], self.v[:] = q, v
            raise self.failure(status)
        self.time += dt

    def failure(self, status: int) -> FloatingPointError:
        """Return the error of a step that ended with another status than ``FITS``."""
        if status == s.NOT_FINITE:
            return FloatingPointError(f"the lcp engine diverged at {self.time:.3f} s")
        met = [k for k in self.tape.op[: self.tape.size[0], 6] if k >= 0][-2:]
        pairs = {tuple(self.world.shapes.pairs[self.tape.feature[k, 4]]) for k in met}
        names = (
            ", ".join(
                sorted(f"'{self.geometries[a].name}' and '{self.geometries[b].name}'" for a, b in pairs)
            )
            or "bodies that overlap"
        )
        return FloatingPointError(
            f"the lcp engine does not get past {self.time:.3f} s: {names} meet ever more often"
        )

    def touches(self) -> list[Touch]:
        """Return the contacts of the last step that carried load or are closer than
        :data:`TOUCHING`, with their impulses summed over its substeps."""
        found: dict[bytes, Touch] = {}
        for op in self.tape.op[: self.tape.size[0]]:
            for k in range(op[1], op[2]) if op[0] != s.BEGIN else ():
                feature, report = self.tape.feature[k], self.tape.report[k].copy()
                touch = Touch(*feature[:2], report[0], report[1:4], report[4:7], report[7:])
                touch = found.setdefault(feature.tobytes(), touch)
                if touch.impulse_W.base is not report:
                    touch.impulse_W[:] += report[7:]
        loaded = [t for t in found.values() if t.gap <= TOUCHING or t.impulse_W.any()]
        return [
            t if t.a < t.b else t._replace(a=t.b, b=t.a, normal_W=-t.normal_W, impulse_W=-t.impulse_W)
            for t in loaded
        ]

    def gaps(self) -> dict[tuple[str, str], float]:
        """Return lower bounds of the distances of all pairs [m] by name, exact where a direction
        separates them; where they overlap, the negative distance that parts them."""
        pairs, names = self.world.shapes.pairs, [g.name for g in self.geometries]
        gaps = np.empty(len(pairs))
        gaps_at(self.reference(), self.q, gaps)
        return {(names[a], names[b]): float(gap) for (a, b), gap in zip(pairs, gaps, strict=True)}

    def overlapping(self, deeper: float = 0.0) -> dict[tuple[str, str], float]:
        """Return the depths of pairs that overlap by more than ``deeper`` [m], the deepest
        first."""
        return dict(
            sorted(
                ((pair, -gap) for pair, gap in self.gaps().items() if gap <= -deeper),
                key=lambda item: -item[1],
            )
        )

    def settle(self, seconds: float = SETTLED) -> None:
        """Advance until no pair overlaps.

        Args:
            seconds: longest simulated time [s].

        Raises:
            EngineError: some pairs still overlap, with their names.
            FloatingPointError: as :meth:`step`.
        """
        end = self.time + seconds
        while self.time < end and self.overlapping():
            self.step()
        stuck = [f"'{a}' and '{b}' (by {1e3 * depth:.2g} mm)" for (a, b), depth in self.overlapping().items()]
        if stuck:
            raise EngineError(f"{', '.join(stuck)} overlap and cannot be parted within {seconds:g} s")

    def energy(self) -> float:
        """Return the sum of kinetic and potential energy [J]."""
        return sum(self.energies())

    def energies(self) -> tuple[float, float]:
        """Return kinetic and potential energy [J]."""
        return energy_at(self.reference(), self.q, self.v)


def _friction(geometries: Sequence[Geometry], pairs: Sequence[Pair]) -> tuple[np.ndarray, np.ndarray]:
    """Return the geometries' friction followed by that of pairs that have their own; and for each
    pair (P,) the entry that it uses."""
    table = [g.friction for g in geometries]
    which = []
    for a, b, friction in pairs:
        first = a if table[a] >= table[b] else b
        if table[first] != friction:
            own = (
                table.index(friction, len(geometries)) if friction in table[len(geometries) :] else len(table)
            )
            table[len(table) :] = [friction] if own == len(table) else []
            first = own
        which.append(first)
    return np.array(table, float), np.array(which, np.int64)
