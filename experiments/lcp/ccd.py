"""Times of impact of boxes that turn while they fly, held against two libraries: ipctk's detection
along curved paths, coal's distances."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from scipy.spatial.transform import Rotation

from dexengines.lcp.record import MOVE
from dexengines.lcp.shapes import box
from dexengines.lcp.system import LcpSystem
from dexstack.errors import ConfigError
from experiments.harness import BLUE, Outcome, run
from experiments.lcp import systems
from experiments.lcp.check import SubstepCheck

STEP = 0.01
"""Duration of the motion [s]."""
TOLERANCE = 1e-4
"""Of ipctk's intervals, as a share of the step."""
EARLY = 2e-3
"""Most by which ipctk's bound may lie before the impact, as a share of the step; it may not lie
after it."""
NEAREST = 1.2e-6
"""Distance that is left at the engine's time of impact, at most [m]."""


def _paths(ipctk, R: np.ndarray, p: np.ndarray, v: np.ndarray, points_B: np.ndarray) -> list:
    """Where the corners of a free body go within a step: straight on while the body turns about an
    axis fixed in it."""
    turn = v[3:] * STEP
    angle = float(np.linalg.norm(turn))
    axis = turn / angle

    class Path(ipctk.NonlinearTrajectory):
        def __init__(self, x: np.ndarray) -> None:
            super().__init__()
            along = axis * (axis @ x)
            self.rest, self.first, self.second = R @ along, R @ (x - along), R @ np.cross(axis, x)
            self.radius = float(np.linalg.norm(x - along))

        def __call__(self, t: float) -> np.ndarray:
            c, s = np.cos(t * angle), np.sin(t * angle)
            return p + t * STEP * v[:3] + self.rest + c * self.first + s * self.second

        def max_distance_from_linear(self, t0: float, t1: float) -> float:
            return self.radius * (1.0 - np.cos(min(0.5 * angle * (t1 - t0), np.pi)))

    return [Path(x) for x in points_B]


def library_time(system: LcpSystem) -> tuple[float, int]:
    """First impact of two free hulls as a share of the step, by ipctk's conservative detection
    along their true paths; queries made.

    Raises:
        ConfigError: ipctk is not installed.
    """
    try:
        import ipctk
    except ModuleNotFoundError:
        raise ConfigError("times of impact are compared with ipctk: pip install ipctk") from None
    detect = ipctk.NonlinearCCD(TOLERANCE, 100_000, 0.999)
    sh, paths, first, queries = system.world.shapes, [], 1.0, 0
    for k in range(2):
        R = Rotation.from_quat(system.q[7 * k + 3 : 7 * k + 7], scalar_first=True).as_matrix()
        corners = sh.vertex[sh.vertex_start[k] : sh.vertex_start[k + 1]]
        paths.append(_paths(ipctk, R, system.q[7 * k : 7 * k + 3], system.v[6 * k : 6 * k + 6], corners))
    for k, other in ((0, 1), (1, 0)):
        for f in range(sh.face_start[k], sh.face_start[k + 1]):
            loop = sh.loop[sh.loop_start[f] : sh.loop_start[f + 1]] - sh.vertex_start[k]
            for i, point in itertools.product(range(1, len(loop) - 1), paths[other]):
                corners = (paths[k][loop[0]], paths[k][loop[i]], paths[k][loop[i + 1]])
                hit, t = detect.point_triangle_ccd(point, *corners, 0.0, first)
                first, queries = min(first, t) if hit else first, queries + 1
    edges = [sh.edge[sh.edge_start[k] : sh.edge_start[k + 1]] - sh.vertex_start[k] for k in range(2)]
    for e, f in itertools.product(*edges):
        hit, t = detect.edge_edge_ccd(
            paths[0][e[0]], paths[0][e[1]], paths[1][f[0]], paths[1][f[1]], 0.0, first
        )
        first, queries = min(first, t) if hit else first, queries + 1
    return first, queries


