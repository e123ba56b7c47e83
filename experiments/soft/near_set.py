"""Wrench and two derivatives of the near set against the dense formulation, along random paths.

Bodies go over edges and through inner corners, lie on each other tilted by 0.01 to 10°, are pins in
holes and bodies inside bodies. At 100 places of every path the wrench of the near set and its first
and second derivatives along the path are compared with the dense formulation; at one of them also
with differences, the second with those of the first. Errors of wrenches are shares of the load, or
of k ε3 if that is more; of derivatives shares of their size, or of k times the travel (over ε3);
moments are divided by the body's size. Asked for: 1e-6. On many more paths wrenches are compared
with the near set at a thousandth of that tolerance, from separate tables. Finally, states of the
pushed T are drawn on its outline.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from dexengines.soft import cloud
from dexengines.soft.cloud import Cloud
from dexengines.soft.near import Room
from dexengines.soft.scm import ContactParams, smooth_dissipation
from dexengines.soft.system import Meeting, SoftSystem, Surface
from dexstack.cli import arguments
from dexstack.cli.output import commit, note, table
from dexstack.files import whole
from dexstack.process.compilation import jit
from dexstack.trials.keep import claim
from dexstack.trials.pool import in_processes
from experiments.harness import Findings, experiment
from experiments.soft import systems

TOLERANCE = 1e-6
FINE = 1e-9
"""Tolerance of what the many paths are held against."""
JUDGED = {
    "wrench": "wrench off",
    "derivative": "derivative off",
    "differences": "differences off",
    "second": "second derivative off",
    "second_differences": "its differences off",
}
WHAT = (*JUDGED, "many_wrench")
"""That is judged."""
PLACES = 100
"""On a path."""
LAW = ContactParams(stiffness=1e4, eps1=1e-6, eps2=2e-4, eps3=2e-4, v_d=0.2, v_s=0.01)
BODIES = "".join(f'<body name="{n}"><freejoint/><geom size="0.03" mass="0.2"/></body>' for n in "ab")
STEPS = 1e-3 * 0.5 ** np.arange(6)
"""Of the differences, as shares of the path."""


@dataclass(frozen=True)
class Scene:
    """Two bodies, of which the second moves."""

    a: Cloud
    b: Cloud
    path: Callable[[np.random.Generator], np.ndarray]
    """Draws (12,): where it begins, as a place [m] and a turn from there [rad], and how far it
    goes."""

    @property
    def size(self) -> float:
        """Of the second body [m]."""
        return self.b.radius


def _box(x: float, y: float, z: float, spacing: float = 0.006) -> Cloud:
    return cloud.box((x, y, z), spacing)


def _at(part: Cloud, *p: float) -> Cloud:
    return cloud.moved(part, np.eye(3), np.array(p))


def _corner() -> Cloud:
    """Return a wall on a floor, without inner points."""
    floor, wall = _box(0.03, 0.03, 0.01), _at(_box(0.01, 0.03, 0.02), -0.02, 0.0, 0.03)
    covered = (floor.points[:, 0] < -0.01) & (floor.normals[:, 2] > 0.5)
    return cloud.joined(
        Cloud(*(x[~covered] for x in floor)), Cloud(*(x[wall.normals[:, 2] > -0.5] for x in wall))
    )


def _hole() -> Cloud:
    """Return a plate with a square hole of 20.4 mm."""
    half, thick, wide = 0.0102, 0.01, 0.03
    u, up = np.eye(3)[0] * 2 * half, np.eye(3)[2] * 2 * thick
    inner = cloud.rectangle([-half, half, -thick], u, up, 0.006)  # looks to −y, into the hole
    turned = [cloud.moved(inner, R, np.zeros(3)) for R in _quarters()]
    outer = [
        cloud.moved(cloud.rectangle([wide, -wide, -thick], [0, 2 * wide, 0], up, 0.006), R, np.zeros(3))
        for R in _quarters()
    ]
    faces = []
    for z in (thick, -thick):
        face = cloud.box((wide, wide, thick), 0.006)
        on = (face.normals[:, 2] * z > 0.0) & (np.abs(face.points[:, :2]).max(axis=1) > half)
        faces.append(Cloud(face.points[on], face.normals[on]))
    return cloud.joined(*turned, *outer, *faces)


def _quarters() -> list[np.ndarray]:
    return [np.array([[c, -s, 0], [s, c, 0], [0, 0, 1.0]]) for c, s in ((1, 0), (0, 1), (-1, 0), (0, -1))]


def _path(
    place: Sequence[float], spread: Sequence[float], turn: float, along: Sequence[float], turning: float
) -> Callable[..., np.ndarray]:
    """Return a function that draws a path: it begins within ``spread`` of a place, turned by 0.01
    to ``turn`` degrees (log-uniform), and goes up to ``along`` and ``turning``."""

    def draw(rng: np.random.Generator) -> np.ndarray:
        ways = rng.normal(size=(2, 3))
        ways /= np.linalg.norm(ways, axis=1)[:, None]
        angles = np.radians(10.0 ** rng.uniform(-2.0, np.log10([turn, turning])))
        start = np.array(place) + rng.uniform(-1.0, 1.0, 3) * spread
        return np.concatenate(
            [start, angles[0] * ways[0], rng.uniform(-1.0, 1.0, 3) * along, angles[1] * ways[1]]
        )

    return draw


SCENES = {
    "over an edge": Scene(
        _box(0.03, 0.03, 0.01),
        _box(0.02, 0.02, 0.02),
        _path((0.03, 0, 0.0298), (0.02, 0.02, 3e-4), 10, (0.02, 0.02, 3e-4), 10),
    ),
    "inner corner": Scene(
        _corner(),
        cloud.sphere(0.015, 0.004),
        _path((0.0048, 0, 0.0248), (3e-4, 0.02, 3e-4), 10, (1e-3, 0.01, 1e-3), 10),
    ),
    "tilted faces": Scene(
        _box(0.04, 0.04, 0.01),
        _box(0.03, 0.03, 0.01),
        _path((0, 0, 0.0198), (5e-3, 5e-3, 2e-4), 10, (2e-3, 2e-3, 3e-4), 10),
    ),
    "pin in a hole": Scene(
        _hole(),
        _box(0.01, 0.01, 0.03, 0.005),
        _path((0, 0, 0.02), (3e-4, 3e-4, 0.02), 1, (3e-4, 3e-4, 0.02), 1),
    ),
    "inside": Scene(
        _box(0.03, 0.03, 0.03),
        cloud.sphere(0.01, 0.004),
        _path((0, 0, 0), (0.03, 0.03, 0.03), 10, (0.02, 0.02, 0.02), 10),
    ),
}


def system_of(scene: Scene, tolerance: float | None) -> SoftSystem:
    """Return the system of a scene, both bodies free, twice differentiable."""
    model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{BODIES}</worldbody></mujoco>")
    meeting = Meeting(
        [Surface("a", "a", scene.a)],
        [Surface("b", "b", scene.b)],
        tolerance,
        LAW,
        room=tolerance and Room(1, 72, 160),
    )
    return SoftSystem(model, [meeting], dissipation=smooth_dissipation)


def wrench_on(system: SoftSystem, size: float) -> Callable[[Any, jax.Array, jax.Array], jax.Array]:
    """Return (6,) about the body's middle, its moment over its size [N], of the system's numbers, a
    path (12,) and a place s on it."""

    def wrench(data: Any, path: jax.Array, s: jax.Array) -> jax.Array:
        place, turn = path[:3] + s * path[6:9], path[3:6] + s * path[9:]
        q = jnp.concatenate([jnp.array([0.0, 0, 0, 1, 0, 0, 0]), place, quaternion(turn)])
        v = jnp.concatenate([jnp.zeros(6), 0.2 * path[6:9], 0.2 * path[9:]])
        w = system.contact(data, system.tree.motion(data.numbers, q, v)).wrench[0]
        return jnp.concatenate([w[:3], (w[3:] - jnp.cross(place, w[:3])) / size])

    return wrench


def at_places(system: SoftSystem, size: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return a function for wrenches (K, 6) at places s (K,) of a path (12,); see
    :func:`wrench_on`."""
    data, wrench = jax.device_put(system.data), wrench_on(system, size)
    compiled = jit(lambda data, path, s: jax.lax.map(lambda x: wrench(data, path, x), s))
    return lambda path, s: np.asarray(compiled(data, path, s))


