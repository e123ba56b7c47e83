"""``dexstack view``: any scene file in the engines, as a page with films and contact forces."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from dexstack.cli import arguments
from dexstack.cli.output import add_json_argument, note, publish, table
from dexstack.engines import ENGINES
from dexstack.errors import writing


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``view``."""
    p = subparsers.add_parser(
        "view",
        help="run any scene file in the engines and draw it with its contact forces",
        description="Run an MJCF or URDF file in one engine or in several, and write a page that needs nothing else: a film of each with "
        "its contact forces, and curves to compare. Controls stay as they are at the start.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    p.add_argument("scene", type=Path, help="MJCF or URDF file")
    p.add_argument("--engine", nargs="+", choices=list(ENGINES), default=["mujoco"], help="which engines")
    p.add_argument("--seconds", type=arguments.positive, default=3.0, metavar="S", help="simulated time")
    p.add_argument("--dt", type=arguments.positive, metavar="S", help="length of a step (default: the file's)")
    p.add_argument("--keyframe", metavar="NAME", help="keyframe to start from, with its controls")
    p.add_argument("--materials", type=Path, metavar="FILE", help="YAML of materials; see docs/scenes.md")
    p.add_argument("--out", type=Path, default=Path("view.html"), metavar="FILE", help="the page")
    add_json_argument(p)


def run(args: argparse.Namespace) -> int:
    """Run, write the page, tell the figures.

    Returns:
        0.
    """
    from dexstack.engines.common.files import read_model
    from dexstack.report.scene_page import write_scene_page

    model, runs, rows = read_model(args.scene, args.dt), {}, []
    for engine in args.engine:
        note(f"{engine}: {args.seconds:g} s")
        runs[engine], row = _run(model, engine, args)
        rows.append(row)
    with writing(args.out):
        write_scene_page(args.out, model, runs, args.scene.name)
    shown = [[r["engine"], r["contacts"], r["force_N"], 1e6 * r["depth_m"], 1e6 * r["step_s"], r["trouble"]] for r in rows]
    columns = ("engine", "contacts at the end", "their forces [N]", "deepest overlap [µm]", "step [µs]", "reported")
    publish(
        args,
        "view",
        {"page": str(args.out), "engines": rows},
        table(f"{args.scene.name}, {args.seconds:g} s", columns, shown),
        f"page in {args.out}",
    )
    return 0


def _run(model: Any, engine: str, args: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """One engine: what its film shows, and its figures."""
    import numpy as np

    from dexstack.engines import load
    from dexstack.engines.common.scene import State
    from dexstack.report.film import FPS
    from dexstack.report.scene_page import Run

    scene = load(model, engine, materials=args.materials)
    start = scene.reset(args.keyframe)
    control = np.zeros(model.nu) if args.keyframe is None else model.key(args.keyframe).ctrl
    scene.step(start, control)  # loads or compiles what there is to compile
    steps = max(1, round(args.seconds / scene.dt))
    begin = time.process_time()
    states = scene.rollout(start, np.tile(control, (steps, 1)))
    spent = (time.process_time() - begin) / steps
    trouble = scene.trouble()
    frames = np.unique(np.searchsorted(states.time, np.arange(0.0, args.seconds + 1e-9, 1.0 / FPS)).clip(0, steps))
    shown = State(*(column[frames] for column in states))
    contacts = [scene.contacts(State(*row), control) for row in zip(*shown, strict=True)]
    last = contacts[-1]
    return Run(shown, contacts), {
        "engine": engine,
        "contacts": len(last),
        "force_N": float(sum(np.linalg.norm(c.force_W) for c in last)),
        "depth_m": float(max([0.0, *(-c.gap for frame in contacts for c in frame)])),
        "step_s": spent,
        "trouble": trouble,
    }
