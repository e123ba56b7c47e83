"""Cost of value and gradient by the start state and all controls: a rollout and the sweep back over
its tape, in forward passes.

A box that a force drives over a floor, and the cube that has come to rest on the palm of the
Allegro hand, its joints held by the torques that a position controller gave in a rehearsal: all
steps alike, so that growth is with their number. Asked for, as fixed before the measurement: at
most :data:`MOST` forward passes, the forward pass among them, and growth with the steps linear
within :data:`LINEAR`, of the time itself (what a call costs is shared by more steps, which eases
forward passes); the derivative of single steps, from states all along it and its rehearsal, within
:data:`ACCURATE` of differences of fourth order. A difference counts where all its ends make the
same decisions and those taken to either side agree: a body that rests keeps its gap, from which it
may be lifted but not pressed. Over many steps of a hand that holds a cube no length of a difference
is both short enough for that and long enough for rounding. Forward passes, and those with the sweep
after them, are timed in turns.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dexengines.lcp import gradient
from dexengines.lcp.system import LcpSystem
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.plants.lcp import LcpPlant
from experiments.harness import Findings, experiment
from experiments.lcp import systems
from experiments.lcp.check import decisions

MOST, LINEAR = 6.0, 0.1
"""Forward passes; share by which the time per step may differ from that of the shortest rollout."""
ACCURATE = 1e-6
"""Share of the largest derivative along a direction."""
WRT = ("q", "v", "tau")
SETTLING, MOVING = 2500, 250
"""Steps of the hand before the rollout that is timed, and steps of them, beside the rollout's number,
from which derivatives are compared."""
STEPS = (100, 200, 400)
DIRECTIONS = 24
SIDES = 1e-5
"""By how much differences to either side may differ, as a share of the derivative or of 1."""


class Case:
    """A rollout from the system's present state under given forces (T, V)."""

    def __init__(self, system: LcpSystem, tau: np.ndarray) -> None:
        self.system, self.tau, self.q, self.v = system, tau, system.q.copy(), system.v.copy()

    def forward(self, dq: ArrayLike = 0.0, dv: ArrayLike = 0.0, dtau: ArrayLike = 0.0) -> gradient.Rollout:
        """Return the rollout with changed start and forces."""
        self.system.forget()
        self.system.q[:], self.system.v[:] = self.q + dq, self.v + dv
        return gradient.rollout(self.system, self.tau + dtau)

    def difference(self, direction: Sequence[np.ndarray], cotangent: np.ndarray, here: bytes) -> float | None:
        """Return the derivative along a direction of ``cotangent`` · the end, by differences of
        fourth order; None where there is none."""
        for h in (1e-4, 3e-5, 1e-5, 3e-6, 1e-6, 3e-7, 1e-7):
            f, same = [], True
            for c in (-2.0, -1.0, 0.0, 1.0, 2.0):
                end = self.forward(*(c * h * d for d in direction))
                f.append(float(cotangent @ np.concatenate([end.q[-1], end.v[-1]])))
                same = same and decisions(self.system.tape) == here
            slope = (f[0] - 8.0 * f[1] + 8.0 * f[3] - f[4]) / (12.0 * h)
            sides = (f[0] - 4.0 * f[1] + 3.0 * f[2]) / (2.0 * h), (4.0 * f[3] - 3.0 * f[2] - f[4]) / (2.0 * h)
            if same and abs(sides[1] - sides[0]) <= SIDES * max(1.0, abs(slope)):
                return slope
        return None


def times(case: Case, repeats: int) -> dict[str, float]:
    """Return the least processor times of a forward pass, and of one with the sweep after it, in
    turns."""
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


