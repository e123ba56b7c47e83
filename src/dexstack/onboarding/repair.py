"""Reading of any mesh file, its repair into one closed body, and the distance by which the repair
moved the surface.

Libraries by step:

- trimesh reads the file and checks watertightness and orientation;
- pymeshfix (MeshFix) closes holes and cuts away self-intersections of one body;
- manifold3d unites bodies exactly, and simplifies the closed surface.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import trimesh

from dexstack.errors import ConfigError
from dexstack.geometry.hausdorff import surface_distance
from dexstack.geometry.mesh import foreign_content
from dexstack.onboarding.primitives import coarse_hull
from dexstack.onboarding.rest_poses import solid_angles
from dexstack.process.bounded import bounded

FORMATS = (".stl", ".obj", ".ply", ".glb", ".off")
UNITS = {"m": 1.0, "cm": 0.01, "mm": 0.001, "in": 0.0254}
"""[m]"""
HELD = (0.02, 0.25)
"""Bounds of the longest side of an object that a hand can turn [m], from which units are
inferred."""
MOST_FACES, ENOUGH_FACES = 2_000_000, 10_000
"""Largest number of faces of a file, and of a repaired body, which is simplified above it."""
WELD = 1e-6
"""Distance below which vertices are merged [m]."""
THIN = 1e-4
"""Thickness below which a body is a sheet [m]."""
CRUMB = 0.01
"""Share of the largest piece's area, or volume, below which loose pieces are dropped."""
COARSER = 0.01
"""Largest tolerance of the simplification, as a share of the size."""


@dataclass(frozen=True)
class Repaired:
    """One closed body."""

    mesh: trimesh.Trimesh
    """[m], in the file's frame."""
    steps: tuple[str, ...]
    """Descriptions of the changes; empty if the file was sound."""
    added: float
    """Largest distance of the new surface from the file's [m]: the depth of closed holes."""
    lost: float
    """Largest distance of the new body from the file's surface outside it [m]."""
    removed: float
    """Largest distance of the file's surface from the new one [m]. The larger of it and ``added``
    is the Hausdorff distance."""
    faces_before: int


def read_mesh(path: str | Path) -> trimesh.Trimesh:
    """Read the triangles of a file (STL, OBJ, PLY, GLB, OFF) without changes, in its unit, with the
    vertices that they use.

    Raises:
        ConfigError: the file is missing or not a mesh, has no triangles, or invalid numbers.
    """
    path = Path(path)
    if not path.is_file():
        raise ConfigError(f"there is no mesh file {path}")
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"cannot read '{path.name}': a mesh file ends in {', '.join(FORMATS)}")
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            mesh = trimesh.load(path, force="mesh", process=False)
            empty = not isinstance(mesh, trimesh.Trimesh) or len(mesh.faces) == 0
            vertices, faces = (
                (np.zeros((0, 3)), np.zeros((0, 3), np.int64))
                if empty
                else (np.array(mesh.vertices, float), np.array(mesh.faces, np.int64))
            )
    except Exception as error:  # trimesh raises whatever its parsers raise
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ConfigError(f"cannot read the mesh {path}{foreign_content(path) or f': {first}'}") from None
    if empty:
        raise ConfigError(f"the mesh {path} contains no triangles{foreign_content(path)}")
    if len(faces) > MOST_FACES:
        raise ConfigError(f"the mesh {path} has {len(faces)} faces; at most {MOST_FACES} are supported")
    outside = np.flatnonzero(((faces < 0) | (faces >= len(vertices))).any(axis=1))
    if len(outside):
        raise ConfigError(f"the mesh {path} is broken: face {outside[0]} refers to a missing vertex")
    used, numbered = np.unique(faces, return_inverse=True)
    bad = used[~(np.abs(vertices[used]) <= 1e9).all(axis=1)]  # NaN included
    if len(bad):
        raise ConfigError(
            f"the mesh {path} is broken: vertex {bad[0]} lies at {vertices[bad[0]].tolist()} ({len(bad)} "
            "such vertices)"
        )
    return trimesh.Trimesh(vertices[used], numbered.reshape(faces.shape), process=False)


def plausible_units(longest: float) -> list[str]:
    """Return the units in which an object with the longest side ``longest`` fits into a hand."""
    return [unit for unit, scale in UNITS.items() if HELD[0] <= scale * longest <= HELD[1]]


