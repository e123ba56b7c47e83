"""Pressure field of any watertight mesh: tets by fTetWild, penetration extent by Laplace's equation.

    ∇²ε = 0 inside,  ε = 0 on the surface,  ε = 1 on the core

The core is what lies deepest: all interior vertices at ``CORE`` of the greatest depth or more, and the deepest of every connected part.
"""

from __future__ import annotations

import contextlib
import tempfile

import numpy as np
import trimesh

from dexstack.engines.hydroelastic.fields import CompliantMesh
from dexstack.errors import ConfigError

CORE = 0.8
"""Depth over greatest depth from which on a vertex belongs to the core."""


def compliant_mesh(surface: trimesh.Trimesh, modulus: float, *, size: float, name: str = "mesh") -> CompliantMesh:
    """Tetrahedralise a watertight surface and solve for its pressure field.

    Args:
        surface: closed, in metres, e.g. from :func:`~dexstack.geometry.mesh.load_mesh`.
        modulus: E [Pa].
        size: edge length wanted [m].

    Raises:
        ConfigError: the surface is open, or no tets come of it.
    """
    if not surface.is_watertight:
        raise ConfigError(f"the mesh {name} is not watertight, so it has no inside to put a pressure in")
    if not (np.isfinite(size) and size > 0):
        raise ConfigError(f"the mesh size of {name} must be positive, not {size}")
    import pytetwild

    ratio = float(np.clip(size / np.linalg.norm(surface.extents), 1e-3, 0.5))
    try:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # it leaves a file where it runs
            vertices, tets = pytetwild.tetrahedralize(
                np.asarray(surface.vertices, float), np.asarray(surface.faces, np.int32), edge_length_fac=ratio, num_threads=1, quiet=True
            )
    except RuntimeError as error:
        raise ConfigError(f"the mesh {name} cannot be filled with tets: {error}") from None
    vertices, tets = np.asarray(vertices, float)[:, :3], np.asarray(tets)[:, :4]
    if not len(tets):
        raise ConfigError(f"the mesh {name} cannot be filled with tets")
    v = vertices[tets]
    volume = np.einsum("ij,ij->i", np.cross(v[:, 1] - v[:, 0], v[:, 2] - v[:, 0]), v[:, 3] - v[:, 0])
    tets[volume < 0] = tets[volume < 0][:, [0, 2, 1, 3]]
    tets = tets[np.abs(volume) > 1e-15 * surface.extents.max() ** 3]
    used, tets = np.unique(tets, return_inverse=True)
    vertices, tets = _split_flat(vertices[used], tets.reshape(-1, 4))
    return CompliantMesh(name, vertices, tets, modulus * extent(vertices, tets, name), modulus)


def _split_flat(vertices: np.ndarray, tets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Give every tet with all four corners on the surface a vertex inside: its pressure would be zero throughout."""
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
    return np.concatenate([vertices, vertices[tets[flat]].mean(axis=1)]), np.concatenate([tets[~flat], *pieces])


def extent(vertices: np.ndarray, tets: np.ndarray, name: str = "mesh") -> np.ndarray:
    """(n,) penetration extent ε in [0, 1] at the vertices of a tet mesh, by linear finite elements."""
    import skfem
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import cKDTree
    from skfem.models.poisson import laplace

    mesh = CompliantMesh(name, vertices, tets, np.zeros(len(vertices)), 1.0)
    surface = np.unique(mesh.boundary_triangles)
    inner = np.setdiff1d(np.arange(len(vertices)), surface)
    if not len(inner):
        raise ConfigError(f"the mesh {name} has no vertex inside: make it finer")
    # distance to the nearest of the surface's corners and triangle centres: near enough to say what lies deep
    near = cKDTree(np.concatenate([vertices[surface], vertices[mesh.boundary_triangles].mean(axis=1)]))
    depth = np.zeros(len(vertices))
    depth[inner] = near.query(vertices[inner])[0]
    stiffness = laplace.assemble(skfem.Basis(skfem.MeshTet(vertices.T.copy(), tets.T.copy()), skfem.ElementTetP1()))
    _, part = connected_components(stiffness, directed=False)
    core = depth >= CORE * depth.max()
    for i in np.unique(part):
        if not core[part == i].any():
            core[np.flatnonzero(part == i)[np.argmax(depth[part == i])]] = True
    epsilon = core.astype(float)
    fixed = np.union1d(surface, np.flatnonzero(core))
    if len(fixed) < len(vertices):
        epsilon = skfem.solve(*skfem.condense(stiffness, x=epsilon, D=fixed))
    epsilon = np.clip(epsilon, 0.0, 1.0)
    # an inner vertex between surface vertices only gets nothing from them: its depth decides
    alone = inner[epsilon[inner] < 1e-12]
    epsilon[alone] = depth[alone] / depth.max()
    epsilon[surface] = 0.0
    return epsilon
