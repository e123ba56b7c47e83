"""Decomposition of objects that are not convex into convex parts, by CoACD, cached because it takes
seconds.

For every object parts are made at :data:`CONCAVITIES` from coarse to fine, never more than a limit
(CoACD merges excess parts), and finer only while there are fewer than the limit. Of these and the
convex hull, those whose union lies nearest to the mesh are taken, by
:func:`~dexstack.geometry.hausdorff.union_error`. The time limits, of wall time and processor time,
make parts coarser on a slow machine, down to the convex hull; they never refuse an object.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dexstack.errors import ConfigError
from dexstack.geometry.hausdorff import union_error
from dexstack.geometry.support_planes import choose_planes
from dexstack.process.bounded import Ended, bounded
from dexstack.process.kept import cache_folder, digest, kept_arrays, sources

if TYPE_CHECKING:
    import trimesh

CONVEX = 0.98
"""A mesh that fills this share of its convex hull is treated as convex."""
CONCAVITIES = (0.004, 0.002, 0.0014, 0.001)
"""Depths of a dent that a part may still have [m], unless that takes too many parts."""
PARTS = 16
"""Default largest number of parts."""
SECONDS = 45.0
"""Time for all depths together [s]; if none is finished by then, hasty settings follow."""
HASTY_CONCAVITIES, HASTY_SECONDS = (0.03, 0.008), 15.0
_SEARCH = {"mcts_iterations": 60, "mcts_max_depth": 2, "resolution": 1000}
"""CoACD's search for the best cut: half the time of its defaults, a few parts more."""
_HASTY_SEARCH = {"mcts_iterations": 20, "mcts_max_depth": 1, "resolution": 300}
PART_PLANES = 32
"""Support planes of each of several parts, most of which have about twelve faces."""


@dataclass(frozen=True)
class PlaneSets:
    """Support planes of P convex parts in the mesh's frame B. The object is {x | min over parts of
    max over planes n·x + b ≤ 0}."""

    nhat_B: np.ndarray
    """(P, K, 3) unit outward normals."""
    offset: np.ndarray
    """(P, K) [m]."""

    def distance(self, x_B: np.ndarray) -> np.ndarray:
        """Return the signed distance (Q,) of points x_B (Q, 3) to the union, negative inside
        [m]."""
        return np.min(
            [np.max(x_B @ n.T + b, axis=1) for n, b in zip(self.nhat_B, self.offset, strict=True)], axis=0
        )


class Surface(NamedTuple):
    """Triangles as arrays; functions that take one also take a :class:`trimesh.Trimesh`."""

    vertices: np.ndarray
    """(V, 3) [m]"""
    faces: np.ndarray
    """(M, 3) rows of ``vertices``"""

    def mesh(self) -> trimesh.Trimesh:
        """Convert to trimesh, which is imported only here."""
        import trimesh

        return trimesh.Trimesh(np.array(self.vertices), np.array(self.faces), process=False)

    @property
    def convex_hull(self) -> trimesh.Trimesh:
        return self.mesh().convex_hull


def plane_sets(parts: Sequence[Surface | trimesh.Trimesh], num_planes: int) -> PlaneSets:
    """Return support planes of ``parts``: ``num_planes`` of a single one, at most
    :data:`PART_PLANES` of each of several. Cached."""
    surfaces = [(np.asarray(part.vertices), np.asarray(part.faces)) for part in parts]

    def compute() -> dict[str, np.ndarray]:
        count = num_planes if len(parts) == 1 else min(num_planes, PART_PLANES)
        chosen = [choose_planes(Surface(*surface).mesh(), count) for surface in surfaces]
        nhat_B, offset = (np.stack(arrays) for arrays in zip(*chosen, strict=True))
        return {"nhat_B": nhat_B, "offset": offset}

    found = kept_arrays("planes", digest(sources("dexstack.geometry"), surfaces, num_planes), compute)
    return PlaneSets(found["nhat_B"], found["offset"])


