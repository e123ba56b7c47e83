"""A ring falls over a peg, as one cloud of oriented points with a hole, without convex parts.

The ring starts just above a peg that stands on the ground, 1 mm beside its axis, tilted by 2° and
moving sideways at 0.05 m/s, so that its hole meets the peg on the way down; the radial clearance is
2 mm. Contact parameters follow from weight and size (``dexengines.soft.scaling``).

Required: after one second the ring lies on the ground around the peg, its centre at half its height
within 1 mm, tilted by less than 1° and slower than 10 mm/s; on the way its hole is never deeper than
1 mm in the peg, nor the ring in the ground; energy exceeds that of the start by at most 1 % of the
potential energy released. In MuJoCo the same mesh collides as its hull and comes to rest on the end
of the peg. These limits were chosen before the first run, the start after the second: from 5 mm
higher the ring misses the peg without sideways motion, and at 0.2 m/s it has moved beyond the
clearance as it reaches the peg, lands on its end and stays there, tilted by 49°. The spacing of the
points was 2 mm first, see :data:`SPACING`.
"""

from __future__ import annotations

import argparse
import math
import sys
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from matplotlib.figure import Figure

from dexengines.soft import cloud, scaling
from dexengines.soft.scm import ContactParams
from dexengines.soft.system import Ground, Meeting, SoftSystem, Surface
from dexstack.cli.output import table
from dexstack.process.compilation import jit
from experiments import films
from experiments.harness import BLUE, PINK, Findings, experiment
from experiments.soft.annulus import FRICTION, HALF, INNER, MASS, OUTER, PEG, PEG_HALF, ring_cloud, ring_spec

SPACING, DT, SECONDS = 0.5 * (INNER - PEG), 5e-4, 1.0
"""Of the points [m]; step and length of the run [s]. Points lie up to half a spacing inside edges: where
that is half of the clearance, a ring whose rim has met the peg's stays there, without friction too."""
PUSH = (0.05, 0.0, 0.0, 0.0, 0.0, 0.0)
"""First velocity of the ring [m/s, rad/s]."""
HEIGHT_ERROR, LEANING, SLOWEST, OVERLAP, GAINED = 1e-3, 1.0, 0.01, 1e-3, 0.01
"""Limits [m, °, m/s, m, -]; see above."""


def law() -> ContactParams:
    """Return the parameters that scenes give a contact of this weight and size."""
    speed = math.sqrt(9.81 * HALF)
    return ContactParams(
        stiffness=MASS * 9.81 / (scaling.DEPTH * HALF),
        eps1=(0.2 * SPACING) ** 2,
        eps2=scaling.SPREAD * HALF,
        eps3=scaling.ONSET * HALF,
        v_d=scaling.SEPARATION * speed,
        v_s=scaling.STICTION * speed,
    )


def fallen(model: mujoco.MjModel, seconds: float) -> tuple[np.ndarray, np.ndarray]:
    """Return states q (K, 7) and v (K, 6) in the soft engine, the start included."""
    ring = Surface("ring", "ring", ring_cloud(SPACING), FRICTION)
    peg = cloud.moved(cloud.cylinder(PEG, PEG_HALF, SPACING), np.eye(3), np.array([0.0, 0.0, PEG_HALF]))
    meeting = Meeting([Surface("peg", "world", peg, FRICTION)], [ring], params=law())
    system = SoftSystem(model, [meeting], [Ground(ring, law(), FRICTION)])

    def roll(data: Any, q: jax.Array) -> Any:
        def one(state: Any, _: None) -> Any:
            return system.implicit(data, *state, jnp.zeros(6), DT), state

        return jax.lax.scan(one, (q, jnp.asarray(PUSH)), None, round(seconds / DT))[1]

    with jax.enable_x64(True):
        q, v = jit(roll)(system.data, jnp.asarray(model.qpos0))
    return np.asarray(q), np.asarray(v)