def repair(mesh: trimesh.Trimesh) -> Repaired:
    """Make one closed body of the triangles ``mesh`` [m], in this process.

    Raises:
        ConfigError: the mesh is flat, has no volume, or consists of several bodies that do not
            touch; or a library is missing.
    """
    _require_libraries()
    steps: list[str] = []
    before = len(mesh.faces)
    soup = trimesh.Trimesh(mesh.vertices, mesh.faces, process=False)
    soup.merge_vertices(digits_vertex=int(-np.log10(WELD)))
    keep = soup.nondegenerate_faces() & soup.unique_faces()
    soup.update_faces(keep)
    soup.remove_unreferenced_vertices()
    _check_thick(soup)
    if not keep.all():
        steps.append(f"dropped {int((~keep).sum())} duplicate faces or faces without area")
    body = soup
    if not _is_sound(soup):
        body = _united(_closed_pieces(soup, steps), steps)
    if len(body.faces) > ENOUGH_FACES:
        body = _coarser(body, steps)
    if not (body.is_watertight and body.is_winding_consistent and body.volume > 0.0):
        raise ConfigError("the mesh cannot be repaired: the result is not closed")
    if 2.0 * body.volume / body.area < THIN:
        raise ConfigError(
            f"the mesh encloses no volume: {1e9 * body.volume:.3g} mm³ under a surface of "
            f"{1e6 * body.area:.3g} mm²"
        )
    return Repaired(body, tuple(steps), *(_moved(soup, body) if steps else (0.0, 0.0, 0.0)), before)


def repaired_arrays(given: Mapping[str, np.ndarray]) -> Iterator[dict[str, Any]]:
    """Run :func:`repair` for :func:`dexstack.process.bounded.bounded`: from ``vertices`` and
    ``faces`` to the fields of the result."""
    found = repair(trimesh.Trimesh(given["vertices"], given["faces"], process=False))
    yield {
        "vertices": np.asarray(found.mesh.vertices),
        "faces": np.asarray(found.mesh.faces),
        "steps": np.array(found.steps, str),
        "moved": np.array([found.added, found.lost, found.removed]),
    }


def repair_within(mesh: trimesh.Trimesh, seconds: float) -> Repaired:
    """Run :func:`repair` in a separate process, in which a library may hang or crash; a second time if
    it hangs, which is seldom the mesh's fault. Without a result within ``seconds`` of processor time [s]
    the body is the convex hull.

    Raises:
        ConfigError: see :func:`repair`; or it crashes, or the hull spans no volume.
    """
    given = {"vertices": np.asarray(mesh.vertices), "faces": np.asarray(mesh.faces)}
    ended = bounded(f"{__name__}:repaired_arrays", given, seconds)
    if ended.hung and not ended.results:
        ended = bounded(f"{__name__}:repaired_arrays", given, seconds)
    if ended.late and not ended.results:
        hull = coarse_hull(mesh.vertices, "the mesh")
        old, added = surface_distance(mesh, hull)
        step = f"replaced by its convex hull: the repair takes more than {seconds:g} s"
        # nothing of the mesh is outside, but for 0.2 % at corners that a hull of very many leaves out
        return Repaired(hull, (step,), added, 0.0, float(old[:, 3].max()), len(mesh.faces))
    if not ended.results:
        raise ConfigError(f"the mesh of {len(mesh.faces)} faces cannot be repaired: {ended.fault}")
    found = ended.results[0]
    body = trimesh.Trimesh(found["vertices"], found["faces"], process=False)
    return Repaired(body, tuple(map(str, found["steps"])), *map(float, found["moved"]), len(mesh.faces))


def _moved(soup: trimesh.Trimesh, body: trimesh.Trimesh) -> tuple[float, float, float]:
    """Return ``added``, ``lost`` and ``removed`` of :class:`Repaired`."""
    old, added = surface_distance(soup, body)
    far = old[np.argsort(-old[:, 3])]
    triangles = np.asarray(body.triangles)
    for x, y, z, distance in far[far[:, 3] > THIN]:
        if solid_angles(triangles - [x, y, z]).sum() < 2.0 * np.pi:  # outside: inside it is 4 π
            return added, float(distance), float(far[0, 3])
    return added, min(THIN, float(far[0, 3])), float(far[0, 3])


def _require_libraries() -> None:
    missing = [name for name in ("manifold3d", "pymeshfix") if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"to add an object {' and '.join(missing)} must be installed: pip install 'dexstack[objects]'"
        )


def _check_thick(mesh: trimesh.Trimesh) -> None:
    """Reject a mesh without extent in some direction."""
    if len(mesh.faces) == 0:
        raise ConfigError("the mesh contains no triangle with an area")
    points = np.asarray(mesh.vertices) - mesh.vertices.mean(axis=0)
    _, _, axes = np.linalg.svd(points, full_matrices=False)
    thickness = np.ptp(points @ axes.T, axis=0)
    if thickness[-1] < THIN:
        normal, where = np.round(axes[-1], 2) + 0.0, np.round(1e3 * mesh.vertices.mean(axis=0), 1) + 0.0
        raise ConfigError(
            f"the mesh is a flat sheet through {where.tolist()} mm, square to {normal.tolist()}: it "
            "encloses no volume"
        )


def _is_sound(mesh: trimesh.Trimesh) -> bool:
    """Return true for one closed body without self-intersections; it may have cavities."""
    closed = bool(mesh.is_watertight and mesh.is_winding_consistent and mesh.volume > 0.0)
    one = closed and sum(piece.volume > 0.0 for piece in _pieces(mesh)) == 1
    return one and not _crossings(mesh)  # the slow test last: seconds for a thousand crossing faces


def _crossings(mesh: trimesh.Trimesh) -> int:
    """Return the number of triangles that intersect others."""
    import pymeshfix

    found = pymeshfix.PyTMesh()
    found.set_quiet(True)
    found.load_array(np.array(mesh.vertices, float), np.array(mesh.faces, np.int32))
    return len(found.select_intersecting_triangles())


