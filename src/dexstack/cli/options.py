"""Arguments of commands as values: a command lists its own and those of groups that it shares."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

Part = Callable[[Any], Any]
"""Adds arguments to a parser, or to a group of one."""


def option(*names: str, **settings: Any) -> Part:
    """Return one argument; names and settings are those of ``argparse.ArgumentParser.add_argument``."""
    return lambda parser: parser.add_argument(*names, **settings)


def options(*parts: Part) -> Part:
    """Return several arguments as one group."""

    def add(parser: argparse._ActionsContainer) -> None:
        for part in parts:
            part(parser)

    return add


def one_of(*parts: Part) -> Part:
    """Return arguments of which a command takes one at most."""
    return lambda parser: options(*parts)(parser.add_mutually_exclusive_group())


def command(name: str, *parts: Part, **texts: str) -> Callable[[argparse._SubParsersAction], None]:
    """Return the function ``add_parser`` of a command.

    Args:
        name: name of the command or subcommand.
        parts: its arguments.
        texts: ``description``, and ``help`` of a subcommand.
    """
    return lambda subparsers: options(*parts)(subparsers.add_parser(name, **texts))
