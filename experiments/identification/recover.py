"""Hidden worlds, a minute of recording each, and what the identification makes of it, beside mujoco.sysid on the same windows.

The peer takes part where it is installed (extra `peers`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from dexstack.cli import arguments
from dexstack.cli.output import note, table
from dexstack.errors import writing
from dexstack.graph.settings import Spec, make_task, read_settings
from dexstack.identification.fit import identify
from dexstack.identification.rollouts import servo_of
from dexstack.identification.unknowns import DELAY, Unknown, chosen, values
from dexstack.report.statistics import wilson
from dexstack.tasks.base import World
from dexstack.trials.pool import in_processes
from dexstack.trials.sweep import loop_of
from dexstack.trials.worlds import drawn
from experiments.harness import Outcome, run
from experiments.identification import peer

TRIALS, SECONDS = 4, 15.0
FIELDS = ("mass", "friction", "torque", "joint_damping", "joint_friction")
DELAYS = (0.0, 0.06)
"""[s]"""
LIMITS = {"mass": 0.05, "friction": 0.1, "torque": 0.1, "joint_damping": 0.1, "joint_friction": 0.1, DELAY: 0.002}
"""Largest median error: relative, of the delay in seconds."""
LONGEST, CASES = 120.0, 50
"""Of a fit [s], and fewest cases that show how often an interval holds the truth."""


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
    servo, unknowns, truth = servo_of(task, settings), chosen(()), asdict(world) | {DELAY: delay}
    begin, cpu = time.perf_counter(), time.process_time()
    fit = identify(task, servo, recording, unknowns)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    case = {"seed": seed, "succeeded": succeeded, "seconds": seconds, "cpu_s": cpu, "before": fit.before, "after": fit.after}
    case["unknowns"] = _judged(unknowns, truth, values(unknowns, fit.x), *fit.interval().T)
    for row, told in zip(case["unknowns"], fit.told, strict=True):
        row["told"] = bool(told)
    if peer.installed():
        cpu = time.process_time()
        other = peer.found(task, servo, recording, unknowns)
        judged = _judged(unknowns, truth, other.value, other.low, other.high)
        case["sysid"] = {"seconds": other.seconds, "cpu_s": time.process_time() - cpu, "unknowns": judged}
    return case


def _judged(unknowns: Sequence[Unknown], truth: Mapping[str, float], *found: np.ndarray) -> list[dict[str, Any]]:
    """What was found (value, low, high, each (P,)), beside the truth."""
    return [
        {
            "name": u.name, "truth": truth[u.name], "value": float(v), "low": float(low), "high": float(high),
            "error": float(abs(v - truth[u.name]) / (truth[u.name] if u.positive else 1.0)), "covered": bool(low <= truth[u.name] <= high),
        }
        for u, v, low, high in zip(unknowns, *found, strict=True)
    ]  # fmt: skip


def recover(args: argparse.Namespace) -> Outcome:
    """All cases."""
    cases = []
    folder = str(args.keep.absolute()) if args.keep else ""
    seeds = [args.seed + k for k in range(args.cases)]
    for case in in_processes(kept, args.jobs, seeds, [folder] * len(seeds)):
        cases.append(case)
        note(f"case {case['seed']}: residual {case['before']:.3g} → {case['after']:.3g} in {case['seconds']:.0f} s")
    rows = _summary([case["unknowns"] for case in cases])
    longest = max(case["seconds"] for case in cases)
    passed = (
        len(cases) >= CASES and longest <= LONGEST and all(r["median_error"] <= r["limit"] and r["covered"] >= 0.9 * r["of"] for r in rows)
    )
    results = {"cases": cases, "unknowns": rows, "longest_s": longest, "passed": bool(passed)}
    lines = [_table("recovered from a minute of recording", rows), f"longest fit {longest:.0f} s"]
    others = [case["sysid"] for case in cases if "sysid" in case]
    if others:
        peers = _summary([other["unknowns"] for other in others])
        results["sysid"] = {"unknowns": peers, "longest_s": max(other["seconds"] for other in others)}
        results["cpu_ratio"] = float(np.median([case["sysid"]["cpu_s"] / case["cpu_s"] for case in cases if "sysid" in case]))
        lines.append(_table("by mujoco.sysid from the same windows", peers))
        lines.append(f"its longest fit {results['sysid']['longest_s']:.0f} s; {results['cpu_ratio']:.2g} times our processor time (median)")
    return Outcome(results, None, lines, args.seed)


def kept(seed: int, folder: str) -> dict[str, Any]:
    """One case, from a folder where it is done already; an empty name: nothing is kept."""
    path = Path(folder) / f"case-{seed}.json" if folder else None
    if path is not None and path.is_file():
        return json.loads(path.read_text())
    case = recovered(seed)
    if path is not None:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(case, indent=1))
    return case


def _summary(cases: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    rows = []
    for name, limit in LIMITS.items():
        found = [u for unknowns in cases for u in unknowns if u["name"] == name]
        errors = np.array([u["error"] for u in found])
        covered = sum(u["covered"] for u in found)
        rows.append({
            "name": name, "limit": limit, "median_error": float(np.median(errors)), "worst_error": float(errors.max()),
            "within": int((errors <= limit).sum()), "covered": covered, "covered_interval": wilson(covered, len(found)), "of": len(found),
        })  # fmt: skip
    return rows


def _table(title: str, rows: Sequence[Mapping[str, Any]]) -> Any:
    shown = [
        [r["name"], r["median_error"], r["worst_error"], r["limit"], f"{r['within']} of {r['of']}", f"{r['covered']} of {r['of']}"]
        for r in rows
    ]
    return table(title, ("unknown", "median error", "worst", "limit", "within", "in the 90 % interval"), shown)


def _arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--cases", type=arguments.positive_int, default=CASES, metavar="N", help="hidden worlds")
    p.add_argument("--seed", type=arguments.natural, default=100, metavar="S", help="case k is drawn by seed S + k")
    p.add_argument("--keep", type=Path, metavar="FOLDER", help="keep every case there, and go on where it was cut")
    p.add_argument("--jobs", type=arguments.positive_int, default=1, metavar="N", help="processes side by side")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; its exit code."""
    return run(__spec__.name, __doc__, recover, argv, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
