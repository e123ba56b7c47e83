"""A coin slides and spins to rest: the final ratio of the two from several starts, and the order of
the error in step and mesh.

A fan of triangles has its points on one ring and forgets its start quickly. A disk with distributed
points does not: ε grows as (ωR)^(−1/4) and depends on the start until rest. Curves ε(speed) are
therefore compared, from all starts and on three meshes, with the integrated equations of the same
mesh, and those of the finest mesh with those of the even disk. Step lengths shrink with the speed,
over four decades, because a fixed step near rest would remove the whole speed at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import integrate

from dexengines.hydroelastic.convex import TOLERANCE
from dexengines.hydroelastic.system import HydroelasticSystem
from experiments.harness import Findings, experiment
from experiments.hydroelastic import systems
from experiments.hydroelastic.systems import SCHEMES

COIN_RATIOS = (0.1, 0.2, 0.4, 0.653, 1.0, 2.0, 4.0, 10.0)
"""ε₀ = v/(ωR) of the coin's starts."""
COIN_THEORY = 0.653
"""ε* of a disk with even pressure."""
MESHES = ((152, 1), (60, 12), (96, 20))
"""Segments and rings of the disks whose curves are compared, finest last."""
LEFT = tuple(10.0 ** (-k / 4) for k in range(1, 17))
"""Fractions of the initial speed at which curves are compared."""
STEPS = 300
"""A step removes at most 1/STEPS of the current speed."""
CURVE_LIMIT = 0.005
"""Largest relative difference of curves."""
COIN_PUBLISHED = 0.64426
"""ε* of the 152-triangle disk under error control, as Masterjohn et al. give it."""


def start_coin(system: HydroelasticSystem, ratio: float, speed: float) -> None:
    """Let a coin slide and spin; see :func:`slide_coin`."""
    rim = speed / np.hypot(1.0, ratio)
    system.data.qvel[:] = ratio * rim, 0, 0, 0, 0, rim / systems.COIN_RADIUS


def coin_speeds(system: HydroelasticSystem) -> tuple[float, float]:
    """Return v and ωR of a coin [m/s]."""
    v = system.data.qvel
    return float(np.hypot(v[0], v[1])), float(abs(v[5]) * systems.COIN_RADIUS)


def slide_coin(system: HydroelasticSystem, ratio: float, speed: float, max_steps: int = 8000) -> np.ndarray:
    """Let a coin slide and spin to rest.

    Args:
        system: from :func:`~experiments.hydroelastic.systems.coin`.
        ratio: ε₀.
        speed: √(v² + (ωR)²) at the start [m/s].
        max_steps: largest number of steps.

    Returns:
        (K, 2) v and ωR after every step until rest [m/s].
    """
    start_coin(system, ratio, speed)
    rows = []
    rest = 1e-3 * systems.COIN_FRICTION * 9.81 * system.model.opt.timestep
    for _ in range(max_steps):
        system.step()
        rows.append(coin_speeds(system))
        if sum(rows[-1]) < rest:
            break
    return np.array(rows)


def last_ratio(speeds: np.ndarray, dt: float) -> float:
    """ε of the last step at which the coin still has more speed than friction takes in one step;
    NaN if it never came to rest."""
    moving = np.hypot(*speeds.T) > systems.COIN_FRICTION * 9.81 * dt
    if moving[-1] or not moving.any():
        return float("nan")
    v, rim = speeds[np.flatnonzero(moving)[-1]]
    return float(v / rim) if rim > 0.0 else float("nan")


def ring(segments: int = 152) -> tuple[np.ndarray, np.ndarray]:
    """Return the centroids (2, n) [m] of a fan's triangles and their shares of the disk's area
    (n,)."""
    angle = 2 * np.pi * (np.arange(segments) + 0.5) / segments
    x = 2 / 3 * systems.COIN_RADIUS * np.cos(np.pi / segments) * np.array([np.cos(angle), np.sin(angle)])
    return x, np.full(segments, 1 / segments)