def _pieces(mesh: trimesh.Trimesh) -> list[trimesh.Trimesh]:
    """Return the pieces connected by edges, largest area first."""
    groups = trimesh.graph.connected_components(
        mesh.face_adjacency, nodes=np.arange(len(mesh.faces)), min_len=1
    )
    found = []
    for group in groups:
        piece = trimesh.Trimesh(mesh.vertices, mesh.faces[group], process=False)
        piece.remove_unreferenced_vertices()
        found.append(piece)
    return sorted(found, key=lambda piece: -piece.area)


def _closed_pieces(soup: trimesh.Trimesh, steps: list[str]) -> list[trimesh.Trimesh]:
    """Return every piece closed, with normals outward, without those below :data:`CRUMB`."""
    pieces = _pieces(soup)
    large = [piece for piece in pieces if piece.area >= CRUMB * pieces[0].area]
    if len(large) < len(pieces):
        steps.append(
            f"dropped {len(pieces) - len(large)} loose pieces with less than {100 * CRUMB:g} % of the "
            "largest one's surface"
        )
    closed, repaired, turned = [], 0, 0
    for piece in large:
        sound = piece.is_watertight and piece.is_winding_consistent and not _crossings(piece)
        repaired += not sound
        for found in [piece] if sound else _pieces(_meshfix(piece)):
            if not found.is_watertight or abs(found.volume) < THIN * found.area / 2.0:
                continue
            if found.volume < 0.0:
                found.invert()
                turned += 1
            closed.append(found)
    if not closed:
        raise ConfigError("the mesh encloses no volume, also with its holes closed")
    if repaired:
        steps.append(f"closed holes, or cut away self-intersections, in {repaired} of {len(large)} pieces")
    if turned:
        steps.append(f"turned {turned} pieces that were inside out")
    return closed


def _meshfix(mesh: trimesh.Trimesh) -> trimesh.Trimesh:
    import pymeshfix

    fix = pymeshfix.MeshFix(np.array(mesh.vertices, float), np.array(mesh.faces, np.int32), verbose=False)
    try:
        fix.repair(joincomp=False, remove_smallest_components=False)
    except Exception as error:  # its binding raises several types when nothing is left
        first = (str(error) or type(error).__name__).splitlines()[0]
        raise ConfigError(f"the mesh cannot be repaired: {first}") from None
    return trimesh.Trimesh(np.array(fix.points), np.array(fix.faces), process=False)


def _united(pieces: list[trimesh.Trimesh], steps: list[str]) -> trimesh.Trimesh:
    """Return the union, which must be one body."""
    import manifold3d

    whole = manifold3d.Manifold.batch_boolean(
        [_to_manifold(piece) for piece in pieces], manifold3d.OpType.Add
    ).simplify(WELD)
    bodies = sorted(whole.decompose(), key=lambda body: -body.volume())
    if not bodies:
        raise ConfigError("the mesh encloses no volume")
    large = [body for body in bodies if body.volume() >= CRUMB * bodies[0].volume()]
    if len(large) > 1:
        places = [
            np.round(1e3 * np.reshape(body.bounding_box(), (2, 3)).mean(axis=0), 1).tolist()
            for body in large[:2]
        ]
        raise ConfigError(
            f"the mesh is {len(large)} bodies that do not touch: around {places[0]} and {places[1]} mm, …"
        )
    if len(pieces) > 1:
        steps.append(f"united {len(pieces)} pieces")
    if len(bodies) > 1:
        steps.append(
            f"dropped {len(bodies) - 1} bodies with less than {100 * CRUMB:g} % of the largest one's volume"
        )
    return _to_mesh(large[0])


def _to_manifold(mesh: trimesh.Trimesh) -> Any:
    import manifold3d

    made = manifold3d.Manifold(
        manifold3d.Mesh64(np.array(mesh.vertices, float), np.array(mesh.faces, np.uint64))
    )
    if made.status() != manifold3d.Error.NoError:
        raise ConfigError(f"the mesh cannot be repaired: the result is not closed ({made.status().name})")
    return made


def _to_mesh(body: Any) -> trimesh.Trimesh:
    found = body.to_mesh64()
    return trimesh.Trimesh(
        np.array(found.vert_properties[:, :3]), np.array(found.tri_verts, np.int64), process=False
    )


def _coarser(mesh: trimesh.Trimesh, steps: list[str]) -> trimesh.Trimesh:
    """Simplify the mesh with the least tolerance, by doubling, that leaves few enough faces."""
    whole, size = _to_manifold(mesh), float(np.ptp(mesh.vertices, axis=0).max())
    tolerance, found = 1e-4 * size, whole
    while found.num_tri() > ENOUGH_FACES and tolerance <= COARSER * size:
        found, tolerance = whole.simplify(tolerance), 2.0 * tolerance
    steps.append(f"removed {len(mesh.faces) - found.num_tri()} of {len(mesh.faces)} faces")
    return _to_mesh(found)
