"""Error of the force of a sphere on a plane against its mesh size, of order two."""

from __future__ import annotations

import math
import sys

import numpy as np

from dexengines.hydroelastic import shapes
from dexengines.hydroelastic.surface import Workspace, query
from dexstack.cli.output import table
from experiments.harness import Findings, experiment
from experiments.hydroelastic.forces import wrench

RADIUS, PENETRATION, MODULUS = 0.05, 0.01, 1e5
"""Radius, penetration and modulus of the sphere [m, m, Pa]."""
SIZES = [0.02, 0.01, 0.005, 0.0025]
"""Mesh sizes [m]."""
ORDER = 1.8
"""Lowest order between two sizes that passes."""


def sphere_force(radius: float, penetration: float, modulus: float) -> float:
    """Return the force [N] of a compliant sphere, p = E (1 − r/R), on a rigid plane: 2πE [a²/2 −
    (R³ − h³)/(3R)], h = R − δ, a² = R² − h²."""
    h = radius - penetration
    return 2 * math.pi * modulus * ((radius**2 - h**2) / 2 - (radius**3 - h**3) / (3 * radius))


def errors(sizes: list[float]) -> tuple[list[float], list[float]]:
    """Return the relative error of the force of a sphere on a rigid plane for each mesh size, and
    the orders between successive sizes."""
    exact = sphere_force(RADIUS, PENETRATION, MODULUS)
    out, ground = Workspace(), shapes.rigid_half_space()
    R = np.eye(3)
    errors = []
    for size in sizes:
        ball = shapes.sphere(RADIUS, MODULUS, size=size)
        surface = query(ball, ground, R, np.array([0.0, 0.0, RADIUS - PENETRATION]), R, np.zeros(3), out)
        errors.append(abs(wrench(surface, np.zeros(3))[5] - exact) / exact)
    orders = [
        math.log(errors[i] / errors[i + 1]) / math.log(sizes[i] / sizes[i + 1]) for i in range(len(sizes) - 1)
    ]
    return errors, orders


def convergence() -> Findings:
    """Refine the sphere's mesh."""
    error, orders = errors(SIZES)
    rows = [[s, e, o] for s, e, o in zip(SIZES, error, [None, *orders], strict=True)]
    results = {"mesh_size_m": SIZES, "relative_error": error, "order": orders, "passed": min(orders) > ORDER}
    return Findings(
        results, None, [table("sphere on a plane", ("mesh size m", "relative error", "order"), rows)]
    )


main = experiment(__spec__.name, __doc__, lambda args: convergence())


if __name__ == "__main__":
    sys.exit(main())
