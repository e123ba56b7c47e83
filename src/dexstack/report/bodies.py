"""Bodies of a MuJoCo model as coloured triangle meshes."""

from __future__ import annotations

import mujoco
import numpy as np
import trimesh

from dexstack.geometry.rotations import rotation_matrix

_GEOM = mujoco.mjtGeom
_ROUND = 24
"""Number of sides of a circle."""


def body_meshes(model: mujoco.MjModel) -> dict[int, list[tuple[tuple[int, int, int], trimesh.Trimesh]]]:
    """Return the visible meshes of each body, by body id, except planes.

    Returns:
        Pairs of sRGB colour and mesh in the body's frame [m].
    """
    parts: dict[int, dict[tuple[int, int, int], list[trimesh.Trimesh]]] = {}
    for g in range(model.ngeom):
        mesh = _mesh(model, g) if model.geom_rgba[g, 3] > 0.0 else None
        if mesh is None:
            continue
        X_BG = np.eye(4)
        X_BG[:3, :3], X_BG[:3, 3] = rotation_matrix(model.geom_quat[g]), model.geom_pos[g]
        mesh.apply_transform(X_BG)
        r, g_, b = (int(255 * x) for x in model.geom_rgba[g, :3])
        parts.setdefault(int(model.geom_bodyid[g]), {}).setdefault((r, g_, b), []).append(mesh)
    return {
        body: [(colour, trimesh.util.concatenate(meshes)) for colour, meshes in by_colour.items()]
        for body, by_colour in parts.items()
    }


def _mesh(model: mujoco.MjModel, g: int) -> trimesh.Trimesh | None:
    """Return one geom in its own frame; None for planes and other kinds."""
    kind, size = model.geom_type[g], model.geom_size[g]
    if kind == _GEOM.mjGEOM_BOX:
        return trimesh.creation.box(extents=2 * size)
    if kind == _GEOM.mjGEOM_SPHERE:
        return trimesh.creation.icosphere(subdivisions=2, radius=size[0])
    if kind == _GEOM.mjGEOM_ELLIPSOID:
        return trimesh.creation.icosphere(subdivisions=2).apply_scale(size)
    if kind == _GEOM.mjGEOM_CYLINDER:
        return trimesh.creation.cylinder(radius=size[0], height=2 * size[1], sections=_ROUND)
    if kind == _GEOM.mjGEOM_CAPSULE:
        capsule = trimesh.creation.capsule(radius=size[0], height=2 * size[1], count=[_ROUND, _ROUND])
        return capsule.apply_translation(-capsule.bounds.mean(axis=0))
    if kind == _GEOM.mjGEOM_MESH:
        k = model.geom_dataid[g]
        first, count = model.mesh_vertadr[k], model.mesh_vertnum[k]
        face, faces = model.mesh_faceadr[k], model.mesh_facenum[k]
        return trimesh.Trimesh(
            model.mesh_vert[first : first + count], model.mesh_face[face : face + faces], process=False
        )
    return None
