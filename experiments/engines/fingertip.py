"""Depth of a round fingertip pressed on a plate with 10 N, in every engine, against the closed form
of the engine's contact law.

A sphere on a slide, without gravity and friction. δ is the depth, R the radius, F the force:

    mujoco         F = k δ/R_c,  R_c = (1 − d)/d m̂⁻¹,  k = d/(d_max T)²
                   with impedance d(δ) [Computation, eq. 6 and 11]
    hydroelastic   F = 2π E (a²/2 − (R³ − h³)/(3 R)),  h = R − δ,  a² = R² − h²
                   from p = E depth/R on the plate
    soft           F = ∫ e^(−u/ε2)/ε2  k ε3 log(1 + e^((δ − u)/ε3)) du
                   heights u are uniform on a sphere
    lcp            δ ≤ 0: bodies keep a small gap

Required: within :data:`LIMIT` of that, and in lcp no overlap of more than :data:`NOTHING`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq

from dexengines import ENGINES, load
from dexstack.cli.output import note, table
from experiments.harness import Findings, experiment

RADIUS, MASS, FORCE = 0.0125, 0.05, 10.0
"""[m, kg, N]"""
SECONDS = 0.5
MODULUS, STIFFNESS, RESOLUTION = 2e5, 1e4, 5e-4
"""Modulus of hydroelastic [Pa], stiffness of soft [N/m], spacing of the sphere's mesh and points
[m]."""
LIMIT, NOTHING = 0.02, 1e-9
"""Relative error, and overlap [m]."""
XML = f"""<mujoco><option timestep="0.001" gravity="0 0 0"/><worldbody><geom name="plate" type="plane"
size="1 1 1" condim="1"/>
  <body pos="0 0 {RADIUS}"><joint name="down" type="slide" axis="0 0 1" damping="20"/>
  <geom name="tip" size="{RADIUS}" mass="{MASS}" condim="1"/></body></worldbody>
  <actuator><motor joint="down"/></actuator></mujoco>"""
MATERIALS = {
    "tip": {"modulus": MODULUS, "stiffness": STIFFNESS, "resolution": RESOLUTION},
    "plate": {"stiffness": STIFFNESS},
}


def of_mujoco(depth: float) -> float:
    """Return F [N]."""
    model = mujoco.MjModel.from_xml_string(XML)
    low, high, width, middle, power = model.geom_solimp[1]
    x = min(depth / width, 1.0)
    y = (
        (x / middle) ** power * middle
        if x <= middle
        else 1.0 - ((1.0 - x) / (1.0 - middle)) ** power * (1.0 - middle)
    )
    d = low + y * (high - low)
    constant, ratio = model.geom_solref[1]
    return depth * d / (high * constant * ratio) ** 2 * d / (1.0 - d) / float(model.body_invweight0[1, 0])


def of_hydroelastic(depth: float) -> float:
    """Return F [N]."""
    h = RADIUS - depth
    return 2.0 * np.pi * MODULUS * ((RADIUS**2 - h**2) / 2.0 - (RADIUS**3 - h**3) / (3.0 * RADIUS))


def of_soft(depth: float) -> float:
    """Return F [N]."""
    from dexengines.soft.scene import LAW

    eps2, eps3 = float(LAW.eps2), float(LAW.eps3)

    def felt(u: float) -> float:
        return np.exp(-u / eps2) / eps2 * STIFFNESS * eps3 * np.logaddexp(0.0, (depth - u) / eps3)

    return quad(felt, 0.0, 2.0 * RADIUS, points=(eps2, depth, depth + eps3), limit=200)[0]


LAWS: dict[str, Callable[[float], float]] = {
    "mujoco": of_mujoco,
    "hydroelastic": of_hydroelastic,
    "soft": of_soft,
}


def pressed(engine: str) -> dict[str, Any]:
    """Return the depth at rest in one engine, and in closed form."""
    options = {}
    if engine == "soft":
        from dexengines.soft.scene import LAW

        options["law"] = LAW
    scene = load(mujoco.MjModel.from_xml_string(XML), engine, materials=MATERIALS, **options)
    state = scene.rollout(scene.reset(), np.full((round(SECONDS / scene.dt), 1), -FORCE))
    depth, speed = -float(state.q[-1, 0]), float(abs(state.v[-1, 0]))
    expected, right = 0.0, depth <= NOTHING
    if engine in LAWS:
        expected = brentq(lambda d: LAWS[engine](d) - FORCE, 1e-9, 0.9 * RADIUS)
        right = abs(depth / expected - 1.0) <= LIMIT
    reached = right and speed < 1e-4
    return {
        "engine": engine,
        "depth_m": depth,
        "closed_form_m": expected,
        "speed_m_s": speed,
        "reached": bool(reached),
    }


def fingertip(args: argparse.Namespace) -> Findings:
    """Run the selected engines."""
    rows = []
    for engine in args.engines:
        note(engine)
        rows.append(pressed(engine))
    results = {
        "force_N": FORCE,
        "limit": LIMIT,
        "limit_lcp_m": NOTHING,
        "rows": rows,
        "passed": all(r["reached"] for r in rows),
    }
    shown = [[r["engine"], 1e3 * r["depth_m"], 1e3 * r["closed_form_m"], r["reached"]] for r in rows]
    columns = ("engine", "depth [mm]", "closed form [mm]", "reached")
    return Findings(results, None, [table(f"a fingertip under {FORCE:g} N", columns, shown)])


def _arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--engines", nargs="+", choices=list(ENGINES), default=list(ENGINES), help="engines to run"
    )


main = experiment(__spec__.name, __doc__, fingertip, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
