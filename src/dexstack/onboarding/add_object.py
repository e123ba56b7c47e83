"""A mesh file becomes an object: repaired, weighed, laid as it rests likeliest, taken apart, placed
in the hand, written as a folder."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dexstack.errors import ConfigError, writing
from dexstack.geometry.decomposition import PARTS
from dexstack.geometry.hausdorff import union_error
from dexstack.geometry.symmetry import NONE, Axis, Symmetry
from dexstack.model.objects import UNTUNED, ObjectModel, Start, load_object
from dexstack.onboarding.object_file import Facts, write_object
from dexstack.onboarding.repair import HELD, UNITS, Repaired, plausible_units, read_mesh, repair_within
from dexstack.onboarding.rest_poses import RestPose, rest_poses, resting_rotation

if TYPE_CHECKING:
    import trimesh

DENSITY = 500.0
"""Taken where neither mass nor density is given [kg/m³]: between foam and plastic, as printed
things are."""
REPAIR_SECONDS = 60.0
DOUBT = 0.05
"""A repair that moves the surface by more than this share of the size wants a person's consent."""


@dataclass(frozen=True)
class Wishes:
    """What the file does not say."""

    name: str | None = None
    """None: the file's own, without its ending."""
    unit: str | None = None
    """Of the file's numbers, one of :data:`~dexstack.onboarding.repair.UNITS`; None: told from the
    size."""
    mass: float | None = None
    """[kg]"""
    density: float | None = None
    """[kg/m³]; with neither :data:`DENSITY` is taken."""
    parts: int = PARTS
    """Most convex parts."""
    consent: bool = False
    """Whether a large repair is taken, and files that are there are replaced."""
    alike: Callable[[Axis], bool] = lambda axis: False
    """Which axes of symmetry that are found make turns that goals need not tell from none."""


AS_IT_IS = Wishes()


@dataclass(frozen=True)
class Report:
    """What is known of an object besides its model."""

    part_error: float
    """Hausdorff distance of the convex parts' union from the mesh [m]."""
    rests: list[RestPose]
    """How it can lie; directions in the object's frame."""
    symmetry: Symmetry = NONE
    """Of its shape, whether the object's file says so or not."""


@dataclass(frozen=True)
class Added:
    """What :func:`add_object` made."""

    yaml: Path
    obj: ObjectModel
    unit: str
    """Of the file."""
    repaired: Repaired
    report: Report


def tell_unit(mesh: trimesh.Trimesh, what: str) -> str:
    """The unit of a mesh's numbers: the one in which it would be as large as what a hand can turn.

    Raises:
        ConfigError: there are several, or none.
    """
    longest = float(np.ptp(mesh.vertices, axis=0).max())
    found = plausible_units(longest)
    if len(found) == 1:
        return found[0]
    low, high = (f"{1e3 * x:g}" for x in HELD)
    sizes = ", ".join(
        f"{unit}: {1e3 * scale * longest:.3g} mm" for unit, scale in UNITS.items() if unit in (found or UNITS)
    )
    why = f"may be in {' or '.join(found)}" if found else f"is in no unit between {low} and {high} mm long"
    raise ConfigError(f"{what} {why} ({sizes}); say which with --unit")


def add_object(
    file: str | Path,
    folder: str | Path,
    wishes: Wishes = AS_IT_IS,
    progress: Callable[[str], None] = lambda message: None,
) -> Added:
    """Write ``folder`` with NAME.yaml and NAME.obj, which ``--object`` and
    :func:`~dexstack.model.objects.load_object` take.

    The mesh is written in metres about its centre of mass, z up as it rests likeliest, x along the
    longer side of its outline.

    Args:
        file: a mesh (STL, OBJ, PLY, GLB, OFF).
        progress: called with a line now and then.

    Raises:
        ConfigError: the file is no mesh, or no body; its unit is in doubt; a library is missing;
            the hand has no place for it; the folder cannot be written, or holds an object of that
            name already.
    """
    path, folder = Path(file), Path(folder)
    name = plain_name(wishes.name or path.stem, "an object")
    if wishes.mass is not None and wishes.density is not None:
        raise ConfigError("give the mass or the density, not both")
    target = folder / f"{name}.yaml"
    if target.exists() and not wishes.consent:
        raise ConfigError(f"there is an object already: {target}; --yes replaces it")
    soup = read_mesh(path)
    unit = wishes.unit or tell_unit(soup, f"the mesh {path}")
    if unit not in UNITS:
        raise ConfigError(f"unknown unit '{unit}'; known: {', '.join(UNITS)}")
    soup.vertices = UNITS[unit] * soup.vertices
    _check_size(soup, path)
    progress(f"{path.name}: {len(soup.faces)} faces, {_extents(soup)} mm read in {unit}")
    repaired = _repair(soup, wishes.consent)
    for step in repaired.steps:
        progress(f"  {step}")
    body, rests = _laid(repaired.mesh)
    mass = wishes.mass if wishes.mass is not None else (wishes.density or DENSITY) * body.volume
    with tempfile.TemporaryDirectory(prefix="dexstack-") as workshop:
        draft = write_object(
            Path(workshop), name, body, Facts(mass, wishes.parts, path.name, _extents(body)), _somewhere(body)
        )
        obj = load_object(draft)
        report = replace(inspect(obj, progress), rests=rests)
        start = replace(_placed(obj), planner=UNTUNED)
        alike = Symmetry(tuple(axis for axis in report.symmetry.axes if wishes.alike(axis)))
        write_object(
            Path(workshop), name, body, Facts(mass, wishes.parts, path.name, _extents(body), alike), start
        )
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for made in Path(workshop).iterdir():
                shutil.copyfile(made, folder / made.name)
    return Added(target, load_object(target), unit, replace(repaired, mesh=body), report)


