"""``dexstack replay``: publish a bag again, draw a recorded trial or run as plot and film, or move a
hand or the page of a viewer as recorded."""

from __future__ import annotations

import argparse
import contextlib
import time
from datetime import datetime
from pathlib import Path

import numpy as np

from dexstack.bags.recordings import RECORDING, RecordedRun, read_recording, read_run, recording_file
from dexstack.cli import arguments
from dexstack.cli.options import command, option
from dexstack.cli.output import note, publish
from dexstack.errors import ConfigError
from dexstack.graph.modes import MODES
from dexstack.model.hand import load_hand

VIEWER = "viewer"
PICTURE_PERIOD = 0.04
"""Time between two pictures of the page [s]."""

add_parser = command(
    "replay",
    option(
        "file",
        type=Path,
        metavar="FILE",
        help="a bag (.mcap or its folder), a recording (.npz or its folder), or a LeRobot dataset (folder)",
    ),
    option(
        "--on",
        choices=[*MODES, VIEWER],
        help="move the hand of `dexstack up MODE` (a real one waits for /hand/enable), or show it in the "
        "browser until Ctrl-C",
    ),
    option("--episode", type=int, default=0, metavar="K", help="datasets and bags, with --on: which"),
    option("--object", default="cube", help="with --on: object"),
    option("--hand", default="right", help="with --on: side, or path of a hand's YAML"),
    option("--results", type=Path, metavar="DIR", help="with --on MODE: folder of motion, bag and logs"),
    option("--film", type=Path, metavar="GIF", help="recordings: also make a film"),
    option(
        "--rate", type=arguments.positive, default=1.0, metavar="R", help="bags: recorded seconds per second"
    ),
    option("--loop", action="store_true", help="bags: repeat without end"),
    option(
        "--delay",
        type=arguments.positive,
        default=2.0,
        metavar="S",
        help="bags: longest wait for a subscriber on every topic",
    ),
    description="Publish the messages of an MCAP bag with the same bytes, topics and timing, in a "
    "separate ROS domain unless ROS_DOMAIN_ID is set; a truncated bag is played up to its end. Or draw a "
    "recording (.npz) of `dexstack up` or `dexstack eval --record`, into the folder of the recording. "
    "With --on, move a hand by the recorded joint targets of any of these or of a LeRobot dataset, or show "
    "the recorded states in the browser.",
)


def run(args: argparse.Namespace) -> int:
    """Play, draw or move.

    Returns:
        0 if the bag was published or stopped by the user, the recording was drawn, or the hand has
        followed it; 1 if there is nothing to draw.
    """
    from dexstack.bags.file import is_bag
    from dexstack.datasets.reading import is_dataset

    if args.on is not None:
        return _show(args) if args.on == VIEWER else _move(args)
    if is_dataset(args.file):
        raise ConfigError(f"{args.file} is a dataset: give --on, one of {', '.join([*MODES, VIEWER])}")
    if args.file.suffix == ".npz" or (args.file.is_dir() and not is_bag(args.file)):
        return _draw(args)
    if args.film is not None:
        raise ConfigError("--film is for recordings (.npz); use `dexstack monitor` to see a bag")
    return _play(args)


def draw(run: RecordedRun, plot: Path, film: Path | None) -> dict[str, Path]:
    """Draw plot and film of a recording with at least two samples; return the files by kind.

    Raises:
        ConfigError: task, object or hand of the recording cannot be used, or a file cannot be
            written.
    """
    from dexstack.graph.settings import Spec, make_task, read_settings
    from dexstack.model.scene import robot_scene
    from dexstack.report.run import draw_run

    mount = tuple((name, run.summary[name]) for name in ("gravity",) if name in run.summary)
    spec = Spec(run.summary["task"], run.summary["object"], run.summary["hand"], overrides=mount)
    task = make_task(spec, read_settings(spec))
    robot, obj, _ = task.setup()
    q, expected = run.arrays.get("q", ()), len(robot.joint_names)
    if len(np.shape(q)) == 2 and len(q) and np.shape(q)[1] != expected:
        raise ConfigError(f"the recording has {np.shape(q)[1]} joints, the robot of its task has {expected}")
    return draw_run(run.arrays, robot_scene(robot, obj).compile(), plot, film, task.params.tolerance)


def _draw(args: argparse.Namespace) -> int:
    path = recording_file(args.file)
    kept = read_run(path)
    plot = path.with_name("run.png") if path.name == RECORDING else path.with_suffix(".png")
    drawn = draw(kept, plot, args.film)
    s = kept.summary
    results = {
        "file": str(path),
        "samples": len(kept.arrays["t"]),
        "summary": s,
        **{kind: str(p) for kind, p in drawn.items()},
    }
    line = f"{s['task']} with {s['object']}: {s.get('phase', 'unknown end')}, {results['samples']} samples"
    publish(args, "replay", results, f"{line}; {' and '.join(map(str, drawn.values())) or 'too few to draw'}")
    return 0 if drawn else 1


