"""A model in rigid contact that never intersects."""

from __future__ import annotations

import mujoco
import numpy as np

from dexengines.collision import Geom, body_name
from dexengines.couplings import reflected
from dexengines.errors import EngineError
from dexengines.forces import bare
from dexengines.lcp import record
from dexengines.lcp.shapes import Geometry, box, capsule, cylinder, hull, plane, sphere
from dexengines.lcp.system import JOINTS, SETTLED, LcpSystem
from dexengines.materials import Materials
from dexengines.report import Contact
from dexengines.scene import Scene

DEEPEST = 0.02
"""Depth up to which shapes may overlap in a start state [m]; the engine pushes them apart."""


class LcpScene(Scene):
    """A model whose geoms are rigid and never intersect.

    Args:
        model, materials: see :class:`dexengines.scene.Scene`.
        directions: friction directions per contact; the friction polygon has twice as many corners.

    Raises:
        EngineError: see :class:`~dexengines.scene.Scene`.
    """

    engine = "lcp"
    continuous = bounces = True
    lacks = (
        *JOINTS, "adhesion", "flexible body", "body moved from outside", "height field",
        "signed distance field", "ellipsoid", "inertia that changes with the pose", "moving plane",
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
        """Set the state; shapes that overlap are pushed apart during the first steps.

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
                f"start of the lcp scene: '{first}' and '{second}' overlap by {1e3 * depth:.0f} mm, "
                f"more than {1e3 * DEEPEST:.0f} mm"
            )

    def advance(self, tau: np.ndarray) -> bool:
        """Advance by one step; see ``system.counts`` for contact problems left unsolved."""
        self.system.tau[:] = tau
        self.system.step()
        return True

    def damp(self, damping: np.ndarray) -> None:
        self.system.world.tree.damping[:] = damping

    def _own_trouble(self) -> str:
        counts = self.system.counts
        stuck = self.system.overlapping() if counts[record.OVERLAPS] and self.time > SETTLED else {}
        unsolved = counts[record.UNSOLVED]
        parts = [f"counted {unsolved} contact problems without a valid solution"] if unsolved else []
        if ends := counts[record.PLASTIC_ENDS]:
            parts.append(f"ended {ends} cascades of impacts without restitution")
        parts += [f"finds '{first}' and '{second}' overlapping" for first, second in stuck]
        return f"the lcp engine {', and '.join(parts)}" if parts else ""

    def _contacts(self, control: np.ndarray) -> list[Contact]:
        """Return the contacts of the next step; forces are the solver's impulses over its
        length."""
        self._drive(control)
        geoms = self.collision.geoms
        return [
            self._report(geoms[t.a], geoms[t.b], t.point_W, t.normal_W, t.gap, t.impulse_W / self.dt)
            for t in self.system.touches()
        ]


def geometry(geom: Geom, body: str) -> Geometry:
    """Return the geometry of a geom on its body; of a mesh, the convex hull."""
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
