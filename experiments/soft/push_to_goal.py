"""A sphere pushes a T to a goal pose by gradients through the engine, compared with CEM and finite
differences through MuJoCo.

One push at a time: from places around the T's outline the sphere follows a path of a few way
points. All places are optimised in parallel, each from a straight path along its normal; the best
push is made in MuJoCo, the sphere goes around the T to the next place, and the next push is planned
from the T's new pose. Planners:

- ``gradient``: Adam on ``jax.grad`` through the soft engine, from every place;
- ``differences``: the same Adam on central differences through MuJoCo;
- ``cem``: the cross-entropy method on place and path through MuJoCo, without any derivative.

MuJoCo is the plant of all three, and the last two plan with the plant itself. Asked for:
``gradient`` brings the T within 1 cm and 5° of its goal from 10 of 10 start poses.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mujoco
import mujoco.rollout
import numpy as np
import optax

from dexstack.cli import arguments
from dexstack.cli.output import note, table
from dexstack.process.compilation import jit
from dexstack.report.statistics import wilson
from experiments.harness import Findings, experiment
from experiments.soft import systems

NEAR, TURNED = 0.01, np.radians(5.0)
"""Thresholds [m, rad]."""
STARTS = 0.15
"""The T starts anywhere within so far from its goal along each axis [m], turned by any angle."""
LENGTH = 0.1
"""So far from its centre a turn moves the T as far as it counts [m]: its error is ‖Δp‖² + LENGTH²
‖Δ heading‖²."""
MOST_PUSHES = 40
WAY_POINTS, SECONDS, SPEED = 4, 0.8, 0.15
"""Of a push: way points after its start, time [s], and the fastest way from one to the next
[m/s]."""
REST = 0.2
"""Time after the last way point in which the T comes to rest [s]."""
DT = {"soft": 0.004, "mujoco": 0.002}
"""Steps [s]."""
GAP, AROUND = 0.004, 0.24
"""The sphere starts so far from the outline, and goes around the T on a circle of this radius
[m]."""
FIRST, DRAWN = 0.05, 0.06
"""Longest straight push that is a first guess [m]; standard deviation of its way points as a share
of it, or a push that moves nothing would be planned again for ever."""
ITERATIONS, RATE, NUDGE = 12, 0.12, 0.002
"""Of Adam: steps, rate as a share of the first guess, and half of a difference [m]."""
ROUNDS, PLANS, ELITE, SPREAD, LEAST = 4, 64, 8, 0.6, 0.1
"""Of CEM; the last are the first and the least spread as shares of the first guess."""
POINTS = 26


class Places(NamedTuple):
    """Start positions of pushes, in the T's frame."""

    p_T: np.ndarray
    """(B, 2) centre of the sphere [m]."""
    nhat_T: np.ndarray
    """(B, 2) outward."""


def places() -> Places:
    """Return places on every side of the outline, clear of its inner corners."""
    _, ((bar_low, bar_high), (stem_low, stem_high)) = systems.t_rectangles()
    clear = systems.PUSHER_RADIUS + 0.012
    found = [((x, bar_high[1]), (0.0, 1.0)) for x in np.linspace(bar_low[0], bar_high[0], 7)[1:-1]]
    for x, way in ((bar_low[0], -1.0), (bar_high[0], 1.0)):
        found.append(((x, (bar_low[1] + bar_high[1]) / 2), (way, 0.0)))
    for side in (-1.0, 1.0):
        found += [((side * x, bar_low[1]), (0.0, -1.0)) for x in (stem_high[0] + clear, bar_high[0] - 0.01)]
        found += [
            ((side * stem_high[0], y), (side, 0.0))
            for y in np.linspace(stem_low[1] + 0.01, stem_high[1] - clear, 3)
        ]
    found += [((x, stem_low[1]), (0.0, -1.0)) for x in (-0.015, 0.0, 0.015)]
    p, nhat = (np.array(column) for column in zip(*found, strict=True))
    return Places(p + (systems.PUSHER_RADIUS + GAP) * nhat, nhat)


