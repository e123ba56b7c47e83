"""A model with soft contact: geoms are oriented points, steps are linearly implicit in double
precision."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import mujoco
import numpy as np
import trimesh
from scipy.spatial import ConvexHull

from dexengines.collision import Geom, body_name
from dexengines.compilation import jit, joined, program
from dexengines.couplings import reflected
from dexengines.errors import EngineError
from dexengines.forces import bare
from dexengines.materials import Materials
from dexengines.report import Contact
from dexengines.scene import Scene, State, stack
from dexengines.soft import cloud, scaling
from dexengines.soft.cloud import Cloud
from dexengines.soft.meshing import convex_hull, quads
from dexengines.soft.near import Room
from dexengines.soft.scm import ContactParams, paper_dissipation, smooth_dissipation
from dexengines.soft.system import JOINTS, Ground, Meeting, SoftSystem, Surface, SystemData

DISSIPATIONS = {"paper": paper_dissipation, "smooth": smooth_dissipation}
LAW = ContactParams(v_d=0.1, v_s=2e-5)
"""Of a hand and an object of 6 cm, for scenes that shall not depend on weight and size."""
ALIKE = 4.0
"""Largest ratio of sizes in one group of pairs: the search tables of a group are made for its
largest."""
MOST_PAIRS = 300
"""Pairs of bodies, which all have tables and are searched at every step."""
POINTS = 2000
"""Points of a body up to which it is as fine as the bodies it meets."""


class SoftScene(Scene):
    """A model whose geoms are unions of oriented points, one for each body.

    Args:
        model, materials: see :class:`dexengines.scene.Scene`; two bodies that meet have the finer
            one's spacing of points, up to :data:`POINTS` for a body.
        law: contact parameters; friction comes from the model, stiffness and v_d from the materials where
            they have one. None: by weight and size, see :mod:`~dexengines.soft.scaling`.
        roundness: √ε1 in spacings of the points.
        dissipation: a name in :data:`DISSIPATIONS`.
        tolerance: share of the load that neglected points and planes may carry together.

    Raises:
        EngineError: see :class:`~dexengines.scene.Scene`; a mesh without the mesher installed; more
            than :data:`MOST_PAIRS` pairs of bodies.
    """

    engine = "soft"
    lacks = (
        *JOINTS, "adhesion", "flexible body", "body moved from outside", "height field",
        "signed distance field", "ellipsoid", "inertia that changes with the pose", "moving plane",
        "tilted plane",
    )  # fmt: skip

    def __init__(
        self,
        model: mujoco.MjModel,
        materials: Materials = None,
        *,
        law: ContactParams | None = None,
        roundness: float = 0.2,
        dissipation: str = "paper",
        tolerance: float = 1e-6,
    ) -> None:
        super().__init__(model, materials)
        if dissipation not in DISSIPATIONS:
            raise EngineError(
                f"parameter 'dissipation' of the soft engine must be {' or '.join(DISSIPATIONS)}, "
                f"got '{dissipation}'"
            )
        self._law, self._roundness, self._tolerance = law, roundness, tolerance
        self._clouds: dict[tuple[int, float], Cloud] = {}
        inertance = self._forces.inertance + reflected(model)
        self.system = SoftSystem(bare(model), *self._surfaces(), DISSIPATIONS[dissipation], inertance)
        self.place(np.array(model.qpos0), np.zeros(model.nv))

        with jax.enable_x64(True):
            self._data = jax.device_put(self.system.data)
        self._compile()

    def _compile(self) -> None:
        """Compile the step for the system's array sizes."""
        system, dt = self.system, self.dt

        def advance(
            data: SystemData, q: jax.Array, v: jax.Array, tau: jax.Array
        ) -> tuple[jax.Array, jax.Array]:
            return system.implicit(data, q, v, tau, dt)

        with jax.enable_x64(
            True
        ):  # numbers are arguments: as constants, tables would take minutes to compile
            self.program = program(
                advance, self._data, *map(np.zeros, (self.model.nq, self.model.nv, self.model.nv))
            )
            self._needs = jit(system.needs)
        self.batch_key = id(self.program)

    def _make_room(self, q: np.ndarray) -> bool:
        """Enlarge the arrays to the near set at q; return whether they were too small."""
        needs = iter(np.asarray(x) for x in self._needs(self._data, q))
        old = self.system.slots
        room = [None if slots is None else Room(slots, 0, 0).for_all(next(needs)) for slots in old]
        if all(r is None or r.pairs == slots for r, slots in zip(room, old, strict=True)):
            return False
        self.set_room(room)
        return True

    def set_room(self, room: Sequence[Room | None]) -> None:
        """Set the array sizes of the near set, one per meeting, and compile the step."""
        self.system = self.system.with_room(room)
        self._compile()

    def _surfaces(self) -> tuple[list[Meeting], list[Ground]]:
        """Return pairs of bodies, in meetings by whether one is fixed and by size, and bodies
        over planes."""
        geoms, grounds, met = self.collision.geoms, {}, {}
        unions: dict[tuple[int, int, int], list[Geom]] = {}
        for g in geoms:
            if g.kind != "plane":
                unions.setdefault(self._union(g), []).append(g)
        for a, b, friction in self.collision.pairs:
            first, second = geoms[a], geoms[b]
            if "plane" in (first.kind, second.kind):
                plane, other = (first, second) if first.kind == "plane" else (second, first)
                law = self._law_of([plane, *unions[self._union(other)]])
                grounds[plane.name, self._union(other)] = (law, friction, plane.p[2])
            else:
                x, y = sorted((self._union(first), self._union(second)))
                law = self._law_of([*unions[x], *unions[y]])
                group = met.setdefault((x[0] == 0, round(math.log(law.eps2, ALIKE))), {})
                group[x, y] = law, max(friction, group.get((x, y), (law, 0.0))[1])
        count = sum(map(len, met.values()))
        if count > MOST_PAIRS:
            raise EngineError(
                f"the soft engine is for scenes of a few bodies, at most {MOST_PAIRS} pairs of them that "
                f"may touch, this one has {count}: use mujoco, hydroelastic or lcp"
            )
        meetings = [self._meeting(unions, pairs) for pairs in met.values()]
        return meetings, [
            Ground(self._on_ground(unions[key]), law, friction, height)
            for (_, key), (law, friction, height) in grounds.items()
        ]

    def _law_of(self, geoms: list[Geom]) -> ContactParams:
        """Return the parameters of a contact of geoms, those of one surface or of two."""
        law = scaling.law(self.model, geoms) if self._law is None else self._law
        softest, slowest = (
            min((x for g in geoms if (x := getattr(g.material, name)) is not None), default=given)
            for name, given in (("stiffness", law.stiffness), ("dissipation_speed", law.v_d))
        )
        return law._replace(stiffness=softest, v_d=slowest)

    def _union(self, geom: Geom) -> tuple[int, int, int]:
        """Return the surface of a geom: geoms of one body that meet the same others are united."""
        return geom.body, int(self.model.geom_contype[geom.id]), int(self.model.geom_conaffinity[geom.id])

    def _surface(self, geoms: list[Geom], met: Iterable[Geom]) -> Surface:
        """Return geoms as points as fine as those they meet, but no more than :data:`POINTS` on
        their boxes unless a material asks for finer ones."""
        area = sum(8.0 * float(np.roll(g.half, 1) @ g.half) for g in geoms)
        asked = min(g.material.resolution or np.inf for g in geoms)
        spacing = max(min(map(scaling.spacing, met)), min(asked, math.sqrt(area / POINTS)))
        key = geoms[0].id, spacing
        if key not in self._clouds:
            self._clouds[key] = union(geoms, spacing)
        return Surface(geoms[0].name, body_name(self.model, geoms[0].body), self._clouds[key], 0.0)

    def _on_ground(self, geoms: list[Geom]) -> Surface:
        """Return geoms as points that a plane bears, their corners among them: the plane's normal is
        that of all points, so that edges bear to their ends."""
        surface = self._surface(geoms, geoms)
        ends = np.concatenate([corners(g) @ g.R.T + g.p for g in geoms])
        if not len(ends):
            return surface
        out = ends - surface.cloud.points.mean(axis=0)
        edge = Cloud(ends, out / np.linalg.norm(out, axis=1, keepdims=True))
        return dataclasses.replace(surface, cloud=cloud.joined(surface.cloud, edge))

    def _meeting(self, unions: dict, pairs: dict) -> Meeting:
        sides = [sorted({pair[k] for pair in pairs}) for k in (0, 1)]
        met: dict[tuple[int, int, int], list[Geom]] = {
            key: list(unions[key]) for side in sides for key in side
        }
        for x, y in pairs:
            met[x] += unions[y]
            met[y] += unions[x]
        a, b = ([self._surface(unions[key], met[key]) for key in side] for side in sides)
        laws = [
            law._replace(eps1=(self._roundness * min(map(scaling.spacing, (*unions[x], *unions[y])))) ** 2)
            for (x, y), (law, _) in pairs.items()
        ]
        params = ContactParams(*map(np.array, zip(*laws, strict=True)))
        places = [(sides[0].index(x), sides[1].index(y), mu) for (x, y), (_, mu) in pairs.items()]
        return Meeting(a, b, self._tolerance, params._replace(normal_weight=1.0), places)

    @property
    def time(self) -> float:
        return self._time

    def values(self) -> tuple[np.ndarray, np.ndarray]:
        return self._q, self._v

    def place(
        self, q: np.ndarray, v: np.ndarray, time: float = 0.0, activation: np.ndarray | None = None
    ) -> None:
        self._q, self._v, self._start, self._steps, self._time = q, v, time, 0, time
        self.activation = np.zeros(self.model.na) if activation is None else activation

    def advance(self, tau: np.ndarray) -> bool:
        with jax.enable_x64(True):
            q, v = map(np.asarray, self.program.one(self._data, self._q, self._v, tau))
            while not np.isfinite(v).all() and self._make_room(self._q):
                q, v = map(np.asarray, self.program.one(self._data, self._q, self._v, tau))
        self._q, self._v = q, v
        self._steps += 1
        self._time = self._start + self._steps * self.dt
        return bool(np.isfinite(self._v).all())

    @classmethod
    def rollout_many(
        cls, scenes: Sequence[SoftScene], states: Sequence[State], controls: np.ndarray, threads: int
    ) -> State:
        """Advance all scenes in one program; its threads are XLA's."""
        for scene, state in zip(scenes, states, strict=True):
            scene._set_state(state)
        start, tau, steps = stack(states), np.zeros((len(scenes), scenes[0].model.nv)), controls.shape[1]
        dry, driven = (any(getattr(s._forces, name) for s in scenes) for name in ("dry", "any"))
        passed = [(start.q, start.v, start.activation)]
        with jax.enable_x64(True):
            data = joined([s._data for s in scenes])
            for k in range(steps):
                q, v, activation = passed[-1]
                if driven or dry:
                    q, v, activation, tau = (
                        np.asarray(q),
                        np.asarray(v),
                        activation.copy(),
                        np.empty_like(tau),
                    )
                    for i, scene in enumerate(scenes):
                        tau[i], rate = scene._forces.at(q[i], v[i], controls[i, k], activation[i])
                        activation[i] += scene.dt * rate
                if dry:
                    damping = np.stack(
                        [
                            s._forces.damping(x)[: s.system.tree.num_joints]
                            for s, x in zip(scenes, v, strict=True)
                        ]
                    )
                    data = data._replace(numbers=data.numbers._replace(damping=damping))
                following = scenes[0].program.many(data, q, v, tau)
                while cls._made_room(scenes, np.asarray(q), np.asarray(following[1])):
                    following = scenes[0].program.many(data, q, v, tau)
                passed.append((*following, activation))
        times = start.time[:, None] + scenes[0].dt * np.arange(steps + 1)
        return State(
            times,
            *(np.stack([np.asarray(x) for x in column], axis=1) for column in zip(*passed, strict=True)),
        )

    @staticmethod
    def _made_room(scenes: Sequence[SoftScene], q: np.ndarray, v: np.ndarray) -> bool:
        """Enlarge the arrays of all scenes if one of them, at q (N, nq) before a step and with v
        (N, nv) after it, needed it; return whether one did."""
        made = False
        for scene, before, failed in zip(scenes, q, ~np.isfinite(v).all(axis=1), strict=True):
            if failed and scene._make_room(before):
                made = True
                for other in scenes:
                    other.system = other.system.with_room(scene.system.room)
                    other.program, other.batch_key, other._needs = (
                        scene.program,
                        scene.batch_key,
                        scene._needs,
                    )
        return made

    def damp(self, damping: np.ndarray) -> None:
        numbers = self._data.numbers
        self._data = self._data._replace(
            numbers=numbers._replace(damping=np.asarray(damping)[: len(numbers.damping)])
        )

    def _contacts(self, control: np.ndarray) -> list[Contact]:
        """Return the forces between bodies, at the nearest points of their nearest geoms."""
        data = mujoco.MjData(self.model)
        data.qpos[:] = self._q
        mujoco.mj_kinematics(self.model, data)
        with jax.enable_x64(True):
            found = self._touching(self._data, self._q, self._v)
        result = []
        for a, b, wrench in zip(*map(np.asarray, found[:3]), strict=True) if found is not None else ():
            near = min(
                (self._contact(x, y, data, s * wrench[:3]) for x, y, s in self._between(int(a), int(b))),
                key=lambda c: c.gap,
            )
            result += [near] if np.linalg.norm(near.force_W) > 1e-9 else []
        return result

    @functools.cached_property
    def _touching(self) -> Callable[..., Any]:
        """Contacts at a state, compiled on first use."""
        system = self.system
        return jit(lambda data, q, v: system.contact(data, system.tree.motion(data.numbers, q, v)))

    def _between(self, a: int, b: int) -> list[tuple[Geom, Geom, float]]:
        """Return pairs of geoms on links a and b, and the sign of the first's force on the
        second."""
        link, geoms = self.system.tree.link_of_body, self.collision.geoms
        pairs = [(geoms[p.a], geoms[p.b]) for p in self.collision.pairs]
        at = [(x, y, int(link[x.body]), int(link[y.body])) for x, y in pairs]
        return [(x, y, 1.0 if k == a else -1.0) for x, y, k, m in at if {k, m} == {a, b}]