def along(system: SoftSystem, size: float) -> Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, ...]]:
    """Return a function for wrenches and first and second derivatives (K, 6) by s."""
    data, wrench = jax.device_put(system.data), wrench_on(system, size)

    def all_of(data: Any, path: jax.Array, s: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        def first(x: jax.Array) -> tuple[jax.Array, jax.Array]:
            return jax.jvp(lambda y: wrench(data, path, y), (x,), (jnp.ones(()),))

        def both(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
            values, changes = jax.jvp(first, (x,), (jnp.ones(()),))
            return *values, changes[1]

        return jax.lax.map(both, s)

    compiled = jit(all_of)
    return lambda path, s: tuple(map(np.asarray, compiled(data, path, s)))


def quaternion(turn: jax.Array) -> jax.Array:
    """Return the quaternion (4,) of a rotation vector (3,) that is not zero [rad]."""
    angle = jnp.linalg.norm(turn)
    return jnp.concatenate([jnp.cos(angle / 2)[None], jnp.sin(angle / 2) * turn / angle])


def _slope(f: Callable[[np.ndarray], np.ndarray], s: float) -> np.ndarray:
    """Return the derivative (6,) by central differences, extrapolated."""
    values = f(np.concatenate([s + STEPS, s - STEPS]))
    column = (values[: len(STEPS)] - values[len(STEPS) :]) / (2.0 * STEPS[:, None])
    best, least = column[-1], np.inf
    for power in range(1, len(STEPS)):
        finer = column[1:] + (column[1:] - column[:-1]) / (4.0**power - 1.0)
        changes = np.abs(finer - column[1:]).max(axis=1)
        if changes.min() < least:
            best, least = finer[changes.argmin()], changes.min()
        column = finer
    return best


def judge(name: str, paths: int, seed: int) -> dict[str, Any]:
    """Return a row of the table: the largest errors on paths of a scene."""
    scene, rng, s = SCENES[name], np.random.default_rng(seed), np.linspace(0.0, 1.0, PLACES)
    ours, all_of = (system_of(scene, tolerance) for tolerance in (TOLERANCE, None))
    forward, near, dense = at_places(ours, scene.size), along(ours, scene.size), along(all_of, scene.size)
    floor = LAW.stiffness * LAW.eps3
    worst, felt, loads = np.zeros(len(JUDGED)), 0, []
    for _ in range(paths):
        path = scene.path(rng)
        travel = np.linalg.norm(path[6:9]) + scene.size * np.linalg.norm(path[9:])
        w, found, exact = forward(path, s), near(path, s), dense(path, s)
        load = np.maximum(np.linalg.norm(exact[0][:, :3], axis=1), floor)
        rate, bend = (
            np.maximum(np.abs(x).max(axis=1), floor * (travel / LAW.eps3) ** n)
            for n, x in enumerate(exact[1:], 1)
        )
        by_size = [
            (np.abs(x - y).max(axis=1) / z).max()
            for x, y, z in zip(found, exact, (load, rate, bend), strict=True)
        ]
        by_size[0] = max(by_size[0], (np.abs(w - exact[0]).max(axis=1) / load).max())
        k = int(rng.integers(PLACES))
        slope = _slope(lambda x, p=path: forward(p, np.resize(x, PLACES))[: len(x)], s[k])
        bending = _slope(lambda x, p=path: near(p, np.resize(x, PLACES))[1][: len(x)], s[k])
        by_differences = [
            np.abs(x - y[k]).max() / z.max()
            for x, y, z in zip((slope, bending), found[1:], (rate, bend), strict=True)
        ]
        off = [by_size[0], by_size[1], by_differences[0], by_size[2], by_differences[1]]
        worst = np.maximum(worst, np.where(np.isfinite(off), off, np.inf))
        felt += int((load > floor).sum())
        loads.append(load.max())
    row = {
        "scene": name,
        "paths": paths,
        "states": paths * PLACES,
        "touching": felt,
        "load_N": float(np.median(loads)),
    }
    return row | dict(zip(JUDGED, map(float, worst), strict=True))


def judge_many(name: str, paths: int, seed: int) -> dict[str, Any]:
    """Return the largest error of wrenches on paths of a scene against the finer tolerance."""
    scene, rng, s = SCENES[name], np.random.default_rng([seed, 1]), np.linspace(0.0, 1.0, PLACES)
    ours, finer = (at_places(system_of(scene, tolerance), scene.size) for tolerance in (TOLERANCE, FINE))
    worst, felt, floor = 0.0, 0, LAW.stiffness * LAW.eps3
    for _ in range(paths):
        path = scene.path(rng)
        w, exact = ours(path, s), finer(path, s)
        load = np.maximum(np.linalg.norm(exact[:, :3], axis=1), floor)
        off = float((np.abs(w - exact).max(axis=1) / load).max())
        worst, felt = max(worst, off if np.isfinite(off) else np.inf), felt + int((load > floor).sum())
    return {"many_paths": paths, "many_touching": felt, "many_wrench": worst}


def scene_row(name: str, paths: tuple[int, int], seed: int, folder: str) -> dict[str, Any]:
    """Return a scene's row, or the one stored in a folder; ``paths``: numbers for both comparisons.
    In a process of its own."""
    kept = Path(folder) / f"{name.replace(' ', '_')}.json" if folder else None
    if kept is not None and kept.is_file():
        return json.loads(kept.read_text())
    with jax.enable_x64(True):
        row = judge(name, paths[0], seed) | judge_many(name, paths[1], seed)
    if kept is not None:
        with whole(kept) as file:
            file.write(json.dumps(row).encode())
    return row


def errors(points: int, states: int, seed: int) -> np.ndarray:
    """Return (N,) errors of the pushed T's wrench in states in which the pusher touches its
    outline, corners and inner ones too; float64."""
    rng, touching = np.random.default_rng(seed), []
    _, rectangles = systems.t_rectangles()
    while len(touching) < states:
        q, v = systems.pusher_start()
        low, high = rectangles[rng.integers(2)]
        on = rng.uniform(low, high)
        side = rng.integers(2)
        on[side] = (low, high)[rng.integers(2)][side]
        out = np.where(np.arange(2) == side, np.sign(on - (low + high) / 2), 0.0)
        q[:2] = on + out * (systems.PUSHER_RADIUS - rng.uniform(0.0, 1e-3))
        v[:] = 0.1 * rng.normal(size=8)
        beyond = [
            np.linalg.norm(np.maximum(np.maximum(low - q[:2], q[:2] - high), 0.0)) for low, high in rectangles
        ]
        if min(beyond) >= systems.PUSHER_RADIUS - 1e-3:  # a side of one rectangle may lie within the other
            touching.append((q, v))
    with jax.enable_x64(True):
        found = []
        for tolerance in (None, TOLERANCE):
            system = systems.pusher_system(points, tolerance=tolerance, room=systems.ROOM)
            f = jit(lambda d, q, v, s=system: s.contact(d, s.tree.motion(d.numbers, q, v)).wrench[0])
            data = jax.device_put(system.data)
            found.append(np.array([f(data, *map(jnp.asarray, state)) for state in touching]))
    params = systems.pusher_params(points)
    load = np.maximum(np.abs(found[0]).max(axis=1), params.stiffness * params.eps3)
    return np.abs(found[1] - found[0]).max(axis=1) / load


def near_set(args: argparse.Namespace) -> Findings:
    """Check all paths, then the pushed T."""
    if args.keep:
        claim(
            args.keep,
            {"paths": args.paths, "many": args.many, "seed": args.seed, "commit": commit()},
            "scenes",
        )
    rows, count, folder = [], len(SCENES), str(args.keep.absolute()) if args.keep else ""
    columns = list(SCENES), [(args.paths, args.many)] * count, [args.seed] * count, [folder] * count
    for row in in_processes(scene_row, args.jobs, *columns):
        rows.append(row)
        note(f"{row['scene']}: " + ", ".join(f"{what} {row[what]:.1e}" for what in WHAT))
    outline = float(errors(4000, args.states, args.seed).max())
    passed = outline <= TOLERANCE and all(r[what] <= TOLERANCE for r in rows for what in WHAT)
    results = {
        "tolerance": TOLERANCE,
        "outline": outline,
        "states": args.states,
        "rows": rows,
        "passed": bool(passed),
    }
    columns = ("scene", "paths", "states", "touching", "load [N]", *JUDGED.values())
    keys = ("scene", "paths", "states", "touching", "load_N", *JUDGED)
    view = table(
        "near set against all points and planes, worst of all", columns, [[r[k] for k in keys] for r in rows]
    )
    keys = ("scene", "many_paths", "many_touching", "many_wrench")
    columns = ("scene", "paths", "states that touch", "wrench off")
    many = table(
        f"against the near set at {FINE:g}, worst of all", columns, [[r[k] for k in keys] for r in rows]
    )
    return Findings(
        results,
        None,
        [view, many, f"pushed T, {args.states} states on its outline: {outline:.1e}"],
        args.seed,
    )


def _arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--paths", type=arguments.positive_int, default=200, metavar="N", help="of each scene")
    p.add_argument(
        "--many",
        type=arguments.positive_int,
        default=20_000,
        metavar="N",
        help="paths of each scene for the comparison with the finer tolerance",
    )
    p.add_argument("--jobs", type=arguments.positive_int, default=1, metavar="N", help="scenes in parallel")
    p.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="store every scene's row there, and continue an interrupted run",
    )
    p.add_argument("--states", type=arguments.positive_int, default=100, metavar="N", help="of the pushed T")
    p.add_argument("--seed", type=arguments.natural, default=0, metavar="S", help="seed of paths and states")


main = experiment(__spec__.name, __doc__, near_set, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
