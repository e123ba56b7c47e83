"""Objects that are not convex, as unions of convex parts: by CoACD, kept between starts because a decomposition takes seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dexstack.errors import ConfigError
from dexstack.geometry.support_planes import choose_planes
from dexstack.process.kept import digest, kept_arrays, sources

if TYPE_CHECKING:
    import trimesh

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

    def distance(self, x_B: np.ndarray) -> np.ndarray:
        """Signed distance (Q,) of points x_B (Q, 3) to the union, negative inside [m]."""
        return np.min([np.max(x_B @ n.T + b, axis=1) for n, b in zip(self.nhat_B, self.offset, strict=True)], axis=0)


class Surface(NamedTuple):
    """Triangles as arrays; a :class:`trimesh.Trimesh` serves wherever one is asked for."""

    vertices: np.ndarray
    """(V, 3) [m]"""
    faces: np.ndarray
    """(M, 3) rows of ``vertices``"""

    def mesh(self) -> trimesh.Trimesh:
        """The same for trimesh, which is imported only here."""
        import trimesh

        return trimesh.Trimesh(np.array(self.vertices), np.array(self.faces), process=False)

    @property
    def convex_hull(self) -> trimesh.Trimesh:
        return self.mesh().convex_hull


def plane_sets(parts: Sequence[Surface | trimesh.Trimesh], num_planes: int) -> PlaneSets:
    """The planes of ``parts``: ``num_planes`` of a single one, fewer of each of several; kept between processes."""
    surfaces = [(np.asarray(part.vertices), np.asarray(part.faces)) for part in parts]

    def compute() -> dict[str, np.ndarray]:
        count = num_planes if len(parts) == 1 else min(num_planes, PART_PLANES)
        chosen = [choose_planes(Surface(*surface).mesh(), count) for surface in surfaces]
        nhat_B, offset = (np.stack(arrays) for arrays in zip(*chosen, strict=True))
        return {"nhat_B": nhat_B, "offset": offset}

    found = kept_arrays("planes", digest(sources("dexstack.geometry"), surfaces, num_planes), compute)
    return PlaneSets(found["nhat_B"], found["offset"])


def convex_parts(mesh: Surface | trimesh.Trimesh) -> tuple[Surface, ...]:
    """The surface itself where it is convex, otherwise convex parts whose union it nearly is; kept between processes.

    Raises:
        ConfigError: it is not convex, and CoACD is not installed.
    """
    whole = Surface(np.asarray(mesh.vertices), np.asarray(mesh.faces))

    def compute() -> dict[str, np.ndarray]:
        body = whole.mesh()
        parts = [] if body.volume >= CONVEX * body.convex_hull.volume else _decompose(body)
        arrays = [(np.asarray(part.vertices), np.asarray(part.faces)) for part in parts]
        return {f"part_{k:03d}/{name}": a for k, part in enumerate(arrays) for name, a in zip(Surface._fields, part, strict=True)}

    found = kept_arrays("parts", digest(sources("dexstack.geometry"), *whole), compute)
    parts = sorted({name.partition("/")[0] for name in found})
    return tuple(Surface(found[f"{part}/vertices"], found[f"{part}/faces"]) for part in parts) or (whole,)


def hull_vertices(mesh: Surface | trimesh.Trimesh) -> np.ndarray:
    """(H, 3) corners of the convex hull [m]; kept between processes."""
    whole = Surface(np.asarray(mesh.vertices), np.asarray(mesh.faces))
    compute = lambda: {"vertices": np.asarray(whole.mesh().convex_hull.vertices, float)}  # noqa: E731
    return kept_arrays("hulls", digest(sources("dexstack.geometry"), *whole), compute)["vertices"]


def _decompose(mesh: trimesh.Trimesh) -> list[trimesh.Trimesh]:
    import trimesh

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