def _on_stderr(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def convex_parts(
    mesh: Surface | trimesh.Trimesh, limit: int = PARTS, progress: Callable[[str], None] = _on_stderr
) -> tuple[Surface, ...]:
    """Return the surface itself where it is convex, otherwise convex parts whose union approximates
    it. Cached.

    Args:
        limit: largest number of parts.
        progress: called with lines of progress.

    Raises:
        ConfigError: the mesh is not convex, and CoACD is not installed or fails.
    """
    whole = Surface(np.asarray(mesh.vertices), np.asarray(mesh.faces))

    def compute() -> dict[str, np.ndarray]:
        body = whole.mesh()
        return {} if body.volume >= CONVEX * body.convex_hull.volume else _decompose(body, limit, progress)

    key = digest(sources("dexstack.geometry"), *whole, limit)
    return _unpacked(kept_arrays("parts", key, compute)) or (whole,)


def _packed(parts: Sequence[Surface | trimesh.Trimesh]) -> dict[str, np.ndarray]:
    arrays = [(np.asarray(part.vertices), np.asarray(part.faces)) for part in parts]
    return {
        f"part_{k:03d}/{name}": a
        for k, part in enumerate(arrays)
        for name, a in zip(Surface._fields, part, strict=True)
    }


def _unpacked(found: Mapping[str, np.ndarray]) -> tuple[Surface, ...]:
    parts = sorted({name.partition("/")[0] for name in found})
    return tuple(Surface(found[f"{part}/vertices"], found[f"{part}/faces"]) for part in parts)


def hull_vertices(mesh: Surface | trimesh.Trimesh) -> np.ndarray:
    """Return the corners (H, 3) of the convex hull [m]. Cached."""
    whole = Surface(np.asarray(mesh.vertices), np.asarray(mesh.faces))

    def compute() -> dict[str, np.ndarray]:
        return {"vertices": np.asarray(whole.mesh().convex_hull.vertices, float)}

    return kept_arrays("hulls", digest(sources("dexstack.geometry"), *whole), compute)["vertices"]


def _decompose(mesh: trimesh.Trimesh, limit: int, progress: Callable[[str], None]) -> dict[str, np.ndarray]:
    share = mesh.volume / mesh.convex_hull.volume
    try:
        import coacd  # noqa: F401  needed by the child process
    except ModuleNotFoundError:
        raise ConfigError(
            f"the mesh fills {100 * share:.0f} % of its convex hull and must be decomposed, which needs "
            "coacd: "
            "pip install 'dexstack[objects]'"
        ) from None
    progress(
        f"decomposing a mesh of {len(mesh.faces)} faces into convex parts, once, at most "
        f"{SECONDS + HASTY_SECONDS:.0f} s"
    )
    given = {"vertices": np.asarray(mesh.vertices), "faces": np.asarray(mesh.faces), "limit": np.array(limit)}

    def run(target: str, seconds: float) -> Ended:
        ended = bounded(f"{__name__}:{target}", given, seconds)
        if ended.fault and not ended.results:
            raise ConfigError(
                f"the mesh of {len(mesh.faces)} faces cannot be decomposed: CoACD failed ({ended.fault})"
            )
        for found in ended.results:
            progress(f"  {len(_unpacked(found))} convex parts")
        return ended

    ended = run("parts_by_depth", SECONDS)
    fine = bool(ended.results)
    if not fine:
        progress(f"  not finished in {SECONDS:g} s; trying coarse parts")
        ended = run("hasty_parts", HASTY_SECONDS)
    hull = mesh.convex_hull
    whole = _packed([Surface(np.asarray(hull.vertices), np.asarray(hull.faces))])
    found = [whole, *ended.results]  # parts merged down to the limit may be worse than the hull
    errors = [union_error(mesh, [part.mesh() for part in _unpacked(parts)]) for parts in found]
    best = found[int(np.argmin(errors))]
    if not fine:
        progress(
            f"  coarse for lack of time: {len(_unpacked(best))} convex parts within {1e3 * min(errors):.1f} "
            "mm of the mesh; "
            f"delete {cache_folder('parts')} to decompose it again on an idle machine"
        )
    return best


def parts_by_depth(given: Mapping[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
    """Yield the parts of a mesh (``vertices`` (V, 3), ``faces`` (M, 3)) at each depth, while there
    are fewer than ``limit``."""
    for concavity in CONCAVITIES:
        found = _run_coacd(given, concavity, _SEARCH)
        yield _packed(found)
        if len(found) >= int(given["limit"]):
            return


def hasty_parts(given: Mapping[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
    """Yield as :func:`parts_by_depth`, coarser and with the fastest search."""
    for concavity in HASTY_CONCAVITIES:
        yield _packed(_run_coacd(given, concavity, _HASTY_SEARCH))


def _run_coacd(
    given: Mapping[str, np.ndarray], concavity: float, search: Mapping[str, int]
) -> list[trimesh.Trimesh]:
    import coacd
    import trimesh

    coacd.set_log_level("error")
    body, limit = coacd.Mesh(given["vertices"], given["faces"]), int(given["limit"])
    found = coacd.run_coacd(
        body, threshold=concavity, max_convex_hull=limit, real_metric=True, seed=0, **search
    )
    return [trimesh.convex.convex_hull(np.asarray(vertices)) for vertices, _ in found]
