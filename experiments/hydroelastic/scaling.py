"""How the hydroelastic engine's time grows with the number of faces, polygons against triangles."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dexengines.hydroelastic.convex import TOLERANCE, Problem, Workspace, make_problem, make_workspace, solve
from dexengines.hydroelastic.discrete import BUNDLE, find_contacts
from dexengines.hydroelastic.surface import query
from dexengines.hydroelastic.system import HydroelasticSystem
from dexengines.hydroelastic.workspace import Workspace as Surfaces
from dexengines.kernels import KERNEL, entry, load
from experiments.harness import BLUE, GREEN, GREY, PINK, Outcome, run
from experiments.hydroelastic import systems
from experiments.hydroelastic.systems import SCHEMES


@entry(**KERNEL)
def _geometry(address: int) -> int:
    s, state, surface, p, _, contacts = load(address, BUNDLE)
    return find_contacts(s, state, surface, p, contacts)


@entry(**KERNEL)
def _solve(p: Problem, scheme: int, v: np.ndarray, w: Workspace) -> int:
    return solve(p, scheme, v, w)


def _best(action: Callable[[], Any], repeats: int = 7, calls: int = 20) -> float:
    """Processor time of one call [s], the least of several averages."""
    action()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        for _ in range(calls):
            action()
        times.append((time.process_time() - start) / calls)
    return min(times)


def _solve_time(p: Problem, w: Workspace, scheme: int, guess: np.ndarray) -> tuple[float, float]:
    """Processor time of one solve from ``guess`` [s], and its Newton iterations."""
    n0 = p.faces[:, 10].copy()

    def once() -> None:
        p.faces[:, 10] = n0
        _solve(p, scheme, guess.copy(), w)

    return _best(once), float(w.info[0])


def triangulated(system: HydroelasticSystem) -> Problem:
    """The problem of the system's last step, with every polygon cut into the fan of triangles about
    its centroid."""
    p, dt = system.problem, system.model.opt.timestep
    surfaces = Surfaces(4096)
    rows, starts = [], [0]
    for k in range(p.counts[0]):
        pair = system.static.pairs[system.contacts.pair[k]]
        a, b = (system.geometries[g] for g in pair)
        (ba, bb) = (system.static.geom_body[g] for g in pair)
        xmat, xpos = system.data.xmat, system.data.xpos
        found = query(
            a.mesh, b.mesh, xmat[ba].reshape(3, 3), xpos[ba], xmat[bb].reshape(3, 3), xpos[bb], surfaces
        )
        slope_W = surfaces.arrays.slope_W
        centre = system.contacts.point_W[k]
        f = p.pair_start[k]
        for i in range(found.n):
            if not np.allclose(found.centroid_W[i] - centre, p.faces[f, :3], atol=1e-12):
                continue  # a face that carries no contact
            polygon, face = p.faces[f], found.vertex_W[found.start[i] : found.start[i + 1]]
            stiffness, _, relaxation = system.contacts.stiffness[f]
            c = found.centroid_W[i]
            for v0, v1 in zip(face, np.roll(face, -1, axis=0), strict=True):
                area = 0.5 * np.linalg.norm(np.cross(v0 - c, v1 - c))
                middle = (c + v0 + v1) / 3.0
                pressure = found.pressure[i] + slope_W[i] @ (middle - c)
                k_triangle = stiffness * area / found.area[i]
                if pressure <= 0.0 or k_triangle <= 0.0:
                    continue
                row = polygon.copy()
                row[:3] = middle - centre
                row[6] = dt * k_triangle * (dt + relaxation)
                row[7] = pressure * area / k_triangle / (dt + relaxation)
                row[10] = dt * pressure * area
                rows.append(row)
            f += 1
            if f == p.pair_start[k + 1]:
                break
        starts.append(len(rows))
    result = make_problem(p.v_star.size, p.pair_ndof.size, len(rows), p.limit_dof.size)
    for name in (
        "A",
        "v_star",
        "pair_J",
        "pair_dof",
        "pair_ndof",
        "limit_dof",
        "limit_sign",
        "limit_row",
        "first",
    ):
        getattr(result, name)[...] = getattr(p, name)
    result.faces[:] = rows
    result.pair_start[: len(starts)] = starts
    result.counts[:] = p.counts[0], len(rows), p.counts[2]
    return result


def scaling(scheme: str = "lagged") -> Outcome:
    """The gripper with finer and finer fingers: geometry and solver against the number of faces;
    triangles in place of polygons."""
    kind = SCHEMES[scheme]
    rows = []
    for size in (0.02, 0.01, 0.005, 0.0025):
        system = systems.gripper(1e-3, kind, size=size)
        for k in range(120):
            systems.press(system, 10.0 if k < 100 else 16.0)
            guess = system.data.qvel.copy()
            system.step()
        geometry = _best(lambda system=system: _geometry(system.stored.address))
        system.step()
        guess = system.data.qvel.copy()
        system.step()
        fan = triangulated(system)
        seconds, iterations = _solve_time(system.problem, system.workspace, kind, np.zeros_like(guess))
        fan_seconds, fan_iterations = _solve_time(
            fan, make_workspace(guess.size, fan.pair_ndof.size), kind, np.zeros_like(guess)
        )
        rows.append(
            {
                "size_m": size,
                "faces": int(system.problem.counts[1]),
                "triangles": int(fan.counts[1]),
                "geometry_s": geometry,
                "solve_s": seconds,
                "iterations": iterations,
                "triangles_solve_s": fan_seconds,
                "triangles_iterations": fan_iterations,
                "worst_residual": system.worst_residual,
            }
        )
    faces, geometry, solves = (np.array([r[key] for r in rows]) for key in ("faces", "geometry_s", "solve_s"))
    exponents = [float(np.polyfit(np.log(faces), np.log(y), 1)[0]) for y in (geometry, solves)]
    fewer = float(np.mean([r["triangles"] / r["faces"] for r in rows]))
    faster = float(np.mean([r["triangles_solve_s"] / r["solve_s"] for r in rows]))
    residual = max(r["worst_residual"] for r in rows)
    results = {
        "scheme": scheme,
        "levels": rows,
        "geometry_exponent": exponents[0],
        "solver_exponent": exponents[1],
        "triangles_per_polygon": fewer,
        "polygon_solver_speedup": faster,
        "worst_residual": residual,
        "passed": bool(
            exponents[1] <= 1.3
            and exponents[0] <= 1.3
            and fewer > 3.0
            and faster > 2.0
            and residual <= TOLERANCE
        ),
    }
    figure = Figure(figsize=(6.5, 4.2), layout="constrained")
    ax = figure.subplots()
    ax.loglog(faces, 1e6 * geometry, "o-", color=BLUE, label=f"geometry, exponent {exponents[0]:.2f}")
    ax.loglog(
        faces, 1e6 * solves, "o-", color=GREEN, label=f"cold solve, polygons, exponent {exponents[1]:.2f}"
    )
    ax.loglog(
        [r["triangles"] for r in rows],
        [1e6 * r["triangles_solve_s"] for r in rows],
        "s--",
        color=PINK,
        label="cold solve, triangles",
    )
    ax.axvspan(230, 1500, color=GREY, alpha=0.1)
    ax.set(
        xlabel="constraints",
        ylabel="processor time [µs]",
        title=f"gripper, {fewer:.1f} triangles per polygon",
    )
    ax.legend()
    lines = [
        f"{faces[0]} … {faces[-1]} polygons: geometry {1e6 * geometry[0]:.0f} … {1e6 * geometry[-1]:.0f} µs (exponent {exponents[0]:.2f}), "
        f"cold solve {1e6 * solves[0]:.0f} … {1e6 * solves[-1]:.0f} µs (exponent {exponents[1]:.2f})",
        f"triangles: {fewer:.2f} times as many faces, the solver {faster:.2f} times as slow; worst residual {residual:.1e}",
    ]
    return Outcome(results, figure, lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; its exit code."""
    return run(
        __spec__.name,
        __doc__,
        lambda args: scaling(args.scheme),
        argv,
        arguments=systems.add_scheme,
        pinned=True,
    )


if __name__ == "__main__":
    sys.exit(main())
