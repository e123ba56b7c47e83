"""Static wrench of a contact surface.

Pressure is linear on a polygon. Quadrature at the edge midpoints (degree two) of the fan about the
centroid integrates it and its moment exactly, and is continuous as corners come and go. One point
per polygon, its centroid, integrates the force exactly and the moment to second order in the mesh
size; the velocity-level scheme uses that.
"""

from __future__ import annotations

import numpy as np

from dexengines.hydroelastic.surface import ContactSurface


def wrench(surface: ContactSurface, about_W: np.ndarray) -> np.ndarray:
    """Return the moment about a point and the force on A (6,) [N m, N], by the fan of each face."""
    corners = np.diff(surface.start)
    face = np.repeat(np.arange(surface.n), corners)
    following = np.arange(1, len(face) + 1)
    following[surface.start[1:] - 1] = surface.start[:-1]
    centre, normal = surface.centroid_W[face], surface.nhat_W[face]
    a = surface.vertex_W - centre
    b = a[following]
    area = 0.5 * np.einsum("kj,kj->k", np.cross(a, b), normal)
    result = np.zeros(6)
    for middle in (0.5 * a, 0.5 * b, 0.5 * (a + b)):
        slope = np.einsum("kj,kj->k", surface.slope_W[face], middle)
        pressure = np.maximum(surface.pressure[face] + slope, 0.0)
        force = (pressure * area / 3.0)[:, None] * normal
        result[:3] += np.cross(centre + middle - about_W, force).sum(axis=0)
        result[3:] += force.sum(axis=0)
    return result


def polygon_wrench(surface: ContactSurface, about_W: np.ndarray) -> np.ndarray:
    """Return the moment about a point and the force on A (6,) with one point per face, its
    centroid."""
    force = (surface.pressure * surface.area)[:, None] * surface.nhat_W
    return np.concatenate([np.cross(surface.centroid_W - about_W, force).sum(axis=0), force.sum(axis=0)])