PLACES = places()


def turned(yaw: float, vectors: np.ndarray) -> np.ndarray:
    """Return (…, 2) from the T's frame to the world's."""
    c, s = np.cos(yaw), np.sin(yaw)
    return vectors @ np.array([[c, s], [-s, c]])


class Table:
    """The plant, and MuJoCo as a model of it: T and sphere on the ground; the goal is the
    origin."""

    def __init__(self, x: float, y: float, yaw: float) -> None:
        self.model = systems.pusher_spec(DT["mujoco"]).compile()
        self.data = mujoco.MjData(self.model)
        self.data.qpos[:] = systems.pusher_start()[0]
        self.data.qpos[2:4], self.data.qpos[5:9] = (x, y), (np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2))
        self.data.qpos[:2] = self.p_WT + AROUND * np.array([0.0, -1.0])
        self._follow(np.tile(self.data.qpos[:2], (100, 1)))

    @property
    def p_WT(self) -> np.ndarray:
        return self.data.qpos[2:4].copy()

    @property
    def yaw(self) -> float:
        w, x, y, z = self.data.qpos[5:9]
        return float(np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)))

    @property
    def arrived(self) -> bool:
        return bool(np.linalg.norm(self.p_WT) <= NEAR and abs(self.yaw) <= TURNED)

    def starts(self) -> np.ndarray:
        """Return (B, 9) coordinates with the sphere at every place."""
        q = np.tile(self.data.qpos, (len(PLACES.p_T), 1))
        q[:, :2] = self.p_WT + turned(self.yaw, PLACES.p_T)
        return q

    @property
    def length(self) -> float:
        """Length of a first guess, the T's distance from the goal beyond the gap [m]."""
        return GAP + min(FIRST, float(np.sqrt(error(self.data.qpos))))

    def straight(self, rng: np.random.Generator) -> np.ndarray:
        """Return (B, W, 2) way points of pushes that are nearly straight, off their start [m]."""
        share = np.arange(1, WAY_POINTS + 1)[:, None] / WAY_POINTS
        ways = -self.length * turned(self.yaw, PLACES.nhat_T)[:, None] * share
        return ways + DRAWN * self.length * rng.normal(size=ways.shape)

    def push(self, place: int, way: np.ndarray) -> None:
        """Go around to a place, follow the way (W, 2) from there, and draw back."""
        start, nhat = self.p_WT + turned(self.yaw, PLACES.p_T[place]), turned(self.yaw, PLACES.nhat_T[place])
        self._follow(self._around(start, nhat))
        self._follow(targets(start[None], way[None], DT["mujoco"])[0])
        self._follow(
            _paced(
                np.array(
                    [
                        self.data.qpos[:2],
                        self.data.qpos[:2] + self._out(turned(self.yaw, PLACES.nhat_T[place])),
                    ]
                )
            )
        )

    def _out(self, nhat: np.ndarray) -> np.ndarray:
        """Return (2,) from the sphere along a normal out to the circle around the T."""
        off = self.data.qpos[:2] - self.p_WT
        along = off @ nhat
        return max(0.0, np.sqrt(max(AROUND**2 - off @ off + along**2, 0.0)) - along) * nhat

    def _around(self, start: np.ndarray, nhat: np.ndarray) -> np.ndarray:
        """Return (K, 2) targets from where the sphere is, along the circle and in to a start, then
        half a second there."""
        centre, here = self.p_WT, self.data.qpos[:2].copy()
        off = start - centre
        along = off @ nhat
        outside = start + max(0.0, np.sqrt(max(AROUND**2 - off @ off + along**2, 0.0)) - along) * nhat
        begin, end = (np.arctan2(*(p - centre)[::-1]) for p in (here, outside))
        turn = (end - begin + np.pi) % (2 * np.pi) - np.pi
        angles = begin + turn * np.linspace(0.0, 1.0, 33)
        circle = centre + AROUND * np.column_stack([np.cos(angles), np.sin(angles)])
        way = _paced(np.vstack([here, circle, outside, start]))
        return np.vstack([way, np.tile(start, (round(0.5 / DT["mujoco"]), 1))])

    def _follow(self, way: np.ndarray) -> None:
        for target in way:
            self.data.ctrl[:] = target
            mujoco.mj_step(self.model, self.data)

    def rolled(self, starts: np.ndarray, ways: np.ndarray) -> np.ndarray:
        """Return (B,) errors after pushes from coordinates (B, 9) along ways (B, W, 2), by
        MuJoCo."""
        m, full = self.model, mujoco.mjtState.mjSTATE_FULLPHYSICS
        at = mujoco.MjData(m)
        states = np.empty((len(starts), mujoco.mj_stateSize(m, full)))
        for q, state in zip(starts, states, strict=True):
            at.qpos[:] = q
            mujoco.mj_getState(m, at, state, full)
        ends, _ = mujoco.rollout.rollout(m, at, states, targets(starts[:, :2], ways, DT["mujoco"]))
        return np.asarray(error(ends[:, -1, 1 : 1 + m.nq]))


