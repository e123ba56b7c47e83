"""Many impacts at one instant: Newton's cradle, balls that meet at once, a ball between walls;
momentum and energy of each."""

from __future__ import annotations

import argparse
import sys

import mujoco
import numpy as np
from numpy.typing import ArrayLike

from dexengines.lcp import record
from dexengines.lcp.shapes import sphere
from dexengines.lcp.system import LcpSystem
from experiments.harness import Findings, experiment
from experiments.lcp import systems

TOUCHING = 1e-12
"""Gap of balls that meet at the same instant [m]."""
ASKED = 1e-12
"""Tolerance of momentum and gain of energy, relative."""
CORNERS = np.array([[1.0, 1.0, 1.0], [1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]])
"""Corners of a tetrahedron."""


def row(masses: ArrayLike, restitution: float) -> LcpSystem:
    """Return balls of r 0.05 that touch in a row, with their positions along it as only
    coordinates; no gravity."""
    spec = mujoco.MjSpec()
    spec.option.timestep, spec.option.gravity = 0.01, (0.0, 0.0, 0.0)
    balls = []
    for i, mass in enumerate(np.asarray(masses, float)):
        name = f"ball{i}"
        body = spec.worldbody.add_body(name=name, mass=mass, inertia=(1e-3,) * 3, explicitinertial=True)
        body.add_joint(name=name, type=mujoco.mjtJoint.mjJNT_SLIDE, axis=(1, 0, 0))
        balls.append(sphere(name, name, 0.05, friction=0.0, restitution=restitution))
    system = LcpSystem(spec.compile(), balls)
    system.q[:] = (0.1 + TOUCHING) * np.arange(len(balls))
    return system


def cluster(rng: np.random.Generator, friction: float) -> LcpSystem:
    """Return four turning balls that touch each other and meet at once, with different masses and
    restitution."""
    names, masses = [f"ball{i}" for i in range(4)], rng.uniform(0.5, 3.0, 4)
    model = systems.free_bodies(
        {n: (m, (4e-4 * m,) * 3) for n, m in zip(names, masses, strict=True)}, dt=1e-3, gravity=0.0
    )
    system = LcpSystem(
        model, [sphere(n, n, 0.05, friction=friction, restitution=rng.uniform(0.1, 1.0)) for n in names]
    )
    q, v = system.q.reshape(4, 7), system.v.reshape(4, 6)
    q[:, :3], q[:, 3:] = (0.1 + TOUCHING) / np.sqrt(8.0) * CORNERS, (1.0, 0.0, 0.0, 0.0)
    v[:, :3], v[:, 3:] = rng.normal(size=(4, 3)) - 3.0 * CORNERS, 10.0 * rng.normal(size=(4, 3))
    return system


def between_walls(speed: float) -> LcpSystem:
    """Return a lossless ball in 2 cm between walls, balls of 1e9 times its mass, with several
    bounces a step."""
    system = row((1e9, 1.0, 1e9), 1.0)
    system.q[:] = -0.12, 0.0, 0.12
    system.v[1] = speed
    return system


def responses(system: LcpSystem) -> list[tuple[tuple[np.ndarray, float], tuple[np.ndarray, float]]]:
    """Return velocities and kinetic energy before and after every impact of the last step."""
    tape, found = system.tape, []
    q, v = system.q.copy(), system.v.copy()
    for k in range(1, tape.size[0]):
        if tape.op[k, 0] == record.IMPACT:
            ends = []
            for i in (k - 1, k):
                system.q[:], system.v[:] = tape.q[i], tape.v[i]
                ends.append((tape.v[i].copy(), system.energies()[0]))
            found.append((ends[0], ends[1]))
    system.q[:], system.v[:] = q, v
    return found


def momenta(system: LcpSystem, v: np.ndarray) -> np.ndarray:
    """Return the momentum (3,) of free bodies, (1,) of a row."""
    return system.parameters.mass[1:] @ (
        v.reshape(-1, 6)[:, :3] if system.model.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE else v[:, None]
    )


def changes(system: LcpSystem, steps: int = 1) -> dict[str, float]:
    """Return the relative change of momentum and the greatest relative gain of energy in one
    impact."""
    weight, start, gain, impacts = (
        np.repeat(system.parameters.mass[1:], system.v.size // (system.model.nbody - 1)),
        system.v.copy(),
        -np.inf,
        0,
    )
    for _ in range(steps):
        system.step()
        for (_, before), (_, after) in responses(system):
            gain, impacts = max(gain, after / before - 1.0), impacts + 1
    moved = np.abs(momenta(system, system.v) - momenta(system, start)).max() / float(weight @ np.abs(start))
    return {
        "momentum": moved,
        "energy_gain": gain,
        "impacts": impacts,
        "ended_by_count": int(system.counts[record.PLASTIC_ENDS]),
    }


def impacts(args: argparse.Namespace) -> Findings:
    """Simulate all scenes."""
    rng, found, cradle = np.random.default_rng(args.seed), {}, 0.0
    found["cradle"] = []
    for moving in range(1, 5):
        system = row(np.ones(5), 1.0)
        system.v[:moving] = 1.0
        found["cradle"].append(changes(system))
        (_, (after, _)) = responses(system)[-1]
        cradle = max(cradle, float(np.abs(after - ([0.0] * (5 - moving) + [1.0] * moving)).max()))
    for name in ("rows of unequal balls", "four at once", "four at once, friction 0.6"):
        found[name] = []
        for _ in range(args.scenes):
            if name.startswith("rows"):
                system = row(rng.uniform(0.5, 2.0, 5), rng.uniform(0.1, 1.0))
                system.v[:] = np.sort(rng.normal(size=5))[::-1]
            else:
                system = cluster(rng, 0.6 if "friction" in name else 0.0)
            found[name].append(changes(system))
    found["between walls"] = [changes(between_walls(speed), 20) for speed in (1.0, 7.0, 20.0)]
    runs = {
        name: {"scenes": len(rows), "impacts": sum(r["impacts"] for r in rows)}
        | {k: max(r[k] for r in rows) for k in ("momentum", "energy_gain", "ended_by_count")}
        for name, rows in found.items()
    }
    lines = [
        f"{name}: {r['scenes']} scenes, {r['impacts']} impacts, momentum within {r['momentum']:.1e}, "
        f"energy at most {r['energy_gain']:+.1e}"
        for name, r in runs.items()
    ]
    lines.append(f"cradle: speeds within {cradle:.1e} m/s of the textbook's")
    passed = cradle <= ASKED and all(
        max(r["momentum"], r["energy_gain"]) <= ASKED and not r["ended_by_count"] for r in runs.values()
    )
    return Findings(
        {"runs": runs, "cradle_speed_error_m_s": cradle, "passed": bool(passed)}, None, lines, args.seed
    )


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scenes", type=int, default=300, help="random scenes of each kind")
    parser.add_argument("--seed", type=int, default=0, help="seed of the scenes")


main = experiment(__spec__.name, __doc__, impacts, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
