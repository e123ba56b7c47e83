"""Pressure field of any watertight mesh: tets by fTetWild, penetration extent from the depth below
the surface.

    ε(x) = d(x) / max d

at every vertex, d the distance from the surface, as for the spheres and boxes of
:mod:`~dexengines.hydroelastic.shapes`. Its gradient below the surface is about E / max d wherever
the interior vertices lie. A harmonic ε between surface and core would depend on which vertices are
deep enough for the core, which differs between runs of fTetWild; along a ring or a wall without
such vertices it vanishes. In limbs thinner than the thickest part ε stays below 1.
"""

from __future__ import annotations

import contextlib
import tempfile

import numpy as np
import trimesh

from dexengines.errors import EngineError
from dexengines.hydroelastic.fields import CompliantMesh


def compliant_mesh(
    surface: trimesh.Trimesh, modulus: float, *, size: float, name: str = "mesh"
) -> CompliantMesh:
    """Tetrahedralise a watertight surface and give it a pressure field.

    fTetWild has no seed: the tets differ between calls, and the surface by a thousandth of the
    body's size.

    Args:
        surface: closed, in metres.
        modulus: E [Pa].
        size: target edge length [m].

    Raises:
        EngineError: the surface is open or cannot be filled.
    """
    if not surface.is_watertight:
        raise EngineError(f"the mesh {name} is not watertight, so it has no inside to put a pressure in")
    if not (np.isfinite(size) and size > 0):
        raise EngineError(f"the mesh size of {name} must be positive, not {size}")
    import pytetwild

    ratio = float(np.clip(size / np.linalg.norm(surface.extents), 1e-3, 0.5))
    try:
        # it writes a file to the working directory
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            vertices, tets = pytetwild.tetrahedralize(
                np.asarray(surface.vertices, float),
                np.asarray(surface.faces, np.int32),
                edge_length_fac=ratio,
                num_threads=1,
                quiet=True,
            )
    except RuntimeError as error:
        raise EngineError(f"the mesh {name} cannot be filled with tets: {error}") from None
    vertices, tets = np.asarray(vertices, float)[:, :3], np.asarray(tets)[:, :4]
    if not len(tets):
        raise EngineError(f"the mesh {name} cannot be filled with tets")
    v = vertices[tets]
    volume = np.einsum("ij,ij->i", np.cross(v[:, 1] - v[:, 0], v[:, 2] - v[:, 0]), v[:, 3] - v[:, 0])
    tets[volume < 0] = tets[volume < 0][:, [0, 2, 1, 3]]
    tets = tets[np.abs(volume) > 1e-15 * surface.extents.max() ** 3]
    used, tets = np.unique(tets, return_inverse=True)
    vertices, tets = _split_flat(vertices[used], tets.reshape(-1, 4))
    return CompliantMesh(name, vertices, tets, modulus * extent(vertices, tets, name), modulus)


def _split_flat(vertices: np.ndarray, tets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Split tets with all four corners on the surface at their centre; their pressure would be zero
    throughout."""
    on_surface = np.zeros(len(vertices), bool)
    on_surface[CompliantMesh("tets", vertices, tets, np.zeros(len(vertices)), 1.0).boundary_triangles] = True
    flat = on_surface[tets].all(axis=1)
    if not flat.any():
        return vertices, tets
    new = len(vertices) + np.arange(flat.sum())
    pieces = []
    for k in range(4):
        piece = tets[flat].copy()
        piece[:, k] = new
        pieces.append(piece)
    return np.concatenate([vertices, vertices[tets[flat]].mean(axis=1)]), np.concatenate(
        [tets[~flat], *pieces]
    )


def extent(vertices: np.ndarray, tets: np.ndarray, name: str = "mesh") -> np.ndarray:
    """Return the penetration extent ε in [0, 1] at the vertices (n, 3) of a tet mesh: depth over
    greatest depth.

    Raises:
        EngineError: all vertices lie on the surface.
    """
    from trimesh.triangles import closest_point

    triangles = CompliantMesh(name, vertices, tets, np.zeros(len(vertices)), 1.0).boundary_triangles
    inner = np.setdiff1d(np.arange(len(vertices)), triangles)
    if not len(inner):
        raise EngineError(f"the mesh {name} has no vertex inside: make it finer")
    corners = vertices[triangles]
    middle = corners.mean(axis=1)
    radius = np.linalg.norm(corners - middle[:, None], axis=2).max(axis=1)
    depth = np.zeros(len(vertices))
    for i in inner:
        reach = np.linalg.norm(middle - vertices[i], axis=1)
        near = corners[reach - radius <= reach.min()]  # the others are farther than the nearest centre
        depth[i] = np.linalg.norm(
            closest_point(near, np.broadcast_to(vertices[i], (len(near), 3))) - vertices[i], axis=1
        ).min()
    return depth / depth.max()