def _paced(corners: np.ndarray) -> np.ndarray:
    """Return (K, 2) targets along straight lines at SPEED."""
    arrive = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(corners, axis=0), axis=1) / SPEED)])
    t = np.arange(0.0, arrive[-1] + DT["mujoco"], DT["mujoco"])
    return np.column_stack([np.interp(t, arrive, corners[:, i]) for i in range(2)])


def targets(starts: Any, ways: Any, dt: float) -> Any:
    """Return (B, K, 2) of the sphere's control: from start (B, 2) along way points (B, W, 2) off
    it, the last held; NumPy's and JAX's alike."""
    moving, held = round(SECONDS / WAY_POINTS / dt), round(REST / dt)
    share = np.arange(1, moving + 1) / moving
    weight = np.zeros((WAY_POINTS * moving + held, WAY_POINTS))
    for w in range(WAY_POINTS):
        weight[w * moving : (w + 1) * moving, w] = share
        if w:
            weight[w * moving : (w + 1) * moving, w - 1] = 1.0 - share
    weight[WAY_POINTS * moving :, -1] = 1.0
    return starts[:, None] + weight.astype(np.float32) @ ways


def error(q: Any) -> Any:
    """Return (…,) squared distance of the T from its goal, with LENGTH for turns, of coordinates
    (…, 9) [m²]; NumPy's and JAX's alike."""
    w, x, y, z = (q[..., k] for k in range(5, 9))
    c, s = 1 - 2 * (y * y + z * z), 2 * (w * z + x * y)
    return q[..., 2] ** 2 + q[..., 3] ** 2 + LENGTH**2 * ((1 - c) ** 2 + s**2)


def within_speed(ways: np.ndarray) -> np.ndarray:
    """Return way points (…, W, 2) no farther apart than SPEED allows."""
    steps = np.diff(ways, axis=-2, prepend=np.zeros_like(ways[..., :1, :]))
    most = SPEED * SECONDS / WAY_POINTS
    steps *= np.minimum(1.0, most / np.maximum(np.linalg.norm(steps, axis=-1, keepdims=True), 1e-12))
    return np.cumsum(steps, axis=-2)


