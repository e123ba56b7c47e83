"""``dexstack eval``: seeded closed-loop trials in one process each, without ROS."""

from __future__ import annotations

import argparse

from dexstack.cli.subcommands import add_subcommands, run_subcommand

TASKS = ("allegro", "three-ball", "continuous", "robustness")
"""Every task: a module of this package of that name (with ``_`` for ``-``) that imports nothing heavy before it runs."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``eval`` and its subcommands."""
    parser = subparsers.add_parser("eval", help="closed-loop trials in one process, without ROS", description=__doc__)
    add_subcommands(parser, __name__, TASKS)


def run(args: argparse.Namespace) -> int:
    """Run one task; its exit code."""
    return run_subcommand(args, __name__)