def union(shapes: Sequence[Geom], spacing: float) -> Cloud:
    """Return oriented points of shapes that overlap or touch, without those inside another one."""
    parts = []
    for k, shape in enumerate(shapes):
        part = cloud.moved(shape_cloud(shape, spacing), shape.R, shape.p)
        outside = part.points + 1e-2 * spacing * part.normals  # faces that touch are both inside
        hidden = np.zeros(len(outside), bool)
        for j, other in enumerate(shapes):
            if j != k:
                hidden |= inside(other, outside)
        parts.append(Cloud(part.points[~hidden], part.normals[~hidden]))
    return cloud.joined(*parts)


def shape_cloud(shape: Geom, spacing: float) -> Cloud:
    """Return the points of a geom in its own frame."""
    s = shape.size
    if shape.kind == "box":
        return cloud.box(s, spacing)
    if shape.kind == "sphere":
        return cloud.sphere(s[0], spacing)
    if shape.kind == "capsule":
        return cloud.capsule(s[0], s[1], spacing)
    if shape.kind == "cylinder":
        return cloud.cylinder(s[0], s[1], spacing)
    return hull_cloud(shape.vertices, spacing, shape.name)


def hull_cloud(vertices: np.ndarray, spacing: float, name: str) -> Cloud:
    """Return the convex hull of points (V, 3): a box exactly, other hulls remeshed in quads."""
    hull = convex_hull(vertices, name)
    for R, p, half in _boxes(hull):
        if hull.volume > (1.0 - 1e-5) * np.prod(2.0 * half):
            return cloud.moved(cloud.box(half, spacing), R, p)
    return quads(hull, spacing, name)


