"""A thin body pressed past its medial axis: lost force, its report, and two remedies."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np

from dexengines.hydroelastic import shapes
from dexengines.hydroelastic.fields import CompliantMesh, RigidMesh
from dexengines.hydroelastic.surface import Workspace, query
from experiments.harness import Findings, experiment
from experiments.hydroelastic.forces import wrench

THICKNESS, WIDTH, SHEET_MODULUS = 1e-3, 0.06, 1e4
BALL_RADIUS, BALL_MODULUS = 0.02, 1e6
"""[m, m, Pa, m, Pa]: a sheet so soft that a stiff ball goes through its mid-plane."""
DEPTH = 1.4e-3
"""Largest depth of the ball [m]."""
STIFFER = 1e4


def press(sheet: CompliantMesh | RigidMesh, depths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Press the ball into the middle of a sheet.

    Returns:
        Forces (n,) [N] and overrun counts of the sheet (n,).
    """
    ball, out = shapes.sphere(BALL_RADIUS, BALL_MODULUS, size=0.004), Workspace()
    R = np.eye(3)
    forces, overrun = [], []
    for depth in depths:
        surface = query(
            ball, sheet, R, np.array([1e-4, 2e-4, 0.5 * THICKNESS + BALL_RADIUS - depth]), R, np.zeros(3), out
        )
        forces.append(wrench(surface, np.zeros(3))[5])
        overrun.append(surface.overrun[1])
    return np.array(forces), np.array(overrun)


def sheets() -> dict[str, CompliantMesh | RigidMesh]:
    """Return the soft sheet and the README's alternatives: one stiffer than its partner, and a
    rigid one."""
    soft = shapes.box((WIDTH, WIDTH, THICKNESS), SHEET_MODULUS, name="soft sheet")
    stiff = dataclasses.replace(
        soft, name="stiff sheet", modulus=STIFFER * SHEET_MODULUS, pressure=STIFFER * soft.pressure
    )
    return {"soft": soft, "stiff": stiff, "rigid": shapes.rigid(soft)}


def thin(samples: int = 56) -> Findings:
    """Compute force against depth: the soft sheet lets the ball through and reports it, a stiffer
    or a rigid one does not.

    The tip of the ball passes the mid-plane when its pressure there, E (δ − h/2)/R, exceeds the
    sheet's greatest.
    """
    depths = np.linspace(0.0, DEPTH, samples + 1)[1:]
    curves = {name: press(sheet, depths) for name, sheet in sheets().items()}
    soft, overrun = curves["soft"]
    expected = 0.5 * THICKNESS + BALL_RADIUS * SHEET_MODULUS / BALL_MODULUS
    first = float(depths[np.argmax(overrun > 0)]) if overrun.any() else float("nan")
    silent = not any(curves[name][1].any() for name in ("stiff", "rigid"))
    rising = all(bool((np.diff(curves[name][0]) > 0).all()) for name in ("stiff", "rigid"))
    from_first = overrun[depths >= first] > 0
    results = {
        "depth_m": depths.tolist(),
        "force_N": {name: force.tolist() for name, (force, _) in curves.items()},
        "overrun_from_m": first,
        "expected_from_m": expected,
        "passed": bool(abs(first - expected) <= 0.1 * THICKNESS and from_first.all() and silent and rising),
    }
    lines = [
        f"soft sheet: reported from {1e3 * first:.3f} mm on (expected from {1e3 * expected:.3f} mm); "
        f"force at most {soft.max():.2f} N, at the end {soft[-1]:.2f} N",
        f"{STIFFER:g} times as stiff: {curves['stiff'][0][-1]:.2f} N, rigid: {curves['rigid'][0][-1]:.2f} N "
        f"at the end, " + ("neither reported" if silent else "reported too"),
    ]
    return Findings(results, None, lines)


main = experiment(__spec__.name, __doc__, lambda args: thin())


if __name__ == "__main__":
    sys.exit(main())
