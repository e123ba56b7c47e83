"""``dexstack calibrate``: measure what differs from device to device, and keep it."""

from __future__ import annotations

import argparse

from dexstack.cli.subcommands import add_subcommands, run_subcommand

PARTS = ("hand", "camera", "tags", "sheet")
"""Every device: a module of this package of that name that imports nothing heavy before it runs."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``calibrate`` and its subcommands."""
    parser = subparsers.add_parser("calibrate", help="measure what differs from device to device", description=__doc__)
    add_subcommands(parser, __name__, PARTS)


def run(args: argparse.Namespace) -> int:
    """Calibrate one device; the exit code."""
    return run_subcommand(args, __name__)
