"""``dexstack object add``: a mesh file becomes an object."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dexstack.cli.arguments import positive, positive_int
from dexstack.cli.output import add_json_argument, note, publish
from dexstack.errors import ConfigError


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``object add``."""
    p = subparsers.add_parser(
        "add",
        help="a mesh file becomes an object",
        description="Reads a mesh (STL, OBJ, PLY, GLB, OFF), mends it, weighs it, takes it apart into convex parts, finds how it can lie "
        "and where the hand turns it, and writes a folder whose YAML --object takes.",
    )
    p.add_argument("file", type=Path, metavar="FILE", help="the mesh")
    p.add_argument("-o", "--to", type=Path, metavar="FOLDER", help="where NAME.yaml, NAME.obj and pictures go (default: NAME)")
    p.add_argument("--name", help="what it is called (default: the file's name)")
    p.add_argument("--unit", choices=("m", "cm", "mm", "in"), help="of the file's numbers (default: told from the size)")
    weight = p.add_mutually_exclusive_group()
    weight.add_argument("--mass", type=positive, metavar="KG")
    weight.add_argument("--density", type=positive, metavar="KG/M3", help="(default: 500)")
    p.add_argument("--parts", type=positive_int, default=16, metavar="N", help="most convex parts (default: 16)")
    p.add_argument("--yes", action="store_true", help="take a large repair, replace files that are there, ask nothing")
    add_json_argument(p)


def run(args: argparse.Namespace) -> int:
    """Make it; 0."""
    from dexstack.cli.object.facts import facts, views
    from dexstack.model.adding import Wishes, add_object
    from dexstack.report.object_picture import draw_rests

    name = args.name or args.file.stem
    folder = args.to or Path(name)
    unit = args.unit or _ask_unit(args.file, args.yes)
    wishes = Wishes(args.name, unit, args.mass, args.density, args.parts, args.yes)
    added = add_object(args.file, folder, wishes, note)
    picture = draw_rests(folder / f"{added.obj.name}-rests.png", added.obj, added.report.rests)
    repaired = added.repaired
    moved = {"added_m": repaired.added, "lost_m": repaired.lost, "hausdorff_m": max(repaired.added, repaired.removed)}
    mended = {"steps": repaired.steps, "faces_before": repaired.faces_before, "faces": len(repaired.mesh.faces), **moved}
    results = {"object": added.yaml, "unit": added.unit, "repair": mended, "picture": picture, **facts(added.obj, added.report)}
    what = "; ".join(repaired.steps) + f" (Hausdorff distance {1e3 * moved['hausdorff_m']:.2f} mm)" if repaired.steps else "nothing to mend"
    tail = f"{added.yaml}: try it with dexstack eval palm_turn --object {added.yaml} --trials 10"
    publish(args, "object add", results, *views(added.obj, added.report), f"mesh: {what}", f"pictures: {picture}", tail)
    return 0


def _ask_unit(file: Path, silent: bool) -> str | None:
    """The unit as a person at the terminal says, where the size does not tell it; None where it does."""
    from dexstack.geometry.repair import UNITS, read_mesh
    from dexstack.model.adding import tell_unit

    try:
        return tell_unit(read_mesh(file), f"the mesh {file}")
    except ConfigError as error:
        if silent or not sys.stdin.isatty() or "--unit" not in str(error):
            raise
        note(f"{error}")
        answer = input(f"unit ({', '.join(UNITS)}): ").strip()
        if answer not in UNITS:
            raise ConfigError(f"unknown unit '{answer}'; known: {', '.join(UNITS)}") from None
        return answer
