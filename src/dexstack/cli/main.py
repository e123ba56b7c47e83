"""The ``dexstack`` command: finds the subcommand's module and runs it.

Every command is one module of this package with ``add_parser(subparsers)`` and ``run(args) ->
int``. A module is imported only when its command is called, so that ``dexstack --help`` answers at
once.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from dexstack import __version__
from dexstack.errors import ConfigError
from dexstack.process.threads import ONE_THREAD, prefer

COMMANDS = {
    "demo": "turn a cube in simulation and show the film",
    "up": "start the whole graph of nodes: simulation, mock or hardware",
    "eval": "closed-loop trials in one process, without ROS",
    "object": "make an object from a mesh file, check it, draw it",
    "hand": "make a hand from a robot file; its files for ros2_control and MoveIt",
    "view": "run any scene file in the engines and draw it with its contact forces",
    "bench": "measure whether this machine is fast enough",
    "learn": "learn the planner's model from rollouts or recordings",
    "identify": "fit mass, friction, motors and delay of a plant to a recording",
    "monitor": "show a running graph in a browser",
    "record": "record a running graph into a bag",
    "replay": "publish a bag again, or draw a kept trial again",
    "diagnose": "walk through the layers under a device and stop at the first broken one",
    "calibrate": "measure what differs from device to device",
    "doctor": "what is installed and usable here, and the command that mends what is not",
}
"""Name and one line of help of every command; the module of the same name holds the rest."""

USAGE_ERROR = 2


def build_parser(command: str | None) -> argparse.ArgumentParser:
    """The parser; only ``command``'s own arguments are loaded."""
    parser = argparse.ArgumentParser(
        prog="dexstack",
        description="Contact-rich in-hand manipulation for the Allegro hand: models, MPC and ROS 2 nodes.",
    )
    parser.add_argument("--version", action="version", version=f"dexstack {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        if name == command:
            importlib.import_module(f"dexstack.cli.{name}").add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=summary)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0 when what was asked for was achieved, 1 when not, 2 when the user's input cannot be used,
        130 on Ctrl-C.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    command = argv[0] if argv and argv[0] in COMMANDS else None
    prefer(ONE_THREAD)
    try:
        args = build_parser(command).parse_args(argv)
        args.argv = ["dexstack", *argv]
        status = importlib.import_module(f"dexstack.cli.{args.command}").run(args)
        sys.stdout.flush()
        return status
    except ConfigError as error:
        print(f"dexstack {command}: {error}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt:
        print(f"dexstack {command}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output went away, as `dexstack … | head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