def _thrown(rng: np.random.Generator) -> LcpSystem:
    """Two boxes that fly towards each other and turn by up to 1.2 rad within the step."""
    half = rng.uniform(0.02, 0.15, 3)
    names = ("first", "second")  # with equal moments of inertia, so that each keeps its velocity
    model = systems.free_bodies({n: (1.0, (1e-2,) * 3) for n in names}, dt=STEP, gravity=0.0)
    system = LcpSystem(model, [box(n, n, half, friction=0.0) for n in names])
    away = rng.normal(size=3)
    away *= 0.45 / np.linalg.norm(away)
    for k, side in ((0, -0.5), (1, 0.5)):
        quat = rng.normal(size=4)
        system.q[7 * k : 7 * k + 7] = *(side * away), *(quat / np.linalg.norm(quat))
        spin = rng.normal(size=3)
        system.v[6 * k : 6 * k + 3] = -2.0 * side * away * rng.uniform(0.3, 0.6) / STEP + rng.normal(size=3)
        system.v[6 * k + 3 : 6 * k + 6] = spin / np.linalg.norm(spin) * rng.uniform(0.3, 1.2) / STEP
    return system


def ccd(pairs: int = 60, seed: int = 0) -> Outcome:
    """Two boxes are thrown at each other; when they meet."""
    rng = np.random.default_rng(seed)
    ours, theirs, left, seconds, library_seconds, queries = [], [], [], [], [], 0
    while len(ours) < pairs:
        system = _thrown(rng)
        begin = time.process_time()
        bound, count = library_time(system)
        library_seconds.append(time.process_time() - begin)
        queries += count
        check, start = SubstepCheck(system), (system.q.copy(), system.v.copy())
        for _ in range(2):  # the first makes the references that kernels take
            system.forget()
            system.q[:], system.v[:] = start
            begin = time.process_time()
            system.step()
            elapsed = time.process_time() - begin
        seconds.append(elapsed)
        moves = np.flatnonzero(system.tape.op[: system.tape.size[0], 0] == MOVE)
        met = len(moves) > 1
        if not met and bound >= 1.0:
            continue  # they miss each other, and both say so
        check.check(system.tape.q[moves[0]])
        ours.append(system.tape.length[moves[0]] / STEP)
        theirs.append(bound)
        left.append(check.smallest if met else np.inf)
    early = np.array(ours) - np.array(theirs)
    results = {
        "pairs": pairs,
        "missed": len(seconds) - pairs,
        "intersections": {"checked": pairs, "failed": int(np.min(left) <= 0.0), "worst": float(np.min(left))},
        "distance_left_m": {"min": float(np.min(left)), "max": float(np.max(left))},
        "library_early": {
            "min": float(early.min()),
            "median": float(np.median(early)),
            "max": float(early.max()),
        },
        "step_s": float(np.median(seconds)),
        "library_s": float(np.median(library_seconds)),
        "queries": queries,
        "peer": {"name": "ipctk NonlinearCCD", "version": _version("ipctk")},
        "passed": bool(
            np.min(left) > 0.0 and np.max(left) <= NEAREST and early.min() >= -1e-9 and early.max() <= EARLY
        ),
    }
    figure = Figure(figsize=(6.5, 3.6), layout="constrained")
    ax = figure.subplots()
    ax.semilogy(ours, np.maximum(early, 1e-9), "o", color=BLUE, ms=4)
    ax.set(
        xlabel="time of impact / step",
        ylabel="ipctk earlier by / step",
        title=f"{pairs} impacts of turning boxes",
    )
    lines = [
        f"{pairs} impacts (and {len(seconds) - pairs} misses) of boxes that turn by 0.3 to 1.2 rad: coal finds {np.min(left):.1e} to "
        f"{np.max(left):.1e} m left at ours; ipctk's bound along the same paths is {early.min():.1e} to {early.max():.1e} step earlier",
        f"a whole step, what follows the impact included, {1e3 * results['step_s']:.2g} ms; ipctk's {queries // len(seconds)} queries of a "
        f"pair {1e3 * results['library_s']:.0f} ms",
    ]
    return Outcome(results, figure, lines)


def _version(name: str) -> str:
    from importlib.metadata import version

    return version(name)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; its exit code."""
    return run(__spec__.name, __doc__, lambda args: ccd(), argv)


if __name__ == "__main__":
    sys.exit(main())
