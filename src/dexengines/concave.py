"""Mesh geoms that are not convex, which MuJoCo would collide as their hulls: decomposed into convex
parts, or left whole for engines that fill them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np

from dexengines.cache import cache_folder, evict_unused
from dexengines.collision import geom_name
from dexengines.materials import PART

MISSING = 0.03
"""Share of its hull that a mesh may leave empty and still collide as the hull."""
CONCAVITY, PARTS = 0.02, 32
"""CoACD's threshold, and the largest number of parts."""


class Shaped(NamedTuple):
    """A model whose concave meshes collide as such."""

    model: mujoco.MjModel
    notes: list[str]
    """One sentence for each mesh that is not convex."""
    whole: list[str]
    """Names of the geoms that the engine has to fill."""


def shape(spec: mujoco.MjSpec | None, model: mujoco.MjModel, fills: bool) -> Shaped:
    """Return the model with its concave meshes as they are.

    Args:
        spec: of the model; None if it was compiled elsewhere, so that it cannot be changed.
        fills: the engine takes concave meshes as they are.
    """
    notes, whole, parts = [], [], {}
    for g, empty in _concave(model).items():
        name, what = geom_name(model, g), "collides as its hull"
        if not np.isfinite(empty):
            notes.append(f"the mesh of geom '{name}' is open and {what}")
            continue
        if spec is None:
            what += ": a compiled model cannot be changed, load its file or spec"
        elif fills:
            whole.append(name)
            what = "collides as it is, its inside filled with tets"
        else:
            try:
                parts[g] = _parts(*_surface(model, g))
                what = f"collides as {len(parts[g])} convex parts"
            except ModuleNotFoundError:
                what += ": its parts need coacd (pip install 'dexstack[objects]')"
        notes.append(f"the mesh of geom '{name}' fills {100 * (1 - empty):.0f} % of its hull and {what}")
    if parts:
        model = _with_parts(spec, model, parts)
    return Shaped(model, notes, whole)


def _surface(model: mujoco.MjModel, g: int) -> tuple[np.ndarray, np.ndarray]:
    mesh = model.geom_dataid[g]
    start, first = model.mesh_vertadr[mesh], model.mesh_faceadr[mesh]
    vertices = np.array(model.mesh_vert[start : start + model.mesh_vertnum[mesh]], float)
    return vertices, np.array(model.mesh_face[first : first + model.mesh_facenum[mesh]], int)


def _concave(model: mujoco.MjModel) -> dict[int, float]:
    """Return the share of its hull that each concave mesh leaves empty, by its geom; NaN if the mesh
    is open and its hull is not."""
    import trimesh

    result, known = {}, {}
    paired = {*model.pair_geom1.tolist(), *model.pair_geom2.tolist()}
    for g in np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_MESH):
        if not (model.geom_contype[g] or model.geom_conaffinity[g]) or int(g) in paired:
            continue
        mesh = int(model.geom_dataid[g])
        if mesh not in known:
            body = trimesh.Trimesh(*_surface(model, int(g)))
            closed = body.is_watertight and body.is_winding_consistent
            known[mesh] = 1.0 - body.volume / body.convex_hull.volume if closed else np.nan
        if not known[mesh] <= MISSING:
            result[int(g)] = float(known[mesh])
    return result


def _parts(vertices: np.ndarray, triangles: np.ndarray) -> list[np.ndarray]:
    """Return the vertices of convex parts, kept in the user's cache.

    Raises:
        ModuleNotFoundError: CoACD is not installed.
    """
    settings = f"{CONCAVITY} {PARTS}"
    key = hashlib.sha256(vertices.tobytes() + triangles.tobytes() + settings.encode()).hexdigest()
    file = cache_folder("dexengines", "parts") / f"{key[:32]}.npz"
    with contextlib.suppress(OSError, ValueError), np.load(file) as kept:
        return [kept[name] for name in kept.files]
    import coacd

    coacd.set_log_level("error")
    search = {"mcts_iterations": 60, "mcts_max_depth": 2, "seed": 0}
    found = coacd.run_coacd(
        coacd.Mesh(vertices, triangles), threshold=CONCAVITY, max_convex_hull=PARTS, **search
    )
    parts = [np.asarray(points, float) for points, _ in found]
    with contextlib.suppress(OSError):
        _keep(file, parts)
    return parts


def _keep(file: Path, parts: list[np.ndarray]) -> None:
    if not file.parent.is_dir():
        evict_unused(file.parent)
        file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=file.parent, suffix=".npz", delete=False) as new:
        np.savez(new, *parts)
    os.replace(new.name, file)


def _with_parts(
    spec: mujoco.MjSpec, model: mujoco.MjModel, parts: dict[int, list[np.ndarray]]
) -> mujoco.MjModel:
    """Compile a spec in which geoms collide as their parts, and keep their mass."""
    for geom, g in [(geom, geom.id) for geom in spec.geoms if geom.id in parts]:  # ids end as geoms are added
        name, body = geom_name(model, g), geom.parent
        for k, points in enumerate(parts[g]):
            mesh = spec.add_mesh(name=f"{name}{PART}{k}", uservert=points.ravel())
            body.add_geom(
                name=f"{name}{PART}{k}",
                type=mujoco.mjtGeom.mjGEOM_MESH,
                meshname=mesh.name,
                pos=model.geom_pos[g],
                quat=model.geom_quat[g],
                mass=0.0,
                contype=int(model.geom_contype[g]),
                conaffinity=int(model.geom_conaffinity[g]),
                condim=int(model.geom_condim[g]),
                priority=int(model.geom_priority[g]),
                friction=model.geom_friction[g],
                solref=model.geom_solref[g],
                solimp=model.geom_solimp[g],
                solmix=float(model.geom_solmix[g]),
                margin=float(model.geom_margin[g]),
                gap=float(model.geom_gap[g]),
                group=3,
            )
        geom.contype = geom.conaffinity = 0
    return spec.compile()
