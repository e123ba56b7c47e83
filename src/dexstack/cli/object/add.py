"""``dexstack object add``: make an object from a mesh file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dexstack.cli.arguments import positive, positive_int
from dexstack.cli.options import command, one_of, option
from dexstack.cli.output import note, publish
from dexstack.errors import ConfigError, check_names

if TYPE_CHECKING:
    from dexstack.model.objects import ObjectModel


ALIKE = {"none": lambda axis: False, "round": lambda axis: axis.order == 0, "all": lambda axis: True}
"""Selection of axes of symmetry, by the option's value."""


add_parser = command(
    "add",
    option("file", type=Path, metavar="FILE", help="the mesh"),
    option(
        "-o",
        "--to",
        type=Path,
        metavar="FOLDER",
        help="folder for NAME.yaml, NAME.obj and pictures (default: NAME)",
    ),
    option("--name", help="name of the object (default: the file's name)"),
    option(
        "--unit", choices=("m", "cm", "mm", "in"), help="unit of the file (default: inferred from the size)"
    ),
    one_of(
        option("--mass", type=positive, metavar="KG"),
        option("--density", type=positive, metavar="KG/M3", help="(default: 500)"),
    ),
    option(
        "--parts",
        type=positive_int,
        default=16,
        metavar="N",
        help="largest number of convex parts (default: 16)",
    ),
    option(
        "--symmetry",
        choices=tuple(ALIKE),
        default="none",
        help="rotations of the shape that goals ignore: by any angle about an axis (round), or also by "
        "parts of a turn (all); tags or "
        "print make them visible (default: none)",
    ),
    option("--yes", action="store_true", help="accept a large repair, replace existing files, ask nothing"),
    help="make an object from a mesh file",
    description="Read a mesh (STL, OBJ, PLY, GLB, OFF), repair and weigh it, decompose it into convex "
    "parts, find its resting poses "
    "and its place in the hand, put tags on its flat faces, and write a folder with a YAML for --object.",
)


def run(args: argparse.Namespace) -> int:
    """Make the object; return 0."""
    from dexstack.cli.object.facts import facts, views
    from dexstack.onboarding.add_object import Wishes, add_object
    from dexstack.onboarding.object_picture import draw_rests
    from dexstack.process.interrupts import sigterm_interrupts

    name = args.name or args.file.stem
    folder = args.to or Path(name)
    unit = args.unit or _ask_unit(args.file, args.yes)
    wishes = Wishes(args.name, unit, args.mass, args.density, args.parts, args.yes, ALIKE[args.symmetry])
    with sigterm_interrupts():  # temporary files are removed, and finished convex parts stay cached
        added = add_object(args.file, folder, wishes, note)
    picture = draw_rests(folder / f"{added.obj.name}-rests.png", added.obj, added.report.rests)
    tags, tagged = _write_tags(folder, added.obj)
    repaired = added.repaired
    hausdorff = max(repaired.added, repaired.removed)
    repair = {
        "steps": repaired.steps,
        "faces_before": repaired.faces_before,
        "faces": len(repaired.mesh.faces),
        "added_m": repaired.added,
        "lost_m": repaired.lost,
        "hausdorff_m": hausdorff,
    }
    results = {"object": str(added.yaml), "picture": str(picture), "tags": tags}
    results |= {"unit": added.unit, "repair": repair} | facts(added.obj, added.report)
    steps = f"{'; '.join(repaired.steps)} (Hausdorff distance {1e3 * hausdorff:.2f} mm)"
    lines = (
        f"mesh: {steps if repaired.steps else 'nothing to repair'}",
        f"picture: {picture}",
        tagged,
        f"{added.yaml}: find its best place with dexstack object place, turn it with dexstack eval "
        f"palm_turn --object {added.yaml}",
    )
    publish(args, "object add", results, *views(added.obj, added.report), *lines)
    return 0


def _write_tags(folder: Path, obj: ObjectModel) -> tuple[dict[int, float], str]:
    """Write ``tags.yaml`` if there are faces for tags; return the edge of each [m] by number, and a
    sentence."""
    from dexstack.perception import require_camera

    try:
        require_camera()
    except ConfigError as error:
        return {}, f"tags: none, {error}"
    from dexstack.perception.bundle import save_bundle
    from dexstack.perception.tag_placing import LEAST, place_tags

    bundle = place_tags(obj.name, obj.mesh)
    if bundle is None:
        return (
            {},
            f"tags: no flat face has room for {1e3 * LEAST:g} mm, so that a camera cannot track this object",
        )
    comment = f"Tags (AprilTag 36h11) on {obj.name}, one on each flat face; see docs/perception.md."
    save_bundle(folder / "tags.yaml", bundle, comment)
    sheet = f"dexstack calibrate sheet --object {folder / obj.name}.yaml"
    line = f"tags: {len(bundle.tags)} in {folder / 'tags.yaml'}; to print: {sheet}"
    return {t.tag: t.edge for t in bundle.tags.values()}, line


def _ask_unit(file: Path, silent: bool) -> str | None:
    """Return the unit inferred from the size, or the one given at the terminal if it is
    ambiguous."""
    from dexstack.onboarding.add_object import infer_unit
    from dexstack.onboarding.repair import UNITS, read_mesh

    try:
        return infer_unit(read_mesh(file), f"the mesh {file}")
    except ConfigError as error:
        if silent or not sys.stdin.isatty() or "--unit" not in str(error):
            raise
        note(f"{error}")
        answer = input(f"unit ({', '.join(UNITS)}): ").strip()
        check_names("unit", [answer], UNITS)
        return answer
