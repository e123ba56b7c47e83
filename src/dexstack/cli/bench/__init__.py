"""``dexstack bench``: whether this machine is fast enough for the parts of the stack."""

from __future__ import annotations

import argparse

from dexstack.cli.subcommands import add_subcommands, run_subcommand

PARTS = ("mpc", "hand", "faults", "pose-estimator", "network", "monitor")
"""Every part: a module of this package of that name (with ``_`` for ``-``) that imports nothing heavy before it runs."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``bench`` and its subcommands."""
    parser = subparsers.add_parser("bench", help="measure whether this machine is fast enough", description=__doc__)
    add_subcommands(parser, __name__, PARTS)


def run(args: argparse.Namespace) -> int:
    """Run one part; its exit code."""
    return run_subcommand(args, __name__)
