"""What the demonstrations of all engines have in common as commands: arguments, picture, exit code."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dexstack.cli.output import add_json_argument, note, publish
from dexstack.errors import ConfigError

if TYPE_CHECKING:
    from experiments.checks import Check


def add_engine(
    subparsers: argparse._SubParsersAction, engine: str, what: str, checks: Mapping[str, str], how: str = "Run one check and draw it."
) -> argparse.ArgumentParser:
    """Add ``demo ENGINE``; ``checks`` says what each is."""
    p = subparsers.add_parser(
        engine,
        help=f"{what}: {', '.join(checks)}",
        description=f"{how} Exit code 0 only if its figures were reached.",
        epilog="; ".join(f"{name}: {doc}" for name, doc in checks.items()),
    )
    p.add_argument("check", choices=list(checks), help="what to run")
    p.add_argument("--results", type=Path, help="folder for the picture (default: a new one in results/)")
    add_json_argument(p)
    return p


def run_check(args: argparse.Namespace, engine: str, checks: Mapping[str, str], make: Callable[[], Check]) -> int:
    """Run one check, keep its picture and publish what it found.

    Returns:
        0 when its figures were reached, otherwise 1.

    Raises:
        ConfigError: the picture cannot be written.
    """
    note(f"{args.check}: {checks[args.check]}")
    check = make()
    folder = args.results or Path("results") / f"demo-{engine}-{args.check}-{datetime.now():%Y%m%d-%H%M%S}"
    path = folder / f"{args.check}.png"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check.figure.savefig(path, dpi=110)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None
    passed = check.results["passed"]
    verdict = "reached" if passed else "not reached"
    publish(args, f"demo {engine} {args.check}", {**check.results, "plot": str(path)}, *check.lines, f"{verdict}; picture in {path}")
    return 0 if passed else 1
