"""``dexstack replay``: publish a bag again, or draw a recorded trial or run as plot and film."""

from __future__ import annotations

import argparse
from pathlib import Path

from dexstack.bags.recordings import RECORDING, RecordedRun, read_run, recording_file
from dexstack.cli import arguments
from dexstack.cli.output import note, publish
from dexstack.errors import ConfigError


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``replay``."""
    p = subparsers.add_parser(
        "replay",
        description="Publish the messages of an MCAP bag with the same bytes, topics and timing, in a "
        "separate ROS domain unless ROS_DOMAIN_ID is set; a truncated bag is played up to its end. Or draw a "
        "recording (.npz) of `dexstack up` or `dexstack eval --record`, into the folder of the recording.",
    )
    p.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="a bag (.mcap or its folder), or a recording (.npz or its folder)",
    )
    p.add_argument("--film", type=Path, metavar="GIF", help="recordings: also make a film")
    p.add_argument(
        "--rate", type=arguments.positive, default=1.0, metavar="R", help="bags: recorded seconds per second"
    )
    p.add_argument("--loop", action="store_true", help="bags: repeat without end")
    p.add_argument(
        "--delay",
        type=arguments.positive,
        default=2.0,
        metavar="S",
        help="bags: longest wait for a subscriber on every topic",
    )


def run(args: argparse.Namespace) -> int:
    """Play or draw.

    Returns:
        0 if the bag was published or stopped by the user, or the recording was drawn; 1 if there is
        nothing to draw.
    """
    from dexstack.bags.file import is_bag

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

    spec = Spec(run.summary["task"], run.summary["object"], run.summary["hand"])
    task = make_task(spec, read_settings(spec))
    robot, obj, _ = task.setup()
    joints, expected = run.arrays["q"].shape[-1], len(robot.joint_names)
    if joints != expected and len(run.arrays["q"]):
        raise ConfigError(f"the recording has {joints} joints, the robot of its task has {expected}")
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
