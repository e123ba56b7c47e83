"""Value and gradient of a rollout of 50 steps by all its controls, over the time of the rollout alone."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dexstack.cli.output import table
from dexstack.process.compilation import jit
from experiments.harness import Outcome, run
from experiments.soft import systems
from experiments.soft.speed import DT, start

LIMIT = 5.0
"""Most by which value and gradient may take longer."""


def gradient_cost(points: int, steps: int = 50, repeats: int = 15) -> tuple[float, float, float]:
    """Processor time of a rollout of ``steps`` [s], forward alone and value with gradient by the whole sequence of targets; their ratio.

    Both take turns, and the ratio is the median of those of neighbours, so that what else the machine does hits both alike.
    """
    system = systems.pusher_system(points, room=systems.ROOM)
    data = jax.device_put(system.data)
    q0, v0 = (jnp.asarray(x, jnp.float32) for x in start())

    def cost(path: jax.Array, data: Any) -> jax.Array:
        def step(state: Any, u: jax.Array) -> Any:
            return system.euler(data, *state, systems.pusher_force(*state, u), DT), None

        (q, _), _ = jax.lax.scan(jax.checkpoint(step), (q0, v0), path)
        return jnp.sum((q[2:4] - jnp.array([0.0, 0.05])) ** 2)

    path = np.tile(np.float32([0.0, -0.12]), (steps, 1))
    functions = jit(cost), jit(jax.value_and_grad(cost))
    samples = np.empty((repeats, 2))
    for row in [np.empty(2), *samples]:  # the first compiles
        for k, f in enumerate(functions):
            begin = time.process_time()
            for _ in range(5):
                jax.block_until_ready(f(path, data))
            row[k] = (time.process_time() - begin) / 5
    forward, both = np.median(samples, axis=0)
    return float(forward), float(both), float(np.median(samples[:, 1] / samples[:, 0]))


def gradient(args: argparse.Namespace) -> Outcome:
    """Few points and many."""
    rows, listed = [], []
    for points in (26, 4000):
        forward, both, ratio = gradient_cost(points)
        rows.append([points, 1e6 * forward / 50, 1e6 * both / 50, ratio])
        listed.append({"points": points, "forward_s": forward, "gradient_s": both, "ratio": ratio})
    results = {"core": args.core, "cases": listed, "limit": LIMIT, "passed": all(case["ratio"] <= LIMIT for case in listed)}
    columns = ("points", "forward µs per step", "value and gradient µs", "ratio")
    return Outcome(results, None, [table("rollout of 50 steps, float32", columns, rows)])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; its exit code."""
    return run(__spec__.name, __doc__, gradient, argv, pinned=True)


if __name__ == "__main__":
    sys.exit(main())
