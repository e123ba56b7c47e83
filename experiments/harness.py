"""Command line, picture, JSON and exit code of an experiment, and the colours of figures.

An experiment is one module with ``main = experiment(…)``, run as ``python -m experiments.PAPER.NAME``.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dexengines.errors import EngineError
from dexstack.cli.cores import add_core_argument, one_core
from dexstack.cli.output import add_json_argument, publish
from dexstack.errors import USAGE_ERROR, ConfigError
from dexstack.files import write_text
from dexstack.process.interrupts import sigterm_interrupts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, PINK, GREEN = "#1f5fa8", "#d61e82", "#3a9d5d"


@dataclass(frozen=True)
class Findings:
    """Results of an experiment."""

    results: dict[str, Any]
    """As for :func:`dexstack.cli.output.publish`; ``passed`` says whether what was asked for
    beforehand was reached."""
    figure: Figure | None = None
    lines: Sequence[Any] = field(default_factory=list)
    """Tables and sentences, for people."""
    seed: int | None = None


def experiment(module: str, doc: str | None, make: Callable, **options: Any) -> Callable[..., int]:
    """Return ``main(argv)`` of an experiment; the arguments are those of :func:`run`."""
    return functools.partial(run, module, doc, make, **options)


def run(
    module: str,
    doc: str | None,
    make: Callable[[argparse.Namespace], Findings],
    argv: Sequence[str] | None = None,
    *,
    arguments: Callable[[argparse.ArgumentParser], Any] | None = None,
    pinned: bool = False,
) -> int:
    """Run one experiment from its command line.

    Args:
        module: full name of the experiment's module.
        doc: its docstring; the first paragraph is the description that ``--help`` shows.
        make: runs the experiment for the parsed arguments.
        argv: arguments; those of the process if None.
        arguments: adds the experiment's own arguments.
        pinned: times are measured: ``--core`` is offered, and ``make`` runs on that one core, which
            it finds in ``args.core``.

    Returns:
        0 when what was asked for was reached, 1 when not, 2 when the input cannot be used, 130 on
        Ctrl-C or SIGTERM.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=(doc or "").split("\n\n")[0],
        epilog="Exit code 0 only if what the experiment asks for was reached.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    if arguments is not None:
        arguments(parser)
    if pinned:
        add_core_argument(parser)
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the result as a PNG")
    add_json_argument(parser)
    args = parser.parse_args(argv)
    args.argv = ["python", "-m", module, *argv]
    try:
        with sigterm_interrupts(), one_core(args.core) if pinned else contextlib.nullcontext() as core:
            if pinned:
                args.core = core
            findings = make(args)
        _keep(args, findings)
    except (ConfigError, EngineError) as error:
        print(f"{module}: {error}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt:
        print(f"{module}: interrupted", file=sys.stderr)
        return 130
    return 0 if findings.results["passed"] else 1


def _keep(args: argparse.Namespace, findings: Findings) -> None:
    """Write picture and JSON, show the rest."""
    if args.picture is not None:
        if findings.figure is None:
            raise ConfigError("this experiment draws no picture")
        from dexstack.report.figure import save_figure

        save_figure(findings.figure, args.picture)
    verdict = "reached" if findings.results["passed"] else "not reached"
    publish(
        args,
        shlex.join(args.argv),
        findings.results,
        *findings.lines,
        f"what was asked for: {verdict}",
        seed=findings.seed,
    )


def kept_json(path: Path | None, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the JSON object of a file, or compute it and write the file atomically.

    Args:
        path: None: nothing is kept.

    Raises:
        ConfigError: the file cannot be written.
    """
    if path is not None and path.is_file():
        return json.loads(path.read_text(encoding="utf-8"))
    found = compute()
    if path is not None:
        write_text(path, json.dumps(found, indent=1, default=lambda array: array.tolist()))
    return found
