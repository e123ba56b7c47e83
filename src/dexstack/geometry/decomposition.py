"""Objects that are not convex, as unions of convex parts: by CoACD, kept between starts because a decomposition takes seconds."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import trimesh

from dexstack.errors import ConfigError
from dexstack.geometry.support_planes import choose_planes

CONVEX = 0.98
"""A mesh that fills this share of its convex hull counts as convex."""
CONCAVITY = 0.001
"""Depth of a dent that a part may still have [m]."""
PART_PLANES = 32
"""Support planes of each of several parts; most have a dozen faces."""


@dataclass(frozen=True)
class PlaneSets:
    """Support planes of P convex parts in the mesh's frame B: the object is {x | min over parts of max over planes n·x + b ≤ 0}."""

    nhat_B: np.ndarray
    """(P, K, 3) unit outward normals."""
    offset: np.ndarray
    """(P, K) [m]."""
    surface_error: float
    """Largest distance that the parts give to points of the mesh's surface, whose distance is zero [m]."""

    def distance(self, x_B: np.ndarray) -> np.ndarray:
        """Signed distance (Q,) of points x_B (Q, 3) to the union, negative inside [m]."""
        return np.min([np.max(x_B @ n.T + b, axis=1) for n, b in zip(self.nhat_B, self.offset, strict=True)], axis=0)


def plane_sets(mesh: trimesh.Trimesh, parts: tuple[trimesh.Trimesh, ...], num_planes: int) -> PlaneSets:
    """The planes of ``parts``: ``num_planes`` of a single one, fewer of each of several."""
    count = num_planes if len(parts) == 1 else min(num_planes, PART_PLANES)
    chosen = [choose_planes(part, count) for part in parts]
    nhat_B, offset = (np.stack(arrays) for arrays in zip(*chosen, strict=True))
    surface, _ = trimesh.sample.sample_surface(mesh, 4000, seed=0)
    error = np.abs(PlaneSets(nhat_B, offset, 0.0).distance(np.vstack([surface, mesh.vertices])))
    return PlaneSets(nhat_B, offset, float(error.max()))


def convex_parts(mesh: trimesh.Trimesh) -> tuple[trimesh.Trimesh, ...]:
    """The mesh itself where it is convex, otherwise convex parts whose union it nearly is.

    Raises:
        ConfigError: it is not convex, and CoACD is not installed.
    """
    if mesh.volume >= CONVEX * mesh.convex_hull.volume:
        return (mesh,)
    file = _cache_file(mesh)
    if not file.is_file():
        parts = _decompose(mesh)
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_name(f"{file.stem}.{os.getpid()}.npz")
        np.savez(partial, **{f"part_{k:03d}": part.vertices for k, part in enumerate(parts)})
        partial.replace(file)
    with np.load(file) as kept:
        return tuple(trimesh.convex.convex_hull(kept[name]) for name in sorted(kept.files))


def _decompose(mesh: trimesh.Trimesh) -> list[trimesh.Trimesh]:
    share = mesh.volume / mesh.convex_hull.volume
    try:
        import coacd
    except ModuleNotFoundError:
        raise ConfigError(
            f"the mesh fills {100 * share:.0f} % of its convex hull, so that it must be taken apart; that needs coacd: "
            "pip install 'dexstack[decompose]'"
        ) from None
    coacd.set_log_level("error")
    found = coacd.run_coacd(coacd.Mesh(mesh.vertices, mesh.faces), threshold=CONCAVITY, real_metric=True, seed=0)
    return [trimesh.convex.convex_hull(np.asarray(vertices)) for vertices, _ in found]


def _cache_file(mesh: trimesh.Trimesh) -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "dexstack" / "parts" / f"{mesh.identifier_hash}-{1e3 * CONCAVITY:g}mm.npz"
