"""A scene that advances in steps: a MuJoCo model for joints, masses and gravity, geometries for
contact."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import mujoco
import numpy as np

from dexengines.collision import Pair, body_name, touching_bodies
from dexengines.errors import EngineError
from dexengines.features import FORCES, refuse
from dexengines.lcp import record as s
from dexengines.lcp.dynamics import make_motion, make_tree
from dexengines.lcp.reference import Reference
from dexengines.lcp.roll import Simulation, energy_at, gaps_at, refer, roll
from dexengines.lcp.shapes import Geometry, pack

JOINTS = ("ball joint", "equality constraint", "tendon with a stop", "dry tendon friction")
LACKS = (*JOINTS, *FORCES)
"""Of :data:`dexengines.features.FEATURES`."""
SETTLED = 1.0
"""Time after which bodies that overlap at the start are to have parted [s]."""


class LcpSystem:
    """Bodies that never meet, advanced in steps of ``model.opt.timestep``.

    Args:
        model: a compiled scene; its own geoms, contacts and constraints are not read.
        geometries: shapes on its bodies.
        directions: friction directions per contact, at least 2: the friction polygon has twice as
            many corners.
        pairs: what may touch, by places in ``geometries``; None: any two whose bodies may by
            MuJoCo's rules.
        inertance: (nv, nv) to add to the mass matrix; see :mod:`dexengines.couplings`.

    Raises:
        EngineError: a model or geometry this engine does not take.
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
        self.motion = make_motion(self.world.tree, float)
        self.complex_motion = make_motion(self.world.tree, complex)
        self._held: Simulation | None = None
        self._after = np.empty((2, model.nq)), np.empty((2, model.nv))
        self.memory: s.Memory | None = None
        self.forget()
        self._tape(64, 512)

    def _tape(self, ops: int, contacts: int) -> None:
        self.tape = s.make_tape(
            self.model.nq, self.model.nv, ops, contacts, self.world.directions, self.world.limit_q.size
        )

    def enlarge(self) -> None:
        """Twice the room for what a step or rollout records."""
        self._tape(2 * len(self.tape.op), 2 * len(self.tape.feature))

    def forget(self) -> None:
        """Start counts and warm starts again."""
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
        """Another of the same bodies and state, with counts of its own, that may move at the same
        time in another thread."""
        other = copy.copy(self)
        other.q, other.v, other.tau = self.q.copy(), self.v.copy(), self.tau.copy()
        other.motion, other.complex_motion = (
            make_motion(self.world.tree, float),
            make_motion(self.world.tree, complex),
        )
        other._held, other._after, other.memory = None, tuple(x.copy() for x in self._after), None
        other.forget()
        other._tape(len(self.tape.op), len(self.tape.feature))
        return other

    def reference(self) -> Reference:
        """What kernels take in place of a :class:`.roll.Simulation`; made anew where one of its
        parts was replaced."""
        held = self._held
        if (
            held is None
            or held.parameters is not self.parameters
            or held.tape is not self.tape
            or held.memory is not self.memory
            or held.world is not self.world
        ):
            self._held = Simulation(
                self.world, self.parameters, self.tape, self.memory, self.motion, self.complex_motion
            )
            self._reference = refer(self._held)
        return self._reference

    def step(self, *, dt: float | None = None) -> None:
        """Advance by one time step under gravity and ``tau``.

        Raises:
            FloatingPointError: the simulation diverged, or bodies meet ever more often; the state
                is that before the step.
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
        """What to raise for a step that ended otherwise than with ``FITS``."""
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

    def gaps(self) -> dict[tuple[str, str], float]:
        """Lower bounds of the distances of all pairs at the present configuration [m], exact where
        they separate along one direction; negative where they overlap, by how far they have to move
        to part."""
        pairs, names = self.world.shapes.pairs, [g.name for g in self.geometries]
        gaps = np.empty(len(pairs))
        gaps_at(self.reference(), self.q, gaps)
        return {(names[a], names[b]): float(gap) for (a, b), gap in zip(pairs, gaps, strict=True)}

    def overlapping(self, deeper: float = 0.0) -> dict[tuple[str, str], float]:
        """Pairs that overlap by more than ``deeper``, and by how much [m], the deepest first."""
        return dict(
            sorted(
                ((pair, -gap) for pair, gap in self.gaps().items() if gap <= -deeper),
                key=lambda item: -item[1],
            )
        )

    def settle(self, seconds: float = SETTLED) -> None:
        """Advance until nothing overlaps, at most for so long.

        Raises:
            EngineError: some still do, by name.
            FloatingPointError: as :meth:`step`.
        """
        end = self.time + seconds
        while self.time < end and self.overlapping():
            self.step()
        stuck = [f"'{a}' and '{b}' (by {1e3 * depth:.2g} mm)" for (a, b), depth in self.overlapping().items()]
        if stuck:
            raise EngineError(f"{', '.join(stuck)} overlap and cannot be parted within {seconds:g} s")

    def energy(self) -> float:
        """Kinetic and potential energy [J]."""
        return sum(self.energies())

    def energies(self) -> tuple[float, float]:
        """Kinetic and potential energy [J]."""
        return energy_at(self.reference(), self.q, self.v)


def _friction(geometries: Sequence[Geometry], pairs: Sequence[Pair]) -> tuple[np.ndarray, np.ndarray]:
    """The geometries' friction, then what pairs have of their own; and which of these counts for
    each pair (P,)."""
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
