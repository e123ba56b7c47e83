"""Time from the shell command to the hand's first command, of the whole simulated graph: with empty
caches, and with full ones."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from dexstack.errors import ConfigError
from dexstack.plants import PLANTS
from experiments.harness import Findings, experiment

COLD = {"mujoco": 10.0, "lcp": 45.0, "hydroelastic": 25.0}
"""Longest time with empty caches [s]."""
WARM = 4.0
"""Largest median time with the caches of an earlier run [s], for the plant mujoco."""


def first_command(plant: str, cache: Path) -> dict[str, float]:
    """Run ``dexstack up sim`` with its caches in a folder.

    Returns:
        Time to the first command and processor time of all processes [s].

    Raises:
        ConfigError: the hand received no command.
    """
    environment = os.environ | {"XDG_CACHE_HOME": str(cache)}
    for name in ("JAX_COMPILATION_CACHE_DIR", "NUMBA_CACHE_DIR"):
        environment.pop(name, None)
    before = os.times()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "dexstack.cli.main", "up", "sim", "--plant", plant, "--no-report"]
        command += ["--json", "--results", folder]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    after = os.times()
    try:
        seconds = json.loads(done.stdout)["results"]["first_command_s"]
    except (ValueError, KeyError):
        raise ConfigError(f"`{' '.join(command)}` gave no command: {done.stderr[-500:]}") from None
    return {"first_command_s": seconds, "processor_s": sum(after[2:4]) - sum(before[2:4])}


def start_up(args: argparse.Namespace) -> Findings:
    """Start the graph with every plant, once with empty caches and several times with full ones."""
    found: list[dict[str, Any]] = []
    for plant in args.plants:
        with tempfile.TemporaryDirectory() as cache:
            cold = first_command(plant, Path(cache))
            warm = sorted(first_command(plant, Path(cache))["first_command_s"] for _ in range(args.repeats))
        found.append(
            {
                "plant": plant,
                "cold_s": cold["first_command_s"],
                "cold_limit_s": COLD.get(plant),
                "cold_processor_s": cold["processor_s"],
                "warm_s": warm[len(warm) // 2],
                "warm_worst_s": warm[-1],
                "warm_limit_s": WARM if plant == "mujoco" else None,
                "n": args.repeats,
            }
        )
    limits = [
        (f[kind], f[f"{kind.removesuffix('_s')}_limit_s"]) for f in found for kind in ("cold_s", "warm_s")
    ]
    passed = all(limit is None or seconds <= limit for seconds, limit in limits)
    line = "{plant}: cold {cold_s:.1f} s, warm {warm_s:.1f} s (worst of {n}: {warm_worst_s:.1f} s)"
    lines = [line.format(**f) for f in found]
    return Findings({"plants": found, "passed": passed}, lines=lines)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this experiment."""
    parser.add_argument(
        "--plants", nargs="+", choices=tuple(PLANTS), default=["mujoco"], help="physics engines"
    )
    parser.add_argument(
        "--repeats", type=int, default=5, metavar="N", help="number of starts with full caches"
    )


main = experiment(__spec__.name, __doc__, start_up, arguments=arguments)


if __name__ == "__main__":
    sys.exit(main())
