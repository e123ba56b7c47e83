"""Import of twenty-three bodies of five families: time, convex parts and their error, resting pose and
start.

Sizes and masses are drawn by a seed. Required: every body is imported, in at most 75 s, with at most
16 convex parts.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import manifold3d
import numpy as np
import trimesh

from dexstack.cli.arguments import natural
from dexstack.cli.output import note, table
from dexstack.errors import ConfigError
from dexstack.geometry.decomposition import PARTS
from dexstack.geometry.symmetry import ANY
from dexstack.onboarding.add_object import Added, Wishes, add_object
from experiments.harness import Findings, experiment

LIMIT = 75.0
"""[s]: 60 for the parts, the rest for repair, placing and the errors."""
SIZES, MASSES = (40.0, 110.0), (0.02, 0.3)
"""Ranges of the longest side [mm] and the mass [kg]."""
ROUND = 48
"""Number of sides of a circle."""
Body = manifold3d.Manifold


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=natural, default=0, metavar="S", help="of sizes, masses and blobs")
    parser.add_argument("--to", type=Path, metavar="FOLDER", help="where the objects go (default: nowhere)")
    parser.add_argument(
        "--only", nargs="+", default=[], choices=BODIES, metavar="NAME", help=f"of {', '.join(BODIES)}"
    )


def _make(args: argparse.Namespace) -> Findings:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (family, _) in BODIES.items():
            if args.only and name not in args.only:
                continue
            rows.append({"name": name, "family": family} | _added(name, args.seed, args.to or Path(folder)))
            note(f"{name}: {rows[-1]}")
    passed = bool(rows) and all(
        row["refused"] is None and row["seconds"] <= LIMIT and row["parts"] <= PARTS for row in rows
    )
    columns = (
        "name",
        "family",
        "faces",
        "parts",
        "error_mm",
        "rest_probability",
        "hand_pose",
        "seconds",
        "refused",
    )
    view = table("the zoo", columns, [[row.get(c) for c in columns] for row in rows])
    return Findings({"passed": passed, "objects": rows}, lines=[view], seed=args.seed)


def add_body(name: str, seed: int, folder: Path) -> Added:
    """Import one body of the zoo into ``folder/name``, with size and mass of the seed; goals ignore
    full rotational symmetry.

    Raises:
        ConfigError: the body cannot be imported.
    """
    rng = np.random.default_rng([seed, list(BODIES).index(name)])
    mesh = BODIES[name][1](rng)
    mesh.vertices = mesh.vertices * (rng.uniform(*SIZES) / np.ptp(mesh.vertices, axis=0).max())
    mass = float(rng.uniform(*MASSES))
    file = folder / f"{name}.stl"
    folder.mkdir(parents=True, exist_ok=True)
    mesh.export(file)
    return add_object(
        file, folder / name, Wishes(unit="mm", mass=mass, consent=True, alike=lambda axis: axis.order == ANY)
    )


def _added(name: str, seed: int, folder: Path) -> dict[str, Any]:
    start = time.monotonic()
    try:
        added = add_body(name, seed, folder)
    except ConfigError as error:
        return {"refused": str(error), "seconds": time.monotonic() - start}
    probability = sum(rest.probability for rest in added.report.rests if rest.kind == 0)
    return {
        "refused": None,
        "seconds": time.monotonic() - start,
        "faces": len(added.obj.surface.faces),
        "size_mm": 1e3 * added.obj.size,
        "mass_kg": added.obj.mass,
        "repair": added.repaired.steps,
        "parts": len(added.obj.parts),
        "error_mm": 1e3 * added.report.part_error,
        "rest_probability": probability,
        "hand_pose": added.obj.start("allegro").hand_pose,
    }


# --- bodies, in arbitrary units: the size is drawn ---


def _mesh(body: Body) -> trimesh.Trimesh:
    found = body.to_mesh64()
    return trimesh.Trimesh(np.array(found.vert_properties[:, :3]), np.array(found.tri_verts, np.int64))


def _body(mesh: trimesh.Trimesh) -> Body:
    return Body(manifold3d.Mesh64(np.array(mesh.vertices, float), np.array(mesh.faces, np.uint64)))


def _hull(points: Sequence[Sequence[float]]) -> Callable[[np.random.Generator], trimesh.Trimesh]:
    return lambda rng: trimesh.convex.convex_hull(np.array(points, float))


def _prism(sides: int) -> Callable[[np.random.Generator], trimesh.Trimesh]:
    return lambda rng: _mesh(Body.cylinder(rng.uniform(0.8, 2.0), 1.0, 1.0, sides))


def _turned(
    profile: Callable[[np.random.Generator], Sequence[tuple[float, float]]],
) -> Callable[[np.random.Generator], trimesh.Trimesh]:
    """Return a body of revolution from (radius, height) around its outline, anticlockwise."""
    return lambda rng: _mesh(Body.revolve(manifold3d.CrossSection([np.array(profile(rng))]), ROUND))


def _bowl(rng: np.random.Generator) -> list[tuple[float, float]]:
    angles = np.linspace(-np.pi / 2, 0.0, 10)
    wall = rng.uniform(0.08, 0.15)
    return [(np.cos(a), np.sin(a)) for a in angles] + [
        ((1 - wall) * np.cos(a), (1 - wall) * np.sin(a)) for a in angles[::-1]
    ]


def _cup_outline(rng: np.random.Generator) -> list[tuple[float, float]]:
    top, wall = rng.uniform(1.0, 1.3), rng.uniform(0.08, 0.15)
    return [(0, 0), (1, 0), (top, 2.2), (top - wall, 2.2), (1 - wall, wall), (0, wall)]


def _mug(rng: np.random.Generator) -> trimesh.Trimesh:
    wall = rng.uniform(0.08, 0.15)
    handle = (
        _body(trimesh.creation.torus(0.6, 0.15, major_sections=24, minor_sections=12))
        .rotate([90, 0, 0])
        .translate([1.1, 0, 1.1])
    )
    inner = Body.cylinder(3, 1 - wall, 1 - wall, ROUND).translate([0, 0, 2 * wall])
    return _mesh(Body.cylinder(2.2, 1, 1, ROUND) + handle - inner)


def _profile(outline: Sequence[tuple[float, float]]) -> Callable[[np.random.Generator], trimesh.Trimesh]:
    return lambda rng: _mesh(
        Body.extrude(manifold3d.CrossSection([np.array(outline, float)]), rng.uniform(1.0, 3.0))
    )


def _dumbbell(rng: np.random.Generator) -> trimesh.Trimesh:
    ends = [Body.cylinder(0.8, 1.0, 1.0, 8).translate([0, 0, z]) for z in (0.0, rng.uniform(2.4, 3.2))]
    return _mesh(ends[0] + ends[1] + Body.cylinder(3.0, 0.4, 0.4, ROUND).translate([0, 0, 0.2]))


def _gear(rng: np.random.Generator) -> trimesh.Trimesh:
    teeth = int(rng.integers(7, 11))
    wheel = Body.cylinder(0.7, 1.0, 1.0, ROUND)
    for k in range(teeth):
        wheel += (
            Body.cube([0.5, 0.3, 0.7], False).translate([0.8, -0.15, 0]).rotate([0, 0, 360.0 * k / teeth])
        )
    return _mesh(wheel - Body.cylinder(2.0, 0.3, 0.3, ROUND, True))


def _blob(rng: np.random.Generator) -> trimesh.Trimesh:
    """Return a ball whose radius is a sum of real spherical harmonics up to degree four."""
    from scipy.special import sph_harm_y

    ball = trimesh.creation.icosphere(subdivisions=4)
    x, y, z = np.asarray(ball.vertices).T
    radius = np.ones(len(x))
    for degree in range(1, 5):
        for order in range(degree + 1):
            harmonic = sph_harm_y(degree, order, np.arccos(np.clip(z, -1, 1)), np.arctan2(y, x)).real
            radius += rng.normal(0.0, 0.25 / degree) * harmonic
    return trimesh.Trimesh(ball.vertices * np.maximum(radius, 0.3)[:, None], ball.faces)


BODIES: dict[str, tuple[str, Callable[[np.random.Generator], trimesh.Trimesh]]] = {
    "tetrahedron": ("solid", _hull([(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)])),
    "octahedron": ("solid", _hull(np.concatenate([np.eye(3), -np.eye(3)]).tolist())),
    "icosahedron": ("solid", lambda rng: trimesh.creation.icosahedron()),
    "dodecahedron": (
        "solid",
        lambda rng: trimesh.convex.convex_hull(np.asarray(trimesh.creation.icosahedron().triangles_center)),
    ),
    "prism3": ("solid", _prism(3)),
    "prism6": ("solid", _prism(6)),
    "bottle": (
        "vessel",
        _turned(lambda rng: [(0, 0), (1, 0), (1, rng.uniform(2.5, 3.5)), (0.4, 4), (0.4, 5), (0, 5)]),
    ),
    "can": ("vessel", _turned(lambda rng: [(0, 0), (1, 0), (1, h := rng.uniform(2.0, 3.6)), (0, h)])),
    "cup": ("vessel", _turned(_cup_outline)),
    "mug": ("vessel", _mug),
    "bowl": ("vessel", _turned(_bowl)),
    "profile_l": ("profile", _profile([(0, 0), (3, 0), (3, 1), (1, 1), (1, 3), (0, 3)])),
    "profile_t": (
        "profile",
        _profile([(-0.5, 0), (0.5, 0), (0.5, 2), (1.5, 2), (1.5, 3), (-1.5, 3), (-1.5, 2), (-0.5, 2)]),
    ),
    "profile_u": ("profile", _profile([(0, 0), (3, 0), (3, 3), (2, 3), (2, 1), (1, 1), (1, 3), (0, 3)])),
    "profile_z": ("profile", _profile([(0, 0), (2, 0), (2, 2), (3, 2), (3, 3), (1, 3), (1, 1), (0, 1)])),
    "torus": (
        "part",
        lambda rng: trimesh.creation.torus(1.0, rng.uniform(0.25, 0.4), major_sections=32, minor_sections=16),
    ),
    "dumbbell": ("part", _dumbbell),
    "wedge": ("part", _hull([(0, y, z) for y in (0, 1.5) for z in (0, 1)] + [(2, 0, 0), (2, 1.5, 0)])),
    "gear": ("part", _gear),
    "cross": ("part", lambda rng: _mesh(Body.cube([3, 1, 1], True) + Body.cube([1, 3, 1], True))),
    "blob1": ("blob", _blob),
    "blob2": ("blob", _blob),
    "blob3": ("blob", _blob),
}
"""Family and shape by name."""


main = experiment("experiments.objects.zoo", __doc__, _make, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
