"""The ``dexstack`` command.

Every command is a module of this package with ``add_parser(subparsers)`` and ``run(args) -> int``,
or a package with one such module per subcommand, which ``SUBCOMMANDS`` lists. They are imported only when
they are called, so that ``dexstack --help`` is fast.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from dexstack import __version__
from dexstack.cli.output import add_json_argument
from dexstack.errors import USAGE_ERROR, ConfigError
from dexstack.process.threads import ONE_THREAD, prefer

COMMANDS = {
    "demo": "turn a cube in simulation and show the film",
    "up": "start the graph of nodes: simulation, mock or hardware",
    "eval": "run closed-loop trials without ROS",
    "judge": "judge a controller by a fixed protocol",
    "object": "add, check, draw and place objects",
    "hand": "add a hand from a robot file, export its description",
    "view": "simulate a scene file and draw its contact forces",
    "bench": "measure whether this machine is fast enough",
    "learn": "learn the planner's model from rollouts or recordings",
    "identify": "fit mass, friction, motors and delay of a plant to a recording",
    "monitor": "show a running graph in a browser",
    "record": "record a running graph into a bag",
    "dataset": "write recordings in a learner's format",
    "replay": "publish a bag again, or draw a recording",
    "diagnose": "check the layers under a device, one after the other",
    "capture": "record the traffic of a device's bus, for bug reports and tests",
    "calibrate": "calibrate hand, camera and tags",
    "doctor": "check the installation, and how to fix it",
}
"""Summary of every command; the module of the same name defines the rest."""


class Parser(argparse.ArgumentParser):
    """Parser of a command and its subcommands, whose help shows every default once."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "formatter_class": argparse.HelpFormatter})

    def add_argument(self, *names: str, **options: Any) -> argparse.Action:
        default, text = options.get("default"), options.get("help") or ""
        silent = default is None or default is False or default in ("", [], argparse.SUPPRESS)
        if not silent and "default" not in text:
            shown = " ".join(map(str, default)) if isinstance(default, list | tuple) else str(default)
            options["help"] = f"{text} (default: {shown.replace('%', '%%')})".lstrip()
        return super().add_argument(*names, **options)


def build_parser(command: str | None) -> argparse.ArgumentParser:
    """Return the parser with the arguments of ``command`` only; it and its subcommands have ``--json``."""
    parser = Parser(
        prog="dexstack",
        description="Contact-rich in-hand manipulation for robot hands: contact models, MPC and ROS 2 nodes.",
    )
    parser.add_argument("--version", action="version", version=f"dexstack {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        if name == command:
            _add_command(subparsers, name)
        else:
            subparsers.add_parser(name, help=summary)
    for leaf in _leaves(subparsers.choices[command]) if command else ():
        add_json_argument(leaf)
    return parser


def _add_command(subparsers: argparse._SubParsersAction, name: str) -> None:
    """Add a command from its module, or from the modules ``SUBCOMMANDS`` of its package."""
    module = _module(name)
    if not hasattr(module, "SUBCOMMANDS"):
        module.add_parser(subparsers)
        return
    text = module.__doc__.partition(": ")[2]
    parser = subparsers.add_parser(name, description=text[:1].upper() + text[1:])
    inner = parser.add_subparsers(dest="subcommand", metavar="WHAT", required=True)
    for part in module.SUBCOMMANDS:
        _module(name, part).add_parser(inner)


def _module(*names: str) -> ModuleType:
    """Return the module of a command or subcommand, named after it with ``_`` for ``-``."""
    return importlib.import_module(".".join(["dexstack.cli", *names]).replace("-", "_"))


def _leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parsers below ``parser`` that have no subcommands."""
    inner = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not inner:
        yield parser
    for action in inner:
        for choice in action.choices.values():
            yield from _leaves(choice)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0 on success, 1 if the goal of the command was not reached, 2 for invalid input, 130 on
        Ctrl-C.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    command = argv[0] if argv and argv[0] in COMMANDS else None
    os.environ["MUJOCO_GL"] = "off"  # nothing draws with it, and another choice may fail to load
    prefer(ONE_THREAD)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without a character shows "?"
            stream.reconfigure(errors="replace")
    try:
        args = build_parser(command).parse_args(argv)
        args.argv = ["dexstack", *argv]
        names = [args.command, args.subcommand] if "subcommand" in args else [args.command]
        status = _module(*names).run(args)
        sys.stdout.flush()
        return status
    except ConfigError as error:
        print(f"dexstack {command}: {error}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt:
        print(f"dexstack {command}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of the output has ended, as in `dexstack … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
