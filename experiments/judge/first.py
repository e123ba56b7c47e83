"""The first table of judged controllers: three planners and a policy that the package `cma` trained, by
`dexstack judge` with ``experiments/judge/protocol.yaml``.

The policy is that of ``examples/train_yaw``, trained for turns about the vertical only. Required
beforehand: it succeeds in at least half of the turns; for the other cells nothing is required.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from dexstack.cli.main import main as dexstack
from dexstack.cli.output import table
from dexstack.config import share_dir
from dexstack.errors import ConfigError
from dexstack.report.judgement import COLUMNS, cells_of
from experiments.harness import Findings, experiment

HERE = Path(__file__).parent
PAPER = ["--params", str(share_dir() / "config" / "paper" / "palm_turn.yaml")]
CONTROLLERS = {
    "gauss_newton": ["gauss_newton"],
    "sampling": ["sampling"],
    "ContactSDF as published": ["gauss_newton", *PAPER, "--set", "theta=paper_palm_turn_cube"],
    "yaw": [str(HERE / "policies" / "yaw.onnx")],
}
"""Controllers by name, each with the arguments of `dexstack judge`."""
POLICY = "yaw"
ENOUGH = 0.5


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", metavar="N", default="4", help="of each cell")
    parser.add_argument("--only", nargs="+", choices=CONTROLLERS, default=list(CONTROLLERS), metavar="NAME")
    parser.add_argument("--kept", type=Path, metavar="DIR", help="folder of finished trials")


def first(args: argparse.Namespace) -> Findings:
    """Judge the controllers."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="dexstack-") as folder:
        for name in args.only:
            kept, found = (args.kept or Path(folder)) / name, Path(folder) / "found.json"
            asked = ["--trials", args.trials, "--protocol", str(HERE / "protocol.yaml")]
            argv = ["judge", *CONTROLLERS[name], *asked, "--results", str(kept), "--json", str(found)]
            if dexstack(argv):
                raise ConfigError(f"dexstack {' '.join(argv)} failed")
            judged = json.loads(found.read_text())["results"]
            rows += [{"controller": name, "label": f"{name}, {r['task']}", **r} for r in judged["cells"]]
    turned = [r["success_rate"] for r in rows if r["controller"] == POLICY and r["task"] == "yaw"]
    results = {"hash": judged["hash"], "cells": rows, "passed": all(rate >= ENOUGH for rate in turned)}
    shown = table(
        "Judged controllers",
        ["controller", *COLUMNS[:6]],
        [[r["controller"], *cells_of(r)[:6]] for r in rows],
    )
    return Findings(results, lines=[shown], seed=810000)


main = experiment("experiments.judge.first", __doc__, first, arguments=_arguments)

if __name__ == "__main__":
    sys.exit(main())
