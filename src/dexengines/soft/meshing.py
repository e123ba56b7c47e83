"""Oriented points of a closed mesh: its surface remeshed in quads (instant field-aligned meshes),
one point per quad."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import trimesh
from scipy.spatial import QhullError, cKDTree

from dexengines.errors import EngineError
from dexengines.soft import cloud
from dexengines.soft.cloud import Cloud

CREASE = 30.0
"""Angle above which edges are kept [degrees]."""


def check_mesh(mesh: trimesh.Trimesh, name: str) -> None:
    """Reject a surface that encloses no volume.

    Raises:
        EngineError: vertices that are not finite, open edges, faces without area, inconsistent or
            inward normals.
    """
    if len(mesh.faces) == 0 or not np.isfinite(mesh.vertices).all():
        raise EngineError(f"the mesh {name} has no faces, or vertices that are not finite")
    flat = int((mesh.area_faces <= 1e-12 * max(mesh.extents.max(), 1e-9) ** 2).sum())
    if flat:
        raise EngineError(f"the mesh {name} has {flat} faces without area")
    if not mesh.is_watertight:
        raise EngineError(f"the mesh {name} is open, so it has no inside")
    if not mesh.is_winding_consistent:
        raise EngineError(f"some normals of the mesh {name} point inwards and some outwards")
    if mesh.volume <= 0.0:
        raise EngineError(f"the normals of the mesh {name} point inwards")


def convex_hull(points: np.ndarray, name: str) -> trimesh.Trimesh:
    """Return the convex hull of a mesh's vertices (V, 3).

    Raises:
        EngineError: the vertices span no volume.
    """
    try:
        hull = trimesh.Trimesh(np.unique(np.asarray(points, float), axis=0), process=False).convex_hull
    except QhullError:
        hull = None
    if hull is None or not hull.volume > 1e-15:
        raise EngineError(f"the mesh {name} is flat or a point: no shape has its surface")
    return hull


def remesh(mesh: trimesh.Trimesh, spacing: float, name: str = "mesh") -> Cloud:
    """Return the centres of quads of about ``spacing`` [m] on a closed mesh with outward normals,
    moved onto the mesh.

    Raises:
        EngineError: see :func:`check_mesh` and :func:`quads`.
    """
    check_mesh(mesh, name)
    return quads(mesh, spacing, name)


def quads(mesh: trimesh.Trimesh, spacing: float, name: str) -> Cloud:
    """As :func:`remesh`, of a surface known to enclose a volume. Holes between quads are filled
    with points of the mesh.

    Raises:
        EngineError: the mesher is not installed.
    """
    if not spacing > 0.0:
        raise EngineError(f"the spacing of oriented points must be positive, got {spacing:g} m")
    try:
        import pynanoinstantmeshes
    except ModuleNotFoundError:
        raise EngineError(
            f"oriented points of the mesh {name} need pynanoinstantmeshes: pip install 'dexstack[engines]'"
        ) from None
    scale = float(mesh.extents.max())
    # the mesher's fields are defined on the vertices given
    fine_vertices, fine_faces = trimesh.remesh.subdivide_to_size(
        mesh.vertices, mesh.faces, max(spacing, scale / 200.0)
    )
    with _quiet():
        vertices, faces = pynanoinstantmeshes.remesh(
            np.asarray(fine_vertices / scale, np.float32),
            np.asarray(fine_faces, np.uint32),
            vertex_count=-1,
            face_count=max(
                6, round(mesh.area / spacing**2 / 4.0)
            ),  # every face is then cut into quads, four for a quad
            creaseAngle=CREASE,
            smooth_iter=2,
            deterministic=True,
        )
    vertices, faces = np.asarray(vertices, float) * scale, np.asarray(faces, int)
    corners = vertices[faces]
    area = (
        np.linalg.norm(np.cross(corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 1]), axis=1) / 2.0
    )
    points, normals = onto(mesh, corners[area > 1e-3 * spacing**2].mean(axis=1))
    return cloud.check(filled(mesh, Cloud(points, normals), spacing), name)


def filled(mesh: trimesh.Trimesh, found: Cloud, spacing: float) -> Cloud:
    """Return the cloud with points of the mesh, the farthest first, until its surface is within
    ``spacing`` of a point; unchanged if no hole is wider than three spacings."""
    samples, which = trimesh.sample.sample_surface(
        mesh, 20 * max(len(found.points), math.ceil(mesh.area / spacing**2)), seed=0
    )
    far, more = cKDTree(found.points).query(samples)[0], []
    limit = 3.0 * spacing
    while far.max() > limit:
        limit = spacing
        more.append(int(far.argmax()))
        far = np.minimum(far, np.linalg.norm(samples - samples[more[-1]], axis=1))
    return cloud.joined(found, Cloud(samples[more], mesh.face_normals[which[more]]))


def onto(mesh: trimesh.Trimesh, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest points (I, 3) on the mesh, and the unit normals of its faces there."""
    triangles = mesh.triangles
    centres = triangles.mean(axis=1)
    reach = np.linalg.norm(triangles - centres[:, None], axis=2).max(axis=1)
    tree = cKDTree(centres)
    best, where, which = np.full(len(points), np.inf), np.zeros_like(points), np.zeros(len(points), int)
    first = tree.query(points)[1]
    bound = np.linalg.norm(points - trimesh.triangles.closest_point(triangles[first], points), axis=1)
    near = tree.query_ball_point(points, bound + reach.max() + 1e-9)  # all triangles that could be nearer
    for i, candidates in enumerate(near):
        c = np.asarray(candidates)
        at = trimesh.triangles.closest_point(triangles[c], np.tile(points[i], (len(c), 1)))
        d = np.linalg.norm(at - points[i], axis=1)
        k = int(d.argmin())
        best[i], where[i], which[i] = d[k], at[k], c[k]
    return where, mesh.face_normals[which]


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress output of a C++ library to standard output."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
