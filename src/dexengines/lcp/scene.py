"""A model in rigid contact that never intersects."""

from __future__ import annotations

import mujoco
import numpy as np

from dexengines.collision import Geom, body_name
from dexengines.couplings import reflected
from dexengines.errors import EngineError
from dexengines.explained import explained
from dexengines.forces import bare
from dexengines.lcp import record
from dexengines.lcp.shapes import Geometry, box, capsule, cylinder, hull, plane, sphere
from dexengines.lcp.system import JOINTS, SETTLED, LcpSystem
from dexengines.materials import Materials
from dexengines.report import Contact
from dexengines.scene import Scene

DEEPEST = 0.02
"""Depth up to which shapes may overlap where a scene starts [m]: the engine pushes them apart."""


class LcpScene(Scene):
    """A model whose geoms are rigid and never intersect.

    Args:
        model, materials: see :class:`dexengines.scene.Scene`.
        directions: friction directions per contact; the friction polygon has twice as many corners.

    Raises:
        EngineError: see :class:`~dexengines.scene.Scene`.
    """

    engine = "lcp"
    lacks = (
        *JOINTS, "adhesion", "flexible body", "body moved from outside", "height field", "signed distance field", "ellipsoid",
        "inertia that changes with the pose",
        "moving plane",
    )  # fmt: skip

    def __init__(self, model: mujoco.MjModel, materials: Materials = None, *, directions: int = 2) -> None:
        super().__init__(model, materials)
        geometries = [geometry(g, body_name(model, g.body)) for g in self.collision.geoms]
        inertance = self._forces.inertance + reflected(model)
        self.system = LcpSystem(bare(model), geometries, directions, self.collision.pairs, inertance)
        self.activation = np.zeros(model.na)

    @property
    def time(self) -> float:
        return self.system.time

    def values(self) -> tuple[np.ndarray, np.ndarray]:
        return self.system.q, self.system.v

    def place(
        self, q: np.ndarray, v: np.ndarray, time: float = 0.0, activation: np.ndarray | None = None
    ) -> None:
        """What overlaps is pushed apart during the first steps.

        Raises:
            EngineError: shapes overlap by more than ``DEEPEST``.
        """
        system = self.system
        system.q[:], system.v[:], system.time = q, v, time
        system.tau[:] = 0.0
        self.activation = np.zeros(self.model.na) if activation is None else activation
        system.forget()
        for (first, second), depth in system.overlapping(DEEPEST).items():
            raise EngineError(
                f"start of the lcp scene: '{first}' and '{second}' overlap by {1e3 * depth:.0f} mm, more than {1e3 * DEEPEST:.0f} mm"
            )

    def advance(self, tau: np.ndarray) -> bool:
        """What did not go as it should is counted in ``system.counts``; a step that fails raises as
        the system does."""
        self.system.tau[:] = tau
        self.system.step()
        return True

    def damp(self, damping: np.ndarray) -> None:
        self.system.world.tree.damping[:] = damping

    def trouble(self) -> str:
        counts = self.system.counts
        stuck = self.system.overlapping() if counts[record.OVERLAPS] and self.time > SETTLED else {}
        unsolved = counts[record.UNSOLVED]
        said = [f"counted {unsolved} contact problems without a valid solution"] if unsolved else []
        said += [f"finds '{first}' and '{second}' overlapping" for first, second in stuck]
        return f"the lcp engine {', and '.join(said)}" if said else ""

    def _contacts(self, control: np.ndarray) -> list[Contact]:
        q, v = (x.copy() for x in self.values())
        tau, _ = self._forces.at(q, v, control, self.activation)
        self._drive(control)
        geoms = {g.id: g for g in self.collision.geoms}
        found = explained(self.model, self._forces, q, v, self.values()[1], tau)
        return [self._report(geoms[e.a], geoms[e.b], e.point_W, e.normal_W, e.gap, e.force_W) for e in found]


def geometry(geom: Geom, body: str) -> Geometry:
    """A geom on its body; of a mesh, the convex hull."""
    more = {"friction": geom.friction, "restitution": geom.material.restitution}
    s, where = geom.size, (geom.p, geom.R)
    if geom.kind == "plane":
        return plane(geom.name, geom.p, geom.R[:, 2], **more)
    if geom.kind == "box":
        return box(geom.name, body, s, *where, **more)
    if geom.kind == "sphere":
        return sphere(geom.name, body, s[0], geom.p, **more)
    if geom.kind == "capsule":
        return capsule(geom.name, body, s[0], s[1], *where, **more)
    if geom.kind == "cylinder":
        return cylinder(geom.name, body, s[0], s[1], *where, **more)
    return hull(geom.name, body, geom.vertices @ geom.R.T + geom.p, **more)
