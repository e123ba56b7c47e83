"""Commands with subcommands, one module each."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Sequence
from types import ModuleType


def group(
    package: str, summary: str, description: str | None, names: Sequence[str]
) -> tuple[Callable[[argparse._SubParsersAction], None], Callable[[argparse.Namespace], int]]:
    """Return ``add_parser`` and ``run`` of a command whose subcommands are modules of ``package``.

    The modules are named after them, with ``_`` for ``-``; their imports must be light.

    Args:
        package: full name of the package.
        summary: line in the list of commands.
        description: docstring of the package, shown from after its first colon.
        names: names of the subcommands.
    """

    def module(name: str) -> ModuleType:
        return importlib.import_module(f"{package}.{name.replace('-', '_')}")

    def add_parser(subparsers: argparse._SubParsersAction) -> None:
        text = (description or "").partition(": ")[2]
        parser = subparsers.add_parser(
            package.rpartition(".")[2], help=summary, description=text[:1].upper() + text[1:]
        )
        inner = parser.add_subparsers(dest="subcommand", metavar="WHAT", required=True)
        for name in names:
            module(name).add_parser(inner)

    return add_parser, lambda args: module(args.subcommand).run(args)
