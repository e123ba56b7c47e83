"""``dexstack view``: simulate a scene file, live in the browser or as a page of films."""

from __future__ import annotations

import argparse
import contextlib
import threading
import time
import webbrowser
from pathlib import Path
from typing import Any

from dexstack.cli import arguments
from dexstack.cli.monitor import HOST, PORT, page_parameters
from dexstack.cli.options import command, option
from dexstack.cli.output import note, publish, table
from dexstack.errors import ConfigError
from dexstack.plants import PLANTS, engine_errors

PERIOD = 0.05
"""Time between two pictures of the live page [s]."""


add_parser = command(
    "view",
    option("scene", type=Path, help="MJCF or URDF file"),
    option(
        "--engine",
        nargs="+",
        choices=list(PLANTS),
        default=["mujoco"],
        help="engines to compare; the live page starts with the first",
    ),
    option("--dt", type=arguments.positive, metavar="S", help="time step (default: the file's)"),
    option("--keyframe", metavar="NAME", help="keyframe to start from, with its controls"),
    option("--materials", type=Path, metavar="FILE", help="YAML of materials; see docs/engines.md"),
    option("--out", type=Path, metavar="FILE", help="write a page with films instead of the live one"),
    option(
        "--seconds", type=arguments.positive, default=3.0, metavar="S", help="simulated time of the films"
    ),
    option("--host", default=HOST, help="address of the live page"),
    option(
        "--port",
        type=arguments.positive_int,
        default=PORT,
        help="port of the live page, or the next free one",
    ),
    option("--no-open", action="store_true", help="do not open a browser"),
    description="Simulate an MJCF or URDF file and show it in the browser with contact forces and "
    "pressures; the page switches the engine during the simulation. Ctrl-C ends it. With --out, write a "
    "self-contained page instead, with a film per engine and curves to compare. Controls stay at their "
    "initial values.",
)


def run(args: argparse.Namespace) -> int:
    """Serve the scene until Ctrl-C, or write the page; return 0.

    Raises:
        ConfigError: the scene cannot be read, an engine rejects it, or its simulation diverged.
    """
    from dexstack.plants.engines import read_model

    try:
        with engine_errors():
            model = read_model(args.scene, args.dt)
            (_live if args.out is None else _films)(model, args)
    except FloatingPointError as error:
        raise ConfigError(str(error)) from None
    return 0


def _live(model: Any, args: argparse.Namespace) -> None:
    from dexstack.process.interrupts import stop_event
    from dexstack.report.scene_viewer import SceneControls, SceneViewer
    from dexstack.sim.live import LiveRun

    page = page_parameters(args.host, args.port)
    note(f"preparing {args.engine[0]}")
    live = LiveRun(model, args.engine[0], args.keyframe, args.materials)
    viewer = SceneViewer(
        page["host"],
        page["port"],
        page["token"],
        model,
        SceneControls(tuple(PLANTS), live.ask, live.restart),
    )
    with contextlib.closing(viewer), stop_event() as stop:
        note(f"{args.scene.name} at {viewer.url}")
        if page["open"] and not args.no_open:
            threading.Thread(target=webbrowser.open, args=(viewer.url,), daemon=True).start()
        while not stop.is_set():
            begin = time.perf_counter()
            if viewer.watched:  # otherwise the simulation pauses
                picture(live, viewer)
            stop.wait(max(0.0, begin + PERIOD - time.perf_counter()))
        publish(args, "view", {"url": viewer.url, "engine": live.engine, "seconds": float(live.state.time)})


def picture(live: Any, viewer: Any) -> None:
    """Advance the live page by one picture."""
    import numpy as np

    live.advance(0.0 if viewer.paused else PERIOD)
    contacts, patches = live.touching()
    viewer.show(live.state.q, contacts, patches)
    force, depth = sum(np.linalg.norm(c.force_W) for c in contacts), max([0.0, *(-c.gap for c in contacts)])
    lines = [
        f"**{live.engine}**, {live.state.time:.2f} s" + (", stopped" if live.stopped else ""),
        f"{len(contacts)} contacts, {force:.3g} N, {1e6 * depth:.3g} µm deep",
    ]
    viewer.tell([*lines, *([live.trouble] if live.trouble else [])], live.awaited or live.engine, live.said)


def _films(model: Any, args: argparse.Namespace) -> None:
    from dexstack.report.scene_page import write_scene_page

    runs, rows = {}, []
    for engine in args.engine:
        note(f"{engine}: {args.seconds:g} s")
        runs[engine], row = _run(model, engine, args)
        rows.append(row)
    write_scene_page(args.out, model, runs, args.scene.name)
    shown = [
        [r["engine"], r["contacts"], r["force_N"], 1e6 * r["depth_m"], 1e6 * r["step_s"], r["trouble"]]
        for r in rows
    ]
    columns = ("engine", "contacts", "forces [N]", "largest penetration [µm]", "step [µs]", "warnings")
    publish(
        args,
        "view",
        {"page": str(args.out), "engines": rows},
        table(f"{args.scene.name}, {args.seconds:g} s", columns, shown),
        f"page in {args.out}",
    )


def _run(model: Any, engine: str, args: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """Simulate in one engine; return the frames of its film, and its figures."""
    import numpy as np

    from dexstack.plants.engines import State, load
    from dexstack.report.film import FPS
    from dexstack.report.scene_page import Run

    scene = load(model, engine, materials=args.materials)
    start = scene.reset(args.keyframe)
    control = np.zeros(model.nu) if args.keyframe is None else model.key(args.keyframe).ctrl
    scene.step(start, control)  # compile before the timing
    steps = max(1, round(args.seconds / scene.dt))
    begin = time.process_time()
    states = scene.rollout(start, np.tile(control, (steps, 1)))
    spent = (time.process_time() - begin) / steps
    trouble = "; ".join(said for said in (scene.trouble(), scene.apart) if said)
    frames = np.unique(
        np.searchsorted(states.time, np.arange(0.0, args.seconds + 1e-9, 1.0 / FPS)).clip(0, steps)
    )
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