def inspect(obj: ObjectModel, progress: Callable[[str], None] = lambda message: None) -> Report:
    """Take an object apart, measure how well its parts fit, and find how it can lie.

    Raises:
        ConfigError: it is not convex, and what takes it apart is missing or fails.
    """
    from dexstack.geometry.decomposition import convex_parts

    parts = convex_parts(obj.surface, obj.max_parts, progress)
    error = union_error(obj.mesh, [part.mesh() for part in parts])
    rests = rest_poses(obj.mesh.convex_hull, np.zeros(3), obj.inertia)
    return Report(error, rests, find_symmetry(obj.mesh, obj.inertia))


def plain_name(text: str, what: str) -> str:
    """The text as a file's name.

    Raises:
        ConfigError: there is nothing in it that a name takes.
    """
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_")
    if not name:
        raise ConfigError(f"'{text}' is no name for {what}: it takes letters, digits, _ and -")
    return name


def _extents(mesh: trimesh.Trimesh) -> str:
    return " x ".join(f"{1e3 * x:.3g}" for x in np.ptp(mesh.vertices[np.unique(mesh.faces)], axis=0))


def _check_size(mesh: trimesh.Trimesh, path: Path) -> None:
    from dexstack.geometry.mesh import MAX_SIZE, MIN_SIZE

    longest = float(np.ptp(mesh.vertices[np.unique(mesh.faces)], axis=0).max())
    if not MIN_SIZE <= longest <= MAX_SIZE:
        raise ConfigError(
            f"the mesh {path} is {longest:.3g} m long; an object measures {MIN_SIZE:g} m to {MAX_SIZE:g} m"
        )


def _repair(soup: trimesh.Trimesh, consent: bool) -> Repaired:
    repaired = repair_within(soup, REPAIR_SECONDS)
    moved, size = max(repaired.added, repaired.lost), float(np.ptp(soup.vertices, axis=0).max())
    if moved > DOUBT * size and not consent:
        steps = "; ".join(repaired.steps)
        share = f"{1e3 * moved:.1f} mm, {100 * moved / size:.0f} % of its size"
        raise ConfigError(f"mending the mesh moves its surface by {share} ({steps}); --yes takes it so")
    return repaired


def _laid(mesh: trimesh.Trimesh) -> tuple[trimesh.Trimesh, list[RestPose]]:
    """The body about its centre of mass, as it rests likeliest, and all its rest poses in these
    axes."""
    import trimesh

    hull = mesh.convex_hull
    rests = rest_poses(hull, mesh.center_mass, mesh.moment_inertia)
    R = resting_rotation(rests[0].down_B, np.asarray(hull.vertices))
    body = trimesh.Trimesh((mesh.vertices - mesh.center_mass) @ R.T, mesh.faces, process=False)
    return body, [rest._replace(down_B=R @ rest.down_B) for rest in rests]


def _somewhere(body: trimesh.Trimesh) -> Start:
    """A start to load the object with, until its place is found."""
    return Start(
        np.array([0.0, 0.0, -float(body.vertices[:, 2].min()), 1.0, 0.0, 0.0, 0.0]), 0.0, 0.0, "home"
    )


def _placed(obj: ObjectModel) -> Start:
    from dexstack.model.hand import load_hand
    from dexstack.model.placing import place_on_palm

    return place_on_palm(load_hand("right"), obj)
