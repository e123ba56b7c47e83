"""What value and gradient cost: a rollout and the sweep back over its tape, in forward passes, by the start state and all controls.

A box that slides on a floor, and the cube on the palm of the Allegro hand, its joints held by the torques that a position controller gave
in a rehearsal, rolled out for several numbers of steps. What is asked for, and was written down before anything was measured: at most
:data:`MOST` forward passes, the forward pass among them, and growth with the steps linear within :data:`LINEAR`; along random directions
within :data:`EXACT` of the replay in complex numbers, and within :data:`ACCURATE` of differences of fourth order, where the rollouts that
they take make the same decisions. Forward passes, and those with the sweep after them, are timed in turns.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dexstack.engines.lcp import gradient
from dexstack.engines.lcp.plant import LcpPlant
from dexstack.engines.lcp.system import LcpSystem
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from experiments.harness import Outcome, run
from experiments.lcp import systems

MOST, LINEAR = 6.0, 0.1
"""Forward passes; share by which the passes of the longest rollout may differ from those of the shortest."""
EXACT, ACCURATE = 1e-9, 1e-6
"""Share of the largest derivative along a direction."""
WRT = ("q", "v", "tau")
STEPS = (50, 100, 200)
DIRECTIONS = 8


class Case:
    """A rollout from the system's present state under given forces (T, V)."""

    def __init__(self, system: LcpSystem, tau: np.ndarray) -> None:
        self.system, self.tau, self.q, self.v = system, tau, system.q.copy(), system.v.copy()

    def forward(self, dq: ArrayLike = 0.0, dv: ArrayLike = 0.0, dtau: ArrayLike = 0.0) -> gradient.Rollout:
        """The rollout with start and forces changed by so much."""
        self.system.forget()
        self.system.q[:], self.system.v[:] = self.q + dq, self.v + dv
        return gradient.rollout(self.system, self.tau + dtau)

    def decisions(self) -> bytes:
        """What the last rollout decided: features, their classes and directions, impacts."""
        tape = self.system.tape
        ops, contacts, classes, limits = tape.size
        parts = tape.op[:ops], tape.feature[:contacts], tape.mode[:contacts], tape.cls[:classes], tape.limit[:limits]
        return b"".join(x.tobytes() for x in parts)

    def difference(self, direction: Sequence[np.ndarray], cotangent: np.ndarray, here: bytes) -> float | None:
        """Derivative along a direction of ``cotangent`` · the end, by differences of fourth order; None where decisions change."""
        for h in (1e-4, 3e-5, 1e-5, 3e-6, 1e-6):
            total, same = 0.0, True
            for c, weight in ((2.0, -1.0), (1.0, 8.0), (-1.0, -8.0), (-2.0, 1.0)):
                end = self.forward(*(c * h * d for d in direction))
                total += weight * float(cotangent @ np.concatenate([end.q[-1], end.v[-1]]))
                same = same and self.decisions() == here
            if same:
                return total / (12.0 * h)
        return None


def times(case: Case, repeats: int) -> dict[str, float]:
    """Least processor times of a forward pass, and of one with the sweep after it, in turns."""
    system, there, both = case.system, np.inf, np.inf
    cotangent = np.random.default_rng(0).normal(size=system.q.size + system.v.size)
    gradient.vjp(system, case.forward(), cotangent, WRT)  # compiled now
    for _ in range(repeats):
        begin = time.process_time()
        case.forward()
        middle = time.process_time()
        gradient.vjp(system, case.forward(), cotangent, WRT)
        there, both = min(there, middle - begin), min(both, time.process_time() - middle)
    return {"steps": len(case.tau), "forward_s": there, "both_s": both, "passes": both / there}


def errors(case: Case, rng: np.random.Generator) -> dict[str, object]:
    """The sweep beside the replay and differences, along random directions of all inputs at once."""
    system, sizes = case.system, (case.q.shape, case.v.shape, case.tau.shape)
    cotangent = rng.normal(size=system.q.size + system.v.size)
    directions = [[rng.normal(size=n) for n in sizes] for _ in range(DIRECTIONS)]
    run = case.forward()
    here, found = case.decisions(), gradient.vjp(system, run, cotangent, WRT)
    ours = np.array([sum(float(np.sum(found[k] * d)) for k, d in zip(WRT, x, strict=True)) for x in directions])
    stacked = {k: np.array([x[i] for x in directions]) for i, k in enumerate(WRT)}
    theirs = gradient.directional(system, run, stacked) @ cotangent
    differences = [case.difference(x, cotangent, here) for x in directions]
    case.forward()
    size = float(np.abs(theirs).max())
    compared = [abs(a - b) / size for a, b in zip(ours, differences, strict=True) if b is not None]
    return {
        "largest": size,
        "off_replay": float(np.abs(ours - theirs).max()) / size,
        "off_differences": max(compared, default=None),
        "compared": len(compared),
        "directions": DIRECTIONS,
    }


def _box(steps: int) -> Case:
    system = systems.stack(1)
    system.v[:2] = 1.0, 0.4
    return Case(system, np.zeros((steps, 6)))


def _palm(steps: int) -> Case:
    """Held by the torques of a rehearsal."""
    system = LcpPlant(load_hand(), load_object("cube")).system
    case, joints = Case(system, np.zeros((steps, system.v.size))), slice(0, system.v.size - 6)
    held = case.q[joints].copy()
    for k in range(steps):
        system.tau[joints] = case.tau[k, joints] = 2.0 * (held - system.q[joints]) - 0.05 * system.v[joints]
        system.step()
    system.q[:], system.v[:] = case.q, case.v
    return case


def sweep(args: argparse.Namespace) -> Outcome:
    """Both scenes."""
    runs, lines, rng = {}, [], np.random.default_rng(args.seed)
    for name, make in (("box", _box), ("cube on the palm", _palm)):
        rows = []
        for steps in STEPS:
            case = make(steps)
            row = times(case, args.times) | errors(case, rng)
            rows.append(row)
            row["growth"] = row["passes"] / rows[0]["passes"] - 1.0
            runs[f"{name}, {steps} steps"] = row
            lines.append(
                f"{name}, {steps} steps: {row['passes']:.1f} forward passes of {1e3 * row['forward_s']:.1f} ms; off the replay by "
                f"{row['off_replay']:.0e}, differences by {row['off_differences'] or np.nan:.0e} ({row['compared']} of {DIRECTIONS})"
            )
    passed = all(
        row["passes"] <= MOST
        and abs(row["growth"]) <= LINEAR
        and row["off_replay"] <= EXACT
        and row["off_differences"] is not None
        and row["off_differences"] <= ACCURATE
        for row in runs.values()
    )
    return Outcome({"runs": runs, "passed": bool(passed)}, None, lines, args.seed)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--times", type=int, default=9, help="how often each is timed")
    parser.add_argument("--seed", type=int, default=0, help="of cotangents and directions")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; its exit code."""
    return run(__spec__.name, __doc__, sweep, argv, arguments=_arguments, pinned=True)


if __name__ == "__main__":
    sys.exit(main())
