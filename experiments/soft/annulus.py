"""A ring above a peg: oriented points with a hole, and the scene as a MuJoCo spec."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import trimesh

from dexengines.soft import cloud
from dexengines.soft.cloud import Cloud

INNER, OUTER, HALF, MASS = 0.02, 0.032, 0.008, 0.1
"""Radii, half height [m] and mass [kg] of the ring."""
PEG, PEG_HALF = 0.018, 0.03
"""Radius and half height of the peg [m]."""
START, TILT = (0.001, 0.0, 0.0695), 2.0
"""First position of the ring's centre [m], and its tilt [°]."""
FRICTION = 0.3
ORANGE, GREY = (0.85, 0.5, 0.2, 1.0), (0.6, 0.6, 0.65, 1.0)


def ring_cloud(spacing: float) -> Cloud:
    """Return the ring about z in quads of about ``spacing`` [m]: two walls and two flat ends."""
    z = HALF * (2 * _middles(2 * HALF, spacing) - 1)
    parts = []
    for radius, sign in ((OUTER, 1.0), (INNER, -1.0)):
        angle = 2 * math.pi * _middles(2 * math.pi * radius, spacing)
        a, h = (x.ravel() for x in np.meshgrid(angle, z))
        out = np.column_stack([np.cos(a), np.sin(a), np.zeros(a.size)])
        parts.append(Cloud(radius * out + np.outer(h, [0.0, 0.0, 1.0]), sign * out))
    share, angle = (
        _middles(OUTER - INNER, spacing),
        2 * math.pi * _middles(math.pi * (INNER + OUTER), spacing),
    )
    r = np.sqrt(INNER**2 + share * (OUTER**2 - INNER**2))  # quads of one area
    r, a = (x.ravel() for x in np.meshgrid(r, angle))
    for side in (-1.0, 1.0):
        points = np.column_stack([r * np.cos(a), r * np.sin(a), np.full(r.size, side * HALF)])
        parts.append(Cloud(points, np.tile([0.0, 0.0, side], (r.size, 1))))
    return cloud.check(cloud.joined(*parts), "ring")


def _middles(length: float, spacing: float) -> np.ndarray:
    n = max(1, math.ceil(length / spacing))
    return (np.arange(n) + 0.5) / n


def ring_spec(dt: float) -> mujoco.MjSpec:
    """Return ring, peg and ground with the ring at its start; its mesh has 64 sides. ``dt``: step [s]."""
    mesh = trimesh.creation.annulus(INNER, OUTER, 2 * HALF, sections=64)
    spec = mujoco.MjSpec()
    spec.option.timestep = dt
    added = spec.add_mesh(name="ring", uservert=mesh.vertices.ravel(), userface=mesh.faces.ravel())
    added.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_EXACT
    rub, kinds = (FRICTION, 0.0, 0.0), mujoco.mjtGeom
    spec.worldbody.add_geom(name="ground", type=kinds.mjGEOM_PLANE, size=(0.2, 0.2, 0.01), friction=rub)
    spec.worldbody.add_geom(
        name="peg", type=kinds.mjGEOM_CYLINDER, size=(PEG, PEG_HALF, 0), pos=(0, 0, PEG_HALF), friction=rub,
        rgba=GREY,
    )  # fmt: skip
    half = 0.5 * math.radians(TILT)
    body = spec.worldbody.add_body(name="ring", pos=START, quat=(math.cos(half), 0, math.sin(half), 0))
    body.add_freejoint()
    body.add_geom(
        name="ring",
        type=kinds.mjGEOM_MESH,
        meshname="ring",
        mass=MASS,
        friction=rub,
        rgba=ORANGE,
    )
    return spec
