"""Identification of hidden worlds from a minute of recording each, compared with mujoco.sysid.

Worlds differ in mass, friction, centre of mass, motors, damping and dry friction of the joints, and
delay; with `--also` also in the joints' armature and the stiffness of contacts. The peer is run
where it is installed (extra `peers`), with the same windows and rollouts.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dexstack.cli import arguments
from dexstack.cli.output import commit, note, table
from dexstack.graph.settings import Spec, make_task, read_settings
from dexstack.identification.fit import identify
from dexstack.identification.rollouts import Simulated, servo_of
from dexstack.identification.unknowns import DELAY, Unknown, chosen, values
from dexstack.report.statistics import wilson
from dexstack.tasks.base import OFFSETS, World
from dexstack.tasks.worlds import drawn
from dexstack.trials.keep import claim
from dexstack.trials.pool import in_processes
from dexstack.trials.sweep import loop_of
from experiments.harness import Findings, experiment, kept_json
from experiments.identification import peer

TRIALS, SECONDS = 4, 15.0
FIELDS = ("mass", "friction", "torque", "joint_damping", "joint_friction")
DELAYS = (0.0, 0.06)
"""[s]"""
OFFSET = 0.005
"""Largest offset of the centre of mass along an axis [m]."""
LIMITS = {"mass": 0.05, "friction": 0.1, "torque": 0.1, "joint_damping": 0.1, "joint_friction": 0.1}
LIMITS |= {"joint_armature": 0.1, "contact_stiffness": 0.2} | dict.fromkeys(OFFSETS, 0.002) | {DELAY: 0.002}
"""Largest median errors: relative, of offsets in metres, of the delay in seconds."""
MORE = ("joint_armature", "contact_stiffness")
LONGEST, CASES = 120.0, 50
"""Longest time of a fit [s], and least number of cases for the coverage of intervals."""
PEER, PLANT = "mujoco.sysid", "mujoco"
OURS = f"rollouts of {PLANT}"


class Case(NamedTuple):
    """One identification."""

    seed: int
    peer: bool
    """True to run the peer too."""
    also: tuple[str, ...] = ()
    """Fields of :data:`MORE` that are hidden and identified in addition."""


def hidden(seed: int, also: Sequence[str] = ()) -> tuple[World, float]:
    """Draw a world, which also differs in some fields of :data:`MORE`, and its delay [s]."""
    rng = np.random.default_rng(seed)
    world, delay = drawn(rng, *FIELDS), float(rng.uniform(*DELAYS))
    world = replace(
        world, **dict(zip(OFFSETS, rng.uniform(-OFFSET, OFFSET, len(OFFSETS)).tolist(), strict=True))
    )
    more = drawn(rng, *also) if also else World()
    return replace(world, **{name: getattr(more, name) for name in also}), delay


def recorded(world: World, delay: float, seed: int) -> tuple[dict[str, np.ndarray], int]:
    """Record a minute of the default controller towards consecutive goals; return the recording and
    the number of goals reached."""
    loop = loop_of(Spec(overrides=(("latency", delay),), world=world, plant=PLANT))
    trials = []
    for k in range(TRIALS):
        goals = itertools.chain.from_iterable(loop.task.goals(j, seed) for j in itertools.count(k))
        trials.append(loop.run(k, seed, SECONDS, goals=goals))
    names = ("t", "pose_WO", "q", "q_command", "qd", "twist_WO")
    recording = {n: np.concatenate([t.recording[n] for t in trials]) for n in names}
    return recording, sum(len(t.reached_at) for t in trials)


def recovered(case: Case) -> dict[str, Any]:
    """Identify one case."""
    world, delay = hidden(case.seed, case.also)
    recording, reached = recorded(world, delay, 1000 * case.seed)
    spec = Spec()
    settings = read_settings(spec)
    task = make_task(spec, settings)
    servo, unknowns = servo_of(task, settings), chosen((), (*OFFSETS, *case.also))
    truth = asdict(world) | {DELAY: delay}
    begin, cpu = time.perf_counter(), time.process_time()
    fit = identify(task, servo, recording, unknowns, plant=Simulated(PLANT))
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    found = {"seed": case.seed, "plant": PLANT, "by": OURS, "reached": reached}
    found |= {"before": fit.before, "after": fit.after}
    judged = _judged(unknowns, truth, values(unknowns, fit.x), *fit.interval().T)
    found |= {"seconds": seconds, "cpu_s": cpu, "unknowns": judged}
    for row, told in zip(judged, fit.told, strict=True):
        row["told"] = bool(told)
    if case.peer and peer.installed():
        cpu = time.process_time()
        other = peer.found(task, servo, recording, unknowns)
        judged = _judged(unknowns, truth, other.value, other.low, other.high)
        found[PEER] = {"seconds": other.seconds, "cpu_s": time.process_time() - cpu, "unknowns": judged}
    return found


def _judged(
    unknowns: Sequence[Unknown], truth: Mapping[str, float], *found: np.ndarray
) -> list[dict[str, Any]]:
    """Compare results (value, low, high, each (P,)) with the truth."""
    return [
        {
            "name": u.name,
            "truth": truth[u.name],
            "value": float(v),
            "low": float(low),
            "high": float(high),
            "error": float(abs(v - truth[u.name]) / (truth[u.name] if u.positive else 1.0)),
            "covered": bool(low <= truth[u.name] <= high),
        }
        for u, v, low, high in zip(unknowns, *found, strict=True)
    ]


def recover(args: argparse.Namespace) -> Findings:
    """Identify all cases."""
    if args.keep:
        claim(args.keep, {"commit": commit()}, "cases")
    also = tuple(args.also)
    folder, cases = str(args.keep.absolute()) if args.keep else "", []
    plan = [Case(args.seed + k, k < args.peers, also) for k in range(args.cases)]
    for case in in_processes(kept, args.jobs, plan, [folder] * len(plan)):
        cases.append(case)
        residuals = f"{case['before']:.3g} → {case['after']:.3g}"
        note(f"case {case['seed']}: residual {residuals} in {case['seconds']:.0f} s")
    peers = [case[PEER] for case in cases if PEER in case]
    groups = {OURS: cases} | ({PEER: peers} if peers else {})
    rows = [{"plant": PLANT, "by": by, **row} for by, found in groups.items() for row in _summary(found)]
    fits = [{"plant": PLANT, "by": by, **_times(found)} for by, found in groups.items()]
    own = [r for r in rows if r["by"] == OURS]
    passed = args.cases >= CASES and all(
        r["median_error"] <= r["limit"] and r["covered"] >= 0.9 * r["of"] for r in own
    )
    passed = passed and all(fit["longest_s"] <= LONGEST for fit in fits if fit["by"] != PEER)
    both = [case[PEER]["cpu_s"] / case["cpu_s"] for case in cases if PEER in case]
    results = {"cases": cases, "rows": rows, "fits": fits, "passed": bool(passed)} | (
        {"cpu_ratio": float(np.median(both))} if both else {}
    )
    keys = ("plant", "by", "fits", "longest_s", "cpu_s", "after")
    columns = (
        "plant",
        "by",
        "fits",
        "longest [s]",
        "processor time, median [s]",
        "residual held out, median",
    )
    lines = [
        _table(rows),
        table("how long fits take", columns, [[fit.get(key, "–") for key in keys] for fit in fits]),
    ]
    lines += (
        [f"{PEER} takes {results['cpu_ratio']:.2g} times our processor time (median of pairs)"]
        if both
        else []
    )
    return Findings(results, None, lines, args.seed)


def kept(case: Case, folder: str) -> dict[str, Any]:
    """Return one case, from a folder where it is kept; an empty name: nothing is kept."""
    path = Path(folder) / f"{'-'.join(map(str, case))}.json" if folder else None
    return kept_json(path, lambda: recovered(case))


def _times(fits: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    longest, cpu_s = max(fit["seconds"] for fit in fits), float(np.median([fit["cpu_s"] for fit in fits]))
    after = [fit["after"] for fit in fits if "after" in fit]  # the peer holds no windows out
    return {"fits": len(fits), "longest_s": longest, "cpu_s": cpu_s} | (
        {"after": float(np.median(after))} if after else {}
    )


def _summary(fits: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for name, limit in LIMITS.items():
        found = [u for fit in fits for u in fit["unknowns"] if u["name"] == name]
        if not found:
            continue
        errors = np.array([u["error"] for u in found])
        covered = sum(u["covered"] for u in found)
        rows.append(
            {
                "name": name,
                "limit": limit,
                "median_error": float(np.median(errors)),
                "worst_error": float(errors.max()),
                "within": int((errors <= limit).sum()),
                "covered": covered,
                "covered_interval": wilson(covered, len(found)),
                "of": len(found),
            }
        )
    return rows


def _table(rows: Sequence[Mapping[str, Any]]) -> Any:
    shown = [
        [
            r["plant"],
            r["by"],
            r["name"],
            r["median_error"],
            r["worst_error"],
            r["limit"],
            f"{r['within']} of {r['of']}",
            f"{r['covered']} of {r['of']}",
        ]
        for r in rows
    ]
    columns = ("plant", "by", "unknown", "median error", "worst", "limit", "within", "in the 90 % interval")
    return table("recovered from a minute of recording", columns, shown)


def _arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--cases", type=arguments.positive_int, default=CASES, metavar="N", help="hidden worlds")
    p.add_argument("--also", nargs="+", choices=MORE, default=[], help="what else is hidden, and looked for")
    p.add_argument(
        "--peers", type=arguments.natural, default=CASES, metavar="N", help=f"{PEER} takes part in this many"
    )
    p.add_argument(
        "--seed", type=arguments.natural, default=100, metavar="S", help="case k is drawn by seed S + k"
    )
    p.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep every case there, and resume an interrupted run"
    )
    p.add_argument(
        "--jobs", type=arguments.positive_int, default=1, metavar="N", help="processes side by side"
    )


main = experiment(__spec__.name, __doc__, recover, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