def _play(args: argparse.Namespace) -> int:
    from dexstack.bags.file import BagReader
    from dexstack.cli.supervisor import graph_environment
    from dexstack.cli.tool_nodes import run_nodes
    from dexstack.graph.modes import NodeDescription

    bag = BagReader(args.file)
    counts = bag.counts()
    if bag.cut:
        note(f"{args.file} is truncated or damaged: it is played up to there")
    values = {
        "file": str(bag.path.absolute()),
        "rate": args.rate,
        "loop": args.loop,
        "start_delay": args.delay,
    }
    player = NodeDescription("player", values, ends_run=True)
    with graph_environment() as environment:
        note(f"playing {args.file} in ROS domain {environment['ROS_DOMAIN_ID']}")
        status = run_nodes([player], environment)
    if status == 0:
        publish(
            args,
            "replay",
            {"file": str(args.file), "messages": sum(counts.values()), "cut": bag.cut, "topics": counts},
        )
    return status


def _episode(args: argparse.Namespace) -> dict[str, np.ndarray]:
    """Return the arrays of the chosen episode, as far as a command was in force, from time 0 [s].

    Raises:
        ConfigError: it cannot be read, or there is no such episode.
    """
    from dexstack.datasets.lerobot import usable

    arrays = read_recording(args.file, load_hand(args.hand).joint_names)
    numbers = np.unique(arrays["rollout"]) if "rollout" in arrays else np.zeros(1)
    if not 0 <= args.episode < len(numbers):
        raise ConfigError(f"{args.file} has {len(numbers)} episodes, none of number {args.episode}")
    n = len(arrays["t"])
    rows = arrays["rollout"] == numbers[args.episode] if "rollout" in arrays else np.ones(n, bool)
    kept = {name: a[rows] for name, a in arrays.items() if len(a) == n}
    rows = usable(kept["q_command"])
    if rows.stop - rows.start < 2:
        raise ConfigError(f"{args.file} has no two samples with a command in force")
    kept = {name: a[rows] for name, a in kept.items()}
    return kept | {"t": kept["t"] - kept["t"][0]}


def _move(args: argparse.Namespace) -> int:
    """Move the hand of a graph by the recorded joint targets, and compare."""
    from dexstack.bags.samples import read_samples
    from dexstack.cli.playing import play
    from dexstack.datasets.replaying import compared, motion_of
    from dexstack.hand.trajectory import FollowParams

    hand, recorded = load_hand(args.hand), _episode(args)
    motion, slower = motion_of(recorded, hand)
    if slower > 1.0:
        note(f"played {slower:.2f} times slower: the joints of '{hand.name}' are not as fast as recorded")
    folder = args.results or Path("results") / f"replay-{datetime.now():%Y%m%d-%H%M%S}"
    # a joint that pushes stays behind its target, in the recording as now
    behind = float(np.abs(recorded["q_command"] - recorded["q"]).max())
    tolerances = {
        name: FollowParams().path_tolerance + behind for name in ("path_tolerance", "goal_tolerance")
    }
    values = {"object": args.object, "hand": args.hand}
    bag = play(args.on, values, lambda: motion, folder / "replay.npz", tolerances)
    results = {
        "file": str(args.file),
        "on": args.on,
        "seconds": float(recorded["t"][-1]),
        "slower": slower,
        "joint_error_rad": compared(recorded, read_samples(bag, hand.joint_names), motion, slower),
        "bag": str(bag),
    }
    away = ", ".join(f"{name} {value:.3f}" for name, value in results["joint_error_rad"].items())
    publish(args, "replay", results, f"distance of the joints from the recording [rad]: {away}; bag in {bag}")
    return 0


def _show(args: argparse.Namespace) -> int:
    """Show the recorded states in the browser, again and again, until Ctrl-C."""
    from dexstack.cli.monitor import HOST, PORT, page_parameters
    from dexstack.model.scene import robot_scene
    from dexstack.process.interrupts import stop_event
    from dexstack.report.canvas import Canvas
    from dexstack.tasks import load_task

    recorded = _episode(args)
    robot, obj, start = load_task("palm_turn")(None, args.object, args.hand).setup()
    pose_WO = recorded.get("pose_WO", np.tile(start.pose_WO, (len(recorded["t"]), 1)))
    page = page_parameters(HOST, PORT)
    canvas = Canvas(HOST, page["port"], page["token"], robot_scene(robot, obj).compile())
    with contextlib.closing(canvas), stop_event() as stop:
        note(f"{args.file} at {canvas.url}")
        while not stop.is_set():
            begin = time.monotonic()
            while not stop.is_set() and (t := time.monotonic() - begin) <= recorded["t"][-1]:
                k = int(np.searchsorted(recorded["t"], t, side="right")) - 1
                canvas.show_state(recorded["q"][k], pose_WO[k])
                stop.wait(PICTURE_PERIOD)
        publish(args, "replay", {"file": str(args.file), "url": canvas.url})
    return 0
