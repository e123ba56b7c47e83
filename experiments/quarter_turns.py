"""Turns by ±90° of a hand's and an object's files with the defaults of everything, as ``dexstack
eval palm_turn`` makes them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dexstack.cli.output import note
from dexstack.report.statistics import wilson


def quarter_turns(name: str, what: Sequence[str], trials: int, seed: int, results: Path) -> dict[str, Any]:
    """A row of a table: how many of them succeed, or why none was tried.

    Args:
        name: for the progress.
        what: options of the command that say what turns what.
        seed: of the first; trial k starts with ``seed`` + k.
        results: folder of the command's results.
    """
    command = [
        sys.executable,
        "-m",
        "dexstack.cli.main",
        "eval",
        "palm_turn",
        *what,
        "--goal-yaw",
        "90",
        "-90",
    ]
    options = ["--trials", str(trials), "--seed", str(seed), "--results", str(results), "--json", "-"]
    done = subprocess.run([*command, *options], capture_output=True, text=True)
    if not done.stdout:
        return {
            "refused": (done.stderr.strip().splitlines() or ["no word"])[-1].replace(str(results.parent), "")
        }
    found = json.loads(done.stdout)["results"]
    succeeded = sum(one["succeeded"] for one in found["each"])
    note(f"{name}: {succeeded} of {trials}")
    return {
        "trials": trials,
        "succeeded": succeeded,
        "interval": wilson(succeeded, trials),
        "dropped": found["dropped"],
        "stalls": found["stalls"],
        "error_rad": found["orientation_error_rad"]["mean"],
        "solve_p99_ms": 1e3 * found["solve_s"]["p99"],
    }