Slope = Callable[[Table, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Errors (B,) [m²] and their derivatives (B, W, 2) by ways, from coordinates (B, 9) and ways (B, W,
2)."""


class Soft:
    """The engine as a model: errors and derivatives of all places at once."""

    steps = round((SECONDS + REST) / DT["soft"])
    """Steps of one push."""

    def __init__(self) -> None:
        system = systems.pusher_system(POINTS)
        self._data = jax.device_put(system.data)
        v0 = jnp.zeros(8, jnp.float32)

        def cost(way: jax.Array, q: jax.Array, data: Any) -> jax.Array:
            def step(state: Any, u: jax.Array) -> Any:
                return system.euler(data, *state, systems.pusher_force(*state, u), DT["soft"]), None

            (end, _), _ = jax.lax.scan(
                jax.checkpoint(step), (q, v0), targets(q[None, :2], way[None], DT["soft"])[0]
            )
            return error(end)

        self._slope = jit(jax.vmap(jax.value_and_grad(cost), (0, 0, None)))

    def __call__(self, here: Table, starts: np.ndarray, ways: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, slope = self._slope(ways.astype(np.float32), starts.astype(np.float32), self._data)
        return np.asarray(value, float), np.asarray(slope, float)


class Differences:
    """MuJoCo as a model, with central differences."""

    steps = round((SECONDS + REST) / DT["mujoco"]) * (4 * WAY_POINTS + 1)

    def __call__(self, here: Table, starts: np.ndarray, ways: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nudges = NUDGE * np.eye(2 * WAY_POINTS).reshape(-1, WAY_POINTS, 2)
        tried = np.concatenate([np.zeros_like(nudges[:1]), nudges, -nudges])
        all_ways = (ways[:, None] + tried).reshape(-1, WAY_POINTS, 2)
        value = here.rolled(np.repeat(starts, len(tried), axis=0), all_ways).reshape(len(ways), -1)
        slope = (value[:, 1 : 1 + len(nudges)] - value[:, 1 + len(nudges) :]) / (2.0 * NUDGE)
        return value[:, 0], slope.reshape(ways.shape)


def by_slope(slope: Slope) -> Callable[[Table, np.random.Generator], tuple[int, np.ndarray, int]]:
    """Return a planner of pushes by Adam from every place: best place, its way, number of steps of
    its model it took."""

    def plan(here: Table, rng: np.random.Generator) -> tuple[int, np.ndarray, int]:
        starts, ways = here.starts(), here.straight(rng)
        adam = optax.adam(RATE * here.length)
        state = adam.init(ways)
        best, found = np.full(len(ways), np.inf), ways.copy()
        for _ in range(ITERATIONS):
            value, change = slope(here, starts, ways)
            better = value < best
            best[better], found[better] = value[better], ways[better]
            update, state = adam.update(np.nan_to_num(change), state)
            ways = within_speed(ways + np.asarray(update, float))
        place = int(np.nanargmin(best))
        return place, found[place], ITERATIONS * len(ways) * slope.steps  # type: ignore[attr-defined]

    return plan


def by_cem(here: Table, rng: np.random.Generator) -> tuple[int, np.ndarray, int]:
    """Plan a push by the cross-entropy method on places and ways."""
    starts, straight = here.starts(), here.straight(rng)
    chance = np.full(len(starts), 1.0 / len(starts))
    mean, spread = straight.copy(), np.full_like(straight, SPREAD * here.length)
    best, found = np.inf, (0, straight[0])
    for _ in range(ROUNDS):
        chosen = rng.choice(len(starts), PLANS, p=chance)
        ways = within_speed(mean[chosen] + spread[chosen] * rng.normal(size=(PLANS, WAY_POINTS, 2)))
        value = here.rolled(starts[chosen], ways)
        elite = np.argsort(value)[:ELITE]
        if value[elite[0]] < best:
            best, found = value[elite[0]], (int(chosen[elite[0]]), ways[elite[0]])
        counts = np.bincount(chosen[elite], minlength=len(starts))
        chance = 0.2 * chance + 0.8 * counts / ELITE
        for place in np.flatnonzero(counts):
            own = ways[elite[chosen[elite] == place]]
            mean[place], spread[place] = own.mean(axis=0), np.maximum(own.std(axis=0), LEAST * here.length)
    return *found, ROUNDS * PLANS * round((SECONDS + REST) / DT["mujoco"])


def brought(
    plan: Callable[[Table, np.random.Generator], tuple[int, np.ndarray, int]], seed: int
) -> dict[str, Any]:
    """Push one T until it arrives, at most ``MOST_PUSHES`` times."""
    rng = np.random.default_rng(seed)
    here = Table(*rng.uniform(-STARTS, STARTS, 2), rng.uniform(-np.pi, np.pi))
    wall = cpu = 0.0
    steps, track = 0, [[*here.p_WT, here.yaw]]
    while not here.arrived and len(track) <= MOST_PUSHES:
        begin, begin_cpu = time.perf_counter(), time.process_time()
        place, way, taken = plan(here, rng)
        wall, cpu, steps = (
            wall + time.perf_counter() - begin,
            cpu + time.process_time() - begin_cpu,
            steps + taken,
        )
        here.push(place, way)
        track.append([*here.p_WT, here.yaw])
    off = {"position_error_m": float(np.linalg.norm(here.p_WT)), "orientation_error_rad": abs(here.yaw)}
    taken = {"pushes": len(track) - 1, "wall_s": wall, "cpu_s": cpu, "steps": steps}
    return {"seed": seed, "arrived": here.arrived, **taken, **off, "track": track}


def compare(args: argparse.Namespace) -> Findings:
    """Compare all planners from the same start poses."""
    soft = Soft()
    warm = Table(0.1, 0.1, 1.0)
    begin = time.process_time()
    soft(warm, warm.starts(), warm.straight(np.random.default_rng(0)))
    compile_s = time.process_time() - begin
    planners = {"gradient": by_slope(soft), "differences": by_slope(Differences()), "cem": by_cem}
    rows, cases = [], {}
    for name, plan in planners.items():
        cases[name] = []
        for k in range(min(args.starts, args.differences) if name == "differences" else args.starts):
            cases[name].append(case := brought(plan, args.seed + k))
            note(
                "{}, start {}: {}".format(
                    name, k + 1, "{pushes} pushes, {position_error_m:.4f} m, {cpu_s:.1f} s".format(**case)
                )
            )
        rows.append(_summary(name, cases[name]))
    passed = rows[0]["arrived"] == args.starts >= 10
    columns = (
        "plans by",
        "arrived",
        "of",
        "pushes",
        "processor time a push [s]",
        "model's steps a push",
        "off [mm]",
        "off [°]",
    )
    shown = [
        [
            *(r[key] for key in ("name", "arrived", "starts", "pushes", "cpu_s", "steps")),
            1e3 * r["position_error_m"],
            np.degrees(r["turn"]),
        ]
        for r in rows
    ]
    results = {
        "rows": rows,
        "cases": cases,
        "compile_s": compile_s,
        "core": args.core,
        "passed": bool(passed),
    }
    return Findings(results, None, [table("a T pushed to a goal, means", columns, shown)], args.seed)


def _summary(name: str, cases: Sequence[dict[str, Any]]) -> dict[str, Any]:
    arrived, pushes = sum(c["arrived"] for c in cases), max(1, sum(c["pushes"] for c in cases))
    return {
        "name": name,
        "arrived": arrived,
        "starts": len(cases),
        "interval": wilson(arrived, len(cases)),
        "pushes": float(np.mean([c["pushes"] for c in cases])),
        "cpu_s": sum(c["cpu_s"] for c in cases) / pushes,
        "wall_s": sum(c["wall_s"] for c in cases) / pushes,
        "steps": sum(c["steps"] for c in cases) / pushes,
        "position_error_m": float(np.mean([c["position_error_m"] for c in cases])),
        "turn": float(np.mean([c["orientation_error_rad"] for c in cases])),
    }


def _arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--starts", type=arguments.positive_int, default=10, metavar="N", help="start poses of the T"
    )
    p.add_argument(
        "--differences",
        type=arguments.positive_int,
        default=10,
        metavar="N",
        help="the first of them for differences, which are slow",
    )
    p.add_argument(
        "--seed", type=arguments.natural, default=0, metavar="S", help="start k is drawn by seed S + k"
    )


main = experiment("experiments.soft.push_to_goal", __doc__, compare, arguments=_arguments, pinned=True)


if __name__ == "__main__":
    sys.exit(main())
