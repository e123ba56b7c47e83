"""Output of every command: one JSON object for programs, tables for people, progress on stderr."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dexstack import __version__
from dexstack.cli.options import option
from dexstack.errors import writing


def _writable(target: str) -> str:
    """Reject a file that cannot be written, before a long run."""
    path = Path(target)
    if target != "-" and (
        path.is_dir() or not os.access(path if path.exists() else path.absolute().parent, os.W_OK)
    ):
        raise argparse.ArgumentTypeError(f"cannot write {target}")
    return target


add_json_argument = option(
    "--json",
    metavar="FILE|-",
    nargs="?",
    const="-",
    type=_writable,
    help="write the results as one JSON object to FILE; without FILE or with '-', to stdout instead of "
    "the table",
)
"""Add ``--json [FILE|-]`` to a command's parser."""


def publish(
    args: argparse.Namespace, command: str, results: Mapping[str, Any], *views: Any, seed: int | None = None
) -> None:
    """Write the command's results.

    Args:
        args: parsed arguments, with ``json`` from :func:`add_json_argument` and optionally the
            command line ``argv`` (default: that of the process).
        command: the command as typed, e.g. ``"bench mpc"``.
        results: the JSON object's ``results``; arrays are converted, non-finite numbers become
            null.
        views: rich renderables or strings, printed to stdout unless the JSON object goes there.
        seed: seed of the run, if it has one.

    Raises:
        ConfigError: the file cannot be written.
    """
    if args.json:
        document = {
            "command": command,
            "argv": getattr(args, "argv", sys.argv),
            "version": __version__,
            "commit": commit(),
            "seed": seed,
            "machine": machine(),
            "results": results,
        }
        text = json.dumps(_plain(document), indent=2, allow_nan=False) + "\n"
        if args.json == "-":
            sys.stdout.write(text)
            return
        with writing(args.json):
            Path(args.json).write_text(text, encoding="utf-8")
    if views:
        from rich.console import Console

        console = Console()
        for view in views:
            console.print(view, markup=False, highlight=False, soft_wrap=isinstance(view, str))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if hasattr(value, "tolist"):  # numpy and JAX, without importing either
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def commit() -> str | None:
    """Return the commit of this package's checkout, with ``-dirty`` if code was changed.

    Pages and results are not code. None without a checkout or git.
    """
    root = Path(__file__).parents[3]
    git = ["git", "-C", str(root)]
    try:
        if not (root / ".git").exists():
            return None
        head = subprocess.run(
            [*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, timeout=10, check=True
        )
        code = [".", ":(exclude)docs", ":(exclude)*.md", ":(exclude)experiments/results/*.json"]
        changed = subprocess.run(
            [*git, "diff", "--quiet", "HEAD", "--", *code], capture_output=True, timeout=10
        ).returncode
    except (OSError, subprocess.SubprocessError):
        return None
    return head.stdout.strip() + "-dirty" * bool(changed)


def machine() -> dict[str, Any]:
    """Return processor, number of cores this process may use, Python version, and load averages
    over 1, 5 and 15 minutes."""
    cpu = platform.processor() or platform.machine()
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(line for line in lines if line.startswith("model name")).partition(":")[2].strip()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = [round(x, 2) for x in os.getloadavg()]
    return {"cpu": cpu, "cores": cores, "python": platform.python_version(), "load": load}


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Any:
    """Make a rich table, with numbers right-aligned, four significant digits, and None as a dash."""
    from rich.table import Table
    from rich.text import Text

    rows = [list(row) for row in rows]
    result = Table(title=title, title_justify="left")
    for i, name in enumerate(columns):
        numeric = any(isinstance(row[i], int | float) for row in rows)
        result.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        result.add_row(
            *(Text("–" if x is None else f"{x:.4g}" if isinstance(x, float) else str(x)) for x in row)
        )
    return result


def note(message: str) -> None:
    """Print one line of progress to stderr."""
    print(message, file=sys.stderr, flush=True)
