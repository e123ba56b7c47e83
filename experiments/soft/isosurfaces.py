"""Soft distance of a box in the plane for growing smoothing, from few and many points, and with
wrong normals."""

from __future__ import annotations

import math
import sys

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from dexengines.soft.cloud import Cloud
from dexstack.process.compilation import jit
from experiments.harness import Findings, experiment
from experiments.soft.ssdf import ssdf

EPSILONS = (0.01, 0.25, 0.5, 10.0)


def square(per_side: int, *, wrong: bool = False) -> Cloud:
    """Return oriented points of a 2-D box [−1, 1]² in the plane z = 0; ``wrong``: the first of
    every side points inwards."""
    along = (2.0 * np.arange(per_side) + 1.0) / per_side - 1.0
    points, normals = [], []
    for k in range(4):
        c, s = math.cos(k * math.pi / 2), math.sin(k * math.pi / 2)
        R = np.array([[c, -s], [s, c]])
        sign = np.ones((per_side, 1))
        sign[0] = -1.0 if wrong else 1.0
        points.append(np.column_stack([np.ones(per_side), along]) @ R.T)
        normals.append(sign * (R @ [1.0, 0.0]))
    flat = [np.hstack([np.concatenate(x), np.zeros((4 * per_side, 1))]) for x in (points, normals)]
    return Cloud(*flat)


def isosurfaces() -> Findings:
    """Draw the SSDF of a box in the plane for growing ε, from few and many points, and with wrong
    normals."""
    x = np.linspace(-2.0, 2.0, 161)
    grid = np.stack(np.meshgrid(x, x, indexing="xy"), axis=-1).reshape(-1, 2)
    grid = jnp.asarray(np.hstack([grid, np.zeros((len(grid), 1))]))
    rows = {
        "2 points a side": square(2),
        "12 points a side": square(12),
        "wrong normals": square(12, wrong=True),
    }
    field = jit(lambda points, normals, eps: jax.vmap(lambda p: ssdf(p, Cloud(points, normals), eps))(grid))
    figure = Figure(figsize=(11.0, 8.2), layout="constrained")
    areas: dict[str, list[float]] = {}
    for ax_row, (name, c) in zip(figure.subplots(3, 4), rows.items(), strict=True):
        areas[name] = []
        for ax, eps in zip(ax_row, EPSILONS, strict=True):
            values = np.asarray(field(jnp.asarray(c.points), jnp.asarray(c.normals), eps)).reshape(
                len(x), len(x)
            )
            areas[name].append(float((values < 0).mean() * 16.0))
            ax.contourf(x, x, values, levels=np.linspace(-1.5, 1.5, 31), cmap="RdBu", extend="both")
            if values.min() < 0.0 < values.max():
                ax.contour(x, x, values, levels=[0.0], colors="blue", linewidths=2.0)
            ax.plot([-1, 1, 1, -1, -1], [-1, -1, 1, 1, -1], color="white")
            ax.quiver(*c.points[:, :2].T, *c.normals[:, :2].T, color="white", scale=12.0)
            ax.set(title=f"ε = {eps:g}, {name}", aspect="equal", xticks=[], yticks=[])
    good, wrong = areas["12 points a side"], areas["wrong normals"]
    passed = abs(good[0] - 4.0) < 0.15 and abs(wrong[0] - 4.0) > 0.3
    lines = [f"area inside the zero isosurface (the box has 4), ε = {', '.join(f'{e:g}' for e in EPSILONS)}:"]
    lines += [f"  {name}: " + ", ".join(f"{a:.2f}" for a in values) for name, values in areas.items()]
    return Findings({"epsilon": EPSILONS, "area": areas, "passed": passed}, figure, lines)


main = experiment(__spec__.name, __doc__, lambda args: isosurfaces())


if __name__ == "__main__":
    sys.exit(main())