def fallen_as_hull(model: mujoco.MjModel, seconds: float) -> np.ndarray:
    """Return states q (K, 7) in MuJoCo, which takes the ring's convex hull."""
    data, states = mujoco.MjData(model), []
    data.qvel[:] = PUSH
    for _ in range(round(seconds / DT)):
        states.append(data.qpos.copy())
        mujoco.mj_step(model, data)
    return np.array(states)


def judged(model: mujoco.MjModel, q: np.ndarray, v: np.ndarray) -> dict[str, Any]:
    """Return the figures of a run in the soft engine."""
    data, rim, energies, peg, ground = mujoco.MjData(model), ring_cloud(SPACING).points, [], 0.0, 0.0
    angle = 2 * math.pi * np.arange(64) / 64
    around = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(angle.size)])
    edges = [r * around + [0.0, 0.0, z] for r in (INNER, OUTER) for z in (-HALF, HALF)]
    rim = np.concatenate([rim, *edges])
    for data.qpos[:], data.qvel[:] in zip(q, v, strict=True):
        for update in (mujoco.mj_fwdPosition, mujoco.mj_energyPos, mujoco.mj_energyVel):
            update(model, data)
        energies.append(data.energy.sum())
        p = rim @ data.body("ring").xmat.reshape(3, 3).T + data.body("ring").xpos
        inside = np.minimum(PEG - np.hypot(p[:, 0], p[:, 1]), 2 * PEG_HALF - p[:, 2])
        peg, ground = max(peg, inside.max()), max(ground, -p[:, 2].min())
    x, y = q[-1, 4:6]
    return {
        "height_error_m": float(q[-1, 2] - HALF),
        "tilt_deg": float(np.degrees(np.arccos(np.clip(1 - 2 * (x * x + y * y), -1.0, 1.0)))),
        "speed_m_s": float(np.linalg.norm(v[-1, :3])),
        "overlap_peg_m": float(peg),
        "overlap_ground_m": float(ground),
        "gained": float((max(energies) - energies[0]) / (MASS * 9.81 * (q[0, 2] - q[-1, 2]))),
        "points": len(ring_cloud(SPACING).points),
    }


def ring(args: argparse.Namespace) -> Findings:
    """Let the ring fall in both engines."""
    model = ring_spec(DT).compile()
    q, v = fallen(model, args.seconds)
    hull = fallen_as_hull(model, args.seconds)
    results = judged(model, q, v) | {"hull_height_m": float(hull[-1, 2])}
    met = {
        "height": abs(results["height_error_m"]) < HEIGHT_ERROR,
        "tilt": results["tilt_deg"] < LEANING,
        "rest": results["speed_m_s"] < SLOWEST,
        "met the peg": results["overlap_peg_m"] > 0.0,
        "overlap": max(results["overlap_peg_m"], results["overlap_ground_m"]) < OVERLAP,
        "energy": results["gained"] <= GAINED,
        "hull": abs(results["hull_height_m"] - 2 * PEG_HALF - HALF) < HEIGHT_ERROR,
    }
    met = {name: bool(reached) for name, reached in met.items()}
    t = DT * np.arange(len(q))
    if args.film:
        films.write(args.film, model, t, q, (0, 0, 0.03), (1, -1, 0.6), distance=0.3, slower=4)
    figure = Figure(figsize=(6.0, 3.5), layout="constrained")
    axes = figure.subplots()
    axes.plot(t, 1e3 * q[:, 2], color=BLUE, label="soft, points")
    axes.plot(t, 1e3 * hull[:, 2], color=PINK, label="MuJoCo, hull")
    axes.set(xlabel="time [s]", ylabel="height of the centre [mm]")
    axes.legend()
    rows = [[name, results[name]] for name in results]
    missed = [name for name, reached in met.items() if not reached]
    lines = [table("a ring over a peg", ("figure", "found"), rows)]
    lines += [f"not met: {', '.join(missed)}"] if missed else []
    return Findings(results | {"met": met, "passed": all(met.values())}, figure, lines)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=SECONDS, help="length of the run")
    films.add_film(parser)


main = experiment(__spec__.name, __doc__, ring, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