def off_differences(case: Case, rng: np.random.Generator) -> dict[str, float | int | None]:
    """Compare the sweep over single steps with differences, by one input at a time: largest error,
    and number of comparisons for each input."""
    run, system, errors, compared = case.forward(), case.system, [], dict.fromkeys(WRT, 0)
    at = np.linspace(0, len(case.tau) - 1, DIRECTIONS).astype(int)
    states = [(run.q[i].copy(), run.v[i].copy(), case.tau[i : i + 1]) for i in at]
    for q, v, tau in states:
        system.q[:], system.v[:] = q, v
        step, cotangent = Case(system, tau), rng.normal(size=q.size + v.size)
        swept = gradient.vjp(system, step.forward(), cotangent, WRT)
        here = decisions(system.tape)
        for k in WRT:
            direction = [
                rng.normal(size=x.shape) if k == name else np.zeros(x.shape)
                for name, x in zip(WRT, (q, v, tau), strict=True)
            ]
            ours = float(np.sum(swept[k] * direction[WRT.index(k)]))
            if (theirs := step.difference(direction, cotangent, here)) is not None:
                compared[k] += 1
                errors.append(abs(ours - theirs) / max(1.0, abs(theirs)))
    system.q[:], system.v[:] = case.q, case.v
    return {"off_differences": max(errors, default=None), "tried": DIRECTIONS} | {
        f"compared_{k}": n for k, n in compared.items()
    }


def _box(steps: int) -> tuple[Case, Case]:
    """Return the case that is timed, and the one that is compared with differences."""
    system = systems.stack(1, gap=2e-5)
    system.v[:2], tau = (1.0, 0.4), np.zeros((steps, 6))
    tau[:, :2] = 6.0, 2.4  # more than friction bears
    case = Case(system, tau)
    return case, case


def _palm(steps: int) -> tuple[Case, Case]:
    system = LcpPlant(load_hand(), load_object("cube")).scene.system
    tau, joints, held = (
        np.zeros((SETTLING + steps, system.v.size)),
        slice(0, system.v.size - 6),
        system.q[:-7].copy(),
    )
    start = system.q.copy(), system.v.copy()
    for k in range(SETTLING + steps):
        if k == SETTLING:
            settled = system.q.copy(), system.v.copy()
        system.tau[joints] = tau[k, joints] = 2.0 * (held - system.q[joints]) - 0.05 * system.v[joints]
        system.step()
    cases = []
    for (q, v), forces in ((settled, tau[SETTLING:]), (start, tau[: MOVING + steps])):
        system.q[:], system.v[:] = q, v
        cases.append(Case(system, forces))
    return cases[0], cases[1]


def sweep(args: argparse.Namespace) -> Findings:
    """Measure both scenes."""
    runs, lines, rng = {}, [], np.random.default_rng(args.seed)
    for name, make in (("box", _box), ("cube on the palm", _palm)):
        rows = []
        for steps in STEPS:
            case, whole = make(steps)
            row = times(case, args.times) | off_differences(whole, rng)
            rows.append(row)
            row["growth"] = row["both_s"] * STEPS[0] / (steps * rows[0]["both_s"]) - 1.0
            runs[f"{name}, {steps} steps"] = row
            lines.append(
                f"{name}, {steps} steps: {row['passes']:.1f} forward passes of "
                f"{1e3 * row['forward_s']:.1f} ms, {row['growth']:+.0%}; "
                f"off differences by "
                f"{row['off_differences'] or np.nan:.0e} "
                f"({', '.join(str(row[f'compared_{k}']) for k in WRT)} of {DIRECTIONS} by {', '.join(WRT)})"
            )
    passed = all(
        row["passes"] <= MOST
        and abs(row["growth"]) <= LINEAR
        and min(row["compared_v"], row["compared_tau"]) >= 1
        and row["off_differences"] <= ACCURATE
        for row in runs.values()
    )
    return Findings({"runs": runs, "passed": bool(passed)}, None, lines, args.seed)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--times", type=int, default=40, help="number of timings")
    parser.add_argument("--seed", type=int, default=0, help="seed of cotangents and directions")


main = experiment(__spec__.name, __doc__, sweep, arguments=_arguments, pinned=True)


if __name__ == "__main__":
    sys.exit(main())
