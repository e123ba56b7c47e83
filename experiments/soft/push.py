"""A sphere pushes a T through five open-loop sequences: the T's final pose against MuJoCo's."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from dexengines.soft.near import Room
from dexstack.process.compilation import jit
from experiments.harness import Findings, experiment
from experiments.soft import systems

SEQUENCES = (
    ((0.0, -0.20), (0.0, -0.12), (0.0, -0.20), (0.19, -0.15), (0.19, 0.07), (0.10, 0.07), (0.20, 0.07)),
    (
        (0.01, -0.20),
        (0.01, -0.13),
        (0.01, -0.20),
        (-0.12, -0.15),
        (-0.12, -0.05),
        (-0.02, -0.05),
        (-0.12, -0.05),
    ),
    ((0.10, -0.10), (0.01, -0.10), (0.12, -0.10), (0.20, 0.12), (0.08, 0.14), (0.08, 0.04), (0.08, 0.14)),
    ((-0.08, 0.14), (-0.08, 0.04), (-0.08, 0.14), (0.07, 0.14), (0.07, 0.04), (0.07, 0.14)),
    ((0.19, 0.03), (0.10, 0.03), (0.19, 0.03), (0.19, -0.20), (0.0, -0.22), (-0.02, -0.13), (-0.02, -0.22)),
)
"""Way points (x, y) [m] of the pusher; each makes and breaks contact at least twice."""
SPEED = 0.15
"""Speed of the pusher's target [m/s]."""
PUBLISHED = {("rk4", 0.002): 0.012, ("euler", 0.002): 0.067, ("rk4", 0.016): 0.046}
"""The paper's mean distance with 4000 points [m], by method and step [s]: the threshold; in all
other cells the largest of them. No T may be thrown."""
SMOOTHING = {"stiffness": 2.5e3, "eps2": 8e-3, "eps3": 5e-4, "v_d": 0.6, "v_s": 0.05}
"""Contact parameters of all cells, chosen once, on these sequences, so that steps of 16 ms follow
k, the load over ε2 and that over v_s at the mass and size of the T; √ε1 is a fifth of the spacing
of the points."""
ROOM = Room(1, 64, 32)
LOST = 1.0
"""Distance from MuJoCo's T [m] from which on a T counts as thrown."""


def path(sequence: tuple[tuple[float, float], ...], dt: float, seconds: float) -> np.ndarray:
    """Return (K, 2) targets of the pusher every ``dt`` [s], the last one held until ``seconds``."""
    points = np.array(sequence)
    arrive = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1) / SPEED)])
    t = dt * np.arange(round(seconds / dt))
    return np.column_stack([np.interp(t, arrive, points[:, i]) for i in range(2)])


def duration() -> float:
    """Return the time of the longest sequence, and half a second to come to rest [s]."""
    return (
        max(float(np.linalg.norm(np.diff(np.array(s), axis=0), axis=1).sum()) for s in SEQUENCES) / SPEED
        + 0.5
    )


def pushed_in_mujoco(
    sequence: tuple[tuple[float, float], ...], dt: float, rk4: bool
) -> tuple[np.ndarray, int]:
    """Return the T's track (K, 3) x, y, yaw, and the number of times that contact was made."""
    model = systems.pusher_spec(dt, rk4=rk4).compile()
    data = mujoco.MjData(model)
    data.qpos[:] = systems.pusher_start()[0]
    data.qpos[:2] = sequence[0]
    pusher = model.body("pusher").id
    track, made, touching = [], 0, False
    for target in path(sequence, dt, duration()):
        data.ctrl[:] = target
        mujoco.mj_step(model, data)
        now = any(pusher in (model.geom_bodyid[c.geom1], model.geom_bodyid[c.geom2]) for c in data.contact)
        made, touching = made + (now and not touching), now
        track.append((*data.qpos[2:4], yaw(data.qpos[5:9])))
    return np.array(track), made


def yaw(quat: np.ndarray) -> Any:
    """Return the yaw of a quaternion wxyz (…, 4) [rad]."""
    w, x, y, z = np.moveaxis(np.asarray(quat), -1, 0)
    return np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))