def _boxes(hull: trimesh.Trimesh) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield bounding boxes of a hull, along its frame and along its edges: orientation, centre,
    half extents."""
    low, high = hull.bounds
    yield np.eye(3), 0.5 * (low + high), 0.5 * (high - low)
    T, extents = trimesh.bounds.oriented_bounds(hull)
    X = np.linalg.inv(T)
    yield X[:3, :3], X[:3, 3], 0.5 * extents


def corners(shape: Geom) -> np.ndarray:
    """Return the corners (I, 3) of a box or a mesh in its own frame."""
    if shape.kind == "box":
        return shape.size * np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
    return shape.vertices[ConvexHull(shape.vertices).vertices] if shape.kind == "mesh" else np.zeros((0, 3))


def inside(shape: Geom, points: np.ndarray) -> np.ndarray:
    """Return (I,) whether points (I, 3) in the frame of the body lie in the shape."""
    p, s = (points - shape.p) @ shape.R, shape.size
    if shape.kind == "box":
        return (np.abs(p) < s).all(axis=1)
    if shape.kind == "cylinder":
        return (np.hypot(p[:, 0], p[:, 1]) < s[0]) & (np.abs(p[:, 2]) < s[1])
    if shape.kind == "mesh":
        plane = ConvexHull(shape.vertices).equations
        return (p @ plane[:, :3].T + plane[:, 3] < 0.0).all(axis=1)
    half = s[1] if shape.kind == "capsule" else 0.0
    along = p - np.clip(p[:, 2:], -half, half) * [0.0, 0.0, 1.0]
    return np.linalg.norm(along, axis=1) < s[0]
