"""``dexstack object add``: a mesh file becomes an object."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dexstack.cli.arguments import positive, positive_int
from dexstack.cli.output import add_json_argument, note, publish
from dexstack.errors import ConfigError

if TYPE_CHECKING:
    from dexstack.model.objects import ObjectModel


ALIKE = {"none": lambda axis: False, "round": lambda axis: axis.order == 0, "all": lambda axis: True}
"""Axes of symmetry that are taken, by the option's name."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``object add``."""
    p = subparsers.add_parser(
        "add",
        help="a mesh file becomes an object",
        description="Reads a mesh (STL, OBJ, PLY, GLB, OFF), mends it, weighs it, takes it apart into convex parts, finds how it can lie "
        "and where the hand turns it, puts tags on its flat faces, and writes a folder whose YAML --object takes.",
    )
    p.add_argument("file", type=Path, metavar="FILE", help="the mesh")
    p.add_argument(
        "-o",
        "--to",
        type=Path,
        metavar="FOLDER",
        help="where NAME.yaml, NAME.obj and pictures go (default: NAME)",
    )
    p.add_argument("--name", help="what it is called (default: the file's name)")
    p.add_argument(
        "--unit", choices=("m", "cm", "mm", "in"), help="of the file's numbers (default: told from the size)"
    )
    weight = p.add_mutually_exclusive_group()
    weight.add_argument("--mass", type=positive, metavar="KG")
    weight.add_argument("--density", type=positive, metavar="KG/M3", help="(default: 500)")
    p.add_argument(
        "--parts", type=positive_int, default=16, metavar="N", help="most convex parts (default: 16)"
    )
    p.add_argument(
        "--symmetry",
        choices=tuple(ALIKE),
        default="none",
        help="turns of the shape that goals need not tell from none: by any angle about an axis (round), or by parts of a turn, too (all); "
        "tags or print tell them apart (default: none)",
    )
    p.add_argument(
        "--yes", action="store_true", help="take a large repair, replace files that are there, ask nothing"
    )
    add_json_argument(p)


def run(args: argparse.Namespace) -> int:
    """Make it; 0."""
    from dexstack.cli.object.facts import facts, views
    from dexstack.onboarding.add_object import Wishes, add_object
    from dexstack.onboarding.object_picture import draw_rests

    name = args.name or args.file.stem
    folder = args.to or Path(name)
    unit = args.unit or _ask_unit(args.file, args.yes)
    wishes = Wishes(args.name, unit, args.mass, args.density, args.parts, args.yes, ALIKE[args.symmetry])
    added = add_object(args.file, folder, wishes, note)
    picture = draw_rests(folder / f"{added.obj.name}-rests.png", added.obj, added.report.rests)
    tags, tagged = _write_tags(folder, added.obj)
    repaired = added.repaired
    moved = {
        "added_m": repaired.added,
        "lost_m": repaired.lost,
        "hausdorff_m": max(repaired.added, repaired.removed),
    }
    mended = {
        "steps": repaired.steps,
        "faces_before": repaired.faces_before,
        "faces": len(repaired.mesh.faces),
        **moved,
    }
    made = {"object": str(added.yaml), "picture": str(picture), "tags": tags}
    results = made | {"unit": added.unit, "repair": mended} | facts(added.obj, added.report)
    what = (
        "; ".join(repaired.steps) + f" (Hausdorff distance {1e3 * moved['hausdorff_m']:.2f} mm)"
        if repaired.steps
        else "nothing to mend"
    )
    tail = f"{added.yaml}: find its best place with dexstack object place, turn it with dexstack eval palm_turn --object {added.yaml}"
    publish(
        args,
        "object add",
        results,
        *views(added.obj, added.report),
        f"mesh: {what}",
        f"picture: {picture}",
        tagged,
        tail,
    )
    return 0


def _write_tags(folder: Path, obj: ObjectModel) -> tuple[dict[int, float], str]:
    """``tags.yaml`` for a camera, where there are faces for tags; the edge of each [m] by its
    number, and a sentence."""
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
            f"tags: no flat face holds one of {1e3 * LEAST:g} mm, so that a camera cannot follow this object",
        )
    save_bundle(
        folder / "tags.yaml",
        bundle,
        f"Tags (AprilTag 36h11) on {obj.name}, one on each flat face; see docs/perception.md.",
    )
    sheet = f"dexstack calibrate sheet --object {folder / obj.name}.yaml"
    return {
        t.tag: t.edge for t in bundle.tags.values()
    }, f"tags: {len(bundle.tags)} in {folder / 'tags.yaml'}; to print: {sheet}"


def _ask_unit(file: Path, silent: bool) -> str | None:
    """The unit as a person at the terminal says, where the size does not tell it; None where it
    does."""
    from dexstack.onboarding.add_object import infer_unit
    from dexstack.onboarding.repair import UNITS, read_mesh

    try:
        return infer_unit(read_mesh(file), f"the mesh {file}")
    except ConfigError as error:
        if silent or not sys.stdin.isatty() or "--unit" not in str(error):
            raise
        note(f"{error}")
        answer = input(f"unit ({', '.join(UNITS)}): ").strip()
        if answer not in UNITS:
            raise ConfigError(f"unknown unit '{answer}'; known: {', '.join(UNITS)}") from None
        return answer
