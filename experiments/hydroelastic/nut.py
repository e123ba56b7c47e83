"""A nut on a bolt, both meshes with their threads: it runs down without friction and locks with it.

The nut is a free body filled with tets, the bolt a rigid surface; neither is convex, and no hull or
convex part replaces them. The round thread has one start, a lead of 20 mm and a lead angle of 15.5°.
Without friction the nut turns as a screw under its own weight, a = g/(1 + (2π/L)² I/m), for two
turns; with a coefficient of 0.5, more than the tangent of the lead angle over the cosine of the
flanks, it stays where it is.

Required, chosen before the first run. Without friction: travel per turn equals the lead within 1 %,
the acceleration lies between 90 % and 101 % of the formula's, and energy exceeds that of the start
by at most 1 % of the potential energy released. With friction: between 0.1 s and the end at 0.6 s
the nut sinks by less than 0.1 mm and turns by less than 0.5°. In both: the surfaces overlap by less
than 1 mm, by the gap along the radius at all vertices of the nut's thread, and every step is solved.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
from matplotlib.figure import Figure

from dexstack.cli.output import table
from experiments import films
from experiments.harness import BLUE, PINK, Findings, experiment
from experiments.hydroelastic import threads
from experiments.hydroelastic.threads import CLEARANCE, LEAD, MASS, thread

FRICTION, TURNS, SECONDS, SETTLED = 0.5, 2.0, 0.6, 0.1
"""Friction of the run that locks; turns of the other one; end and settling time of the first [s]."""
LEAD_ERROR, SHARE, GAINED = 0.01, (0.9, 1.01), 0.01
SUNK, TURNED, OVERLAP = 1e-4, 0.5, 1e-3
"""Limits [-, -, -, m, °, m]; see above."""
DT, LONGEST = 5e-4, 1.5
"""Step, and the longest time of a run [s]."""


def run(friction: float, until: Callable[[float, float], bool]) -> dict[str, Any]:
    """Return one run: times t (K,) [s], states q (K, 7), angles (K,) [rad], energies (K,) [J], the
    least gap of the threads along the radius [m], and counts of faces and unsolved steps.

    Args:
        friction: coefficient.
        until: of the time [s] and the turns made; ends the run.
    """
    sim = threads.screw(friction, DT)
    model, data, body = sim.model, sim.data, sim.data.body("nut")
    points = sim.geometries[0].mesh.vertices_B
    own = np.hypot(*points[:, :2].T) - thread(np.arctan2(points[:, 1], points[:, 0]), points[:, 2])
    points = points[own < CLEARANCE + 1e-9]
    rows, states, gap, angle, faces = [], [], np.inf, 0.0, 0
    while sim.time < LONGEST and not until(sim.time, angle / (2 * math.pi)):
        for update in (mujoco.mj_fwdPosition, mujoco.mj_energyPos, mujoco.mj_energyVel):
            update(model, data)
        x, y, z = (points @ body.xmat.reshape(3, 3).T + body.xpos).T
        gap = min(gap, float((np.hypot(x, y) - thread(np.arctan2(y, x), z)).min()))
        rows.append((sim.time, angle, data.energy.sum()))
        states.append(data.qpos.copy())
        sim.step()
        angle -= DT * data.qvel[5]
        faces = max(faces, sim.faces)
    t, turned, energy = np.array(rows).T
    found = {"t": t, "q": np.array(states), "angle": turned, "energy": energy, "gap": gap}
    inertia = threads.about_z(model)
    return found | {"faces": faces, "unsolved": sim.unsolved, "inertia": inertia, "model": model}


def judged(free: dict[str, Any], locked: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of the run without friction and of the one with it."""
    after = free["t"] >= SETTLED
    z, angle, t = free["q"][after, 2], free["angle"][after], free["t"][after]
    travel = -2 * math.pi * np.polyfit(angle, z, 1)[0]
    expected = 9.81 / (1.0 + (2 * math.pi / LEAD) ** 2 * free["inertia"] / MASS)
    acceleration = 2.0 * np.polyfit(t, angle, 2)[0] * LEAD / (2 * math.pi)
    gained = (free["energy"].max() - free["energy"][0]) / (MASS * 9.81 * (free["q"][0, 2] - z[-1]))
    still = locked["t"] >= SETTLED
    sunk = float(np.ptp(locked["q"][still, 2]))
    turned = float(np.degrees(np.ptp(locked["angle"][still])))
    results = {
        "turns": float(angle[-1] / (2 * math.pi)),
        "seconds": float(t[-1]),
        "travel_per_turn_m": float(travel),
        "lead_m": LEAD,
        "acceleration_m_s2": float(acceleration),
        "expected_m_s2": float(expected),
        "gained": float(gained),
        "sunk_locked_m": sunk,
        "turned_locked_deg": turned,
        "overlap_m": max(0.0, -free["gap"], -locked["gap"]),
        "faces": max(free["faces"], locked["faces"]),
        "unsolved": free["unsolved"] + locked["unsolved"],
    }
    met = {
        "turns": results["turns"] >= TURNS - 0.1,
        "lead": abs(travel / LEAD - 1.0) <= LEAD_ERROR,
        "acceleration": SHARE[0] <= acceleration / expected <= SHARE[1],
        "energy": gained <= GAINED,
        "locked": sunk < SUNK and turned < TURNED,
        "overlap": results["overlap_m"] < OVERLAP,
        "solved": results["unsolved"] == 0,
    }
    met = {name: bool(reached) for name, reached in met.items()}
    return results | {"met": met, "passed": all(met.values())}


