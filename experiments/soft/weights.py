"""Anisotropic weights of planes in the simulated law, and soft top-K points of its separation
distribution.

A plane's share falls with d = ‖p − p_i‖² + (β − 1) φ², φ along its normal; β = 1 is isotropic. For
a T of 26 quads, each β: how far the soft distance is from the true one outside the T, where the T
is after a push of half a second, against MuJoCo, and the error of derivatives against differences
(empty where the step diverges). Top-K points are picked one after another, each a softmax over the
remaining ones: for a box on a slab, level and tilted, their distances are measured.
"""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dexengines.soft import cloud
from dexengines.soft.cloud import Cloud
from dexstack.cli.output import table
from dexstack.process.compilation import jit
from experiments.harness import Findings, experiment
from experiments.soft import systems
from experiments.soft.speed import DT, SCAN, MujocoCase, start, targets
from experiments.soft.ssdf import ssdf

WEIGHTS = (0.25, 0.5, 1.0, 2.0, 4.0)
POINTS = 26
AROUND = 0.01
"""How far from the T distances are compared [m]."""
SAMPLES = 4000
DERIVATIVE = 1e-6
"""Most that a derivative may differ from differences, as a share of the largest."""
COUNT = 4
"""K."""
HALF, SPACING = 0.03, 0.01
"""Of the box [m]: its outermost quads are 71 mm apart."""
TILTS = (0.0, 0.01, 0.1, 1.0)
"""[°]"""
SHARPNESS = 20.0
"""Of the softmax that picks a point, in logits of the separation distribution."""


def true_distance(p: np.ndarray) -> np.ndarray:
    """Return (N,) of points (N, 3) from the T, zero inside [m]."""
    half = np.array([0.0, 0.0, systems.HEIGHT / 2])
    boxes = [
        (np.append(low, 0.0) - half, np.append(high, 0.0) + half) for low, high in systems.t_rectangles()[1]
    ]
    return np.min(
        [np.linalg.norm(np.maximum(0.0, np.maximum(low - p, p - high)), axis=1) for low, high in boxes],
        axis=0,
    )


def distance_errors(weight: float, seed: int) -> np.ndarray:
    """Return (N,) of the soft distance around the T [m]."""
    t = systems.t_cloud(systems.T_SPACING[POINTS])
    low, high = t.points.min(axis=0) - AROUND, t.points.max(axis=0) + AROUND
    p = np.random.default_rng(seed).uniform(low, high, (20 * SAMPLES, 3))
    distance = true_distance(p)
    p, distance = (x[(distance > 0.0) & (distance < AROUND)][:SAMPLES] for x in (p, distance))
    eps1 = systems.pusher_params(POINTS).eps1
    return np.asarray(jit(jax.vmap(lambda x: ssdf(x, t, eps1, weight)))(p)) - distance


def pushed(weight: float) -> tuple[np.ndarray, float]:
    """Return the position of the T after a push (2,) [m], and the error of the derivative by how
    the pusher moves, as a share of the largest entry."""
    system = systems.pusher_system(
        POINTS, tolerance=None, params=systems.pusher_params(POINTS)._replace(normal_weight=weight)
    )
    q, v = start()

    def end(scale: jax.Array) -> jax.Array:
        def step(state: Any, u: jax.Array) -> Any:
            return system.euler(system.data, *state, systems.pusher_force(*state, u), DT), None

        return jax.lax.scan(
            step, (jnp.asarray(q), jnp.asarray(v)), scale * jnp.asarray(targets(SCAN), float)
        )[0][0][2:4]

    with jax.enable_x64(True):
        slope, values = jit(jax.jacfwd(end))(1.0), [np.asarray(jit(end)(1.0 + h)) for h in (0.0, 1e-6, -1e-6)]
    difference = (values[1] - values[2]) / 2e-6
    return values[0], float(np.abs(slope - difference).max() / np.abs(difference).max())


def picked(points: jax.Array, logits: jax.Array, count: int) -> jax.Array:
    """Return (count, 3) soft top-K of points (N, 3) with the shares softmax(logits)."""
    left, result = SHARPNESS * logits, []
    for _ in range(count):
        share = jax.nn.softmax(left)
        result.append(share @ points)
        left = left + jnp.log1p(-jnp.minimum(share, 1.0 - 1e-9))
    return jnp.stack(result)


def spread(tilt: float) -> float:
    """Return the largest distance between top-K points of a box that stands on a slab, tilted by so
    much [rad] about both level axes [m]."""
    box, slab, law = (
        cloud.box((HALF, HALF, HALF), SPACING),
        cloud.box((0.1, 0.1, 0.01), SPACING),
        systems.pusher_params(4000),
    )
    c, s = np.cos(tilt), np.sin(tilt)
    p = (
        box.points
        @ (np.array([[1, 0, 0], [0, c, -s], [0, s, c]]) @ np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])).T
    )
    p[:, 2] += 0.01 - p[:, 2].min() - 1e-3
    field = jit(jax.vmap(lambda x: ssdf(x, Cloud(slab.points, slab.normals), law.eps1)))(p)
    found = np.asarray(picked(jnp.asarray(p), -field / law.eps2, COUNT))
    return float(np.linalg.norm(found[:, None] - found[None], axis=2).max())


def _right(case: dict[str, Any]) -> bool:
    """Return whether the derivative is that of differences; isotropic weights have to stay finite,
    too."""
    if case["derivative"] is None:
        return case["normal_weight"] != 1.0
    return case["derivative"] <= DERIVATIVE


def weights() -> Findings:
    """Measure weights and top-K points."""
    truth = MujocoCase().end()
    cases = []
    for weight in WEIGHTS:
        errors = distance_errors(weight, 0)
        end, derivative = pushed(weight)
        cases.append(
            {
                "normal_weight": weight,
                "distance_m": float(np.sqrt(np.mean(errors**2))),
                "distance_max_m": float(np.abs(errors).max()),
                "end_difference_m": float(np.linalg.norm(end - truth)) if np.isfinite(end).all() else None,
                "derivative": derivative if np.isfinite(derivative) else None,
            }
        )
    picks = [{"tilt_deg": tilt, "spread_m": spread(np.radians(tilt))} for tilt in TILTS]
    rows = [
        [
            c["normal_weight"],
            1e3 * c["distance_m"],
            1e3 * c["distance_max_m"],
            c["end_difference_m"] and 1e3 * c["end_difference_m"],
            c["derivative"],
        ]
        for c in cases
    ]
    lines = [
        table(
            f"T of {POINTS} quads",
            ("β", "distance off mm (rms)", "at most", "T off MuJoCo's mm", "derivative off"),
            rows,
        ),
        table(
            f"top-{COUNT} points of a box on a slab",
            ("tilt °", "from each other mm"),
            [[p["tilt_deg"], 1e3 * p["spread_m"]] for p in picks],
        ),
    ]
    return Findings({"cases": cases, "top": picks, "passed": all(_right(c) for c in cases)}, None, lines)


main = experiment(__spec__.name, __doc__, lambda args: weights())


if __name__ == "__main__":
    sys.exit(main())
