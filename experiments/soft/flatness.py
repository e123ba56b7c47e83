"""Time of a step with one to eight of eight spheres touching a box."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from dexengines.soft import cloud
from dexengines.soft.system import Meeting, SoftSystem, Surface
from dexstack.cli.output import table
from dexstack.process.compilation import jit
from experiments.harness import Findings, experiment

SPREAD = 0.1
"""Largest difference of a time from their mean, as a share of it."""


def measure(repeats: int = 7) -> list[tuple[int, float]]:
    """Return numbers of active contacts and times of a step [s], for 1, 2, 4 and 8 of eight spheres
    touching a box."""
    bodies = "".join(f'<body name="b{k}"><freejoint/><geom size="0.02" mass="0.1"/></body>' for k in range(8))
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><option gravity="0 0 0"/><worldbody>{bodies}</worldbody></mujoco>'
    )
    table = Surface("table", "world", cloud.box((0.3, 0.3, 0.02), 0.01))
    balls = [Surface(f"b{k}", f"b{k}", cloud.sphere(0.02, 0.004)) for k in range(8)]
    system = SoftSystem(model, [Meeting([table], balls)])
    data = jax.device_put(system.data)

    def roll(data: Any, q: jax.Array, v: jax.Array) -> Any:
        def step(s: Any, _: Any) -> Any:
            return system.euler(data, *s, jnp.zeros(48, jnp.float32), 1e-7), None

        return jax.lax.scan(step, (q, v), None, length=50)[0]

    compiled, starts = None, []
    for active in (1, 2, 4, 8):
        q = np.tile(np.float32([0, 0, 0, 1, 0, 0, 0]), (8, 1))
        q[:, 0] = np.linspace(-0.25, 0.25, 8)
        q[:, 2] = np.where(np.arange(8) < active, 0.0398, 0.2)
        starts.append((active, q.ravel()))
    v = np.zeros(48, np.float32)
    compiled = jit(roll).lower(data, starts[0][1], v).compile()
    best = {active: np.inf for active, _ in starts}
    for _ in range(repeats):
        for active, q in starts:
            begin = time.process_time()
            jax.block_until_ready(compiled(data, q, v))
            best[active] = min(best[active], (time.process_time() - begin) / 50)
    return list(best.items())


def flatness(args: argparse.Namespace) -> Findings:
    """Time all numbers of contacts."""
    rows = [[active, 1e6 * seconds] for active, seconds in measure(10)]
    mean = float(np.mean([r[1] for r in rows]))
    off = max(abs(r[1] / mean - 1.0) for r in rows)
    results = {
        "core": args.core,
        "contacts": [r[0] for r in rows],
        "step_s": [1e-6 * r[1] for r in rows],
        "spread": off,
    }
    lines = [
        table("spheres touching a box", ("touching", "µs per step"), rows),
        f"within ±{off:.1%} of their mean (±{SPREAD:.0%} asked for)",
    ]
    return Findings(results | {"passed": off <= SPREAD}, None, lines)


main = experiment(__spec__.name, __doc__, flatness, pinned=True)


if __name__ == "__main__":
    sys.exit(main())
