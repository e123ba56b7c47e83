"""``dexstack record``: record all messages of a running graph into an MCAP bag."""

from __future__ import annotations

import argparse
from pathlib import Path

from dexstack.cli import arguments
from dexstack.cli.options import command, option
from dexstack.cli.output import note, publish
from dexstack.errors import ConfigError

add_parser = command(
    "record",
    option("file", type=Path, metavar="FILE", help="the bag, e.g. run.mcap"),
    option("--seconds", type=arguments.positive, metavar="S", help="duration (default: until Ctrl-C)"),
    description="Record all messages of a running graph into one MCAP file, for `ros2 bag`, Foxglove, "
    "`dexstack replay` and `dexstack learn --from`. Joins the graph that `dexstack up` started on this "
    "machine, or the one of ROS_DOMAIN_ID. Ctrl-C ends it.",
)


def run(args: argparse.Namespace) -> int:
    """Record.

    Returns:
        0 if the bag has messages, otherwise 1.
    """
    from dexstack.bags.file import BagReader
    from dexstack.cli.supervisor import attached_environment
    from dexstack.cli.tool_nodes import run_nodes
    from dexstack.graph.modes import NodeDescription

    file = args.file.absolute()
    if file.exists():
        raise ConfigError(f"{args.file} already exists; choose another file")
    if not file.parent.is_dir():
        raise ConfigError(f"the folder {file.parent} does not exist")
    environment = attached_environment()
    note(f"recording ROS domain {environment.get('ROS_DOMAIN_ID', '0')} into {args.file}")
    recorder = NodeDescription("recorder", {"file": str(file), "seconds": args.seconds or 0.0}, ends_run=True)
    if status := run_nodes([recorder], environment):
        return status
    counts = BagReader(file).counts()
    publish(args, "record", {"file": str(file), "messages": sum(counts.values()), "topics": counts})
    return 0 if counts else 1
