"""``dexstack replay``: publish a bag again, for the monitor or any other node to see."""

from __future__ import annotations

import argparse
from pathlib import Path

from dexstack.cli import arguments
from dexstack.cli.output import add_json_argument, note, publish


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``replay``."""
    p = subparsers.add_parser(
        "replay",
        help="publish a bag again",
        description="Publish the messages of an MCAP bag again, the same bytes on the same topics in the same rhythm, in a ROS domain of "
        "its own unless ROS_DOMAIN_ID is set. A bag that was cut is played up to the cut.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    p.add_argument("file", type=Path, metavar="FILE", help="the bag, from `dexstack record` or `ros2 bag record -s mcap`")
    p.add_argument("--rate", type=arguments.positive, default=1.0, metavar="R", help="recorded seconds per second")
    p.add_argument("--loop", action="store_true", help="start again at the end")
    p.add_argument("--delay", type=arguments.positive, default=2.0, metavar="S", help="longest wait for a listener on every topic")
    add_json_argument(p)


def run(args: argparse.Namespace) -> int:
    """Play.

    Returns:
        0 when everything the bag holds was published or the user stopped it.
    """
    from dexstack.bags.file import BagReader
    from dexstack.cli.supervisor import graph_environment
    from dexstack.cli.tool_nodes import run_nodes
    from dexstack.graph.modes import NodeDescription

    bag = BagReader(args.file)
    counts: dict[str, int] = {}
    for entry in bag:
        counts[entry.topic.name] = counts.get(entry.topic.name, 0) + 1
    if bag.cut:
        note(f"{args.file} was cut off: it is played up to there")
    values = {"file": str(args.file.absolute()), "rate": args.rate, "loop": args.loop, "start_delay": args.delay}
    player = NodeDescription("player", values, ends_run=True)
    with graph_environment() as environment:
        note(f"playing {args.file} in ROS domain {environment['ROS_DOMAIN_ID']}")
        status = run_nodes([player], environment)
    if status == 0:
        publish(args, "replay", {"file": str(args.file), "messages": sum(counts.values()), "cut": bag.cut, "topics": counts})
    return status
