"""Validity and time of the solvers on random frictional LCPs of 1 to 64 contacts.

Random, boxes, stacks, duplicated, near-parallel and opposing contacts. Every solution is checked
again, independently. Asked for: Lemke, the engine's solver, solves all of them validly.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from dexstack.cli import arguments
from dexstack.cli.output import note, table
from dexstack.report.statistics import times
from experiments.harness import Findings, experiment
from experiments.lcp.solvers import METHODS, Status, Way, solve

KINDS = ("random", "boxes", "stacks", "duplicates", "near-parallel", "opposing")
MAX_CONTACTS = 64


@dataclass(frozen=True)
class Lcp:
    """One problem; see :func:`dexengines.lcp.solver.solve`."""

    A: np.ndarray
    b: np.ndarray
    owner: np.ndarray
    mu: np.ndarray


def _frame(n: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return (3, 3) rows: the normal and two tangents."""
    t = np.cross(n, rng.normal(size=3))
    t /= np.linalg.norm(t)
    return np.array([n, t, np.cross(n, t)])


def _unit(rng: np.random.Generator) -> np.ndarray:
    v = rng.normal(size=3)
    return v / np.linalg.norm(v)


Points = list[tuple[int, int, np.ndarray, np.ndarray, np.ndarray]]
"""Contacts: body, other body or −1, frame, arm, other arm."""


def _layers(kind: str, contacts: int, rng: np.random.Generator) -> tuple[Points, int]:
    """Return contacts at the corners of boxes, one below another, and the number of bodies."""
    points, bodies, half = [], -(-contacts // 4), np.array([0.5, 0.5, 0.25])
    for k in range(bodies):
        frame = _frame(np.array([0.0, 0, 1]) if kind == "stacks" else _unit(rng), rng)
        if kind == "stacks":
            frame = np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]])
        shift = np.append(rng.uniform(-0.1, 0.1, 2), 0.0) if kind == "stacks" else rng.normal(size=3) * 0.2
        for corner in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
            arm = np.array([corner[0] * half[0], corner[1] * half[1], -half[2]])
            other = k - 1 if kind == "stacks" or k == 0 else int(rng.integers(-1, k))
            points.append((k, other, frame, arm, arm + shift + [0, 0, 2 * half[2]]))
    return points[:contacts], bodies


