"""One ball is aimed so that another ends at a point: error in continuous time, iterations, time of
a gradient.

The same aim is found by Nelder–Mead, from values only. Timed is one gradient of the struck ball's
final position by the start state and all controls of 20 steps. With ``--nimble`` Nimble computes
the same gradient in the same run, by its compiled part (without torch). Both are compared with the
gradient in closed form. No ratio is asked for.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import trimesh
from scipy.optimize import minimize

from dexengines.lcp import gradient
from dexengines.lcp.shapes import Geometry
from dexengines.lcp.system import LcpSystem
from dexstack.errors import ConfigError
from experiments.harness import Findings, experiment
from experiments.lcp import systems
from experiments.lcp.check import SubstepCheck, contact_results, watched

TARGET = np.array([0.3, 0.2])
"""Target of the struck ball [m]."""
START = np.array([4.0, -0.1])
"""Initial velocity of the search [m/s]."""
SAMPLES = 300
"""Number of gradients timed."""


def two_balls_in_closed_form(velocity: np.ndarray, duration: float = 0.2) -> np.ndarray:
    """Return the struck ball's final position: elastic, frictionless spheres of equal mass in
    continuous time."""
    start, radius = np.array([-0.4, 0.0]), 0.05
    a, b, c = velocity @ velocity, start @ velocity, start @ start - 4.0 * radius**2
    hit = (-b - np.sqrt(b * b - a * c)) / a
    n = -(start + hit * velocity) / (2.0 * radius)
    return (duration - hit) * (velocity @ n) * n


def _balls_once(system: LcpSystem, velocity: np.ndarray) -> gradient.Rollout:
    system.forget()
    system.q[:], system.v[:] = (-0.4, 0.0, 0.0, 0.0), (*velocity, 0.0, 0.0)
    return gradient.rollout(system, np.zeros((20, 4)))


def _zeroth_order(system: LcpSystem, tolerance: float) -> list[float]:
    """Return the distance from the target in continuous time after every rollout of a Nelder–Mead
    search."""
    misses: list[float] = []

    def loss(velocity: np.ndarray) -> float:
        misses.append(float(np.linalg.norm(two_balls_in_closed_form(velocity) - TARGET)))
        return float(np.sum((_balls_once(system, velocity).q[-1, 2:4] - TARGET) ** 2))

    enough = {"xatol": 0.0, "fatol": 0.0, "maxfev": 2000}
    minimize(
        loss,
        START,
        method="Nelder-Mead",
        options=enough,
        callback=lambda x: misses and min(misses) <= tolerance,
    )
    return misses[: next((k + 1 for k, miss in enumerate(misses) if miss <= tolerance), len(misses))]


def _gradient_once(system: LcpSystem, velocity: np.ndarray) -> np.ndarray:
    """Return the gradient (2,) of the struck ball's final x by the other's start velocity; those by
    all other inputs are computed, too."""
    return gradient.vjp(system, _balls_once(system, velocity), np.eye(8)[2], ("q", "v", "tau"))["v"][:2]


def _exact_gradient(velocity: np.ndarray) -> np.ndarray:
    """Return the same in continuous time, by fourth-order differences of the closed form."""
    h, parts = 1e-3, []
    for e in np.eye(2):
        at = lambda c: two_balls_in_closed_form(velocity + c * h * e)[0]  # noqa: E731, B023
        parts.append((8.0 * (at(1) - at(-1)) - at(2) + at(-2)) / (12.0 * h))
    return np.array(parts)


def nimble_core(python: Path, velocity: np.ndarray) -> dict[str, Any]:
    script = Path(__file__).with_name("nimble_peer.py")
    try:
        done = subprocess.run(
            [str(python), str(script), *map(str, velocity), str(SAMPLES)],
            capture_output=True,
            text=True,
            timeout=120,
        )
    except OSError as error:
        raise ConfigError(f"cannot run {python}: {error.strerror}") from None
    if done.returncode:
        raise ConfigError(
            f"{python} cannot time Nimble: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}"
        )
    return json.loads(done.stdout.splitlines()[-1])


def balls(tolerance: float = 1e-9, nimble: Path | None = None) -> Findings:
    """Aim one ball so that the other ends at the target: Gauss–Newton on the engine's own
    derivative.

    Args:
        tolerance: distance from the target at which it ends [m].
        nimble: a Python with nimblephysics, whose compiled part is timed, too.
    """
    system = systems.two_balls()
    velocity, misses, iterations = START, [], 0
    check = SubstepCheck(system)
    for iterations in range(20):  # noqa: B007
        rolled = _balls_once(system, velocity)
        check.after_step()
        misses.append(float(np.linalg.norm(two_balls_in_closed_form(velocity) - TARGET)))
        if misses[-1] <= tolerance:
            break
        J = gradient.jacobian(system, rolled, ("v",))["v"][2:4, :2]
        velocity = velocity - np.linalg.solve(J, rolled.q[-1, 2:4] - TARGET)
    seconds = []
    for _ in range(SAMPLES):
        begin = time.process_time()
        slope = _gradient_once(system, velocity)
        seconds.append(time.process_time() - begin)
    ours, exact, searched = (
        float(np.median(seconds)),
        _exact_gradient(velocity),
        _zeroth_order(system, tolerance),
    )
    mesh = _polygon_balls()
    mesh.v[:2] = velocity
    coarse, _, mesh_check = watched(mesh, 20)
    mesh_miss = float(np.linalg.norm(coarse[-1, 2:4] - TARGET))
    results = {
        "iterations": iterations,
        "velocity": velocity,
        "position_error_m": misses[-1],
        "position_errors_m": misses,
        "polygon_balls_error_m": mesh_miss,
        **contact_results(system, check),
        "polygon_balls": contact_results(mesh, mesh_check),
        "zeroth_order_rollouts": len(searched),
        "zeroth_order_error_m": min(searched),
        "ours_s": ours,
        "gradient_error": float(np.abs(slope - exact).max()),
        "passed": bool(
            misses[-1] <= tolerance and iterations <= 6 and check.smallest > 0.0 and mesh_check.smallest > 0.0
        ),
    }
    lines = [
        f"start velocity ({velocity[0]:.7f}, {velocity[1]:.7f}) m/s after {iterations} Gauss–Newton "
        "iterations; "
        f"the struck ball ends {misses[-1]:.1e} m from the target in continuous time",
        f"the same with balls of 320 triangles: {mesh_miss:.1e} m",
        f"Nelder–Mead from the same start: {len(searched)} rollouts to {min(searched):.1e} m",
        f"20 steps forward and the gradient by start state and controls: {1e6 * ours:.0f} µs, off by "
        f"{results['gradient_error']:.1e} of {np.abs(exact).max():.2f}",
    ]
    if nimble is not None:
        more, line = _compared(nimble_core(nimble, velocity), exact, ours)
        results |= more
        lines.append(line)
    return Findings(results, None, lines)


def _compared(core: dict[str, Any], exact: np.ndarray, ours: float) -> tuple[dict[str, Any], str]:
    """Return results of Nimble's gradient, and a line that describes them."""
    miss = float(np.linalg.norm(np.array(core["end"])[2:4] - TARGET))
    off = float(np.abs(np.array(core["gradient"]) - exact).max())
    ratio = core["seconds"] / ours
    results = {
        "peer": {"name": "Nimble, compiled part", "version": core["version"]},
        "peer_s": core["seconds"],
        "peer_error_m": miss,
        "peer_gradient_error": off,
        "ratio": ratio,
    }
    return results, (
        f"Nimble's compiled part, the same: {1e6 * core['seconds']:.0f} µs, {ratio:.1f} times ours, "
        f"off by {off:.1e}; from the same velocity its ball ends {miss:.1e} m from the target"
    )


def _polygon_balls() -> LcpSystem:
    system = systems.two_balls()
    points = np.asarray(trimesh.creation.icosphere(2, radius=0.05).vertices)
    polygons = [Geometry(g.name, g.body, points, friction=0.0, restitution=1.0) for g in system.geometries]
    return LcpSystem(system.model, polygons)


main = experiment(
    __spec__.name,
    __doc__,
    lambda args: balls(nimble=args.nimble),
    arguments=lambda p: p.add_argument(
        "--nimble", type=Path, metavar="PYTHON", help="a Python with nimblephysics, which is timed, too"
    ),
)


if __name__ == "__main__":
    sys.exit(main())
