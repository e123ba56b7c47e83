"""A scene that advances in steps: a MuJoCo model for joints, masses and gravity, geometries for contact."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from dexstack.engines.lcp import record as s
from dexstack.engines.lcp.dynamics import make_motion, make_tree
from dexstack.engines.lcp.roll import Simulation, energy_at, gaps_at, refer, roll
from dexstack.engines.lcp.shapes import Geometry, pack
from dexstack.errors import ConfigError


class LcpSystem:
    """Bodies that never meet, advanced in steps of ``model.opt.timestep``.

    Args:
        model: a compiled scene; its own geoms, contacts and constraints are not read.
        geometries: what may touch what: any two not on one body, on bodies welded together, on parent and child, or on a pair the model
            excludes.
        directions: friction directions per contact, at least 2: the friction polygon has twice as many corners.

    Raises:
        ConfigError: a model or geometry this engine does not take.
    """

    def __init__(self, model: mujoco.MjModel, geometries: Sequence[Geometry], directions: int = 2) -> None:
        if directions < 2:
            raise ConfigError(f"friction needs at least 2 directions per contact (a pyramid of 4 sides), got {directions}")
        self.model, self.geometries = model, tuple(geometries)
        names = {model.body(b).name: b for b in range(model.nbody)} | {"world": 0}
        bodies = [names.get(g.body, 0) for g in geometries]
        pairs = [(i, j) for j in range(len(bodies)) for i in range(j) if _may_touch(model, bodies[i], bodies[j])]
        limited = np.flatnonzero(model.jnt_limited)
        self.world = s.World(
            make_tree(model),
            pack(self.geometries, names, np.array(pairs, np.int64).reshape(-1, 2)),
            model.jnt_qposadr[limited].astype(np.int64).reshape(-1),
            model.jnt_dofadr[limited].astype(np.int64).reshape(-1),
            np.array(model.jnt_range[limited]).reshape(-1, 2),
            directions,
        )
        self.parameters = s.Parameters(
            np.array(model.body_mass),
            np.array([g.friction for g in geometries], float),
            np.array([g.restitution for g in geometries], float),
        )
        self.q, self.v, self.tau = np.array(model.qpos0), np.zeros(model.nv), np.zeros(model.nv)
        """(Q,) configuration, (V,) velocities and (V,) generalised forces, laid out as in MuJoCo."""
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
        self.tape = s.make_tape(self.model.nq, self.model.nv, ops, contacts, self.world.directions, self.world.limit_q.size)

    def enlarge(self) -> None:
        """Twice the room for what a step or rollout records."""
        self._tape(2 * len(self.tape.op), 2 * len(self.tape.feature))

    def forget(self) -> None:
        """Start counts and warm starts again."""
        P, L = len(self.world.shapes.pairs), self.world.limit_q.size
        self.counts = np.zeros(11, np.int64)
        """See :mod:`.record`."""
        self.extremes = np.array([0.0, np.inf, 0.0])
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

    def reference(self) -> Simulation:
        """What kernels take; made anew where one of its parts was replaced."""
        held = self._held
        if (
            held is None
            or held.parameters is not self.parameters
            or held.tape is not self.tape
            or held.memory is not self.memory
            or held.world is not self.world
        ):
            self._held = Simulation(self.world, self.parameters, self.tape, self.memory, self.motion, self.complex_motion)
            self._reference = refer(self._held)
        return self._reference

    def step(self, *, dt: float | None = None) -> None:
        """Advance by one time step under gravity and ``tau``.

        Raises:
            FloatingPointError: the simulation diverged.
        """
        dt = self.model.opt.timestep if dt is None else dt
        q, v = self.q.copy(), self.v.copy()
        while True:
            self.tape.size[:] = 0
            counts, extremes = self.counts.copy(), self.extremes.copy()
            status = roll(self.reference(), self.q, self.v, self.tau[None], dt, counts, extremes, *self._after)
            if status in (s.FITS, s.NOT_FINITE):
                break
            self.q[:], self.v[:] = q, v
            self.enlarge()
        self.counts, self.extremes = counts, extremes
        if status == s.NOT_FINITE:
            self.q[:], self.v[:] = q, v
            raise FloatingPointError(f"the lcp engine diverged at {self.time:.3f} s")
        self.time += dt

    def gaps(self) -> dict[tuple[str, str], float]:
        """Lower bounds of the distances of all pairs at the present configuration [m], exact where they separate along one direction;
        negative where they overlap, by how far they have to move to part."""
        pairs, names = self.world.shapes.pairs, [g.name for g in self.geometries]
        gaps = np.empty(len(pairs))
        gaps_at(self.reference(), self.q, gaps)
        return {(names[a], names[b]): float(gap) for (a, b), gap in zip(pairs, gaps, strict=True)}

    def energy(self) -> float:
        """Kinetic and potential energy [J]."""
        return sum(self.energies())

    def energies(self) -> tuple[float, float]:
        """Kinetic and potential energy [J]."""
        return energy_at(self.reference(), self.q, self.v)


def _may_touch(model: mujoco.MjModel, a: int, b: int) -> bool:
    """MuJoCo's own rules of which bodies collide."""
    a, b = min(a, b), max(a, b)
    wa, wb = model.body_weldid[a], model.body_weldid[b]
    parents = model.body_weldid[model.body_parentid[wa]], model.body_weldid[model.body_parentid[wb]]
    return bool(
        wa != wb
        and not (wa and wb and (wa == parents[1] or wb == parents[0]))
        and (int(a) << 16) + int(b) not in set(model.exclude_signature.tolist())
    )
