"""``dexstack diagnose``: walk through the layers under a device, stop at the first broken one, say what mends it."""

from __future__ import annotations

import argparse

from dexstack.cli.subcommands import add_subcommands, run_subcommand

PARTS = ("hand",)
"""Every device: a module of this package of that name that imports nothing heavy before it runs."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``diagnose`` and its subcommands."""
    parser = subparsers.add_parser(
        "diagnose", help="walk through the layers under a device and stop at the first broken one", description=__doc__
    )
    add_subcommands(parser, __name__, PARTS)


def run(args: argparse.Namespace) -> int:
    """Diagnose one device; the exit code."""
    return run_subcommand(args, __name__)
