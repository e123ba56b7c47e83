"""Import of an object from a mesh file: repaired, weighed, laid in its most likely resting pose,
decomposed, placed in the hand, written as a folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import trimesh

from dexstack.errors import ConfigError, check_names, writing
from dexstack.geometry.decomposition import PARTS, convex_parts
from dexstack.geometry.hausdorff import union_error
from dexstack.geometry.mesh import MAX_SIZE, MIN_SIZE
from dexstack.geometry.symmetry import NONE, Axis, Symmetry
from dexstack.model.hand import load_hand
from dexstack.model.objects import UNTUNED, ObjectModel, Start, load_object
from dexstack.model.placing import place_on_palm
from dexstack.onboarding.object_file import Facts, plain_name, write_object
from dexstack.onboarding.repair import HELD, UNITS, Repaired, plausible_units, read_mesh, repair_within
from dexstack.onboarding.rest_poses import RestPose, rest_poses, resting_rotation
from dexstack.onboarding.symmetry_search import find_symmetry
from dexstack.onboarding.turnable import obstacle_in_allegro

DENSITY = 500.0
"""Default density [kg/m³]: between foam and plastic, as of printed objects."""
REPAIR_SECONDS = 60.0
DOUBT = 0.05
"""Share of the size by which a repair may move the surface without the user's consent."""


@dataclass(frozen=True)
class Wishes:
    """Values that are not in the file."""

    name: str | None = None
    """None: the file's name without its ending."""
    unit: str | None = None
    """Unit of the file's numbers, one of :data:`~dexstack.onboarding.repair.UNITS`; None: inferred
    from the size."""
    mass: float | None = None
    """[kg]"""
    density: float | None = None
    """[kg/m³]; without mass and density :data:`DENSITY` is used."""
    parts: int = PARTS
    """Largest number of convex parts."""
    consent: bool = False
    """True to accept a large repair and replace existing files."""
    alike: Callable[[Axis], bool] = lambda axis: False
    """Selects, of the axes of symmetry found, those whose turns goals ignore."""


@dataclass(frozen=True)
class Report:
    """Properties of an object that are not in its model."""

    part_error: float
    """Hausdorff distance of the convex parts' union from the mesh [m]."""
    rests: list[RestPose]
    """Resting poses; directions in the object's frame."""
    symmetry: Symmetry = NONE
    """Symmetry of the shape, used by goals or not."""
    obstacle: str = ""
    """Reason for which the right Allegro hand cannot turn the object; empty if none is known."""


@dataclass(frozen=True)
class Added:
    """Result of :func:`add_object`."""

    yaml: Path
    obj: ObjectModel
    unit: str
    """Unit of the file."""
    repaired: Repaired
    report: Report


def infer_unit(mesh: trimesh.Trimesh, what: str) -> str:
    """Return the only unit of a mesh's numbers in which a hand can turn it.

    Raises:
        ConfigError: there are several such units, or none.
    """
    longest = float(mesh.extents.max())
    found = plausible_units(longest)
    if len(found) == 1:
        return found[0]
    low, high = (f"{1e3 * x:g}" for x in HELD)
    sizes = ", ".join(
        f"{unit}: {1e3 * scale * longest:.3g} mm" for unit, scale in UNITS.items() if unit in (found or UNITS)
    )
    why = f"may be in {' or '.join(found)}" if found else f"is in no unit between {low} and {high} mm long"
    raise ConfigError(f"{what} {why} ({sizes}); give the unit with --unit")


