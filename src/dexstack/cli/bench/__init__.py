"""``dexstack bench``: measure the parts of the stack against their peers."""

from __future__ import annotations

import argparse

from dexstack.cli.subcommands import add_subcommands, run_subcommand

PARTS = (
    "mpc",
    "perception",
    "pose-estimator",
    "hand",
    "monitor",
    "network",
)
"""Every part: a module of this package of that name (with ``_`` for ``-``) that imports nothing heavy before it runs."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``bench`` and its subcommands."""
    parser = subparsers.add_parser("bench", help="measure the parts against their peers", description=__doc__)
    add_subcommands(parser, __name__, PARTS)


def run(args: argparse.Namespace) -> int:
    """Run one part; its exit code."""
    return run_subcommand(args, __name__)