def faces(segments: int, rings: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the same as :func:`ring` for the disk of
    :func:`~experiments.hydroelastic.systems.coin`."""
    mesh = systems.disk(systems.COIN_RADIUS, systems.COIN_THICKNESS, segments, rings)
    corners = mesh.vertices_B[mesh.triangles]
    corners = corners[(corners[:, :, 2] < 0).all(axis=1)][:, :, :2]
    first, second = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    area = 0.5 * np.abs(first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0])
    return corners.mean(axis=1).T, area / area.sum()


def integrated(ratio: float, points: tuple[np.ndarray, np.ndarray], left: Sequence[float]) -> np.ndarray:
    """ε of a coin that does not bounce when so much of its speed is left, by error-controlled
    integration of its equations.

    The pressures tilt so that their moment holds that of friction, which acts half a thickness
    below the centre: N_i = N w_i (1 + a·x_i), a_k = −h F_k/Σ N w x_k². Time is counted in units of
    the speed that is left, in which the motion near rest is as smooth as any.

    Args:
        ratio: ε₀.
        points: where it touches, and the share of its weight there, see :func:`ring`.
        left: √(v² + (ωR)²) as shares of that at the start, falling.
    """
    radius, h = systems.COIN_RADIUS, 0.5 * systems.COIN_THICKNESS
    x, share = points
    second = 0.5 * float((x**2).sum(axis=0) @ share)
    inertia = 0.5 * radius**2

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        slip = y[:2, None] + y[2] * np.array([-x[1], x[0]])
        slip /= np.linalg.norm(slip, axis=0)
        tilt = np.zeros(2)
        for _ in range(8):  # contracts by the friction times the flatness of the coin, 0.03
            weight = (1.0 + tilt @ x) * share
            force = -slip @ weight
            tilt = -h * systems.COIN_FRICTION * force / second
        torque = -weight @ (x[0] * slip[1] - x[1] * slip[0])
        return np.hypot(np.hypot(*y[:2]), radius * y[2]) * np.array([*force, torque / inertia])

    def reached(part: float) -> Callable[[float, np.ndarray], float]:
        return lambda _, y: float(np.log(np.hypot(np.hypot(*y[:2]), radius * y[2]) / part))

    events = [reached(part) for part in left]
    events[-1].terminal = True  # type: ignore[attr-defined]
    rim = 1.0 / np.hypot(1.0, ratio)
    start = [ratio * rim, 0.0, rim / radius]
    solution = integrate.solve_ivp(
        rate, (0.0, 1e3), start, method="DOP853", rtol=1e-8, atol=1e-12, events=events
    )
    return np.array([float(np.hypot(*y[0][:2]) / (radius * y[0][2])) for y in solution.y_events])


def coin_reference(ratio: float = 1.0, segments: int = 152, decades: float = 4.0) -> float:
    """ε* of the fan: ε when its speed has fallen by this many powers of ten; see
    :func:`integrated`."""
    return float(integrated(ratio, ring(segments), [10.0**-decades])[0])


def even(rings: int = 64, around: int = 128) -> tuple[np.ndarray, np.ndarray]:
    """Return the same as :func:`ring` for a disk with even pressure, at Gauss points."""
    node, weight = np.polynomial.legendre.leggauss(rings)
    r, share = 0.5 * (1.0 + node), 0.5 * weight * (1.0 + node)  # of ∫ 2 r dr from 0 to 1
    angle = 2 * np.pi * np.arange(around) / around
    x = systems.COIN_RADIUS * np.stack([np.outer(r, np.cos(angle)), np.outer(r, np.sin(angle))])
    return x.reshape(2, -1), np.repeat(share, around) / around


def follow(system: HydroelasticSystem, ratio: float, speed: float, steps: int = STEPS) -> np.ndarray:
    """ε at the shares :data:`LEFT` of the speed [m/s], in steps that shrink with it from the
    system's own.

    Raises:
        FloatingPointError: the coin does not come that far.
    """
    start_coin(system, ratio, speed)
    longest, rows = system.model.opt.timestep, [coin_speeds(system)]
    while (left := np.hypot(*rows[-1])) > LEFT[-1] * speed:
        system.model.opt.timestep = min(longest, left / (systems.COIN_FRICTION * 9.81 * steps))
        system.step()
        rows.append(coin_speeds(system))
        if len(rows) > 100 * steps or rows[-1][1] == 0.0:
            raise FloatingPointError(
                f"the coin from {ratio:g} is still at {np.hypot(*rows[-1]):.3g} m/s after {len(rows)} steps"
            )
    speeds = np.array(rows)
    return np.interp(-np.log(LEFT), -np.log(np.hypot(*speeds.T) / speed), speeds[:, 0] / speeds[:, 1])


def curves(scheme: int, ratios: Sequence[float], speed: float, dt: float) -> list[dict[str, Any]]:
    """Return the simulated curves from all starts on all :data:`MESHES`, with the mesh's and the
    disk's integrated ones."""
    rows = []
    of_disk = {ratio: integrated(ratio, even(), LEFT) for ratio in ratios}
    for segments, rings in MESHES:
        points = ring(segments) if rings == 1 else faces(segments, rings)
        for ratio in ratios:
            system = systems.coin(dt, scheme, segments=segments, rings=rings)
            mesh, row = (
                integrated(ratio, points, LEFT),
                {"segments": segments, "rings": rings, "start": ratio},
            )
            try:
                simulated = follow(system, ratio, speed)
                row |= {
                    "simulated": simulated,
                    "from_mesh": float(np.abs(simulated / mesh - 1.0).max()),
                    "end": float(simulated[-1]),
                }
            except FloatingPointError as error:
                row |= {"from_mesh": None, "said": str(error)}
            from_disk = float(np.abs(mesh / of_disk[ratio] - 1.0).max())
            rows.append(
                row
                | {
                    "integrated": mesh,
                    "disk": of_disk[ratio],
                    "mesh_from_disk": from_disk,
                    "unsolved": system.unsolved,
                }
            )
    return rows


def coin(
    scheme: str = "lagged", ratios: Sequence[float] = COIN_RATIOS, speed: float = 5.0, dt: float = 1e-3
) -> Findings:
    """Check that every start ends at one ratio of sliding to spinning, with an error of order one
    in δt and two in the mesh."""
    rows, residual, unsolved = [], 0.0, 0
    for ratio in ratios:
        system = systems.coin(dt, SCHEMES[scheme])
        speeds = slide_coin(system, ratio, speed)
        rows.append({"start": ratio, "end": last_ratio(speeds, dt), "steps": len(speeds)})
        residual, unsolved = max(residual, system.worst_residual), unsolved + system.unsolved
    ends = np.array([r["end"] for r in rows])
    reference = coin_reference()
    off = float(np.max(np.abs(ends / reference - 1.0)))
    followed = curves(SCHEMES[scheme], ratios, speed, dt)
    curve_off = max(np.inf if r["from_mesh"] is None else r["from_mesh"] for r in followed)
    disk_off = max(r["mesh_from_disk"] for r in followed if (r["segments"], r["rings"]) == MESHES[-1])
    unsolved += sum(r["unsolved"] for r in followed)
    step_order, size_order = _order_in_time(SCHEMES[scheme]), _order_in_mesh(SCHEMES[scheme], dt)
    results = {
        "scheme": scheme,
        "dt_s": dt,
        "ratios": rows,
        "reference": reference,
        "published_reference": COIN_PUBLISHED,
        "worst_from_reference": off,
        "worst_from_theory": float(np.max(np.abs(ends / COIN_THEORY - 1.0))),
        "speed_left": LEFT,
        "curves": followed,
        "worst_curve_from_mesh": curve_off,
        "worst_finest_mesh_from_disk": disk_off,
        "order_in_time": step_order,
        "order_in_mesh": size_order,
        "worst_residual": residual,
        "unsolved": unsolved,
        "passed": bool(
            off <= 0.005
            and abs(reference / COIN_PUBLISHED - 1.0) <= 1e-3
            and unsolved == 0
            and max(curve_off, disk_off) <= CURVE_LIMIT
            and step_order > 0.9
            and size_order > 1.8
            and residual <= TOLERANCE
        ),
    }
    lines = [
        f"ε* = {np.nanmin(ends):.4f} … {np.nanmax(ends):.4f} from ε₀ = {min(ratios):g} … {max(ratios):g}: "
        f"within {100 * off:.2f} % of the error-controlled {reference:.4f} (published: {COIN_PUBLISHED})",
        f"{len(followed)} curves over {-np.log10(LEFT[-1]):.0f} decades of speed: at most "
        f"{100 * curve_off:.2f} % from the mesh's, those "
        f"of the finest mesh at most {100 * disk_off:.2f} % from the disk's (limit {100 * CURVE_LIMIT:g} %)",
        f"order {step_order:.2f} in δt, {size_order:.2f} in the mesh; worst residual {residual:.1e}, "
        f"{unsolved} steps unsolved",
    ]
    return Findings(results, None, lines)


def sampled_motion(system: HydroelasticSystem, seconds: float, samples: int = 40) -> np.ndarray:
    """(samples, 3) x, y and yaw·R of a coin that starts at 0.5 m/s with ε₀ = 1 [m]."""
    rim = 0.5 / np.sqrt(2.0)
    system.data.qvel[:] = rim, 0, 0, 0, 0, rim / systems.COIN_RADIUS
    dt = system.model.opt.timestep
    every = round(seconds / samples / dt)
    rows, yaw = [], 0.0
    for k in range(samples * every):
        system.step()
        yaw += dt * system.data.qvel[5]
        if (k + 1) % every == 0:
            rows.append((*system.data.qpos[:2], yaw * systems.COIN_RADIUS))
    return np.array(rows)


def observed_order(x: Sequence[float], motions: Sequence[np.ndarray]) -> float:
    """Return the order in x (K,) of the errors of motions (K + 1), of which the last is the
    reference."""
    errors = [np.linalg.norm(m - motions[-1]) for m in motions[:-1]]
    return float(np.polyfit(np.log(x), np.log(errors), 1)[0])


def _order_in_time(scheme: int) -> float:
    steps = (4e-3, 2e-3, 1e-3, 5e-4)
    coins = [systems.coin(dt, scheme, segments=32) for dt in (*steps, 5e-5)]
    return observed_order(steps, [sampled_motion(coin, 0.16) for coin in coins])


def _order_in_mesh(scheme: int, dt: float) -> float:
    rings = (1, 2, 4)
    coins = [systems.coin(dt, scheme, segments=6 * n, rings=n) for n in (*rings, 16)]
    return observed_order([1.0 / n for n in rings], [sampled_motion(coin, 0.16) for coin in coins])


main = experiment(__spec__.name, __doc__, lambda args: coin(args.scheme), arguments=systems.add_scheme)


if __name__ == "__main__":
    sys.exit(main())
