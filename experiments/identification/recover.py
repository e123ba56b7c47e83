"""Hidden worlds, a minute of recording each, and what the identification makes of it."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from dexstack.cli import arguments
from dexstack.cli.output import note, table
from dexstack.graph.settings import Spec, make_task, read_settings
from dexstack.identification.fit import identify
from dexstack.identification.rollouts import servo_of
from dexstack.identification.unknowns import DELAY, chosen, values
from dexstack.report.statistics import wilson
from dexstack.tasks.base import World
from dexstack.trials.pool import in_processes
from dexstack.trials.sweep import loop_of
from dexstack.trials.worlds import drawn
from experiments.harness import Outcome, run

TRIALS, SECONDS = 4, 15.0
FIELDS = ("mass", "friction", "torque", "joint_damping", "joint_friction")
DELAYS = (0.0, 0.06)
"""[s]"""
LIMITS = {"mass": 0.05, "friction": 0.1, "torque": 0.1, "joint_damping": 0.1, "joint_friction": 0.1, DELAY: 0.002}
"""Largest median error: relative, of the delay in seconds."""
LONGEST = 120.0
"""[s]"""


def hidden(seed: int) -> tuple[World, float]:
    """A world and its delay [s]."""
    rng = np.random.default_rng(seed)
    return drawn(rng, *FIELDS), float(rng.uniform(*DELAYS))


def recorded(world: World, delay: float, seed: int) -> tuple[dict[str, np.ndarray], int]:
    """A minute of the default controller, which knows nothing of it; and how many of its trials succeeded."""
    loop = loop_of(Spec(overrides=(("latency", delay),), world=world))
    trials = [loop.run(k, seed, SECONDS) for k in range(TRIALS)]
    names = ("t", "pose_WO", "q", "q_command", "qd", "twist_WO")
    return {n: np.concatenate([t.recording[n] for t in trials]) for n in names}, sum(t.succeeded for t in trials)


def recovered(seed: int) -> dict[str, Any]:
    """One case."""
    world, delay = hidden(seed)
    recording, succeeded = recorded(world, delay, 1000 * seed)
    spec = Spec()
    settings = read_settings(spec)
    task = make_task(spec, settings)
    begin = time.perf_counter()
    fit = identify(task, servo_of(task, settings), recording, chosen(()))
    truth = asdict(world) | {DELAY: delay}
    rows = [
        {
            "name": u.name, "truth": truth[u.name], "value": float(v), "low": float(low), "high": float(high), "told": bool(told),
            "error": float(abs(v - truth[u.name]) / (truth[u.name] if u.positive else 1.0)), "covered": bool(low <= truth[u.name] <= high),
        }
        for u, v, (low, high), told in zip(fit.unknowns, values(fit.unknowns, fit.x), fit.interval(), fit.told, strict=True)
    ]  # fmt: skip
    return {
        "seed": seed,
        "succeeded": succeeded,
        "seconds": time.perf_counter() - begin,
        "before": fit.before,
        "after": fit.after,
        "unknowns": rows,
    }


def recover(args: argparse.Namespace) -> Outcome:
    """All cases."""
    cases = []
    for case in in_processes(recovered, args.jobs, [args.seed + k for k in range(args.cases)]):
        cases.append(case)
        note(f"case {case['seed']}: residual {case['before']:.3g} → {case['after']:.3g} in {case['seconds']:.0f} s")
    rows = []
    for name, limit in LIMITS.items():
        found = [u for case in cases for u in case["unknowns"] if u["name"] == name]
        errors = np.array([u["error"] for u in found])
        covered = sum(u["covered"] for u in found)
        rows.append({
            "name": name, "limit": limit, "median_error": float(np.median(errors)), "worst_error": float(errors.max()),
            "within": int((errors <= limit).sum()), "covered": covered, "covered_interval": wilson(covered, len(found)), "of": len(found),
        })  # fmt: skip
    longest = max(case["seconds"] for case in cases)
    passed = longest <= LONGEST and all(r["median_error"] <= r["limit"] and r["covered"] >= 0.9 * r["of"] for r in rows)
    results = {"cases": cases, "unknowns": rows, "longest_s": longest, "passed": bool(passed)}
    shown = [
        [r["name"], r["median_error"], r["worst_error"], r["limit"], f"{r['within']} of {r['of']}", f"{r['covered']} of {r['of']}"]
        for r in rows
    ]
    columns = ("unknown", "median error", "worst", "limit", "within", "in the 90 % interval")
    lines = [table("recovered from a minute of recording", columns, shown), f"longest fit {longest:.0f} s"]
    return Outcome(results, None, lines, args.seed)


def _arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--cases", type=arguments.positive_int, default=10, metavar="N", help="hidden worlds")
    p.add_argument("--seed", type=arguments.natural, default=100, metavar="S", help="case k is drawn by seed S + k")
    p.add_argument("--jobs", type=arguments.positive_int, default=1, metavar="N", help="processes side by side")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; its exit code."""
    return run(__spec__.name, __doc__, recover, argv, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
