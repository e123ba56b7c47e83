"""What a gradient costs: a sweep back over the tape, in forward passes, by the start state and all controls.

A box that slides on a floor, and the cube on the palm of the Allegro hand, rolled out for several numbers of steps. What is asked for, and
was written down before anything was measured: at most :data:`MOST` forward passes, growth with the steps linear within :data:`LINEAR`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

from dexstack.engines.lcp import gradient
from dexstack.engines.lcp.plant import LcpPlant
from dexstack.engines.lcp.system import LcpSystem
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from experiments.harness import Outcome, run
from experiments.lcp import systems

MOST, LINEAR = 6.0, 0.1
"""Forward passes; share by which the passes of the longest rollout may differ from those of the shortest."""
WRT = ("q", "v", "tau")


def _seconds(call: Callable[[], object], times: int) -> float:
    """Least processor time of so many calls [s]."""
    best = np.inf
    for _ in range(times):
        begin = time.process_time()
        call()
        best = min(best, time.process_time() - begin)
    return best


def passes(system: LcpSystem, steps: int, times: int) -> dict[str, float]:
    """Rollout and sweep of so many steps from the present state."""
    q, v, tau = system.q.copy(), system.v.copy(), np.zeros((steps, system.v.size))
    cotangent = np.random.default_rng(0).normal(size=q.size + v.size)

    def forward() -> gradient.Rollout:
        system.forget()
        system.q[:], system.v[:] = q, v
        return gradient.rollout(system, tau)

    rolled = forward()
    gradient.vjp(system, rolled, cotangent, WRT)  # compiled now
    there = _seconds(forward, times)
    rolled = forward()
    back = _seconds(lambda: gradient.vjp(system, rolled, cotangent, WRT), times)
    system.q[:], system.v[:] = q, v
    return {"steps": steps, "forward_s": there, "sweep_s": back, "passes": back / there}


def _sliding() -> LcpSystem:
    system = systems.stack(1)
    system.v[:2] = 1.0, 0.4
    return system


def _palm() -> LcpSystem:
    return LcpPlant(load_hand(), load_object("cube")).system


def sweep(args: argparse.Namespace) -> Outcome:
    """Both scenes."""
    runs, passed, lines = {}, True, []
    for name, make in (("box", _sliding), ("cube on the palm", _palm)):
        rows = [passes(make(), steps, args.times) for steps in (50, 100, 200)]
        growth = rows[-1]["passes"] / rows[0]["passes"] - 1.0
        passed = passed and max(row["passes"] for row in rows) <= MOST and abs(growth) <= LINEAR
        for row in rows:
            runs[f"{name}, {row['steps']} steps"] = row
            lines.append(f"{name}, {row['steps']} steps: {row['passes']:.1f} forward passes of {1e3 * row['forward_s']:.1f} ms")
    return Outcome({"runs": runs, "passed": bool(passed)}, None, lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; its exit code."""
    arguments = lambda parser: parser.add_argument("--times", type=int, default=5, help="how often each is timed")  # noqa: E731
    return run(__spec__.name, __doc__, sweep, argv, arguments=arguments, pinned=True)


if __name__ == "__main__":
    sys.exit(main())