def drawn(free: dict[str, Any], locked: dict[str, Any]) -> Figure:
    """Return heights over time and over the angle."""
    figure = Figure(figsize=(8.0, 3.5), layout="constrained")
    axes = figure.subplots(1, 2)
    for motion, colour, name in ((free, BLUE, "no friction"), (locked, PINK, f"μ = {FRICTION:g}")):
        axes[0].plot(motion["t"], 1e3 * motion["q"][:, 2], color=colour, label=name)
        axes[1].plot(motion["angle"] / (2 * math.pi), 1e3 * motion["q"][:, 2], color=colour)
    axes[0].set(xlabel="time [s]", ylabel="height [mm]")
    axes[1].set(xlabel="turns", ylabel="height [mm]")
    axes[0].legend()
    return figure


def nut(args: argparse.Namespace) -> Findings:
    """Run the nut without friction and with it."""
    free = run(0.0, lambda _, turns: turns >= TURNS)
    locked = run(FRICTION, lambda t, _: t >= SECONDS)
    results = judged(free, locked)
    if args.film:
        model = threads.shown(free["model"].opt.timestep)
        films.write(args.film, model, free["t"], free["q"], (0, 0, 0), (1, -1, 0.8), distance=0.3, slower=6)
    rows = [
        ["travel per turn [mm]", 1e3 * results["travel_per_turn_m"], 1e3 * LEAD],
        ["acceleration [m/s²]", results["acceleration_m_s2"], results["expected_m_s2"]],
        ["energy gained, share of that released", results["gained"], f"at most {GAINED:g}"],
        ["sunk with friction [mm]", 1e3 * results["sunk_locked_m"], f"below {1e3 * SUNK:g}"],
        ["turned with friction [°]", results["turned_locked_deg"], f"below {TURNED:g}"],
        ["overlap of the threads [mm]", 1e3 * results["overlap_m"], f"below {1e3 * OVERLAP:g}"],
    ]
    missed = [name for name, reached in results["met"].items() if not reached]
    lines = [table("a nut on a bolt", ("figure", "found", "expected"), rows)]
    lines += [f"not met: {', '.join(missed)}"] if missed else []
    return Findings(results, drawn(free, locked), lines)


main = experiment(__spec__.name, __doc__, nut, arguments=films.add_film)


if __name__ == "__main__":
    sys.exit(main())
