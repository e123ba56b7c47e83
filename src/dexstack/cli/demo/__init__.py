"""``dexstack demo``: what the engines must show, simulated, judged and drawn."""

from __future__ import annotations

import argparse

from dexstack.cli.subcommands import add_subcommands, run_subcommand

ENGINES = ("hydroelastic", "lcp", "soft")
"""Every engine with demonstrations: a module of this package of that name that imports nothing heavy before it runs."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``demo`` and its subcommands."""
    parser = subparsers.add_parser("demo", help="what the engines must show: simulate, judge, draw", description=__doc__)
    add_subcommands(parser, __name__, ENGINES)


def run(args: argparse.Namespace) -> int:
    """Run one engine's demonstration; its exit code."""
    return run_subcommand(args, __name__)
