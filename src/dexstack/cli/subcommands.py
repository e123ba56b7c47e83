"""Commands with subcommands, one module each: a new subcommand is one file and one name."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from types import ModuleType


def add_subcommands(parser: argparse.ArgumentParser, package: str, names: Sequence[str]) -> None:
    """Give ``parser`` the subcommands of ``package``; their modules load nothing heavy before they run."""
    subparsers = parser.add_subparsers(dest="subcommand", metavar="WHAT", required=True)
    for name in names:
        _module(package, name).add_parser(subparsers)


def run_subcommand(args: argparse.Namespace, package: str) -> int:
    """Run the subcommand chosen; its exit code."""
    return _module(package, args.subcommand).run(args)


def _module(package: str, name: str) -> ModuleType:
    return importlib.import_module(f"{package}.{name.replace('-', '_')}")
