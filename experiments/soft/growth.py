"""Growth of time and memory of soft contact with the number of points and of bodies, by the near
set and in the dense formulation."""

from __future__ import annotations

import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from dexengines.soft import cloud, near
from dexengines.soft.scm import ContactParams
from dexengines.soft.system import Meeting, SoftSystem, Surface
from experiments.harness import Findings, experiment

TOLERANCE = 1e-6
POINTS = (384, 1536, 4056, 16224)
"""Points of each of two balls, cubed spheres."""
MOST_DENSE = 4056
BODIES = (1, 4, 16)
"""Balls of 150 points on a slab of 1944."""
RADIUS, LENGTH = 0.02, 0.6
ROUNDNESS = 0.2
"""√ε1 in spacings of the points."""


def two_balls(points: int, tolerance: float | None) -> tuple[SoftSystem, np.ndarray]:
    """Return two balls that touch, and their state."""
    spacing = RADIUS * np.pi / 2 / np.sqrt(points / 6)
    ball = cloud.sphere(RADIUS, spacing)
    sides = [[Surface(name, name, ball)] for name in "ab"]
    q = np.array([0, 0, 0, 1.0, 0, 0, 0, 2 * RADIUS - 3e-4, 0, 0, 1, 0, 0, 0])
    return SoftSystem(
        _bodies(["a", "b"]), [Meeting(*sides, tolerance, ContactParams(eps1=(ROUNDNESS * spacing) ** 2))]
    ), q


def balls_on_a_slab(count: int, tolerance: float | None) -> tuple[SoftSystem, np.ndarray]:
    """Return balls that touch a slab, and their state."""
    names = [f"b{k}" for k in range(count)]
    ball = cloud.sphere(RADIUS, RADIUS * np.pi / 10)
    slab = Surface("slab", "world", cloud.box((LENGTH / 2, 0.05, 0.01), 0.01))
    q = np.tile([0, 0, 0.01 + RADIUS - 3e-4, 1.0, 0, 0, 0], (count, 1))
    q[:, 0] = (np.arange(count) - (count - 1) / 2) * 2.5e-2
    return SoftSystem(
        _bodies(names),
        [
            Meeting(
                [slab],
                [Surface(n, n, ball) for n in names],
                tolerance,
                room=tolerance and near.Room(count, 12 * count, 16),
            )
        ],
    ), q.ravel()


def _bodies(names: list[str]) -> mujoco.MjModel:
    bodies = "".join(f'<body name="{n}"><freejoint/><geom size="{RADIUS}" mass="0.1"/></body>' for n in names)
    return mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>")


def cost(system: SoftSystem, q: np.ndarray, repeats: int = 5) -> tuple[float, int]:
    """Return the processor time [s] of one evaluation of all contact wrenches inside a loop,
    float32, and its temporaries [bytes]."""
    data, v = jax.device_put(system.data), jnp.zeros(system.tree.nv, jnp.float32)
    q = jnp.asarray(q, jnp.float32)

    def wrench(data: Any, q: jax.Array) -> jax.Array:
        return system.contact(data, system.tree.motion(data.numbers, q, v)).wrench

    def many(data: Any, q: jax.Array, count: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, count, lambda _, x: x + 1e-12 * jnp.sum(wrench(data, x)), q)

    loop = jax.jit(many).lower(data, q, 1).compile()
    temporaries = loop.memory_analysis().temp_size_in_bytes
    jax.block_until_ready(loop(data, q, 1))
    begin = time.process_time()
    jax.block_until_ready(loop(data, q, 3))
    count = int(np.clip(0.05 / max((time.process_time() - begin) / 3, 1e-7), 1, 2000))
    samples = []
    for _ in range(repeats):
        begin = time.process_time()
        jax.block_until_ready(loop(data, q, count))
        samples.append((time.process_time() - begin) / count)
    return float(np.median(samples)), int(temporaries)


def growth() -> Findings:
    """Measure points and bodies."""
    rows = []
    for what, sizes, scene in (("points", POINTS, two_balls), ("bodies", BODIES, balls_on_a_slab)):
        for size in sizes:
            for tolerance in (TOLERANCE, None):
                if tolerance is not None or what == "bodies" or size <= MOST_DENSE:
                    seconds, temporaries = cost(*scene(size, tolerance))
                    rows.append(
                        {
                            "of": what,
                            "count": size,
                            "tolerance": tolerance,
                            "contact_s": seconds,
                            "temporaries_bytes": temporaries,
                        }
                    )
    series = {
        (what, tolerance): [r for r in rows if (r["of"], r["tolerance"]) == (what, tolerance)]
        for what in ("points", "bodies")
        for tolerance in (TOLERANCE, None)
    }
    found, dense = series["points", TOLERANCE], series["points", None]
    slower = found[-1]["contact_s"] / found[0]["contact_s"]
    less = dense[-1]["temporaries_bytes"] / found[len(dense) - 1]["temporaries_bytes"]
    each = series["bodies", TOLERANCE]
    per_body = (each[-1]["contact_s"] / BODIES[-1]) / (each[1]["contact_s"] / BODIES[1])
    results = {
        "cases": rows,
        "slower_from_384_points": slower,
        "memory_ratio": less,
        "per_body_from_4": per_body,
    }
    results["passed"] = bool(slower <= 1.5 and less >= 20.0)
    lines = []
    for r in rows:
        figures = f"{1e6 * r['contact_s']:9.1f} µs {r['temporaries_bytes'] / 1e6:8.3f} MB"
        lines.append(
            f"{r['count']:5d} {r['of']:6s} {'dense' if r['tolerance'] is None else 'near':5s} {figures}"
        )
    lines.append(
        f"near: {slower:.2f} times as long at {POINTS[-1]} points as at {POINTS[0]}; "
        f"dense: {less:.0f} times the memory at {MOST_DENSE}"
    )
    lines.append(
        f"near: a body costs {per_body:.2f} times as much among {BODIES[-1]} as among {BODIES[1]} "
        "(1: linear; not judged)"
    )
    return Findings(results, None, lines)


main = experiment(__spec__.name, __doc__, lambda args: growth(), pinned=True)


if __name__ == "__main__":
    sys.exit(main())
