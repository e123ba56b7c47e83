"""``dexstack demo``: turn a cube in the simulated hand, and show a film of it in the browser."""

from __future__ import annotations

import argparse
import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dexstack.cli import arguments
from dexstack.cli.options import command, option
from dexstack.cli.output import note, publish, table
from dexstack.errors import writing

if TYPE_CHECKING:
    from dexstack.sim.trial import Trial

PARTS = {"palm_turn": 3.0, "reorient": 12.0}
"""Tasks shown, in order, and the default simulated time of each [s]."""
PAUSE = 0.5
"""Time between two tasks in the film [s]."""
SHOWN = ("t", "q", "q_command", "pose_WO", "goal_WO", "contacts", "solve_s")


add_parser = command(
    "demo",
    option(
        "--task", nargs="+", choices=list(PARTS), default=list(PARTS), help="tasks to show, in this order"
    ),
    option(
        "--seconds",
        type=arguments.positive,
        metavar="S",
        help="simulated time of each task (default: 3 for palm_turn, 12 for reorient)",
    ),
    option("--seed", type=arguments.natural, default=0, metavar="S", help="seed of starts and goals"),
    option("--gif", type=Path, metavar="FILE", help="write the film to this file, without a page"),
    option("--out", type=Path, metavar="FILE", help="file of the page (default: a new temporary file)"),
    option("--no-open", action="store_true", help="do not open a browser"),
    description="Turn a cube in the simulated Allegro hand, first by 90° on the palm, then to random "
    "orientations, and show a film with the curves in the browser. Needs neither ROS 2 nor a checkout.",
)


def run(args: argparse.Namespace) -> int:
    """Run the tasks, write the film or the page, and open it.

    Returns:
        0 if every task reached a goal, 1 if not.

    Raises:
        ConfigError: a file cannot be written.
    """
    from dexstack.api import closed_loop
    from dexstack.model.scene import robot_scene

    trials: dict[str, Trial] = {}
    for name in args.task:
        note(f"{name}: compiling the planner")
        loop = closed_loop(name)
        seconds = args.seconds or PARTS[name]
        note(f"{name}: simulating {seconds:g} s")
        trials[name] = loop.run(k=0, seed=args.seed, seconds=seconds)
        setup = loop.setup
    recording = _joined(list(trials.values()))
    scene = robot_scene(setup.robot, setup.obj).compile()
    out = args.gif or args.out or Path(tempfile.mkdtemp(prefix="dexstack-demo-")) / "demo.html"
    note("drawing the film")
    with writing(out):
        _write(out, recording, scene, page=args.gif is None)
    if args.gif is None and not args.no_open:
        webbrowser.open(out.absolute().as_uri())
    results = {"file": str(out), "tasks": [{"task": k, **_figures(t)} for k, t in trials.items()]}
    rows = [(r["task"], r["goals_reached"], r["first_reached_s"], r["dropped"]) for r in results["tasks"]]
    columns = ("task", "goals reached", "first after [s]", "dropped")
    publish(args, "demo", results, table("demo", columns, rows), f"film in {out}", seed=args.seed)
    return 0 if all(t.reached for t in trials.values()) else 1


def _figures(trial: Trial) -> dict[str, Any]:
    first = trial.reached_s if trial.reached else None
    return {"goals_reached": len(trial.reached_at), "first_reached_s": first, "dropped": trial.dropped}


def _joined(trials: list[Trial]) -> dict[str, Any]:
    """Return the recordings of the trials one after another, as one recording."""
    import numpy as np

    start, parts = 0.0, []
    for trial in trials:
        part = {name: np.asarray(trial.recording[name]) for name in SHOWN}
        part["t"] = part["t"] - part["t"][0] + start
        start = part["t"][-1] + PAUSE
        parts.append(part)
    return {name: np.concatenate([part[name] for part in parts]) for name in SHOWN}


def _write(out: Path, recording: dict[str, Any], scene: Any, *, page: bool) -> None:
    from dexstack.report.film import write_film
    from dexstack.report.run_page import picture, write_page

    seconds = float(recording["t"][-1])
    out.parent.mkdir(parents=True, exist_ok=True)
    if not page:
        write_film(out, recording, scene, seconds=seconds)
        return
    with tempfile.TemporaryDirectory() as folder:
        film = write_film(Path(folder) / "film.gif", recording, scene, seconds=seconds)
        image = picture(film.read_bytes(), "gif", "film of the turning cube")
    recording["solve_t"] = recording["t"]
    write_page(
        out,
        recording,
        title="dexstack demo",
        head=f"<figure>{image}</figure>",
    )