def _anywhere(kind: str, contacts: int, rng: np.random.Generator) -> tuple[Points, int]:
    """Return contacts at random points of bodies, some related as the kind says, and the number of bodies."""
    points, bodies = [], int(rng.integers(1, max(2, contacts // 3) + 1))
    for i in range(contacts):
        body, other = int(rng.integers(bodies)), int(rng.integers(-1, bodies))
        other = -1 if other == body else other
        points.append((body, other, _frame(_unit(rng), rng), rng.normal(size=3), rng.normal(size=3)))
        source = points[int(rng.integers(i + 1))]
        if kind == "duplicates" and rng.random() < 0.5:
            points[-1] = source
        elif kind == "near-parallel" and rng.random() < 0.5:
            turn = 10.0 ** rng.uniform(-9, -3)
            n = source[2][0] + turn * rng.normal(size=3)
            frame = _frame(n / np.linalg.norm(n), rng)
            points[-1] = (*source[:2], frame, source[3] + turn * rng.normal(size=3), source[4])
        elif kind == "opposing" and i % 2:
            previous = points[-2]
            points[-1] = (previous[0], -1, _frame(-previous[2][0], rng), -previous[3], previous[4])
    return points, bodies


def problem(kind: str, contacts: int, rng: np.random.Generator) -> Lcp:
    """Return a random problem of rigid bodies: A = J M⁻¹ Jᵀ, b = J v plus a gap that is not
    negative.

    Args:
        kind: one of :data:`KINDS`. random: points and normals anywhere on a few bodies; boxes: four
            corners of faces per contact pair; stacks: boxes on boxes under gravity; duplicates:
            contacts that repeat others exactly; near-parallel: others' normals turned by 1e-9 to
            1e-3; opposing: a body squeezed between two sides.
        contacts: 1 to 64.
        rng: where the numbers come from.
    """
    points, bodies = (_layers if kind in ("stacks", "boxes") else _anywhere)(kind, contacts, rng)
    v_free = None
    if kind == "stacks":
        v_free = np.zeros(6 * bodies)
        v_free[2::6] = -9.81 * 0.01
        v_free[0::6] = rng.choice([0.0, 0.3]) * rng.normal(size=bodies)
    n = 3 * contacts
    J = np.zeros((n, 6 * bodies))
    for i, (body, other, frame, arm, other_arm) in enumerate(points):
        rows = slice(3 * i, 3 * i + 3)
        J[rows, 6 * body : 6 * body + 3] += frame
        J[rows, 6 * body + 3 : 6 * body + 6] += np.cross(arm, frame)
        if other >= 0:
            J[rows, 6 * other : 6 * other + 3] -= frame
            J[rows, 6 * other + 3 : 6 * other + 6] -= np.cross(other_arm, frame)
    mass = np.repeat(10.0 ** rng.uniform(-0.5, 0.5, bodies), 6)
    mass.reshape(-1, 6)[:, 3:] *= 0.2
    v = rng.normal(size=6 * bodies) if v_free is None else v_free
    A = (J / mass) @ J.T
    b = J @ v
    gap = (
        rng.choice([0.0, 0.1], size=contacts) * rng.random(contacts) if v_free is None else np.zeros(contacts)
    )
    b[::3] += gap
    owner = np.repeat(np.arange(0, n, 3), 3)
    owner[::3] = -1
    mu = np.repeat(rng.choice([0.1, 0.3, 0.5, 0.8, 1.0], size=contacts), 3)
    mu[::3] = 0.0
    return Lcp(0.5 * (A + A.T), b, owner, mu)


@dataclass
class Tally:
    """Results of one solver."""

    problems: int = 0
    unsolved: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    worst: float = 0.0
    """Largest relative residual among solutions called solved."""
    invalid: int = 0
    """Solutions called solved that an independent check rejects."""
    ways: dict[str, int] = field(default_factory=lambda: {w.name.lower(): 0 for w in Way})
    seconds: list[float] = field(default_factory=list)
    contacts: list[int] = field(default_factory=list)


def independent_error(p: Lcp, f: np.ndarray) -> float:
    """Return the largest violation of sign, cone and complementarity relative to 1 + |f|, by
    separate NumPy code."""
    w = p.A @ f + p.b
    normal = p.owner < 0
    error = np.minimum(f[normal], w[normal])
    limit = p.mu[~normal] * f[p.owner[~normal]]
    ft, wt = f[~normal], w[~normal]
    outside = np.abs(ft) - limit
    against = np.minimum(np.maximum(wt, 0.0), np.maximum(ft + limit, 0.0)) + np.minimum(
        np.maximum(-wt, 0.0), np.maximum(limit - ft, 0.0)
    )
    return float(
        max(np.abs(error).max(initial=0.0), outside.max(initial=0.0), against.max(initial=0.0))
        / (1.0 + np.abs(f).max(initial=0.0))
    )


def solve_all(
    count: int, seed: int, peers_every: int, tolerance: float, progress=lambda items: items
) -> dict[str, Tally]:
    """Solve ``count`` problems by Lemke, every ``peers_every``-th of each kind also by the
    others."""
    tallies = {m: Tally() for m in METHODS}
    rng = np.random.default_rng(seed)
    warm_up = problem("random", 4, np.random.default_rng(0))
    for m in METHODS:
        solve(warm_up.A, warm_up.b, warm_up.owner, warm_up.mu, m)
    for k in progress(range(count)):
        kind = KINDS[k % len(KINDS)]
        contacts = int(rng.integers(1, MAX_CONTACTS + 1))
        p = problem(kind, contacts, rng)
        for m in METHODS:
            if m != "lemke" and (k // len(KINDS)) % peers_every:
                continue
            t = tallies[m]
            begin = time.process_time()
            s = solve(p.A, p.b, p.owner, p.mu, m, tolerance=tolerance)
            t.seconds.append(time.process_time() - begin)
            t.contacts.append(contacts)
            t.problems += 1
            t.ways[s.way.name.lower()] += 1
            if s.status != Status.SOLVED:
                t.unsolved[kind] += 1
                continue
            t.worst = max(t.worst, s.residual)
            t.invalid += independent_error(p, s.f) > 2.0 * tolerance
    return tallies


SIZES = ((1, 1), (5, 7), (18, 22), (60, 64))
"""Ranges of contacts for which times are printed."""


def random_problems(args: argparse.Namespace) -> Findings:
    """Solve all problems."""
    note(f"core {args.core}: {args.random} problems; the first solve compiles or loads the kernels")
    tallies = solve_all(
        args.random,
        args.seed,
        args.peers_every,
        args.tolerance,
        lambda items: track(items, "solving", console=Console(stderr=True)),
    )
    results: dict[str, Any] = {"core": args.core, "tolerance": args.tolerance, "solvers": {}}
    rows: list[list[Any]] = []
    for name, tally in tallies.items():
        seconds, contacts = np.array(tally.seconds), np.array(tally.contacts)
        by_size = {f"{lo}-{hi}": times(seconds[(contacts >= lo) & (contacts <= hi)]) for lo, hi in SIZES}
        failed = sum(tally.unsolved.values())
        results["solvers"][name] = {
            "checked": tally.problems,
            "failed": tally.invalid,
            "worst": tally.worst,
            "unsolved": failed,
            "unsolved_by_kind": tally.unsolved,
            "ways": tally.ways,
            "solve_s": times(seconds),
            "solve_s_by_contacts": by_size,
        }
        medians = [None if t["p50"] is None else 1e6 * t["p50"] for t in by_size.values()]
        rows.append(
            [
                name,
                tally.problems,
                tally.invalid,
                failed,
                tally.ways["retry"],
                tally.ways["search"],
                tally.worst,
                *medians,
            ]
        )
    lemke = tallies["lemke"]
    results["passed"] = bool(lemke.problems and not lemke.invalid and not sum(lemke.unsolved.values()))
    columns = ["solver", "problems", "invalid", "unsolved", "retried", "searched", "worst residual"]
    columns += [f"{lo if lo == hi else f'{lo}–{hi}'} contacts [µs]" for lo, hi in SIZES]
    lines = [
        table(f"frictional LCPs, residual ≤ {args.tolerance:g} (1 + |f|)", columns, rows),
        "invalid: called solved, rejected by the check; unsolved: reported as such",
    ]
    return Findings(results, None, lines, args.seed)


def _arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--random", type=arguments.positive_int, default=10_000, metavar="N", help="problems")
    p.add_argument(
        "--peers-every",
        type=arguments.positive_int,
        default=50,
        metavar="K",
        help="Dantzig and PGS solve every K-th of each kind",
    )
    p.add_argument(
        "--tolerance",
        type=arguments.positive,
        default=1e-9,
        metavar="R",
        help="largest residual, relative to 1 + |f|",
    )
    p.add_argument("--seed", type=arguments.natural, default=0, metavar="S", help="seed of the problems")


main = experiment(__spec__.name, __doc__, random_problems, arguments=_arguments, pinned=True)


if __name__ == "__main__":
    sys.exit(main())
