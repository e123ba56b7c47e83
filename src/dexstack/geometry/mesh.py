"""The one way a mesh file enters dexstack: read, checked, in metres."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import trimesh

from dexstack.errors import ConfigError

MIN_SIZE = 1e-3
MAX_SIZE = 1.0
"""Longest side [m] a hand's object can plausibly have; a mesh in millimetres is far outside."""


def load_mesh(path: str | Path) -> trimesh.Trimesh:
    """Read a closed triangle mesh (OBJ, STL, PLY, ...) in metres.

    Returns:
        One mesh in the file's own frame, duplicate vertices merged, normals outward, positive
        volume.

    Raises:
        ConfigError: the file is missing, unreadable, empty, not finite, not closed, or not
            plausibly in metres.
    """
    path = Path(path)
    if not path.is_file():
        raise ConfigError(f"there is no mesh file {path}")
    try:
        mesh = trimesh.load(
            path, force="mesh", process=False
        )  # processing would drop what is wrong in silence
    except Exception as error:  # trimesh raises whatever its parsers raise
        raise ConfigError(f"cannot read the mesh {path}: {error}") from None
    if not isinstance(mesh, trimesh.Trimesh) or len(mesh.faces) == 0:
        raise ConfigError(f"the mesh {path} holds no triangles")
    if not np.isfinite(mesh.vertices).all():
        raise ConfigError(f"the mesh {path} has vertices that are not finite numbers")
    longest = float(mesh.extents.max())
    if not MIN_SIZE <= longest <= MAX_SIZE:
        raise ConfigError(
            f"the mesh {path} is {longest:.3g} m wide; meshes are in metres and {MIN_SIZE:g} m to {MAX_SIZE:g} m wide"
        )
    mesh.merge_vertices()
    if not mesh.is_watertight:
        raise ConfigError(
            f"the mesh {path} is not watertight (it has holes or open edges), so it has no inside and no mass; "
            "`dexstack object add` mends it"
        )
    if not mesh.is_winding_consistent:
        raise ConfigError(
            f"the faces of the mesh {path} do not agree on which side is out; `dexstack object add` mends it"
        )
    mesh.fix_normals()
    if mesh.volume <= 0.0:
        raise ConfigError(f"the mesh {path} encloses no volume")
    return mesh