def add_object(
    file: str | Path,
    folder: str | Path,
    wishes: Wishes = Wishes(),
    progress: Callable[[str], None] = lambda message: None,
) -> Added:
    """Write ``folder`` with NAME.yaml and NAME.obj, for ``--object`` and
    :func:`~dexstack.model.objects.load_object`.

    The mesh is written in metres about its centre of mass, z up in its most likely resting pose, x
    along the longer side of its outline.

    Args:
        file: a mesh (STL, OBJ, PLY, GLB, OFF).
        progress: called with lines of progress.

    Raises:
        ConfigError: the file is not a mesh, or not a body; its unit is ambiguous; a library is
            missing; there is no place for it in the hand; the folder cannot be written, or contains
            an object of that name already.
    """
    path, folder = Path(file), Path(folder)
    name = plain_name(wishes.name or path.stem, "an object")
    if wishes.mass is not None and wishes.density is not None:
        raise ConfigError("give the mass or the density, not both")
    target = folder / f"{name}.yaml"
    if target.exists() and not wishes.consent:
        raise ConfigError(f"there is an object already: {target}; --yes replaces it")
    soup = read_mesh(path)
    unit = wishes.unit or infer_unit(soup, f"the mesh {path}")
    check_names("unit", [unit], UNITS)
    soup.vertices = UNITS[unit] * soup.vertices
    if not MIN_SIZE <= soup.extents.max() <= MAX_SIZE:
        raise ConfigError(
            f"the mesh {path} is {soup.extents.max():.3g} m long; an object measures {MIN_SIZE:g} m to "
            f"{MAX_SIZE:g} m"
        )
    progress(f"{path.name}: {len(soup.faces)} faces, {_extents(soup)} mm read in {unit}")
    repaired = _repair(soup, wishes.consent)
    for step in repaired.steps:
        progress(f"  {step}")
    body, rests = _laid(repaired.mesh)
    mass = wishes.mass if wishes.mass is not None else (wishes.density or DENSITY) * body.volume
    facts = Facts(mass, wishes.parts, path.name, _extents(body))
    provisional = Start(
        np.array([0.0, 0.0, -float(body.vertices[:, 2].min()), 1.0, 0.0, 0.0, 0.0]), 0.0, 0.0, "home"
    )
    with tempfile.TemporaryDirectory(prefix="dexstack-") as workshop:
        obj = load_object(write_object(Path(workshop), name, body, facts, provisional))
        report = replace(inspect(obj, progress), rests=rests)
        start = replace(place_on_palm(load_hand("right"), obj), planner=UNTUNED)
        alike = Symmetry(tuple(axis for axis in report.symmetry.axes if wishes.alike(axis)))
        write_object(Path(workshop), name, body, replace(facts, alike=alike), start)
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for made in Path(workshop).iterdir():
                shutil.copyfile(made, folder / made.name)
    obj = load_object(target)
    report = replace(report, obstacle=obstacle_in_allegro(obj))
    return Added(target, obj, unit, replace(repaired, mesh=body), report)


def inspect(obj: ObjectModel, progress: Callable[[str], None] = lambda message: None) -> Report:
    """Measure the error of an object's convex parts, its resting poses and its symmetry.

    Raises:
        ConfigError: the mesh is not convex, and CoACD is not installed or fails.
    """
    parts = convex_parts(obj.surface, obj.max_parts, progress)
    error = union_error(obj.mesh, [part.mesh() for part in parts])
    rests = rest_poses(obj.mesh.convex_hull, np.zeros(3), obj.inertia)
    return Report(error, rests, find_symmetry(obj.mesh, obj.inertia))


def _extents(mesh: trimesh.Trimesh) -> str:
    return " x ".join(f"{1e3 * x:.3g}" for x in mesh.extents)


def _repair(soup: trimesh.Trimesh, consent: bool) -> Repaired:
    repaired = repair_within(soup, REPAIR_SECONDS)
    moved, size = max(repaired.added, repaired.lost), float(soup.extents.max())
    if moved > DOUBT * size and not consent:
        steps = "; ".join(repaired.steps)
        share = f"{1e3 * moved:.1f} mm, {100 * moved / size:.0f} % of its size"
        raise ConfigError(f"the repair of the mesh moves its surface by {share} ({steps}); --yes accepts it")
    return repaired


def _laid(mesh: trimesh.Trimesh) -> tuple[trimesh.Trimesh, list[RestPose]]:
    """Return the body about its centre of mass in its most likely resting pose, and all its resting
    poses in these axes."""
    hull = mesh.convex_hull
    rests = rest_poses(hull, mesh.center_mass, mesh.moment_inertia)
    R = resting_rotation(rests[0].down_B, np.asarray(hull.vertices))
    body = trimesh.Trimesh((mesh.vertices - mesh.center_mass) @ R.T, mesh.faces, process=False)
    return body, [rest._replace(down_B=R @ rest.down_B) for rest in rests]
