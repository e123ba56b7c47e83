"""Reading of an object's mesh file: checked, in metres."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import trimesh

from dexstack.errors import ConfigError

MIN_SIZE = 1e-3
MAX_SIZE = 1.0
"""Bounds of the longest side of a plausible object [m]; a mesh in millimetres is far outside."""


def load_mesh(path: str | Path) -> trimesh.Trimesh:
    """Read a closed triangle mesh (OBJ, STL, PLY, ...) in metres.

    Returns:
        One closed mesh in the file's frame, with normals outward and positive volume.

    Raises:
        ConfigError: the file is missing, unreadable, empty, not finite, not closed, or not
            plausibly in metres.
    """
    path = Path(path)
    if not path.is_file():
        raise ConfigError(f"there is no mesh file {path}")
    try:
        mesh = trimesh.load(path, force="mesh", process=False)  # processing would hide faults
    except Exception as error:  # trimesh raises whatever its parsers raise
        raise ConfigError(f"cannot read the mesh {path}: {error}") from None
    if not isinstance(mesh, trimesh.Trimesh) or len(mesh.faces) == 0:
        raise ConfigError(f"the mesh {path} contains no triangles{foreign_content(path)}")
    if not np.isfinite(mesh.vertices).all():
        raise ConfigError(f"the mesh {path} has vertices that are not finite numbers")
    longest = float(mesh.extents.max())
    if not MIN_SIZE <= longest <= MAX_SIZE:
        raise ConfigError(
            f"the mesh {path} is {longest:.3g} m wide; meshes are in metres and {MIN_SIZE:g} m to "
            f"{MAX_SIZE:g} m wide"
        )
    mesh.remove_unreferenced_vertices()
    if not mesh.is_watertight:  # a closed one may touch itself along an edge, which merging would open
        mesh.merge_vertices()
    if not mesh.is_watertight:
        raise ConfigError(
            f"the mesh {path} is not watertight (it has holes or open edges), so it has no inside and no "
            "mass; "
            "`dexstack object add` repairs it"
        )
    if not mesh.is_winding_consistent:
        raise ConfigError(
            f"the faces of the mesh {path} do not agree on which side is out; `dexstack object add` repairs "
            "it"
        )
    mesh.fix_normals()
    if mesh.volume <= 0.0:
        raise ConfigError(f"the mesh {path} encloses no volume")
    return mesh


def foreign_content(path: Path) -> str:
    """Return ": it is …" for a file that is not a mesh or is incomplete, otherwise "".

    Recognised are git-lfs pointers, HTML pages, and binary STL files shorter than their triangle
    count says.
    """
    with path.open("rb") as file:
        head = file.read(512)
    text = head.lstrip(b"\xef\xbb\xbf \r\n\t").lower()
    size = path.stat().st_size
    if not head:
        return ": the file is empty"
    if text.startswith(b"version https://git-lfs"):
        return ": it is a git-lfs pointer, not the file itself; run `git lfs pull` where it comes from"
    if text.startswith((b"<!doctype html", b"<html")):
        return ": it is an HTML page, not the file itself; download the raw file"
    if path.suffix.lower() == ".stl" and not text.startswith(b"solid") and size >= 84:
        expected = 84 + 50 * int.from_bytes(head[80:84], "little")
        if size < expected:
            return f": the file is cut short, {size} of {expected} bytes"
    return ""