def pushed_softly(points: int, dt: float, method: str) -> np.ndarray:
    """Return (S, K, 3) tracks of the T under all sequences, in float32."""
    params = systems.pusher_params(points)._replace(**SMOOTHING)
    system = systems.pusher_system(points, room=ROOM, params=params)
    data = jax.device_put(system.data)
    step = getattr(system, method)
    q0, v0 = systems.pusher_start()
    starts = np.tile(q0, (len(SEQUENCES), 1)).astype(np.float32)
    starts[:, :2] = [s[0] for s in SEQUENCES]
    paths = np.stack([path(s, dt, duration()) for s in SEQUENCES]).astype(np.float32)

    def roll(data: Any, q: jax.Array, targets: jax.Array) -> jax.Array:
        def one(state: Any, u: jax.Array) -> Any:
            state = step(data, *state, systems.pusher_force(*state, u), dt)
            return state, state[0][2:]

        return jax.lax.scan(one, (q, jnp.asarray(v0, q.dtype)), targets)[1]

    tracks = np.asarray(jit(jax.vmap(roll, (None, 0, 0)))(data, starts, paths), float)
    return np.concatenate([tracks[..., :2], yaw(tracks[..., 3:7])[..., None]], axis=-1)


def push(steps_ms: tuple[int, ...] = (2, 8, 16), methods: tuple[str, ...] = ("rk4", "euler")) -> Findings:
    """Push open-loop and compare the T's final pose with MuJoCo's (2 ms, the same integrator)."""
    truth = {rk4: [pushed_in_mujoco(s, 0.002, rk4) for s in SEQUENCES] for rk4 in (True, False)}
    made = [n for _, n in truth[True]]
    rows, lines = [], []
    for method, points, ms in itertools.product(methods, (26, 4000), steps_ms):
        tracks = pushed_softly(points, 1e-3 * ms, method)
        ends = np.array([t[-1] for t, _ in truth[method == "rk4"]])
        d = np.linalg.norm(tracks[:, -1, :2] - ends[:, :2], axis=1)
        turn = np.abs((tracks[:, -1, 2] - ends[:, 2] + np.pi) % (2 * np.pi) - np.pi)
        kept = np.isfinite(d) & (d < LOST)
        row = {"law": "scm", "method": method, "points": points, "step_s": 1e-3 * ms}
        row["lost"] = int((~kept).sum())
        means = {
            "mean_m": float(d[kept].mean()) if kept.any() else None,
            "mean_rad": float(turn[kept].mean()) if kept.any() else None,
        }
        rows.append(row | {"position_error_m": d, "orientation_error_rad": turn} | means)
        line = f"{method:5s} {ms:2d} ms {points:4d} points: "
        if kept.any():
            near, turned = 100 * d[kept], np.degrees(turn[kept])
            line += f"Δd {near.mean():5.1f} ± {near.std():.1f} cm, "
            line += f"Δθ {turned.mean():5.1f} ± {turned.std():.1f}°, "
        lines.append(line + f"{(~kept).sum()} diverged")
    for row in rows:
        key = row["method"], row["step_s"]
        row["published_m"] = PUBLISHED.get(key) if row["points"] == 4000 else None
        row["limit_m"] = row["published_m"] or max(PUBLISHED.values())
        row["reached"] = bool(row["lost"] == 0 and np.mean(row["position_error_m"]) <= row["limit_m"])
    passed = bool(min(made) >= 2 and all(row["reached"] for row in rows))
    lines += [
        f"{r['method']} {1e3 * r['step_s']:g} ms, 4000 points: the paper's {100 * r['published_m']:.1f} cm "
        + ("reached" if r["reached"] else "not reached")
        for r in rows
        if r["published_m"]
    ]
    lines.append(f"contacts made per sequence (MuJoCo): {made}")
    return Findings({"contacts_made": made, "cases": rows, "passed": passed}, None, lines)


main = experiment(__spec__.name, __doc__, lambda args: push())


if __name__ == "__main__":
    sys.exit(main())
