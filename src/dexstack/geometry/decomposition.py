"""Objects that are not convex, as unions of convex parts: by CoACD, kept between starts because a
decomposition takes seconds.

The rule, for every object: parts at :data:`CONCAVITIES` from coarse to fine, never more than a
limit (CoACD merges what is too many), finer only while that took fewer than the limit; of these the
parts whose union lies nearest to the mesh, by :func:`~dexstack.geometry.hausdorff.union_error`. All
of it in :data:`SECONDS`; where that is too short, what there is by then.
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
from dexstack.process.bounded import bounded
from dexstack.process.kept import digest, kept_arrays, sources

if TYPE_CHECKING:
    import trimesh

CONVEX = 0.98
"""A mesh that fills this share of its convex hull counts as convex."""
CONCAVITIES = (0.004, 0.002, 0.0014, 0.001)
"""Depths of a dent that a part may still have [m], unless that takes too many parts."""
PARTS = 16
"""Parts of an object that asks for no other number."""
SECONDS = 45.0
"""Time for all depths together [s]; where not one was done by then, one hasty try follows."""
HASTY_CONCAVITY, HASTY_SECONDS = 0.008, 15.0
_SEARCH = {"mcts_iterations": 60, "mcts_max_depth": 2, "resolution": 1000}
"""How long CoACD looks for the best cut: half the time of its own defaults, a few parts more."""
_HASTY_SEARCH = {"mcts_iterations": 20, "mcts_max_depth": 1, "resolution": 300}
PART_PLANES = 32
"""Support planes of each of several parts; most have a dozen faces."""


@dataclass(frozen=True)
class PlaneSets:
    """Support planes of P convex parts in the mesh's frame B: the object is {x | min over parts of
    max over planes n·x + b ≤ 0}."""

    nhat_B: np.ndarray
    """(P, K, 3) unit outward normals."""
    offset: np.ndarray
    """(P, K) [m]."""

    def distance(self, x_B: np.ndarray) -> np.ndarray:
        """Signed distance (Q,) of points x_B (Q, 3) to the union, negative inside [m]."""
        return np.min(
            [np.max(x_B @ n.T + b, axis=1) for n, b in zip(self.nhat_B, self.offset, strict=True)], axis=0
        )


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
    """The planes of ``parts``: ``num_planes`` of a single one, fewer of each of several; kept
    between processes."""
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
    """The surface itself where it is convex, otherwise convex parts whose union it nearly is; kept
    between processes.

    Args:
        limit: most parts.
        progress: called with a line now and then while the mesh is taken apart.

    Raises:
        ConfigError: it is not convex, and CoACD is not installed, or finds no parts in its time.
    """
    whole = Surface(np.asarray(mesh.vertices), np.asarray(mesh.faces))

    def compute() -> dict[str, np.ndarray]:
        body = whole.mesh()
        return {} if body.volume >= CONVEX * body.convex_hull.volume else _decompose(body, limit, progress)

    return _unpacked(kept_arrays("parts", digest(sources("dexstack.geometry"), *whole, limit), compute)) or (
        whole,
    )


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
    """(H, 3) corners of the convex hull [m]; kept between processes."""
    whole = Surface(np.asarray(mesh.vertices), np.asarray(mesh.faces))
    compute = lambda: {"vertices": np.asarray(whole.mesh().convex_hull.vertices, float)}  # noqa: E731
    return kept_arrays("hulls", digest(sources("dexstack.geometry"), *whole), compute)["vertices"]


def _decompose(mesh: trimesh.Trimesh, limit: int, progress: Callable[[str], None]) -> dict[str, np.ndarray]:
    share = mesh.volume / mesh.convex_hull.volume
    try:
        import coacd  # noqa: F401  the process that takes the mesh apart needs it
    except ModuleNotFoundError:
        raise ConfigError(
            f"the mesh fills {100 * share:.0f} % of its convex hull, so that it must be taken apart; that needs coacd: "
            "pip install 'dexstack[decompose]'"
        ) from None
    progress(
        f"taking a mesh of {len(mesh.faces)} faces apart into convex parts, once, {SECONDS + HASTY_SECONDS:.0f} s at most"
    )
    say = lambda found: progress(f"  {len(_unpacked(found))} convex parts")  # noqa: E731
    given = {"vertices": np.asarray(mesh.vertices), "faces": np.asarray(mesh.faces), "limit": np.array(limit)}
    ended = bounded(f"{__name__}:parts_by_depth", given, SECONDS, say)
    if not ended.results:
        progress("  that takes too long; one hasty try")
        ended = bounded(f"{__name__}:hasty_parts", given, HASTY_SECONDS, say)
    if not ended.results:
        why = (
            f"CoACD failed ({ended.fault})"
            if ended.fault
            else f"CoACD needs more than {SECONDS + HASTY_SECONDS:.0f} s"
        )
        raise ConfigError(
            f"the mesh of {len(mesh.faces)} faces cannot be taken apart into convex parts: {why}"
        )
    errors = [union_error(mesh, [part.mesh() for part in _unpacked(found)]) for found in ended.results]
    return ended.results[int(np.argmin(errors))]


def parts_by_depth(given: Mapping[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
    """Parts of a mesh (``vertices`` (V, 3), ``faces`` (M, 3)) at each depth, while they are fewer
    than ``limit``."""
    for concavity in CONCAVITIES:
        found = _run_coacd(given, concavity, _SEARCH)
        yield _packed(found)
        if len(found) >= int(given["limit"]):
            return


def hasty_parts(given: Mapping[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
    """As :func:`parts_by_depth`, once and as fast as it goes."""
    yield _packed(_run_coacd(given, HASTY_CONCAVITY, _HASTY_SEARCH))


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
