"""A nut and a bolt with a round thread, as meshes that are not convex, and their scene."""

from __future__ import annotations

import math
from collections.abc import Callable

import mujoco
import numpy as np
import trimesh

from dexengines.forces import contactless
from dexengines.hydroelastic import shapes
from dexengines.hydroelastic.fields import CompliantMesh, RigidMesh
from dexengines.hydroelastic.meshing import extent
from dexengines.hydroelastic.system import Geometry, HydroelasticSystem

LEAD, MEAN, HEIGHT = 0.02, 0.0115, 0.0015
"""Lead, mean radius and amplitude of the thread [m]."""
CLEARANCE = 0.0003
"""Radial clearance [m]."""
OUTER, BOLT = 0.02, 0.1
"""Outer radius of the nut, as long as the lead, and length of the bolt [m]."""
AROUND, ALONG, LAYERS = 60, 16, 2
"""Cells around the thread, along a lead, and across the wall of the nut."""
MASS, MODULUS = 0.1, 3e5
"""Of the nut [kg, Pa]."""


def thread(angle: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return the radius [m] of the bolt's surface at angles [rad] and heights [m]."""
    return MEAN + HEIGHT * np.cos(2 * math.pi * z / LEAD - angle)


def tets(length: float, inside: Callable, outside: Callable, layers: int) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices (n, 3) and tets (k, 4) of a tube about z; each of its hexahedra is cut into
    twelve about its centre.

    Args:
        length: of the tube [m].
        inside, outside: its radii [m] at angles [rad] and heights [m].
        layers: hexahedra across the wall.
    """
    rows = round(ALONG * length / LEAD)
    angle = 2 * math.pi * np.arange(AROUND) / AROUND
    a, z = np.meshgrid(angle, np.linspace(-0.5 * length, 0.5 * length, rows + 1), indexing="ij")
    share = np.linspace(0.0, 1.0, layers + 1)[:, None, None]
    r = (1 - share) * inside(a, z) + share * outside(a, z)
    points = np.stack([r * np.cos(a), r * np.sin(a), np.broadcast_to(z, r.shape)], axis=-1).reshape(-1, 3)
    number = np.arange(len(points)).reshape(r.shape)
    corner = [np.roll(number, (-y), axis=1)[x : x + layers, :, h : h + rows].ravel()
              for x in (0, 1) for y in (0, 1) for h in (0, 1)]  # fmt: skip
    middle = len(points) + np.arange(corner[0].size)
    faces = (0, 1, 3, 2), (4, 5, 7, 6), (0, 1, 5, 4), (2, 3, 7, 6), (0, 2, 6, 4), (1, 3, 7, 5)
    triangles = [part for i, j, k, m in faces for part in ((i, j, k), (i, k, m))]
    found = np.concatenate(
        [np.column_stack([*(corner[c] for c in triangle), middle]) for triangle in triangles]
    )
    points = np.concatenate([points, sum(points[c] for c in corner) / 8])
    v = points[found]
    volume = np.einsum("ij,ij->i", np.cross(v[:, 1] - v[:, 0], v[:, 2] - v[:, 0]), v[:, 3] - v[:, 0])
    found[volume < 0] = found[volume < 0][:, [0, 2, 1, 3]]
    return points, found


def bodies() -> tuple[CompliantMesh, RigidMesh]:
    """Return the nut and the bolt about z, the nut's thread in the middle of the clearance."""
    points, cells = tets(LEAD, lambda a, z: thread(a, z) + CLEARANCE, lambda a, z: 0 * a + OUTER, LAYERS)
    nut = CompliantMesh("nut", points, cells, MODULUS * extent(points, cells), MODULUS)
    points, cells = tets(BOLT, lambda a, z: 0 * a + 0.5 * MEAN, thread, 1)
    hollow = CompliantMesh("bolt", points, cells, np.zeros(len(points)), 1.0)
    return nut, shapes.rigid(hollow)


def screw(friction: float, dt: float) -> HydroelasticSystem:
    """Return the nut on the upper part of the bolt; ``dt``: step [s]."""
    nut, bolt = bodies()
    outline = trimesh.Trimesh(nut.vertices_B, nut.boundary_triangles)
    outline.density = MASS / outline.volume
    spec = mujoco.MjSpec()
    spec.option.timestep = dt
    body = spec.worldbody.add_body(name="nut", pos=(0.0, 0.0, LEAD))
    body.add_freejoint()
    body.explicitinertial = True
    body.mass, body.ipos = MASS, outline.center_mass
    body.fullinertia = outline.moment_inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
    return HydroelasticSystem(
        contactless(spec.compile()),
        [Geometry("nut", "nut", nut, friction), Geometry("bolt", "world", bolt, friction)],
    )


def about_z(model: mujoco.MjModel) -> float:
    """Return the nut's moment of inertia about its axis [kg m²]."""
    data, full = mujoco.MjData(model), np.zeros((model.nv, model.nv))
    mujoco.mj_forward(model, data)
    mujoco.mj_fullM(model, data, full)
    return float(full[5, 5])


def shown(dt: float) -> mujoco.MjModel:
    """Return a model that shows both meshes, with the same state."""
    spec = mujoco.MjSpec()
    spec.option.timestep = dt
    look = {"type": mujoco.mjtGeom.mjGEOM_MESH, "contype": 0, "conaffinity": 0}
    nut, bolt = bodies()
    body = spec.worldbody.add_body(name="nut")
    body.add_freejoint()
    for name, points, faces, parent, rgba in (
        ("nut", nut.vertices_B, nut.boundary_triangles, body, (0.85, 0.5, 0.2, 1.0)),
        ("bolt", bolt.vertices_B, bolt.triangles, spec.worldbody, (0.6, 0.6, 0.65, 1.0)),
    ):
        used, faces = np.unique(faces, return_inverse=True)
        added = spec.add_mesh(name=name, uservert=points[used].ravel(), userface=faces.ravel())
        added.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_EXACT
        parent.add_geom(name=name, meshname=name, rgba=rgba, **look)
    return spec.compile()
