"""What the soft engine must show: isosurfaces, the force between two spheres, pushing a T, an object on the palm. Figures and pictures."""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from matplotlib.figure import Figure

from dexstack.engines.soft import cloud, scenes
from dexstack.engines.soft.aware import AwareSystem
from dexstack.engines.soft.cloud import Cloud
from dexstack.engines.soft.scm import ContactParams, dense_pair
from dexstack.engines.soft.ssdf import ssdf
from dexstack.engines.soft.system import SoftSystem
from experiments.checks import BLUE, GREEN, PINK, Check

EPSILONS = (0.01, 0.25, 0.5, 10.0)


def square(per_side: int, *, wrong: bool = False) -> Cloud:
    """Oriented points of a 2-D box [−1, 1]² in the plane z = 0; ``wrong``: the first of every side points inwards."""
    along = (2.0 * np.arange(per_side) + 1.0) / per_side - 1.0
    points, normals = [], []
    for k in range(4):
        c, s = math.cos(k * math.pi / 2), math.sin(k * math.pi / 2)
        R = np.array([[c, -s], [s, c]])
        sign = np.ones((per_side, 1))
        sign[0] = -1.0 if wrong else 1.0
        points.append(np.column_stack([np.ones(per_side), along]) @ R.T)
        normals.append(sign * (R @ [1.0, 0.0]))
    flat = [np.hstack([np.concatenate(x), np.zeros((4 * per_side, 1))]) for x in (points, normals)]
    return Cloud(*flat)


def isosurfaces() -> Check:
    """SSDF of a box in the plane for growing ε, from few and many points, and with wrong normals."""
    x = np.linspace(-2.0, 2.0, 161)
    grid = np.stack(np.meshgrid(x, x, indexing="xy"), axis=-1).reshape(-1, 2)
    grid = jnp.asarray(np.hstack([grid, np.zeros((len(grid), 1))]))
    rows = {"2 points a side": square(2), "12 points a side": square(12), "wrong normals": square(12, wrong=True)}
    field = jax.jit(lambda points, normals, eps: jax.vmap(lambda p: ssdf(p, Cloud(points, normals), eps))(grid))
    figure = Figure(figsize=(11.0, 8.2), layout="constrained")
    areas: dict[str, list[float]] = {}
    for ax_row, (name, c) in zip(figure.subplots(3, 4), rows.items(), strict=True):
        areas[name] = []
        for ax, eps in zip(ax_row, EPSILONS, strict=True):
            values = np.asarray(field(jnp.asarray(c.points), jnp.asarray(c.normals), eps)).reshape(len(x), len(x))
            areas[name].append(float((values < 0).mean() * 16.0))
            ax.contourf(x, x, values, levels=np.linspace(-1.5, 1.5, 31), cmap="RdBu", extend="both")
            if values.min() < 0.0 < values.max():
                ax.contour(x, x, values, levels=[0.0], colors="blue", linewidths=2.0)
            ax.plot([-1, 1, 1, -1, -1], [-1, -1, 1, 1, -1], color="white")
            ax.quiver(*c.points[:, :2].T, *c.normals[:, :2].T, color="white", scale=12.0)
            ax.set(title=f"ε = {eps:g}, {name}", aspect="equal", xticks=[], yticks=[])
    good, wrong = areas["12 points a side"], areas["wrong normals"]
    passed = abs(good[0] - 4.0) < 0.15 and abs(wrong[0] - 4.0) > 0.3
    lines = [f"area inside the zero isosurface (the box has 4), ε = {', '.join(f'{e:g}' for e in EPSILONS)}:"]
    lines += [f"  {name}: " + ", ".join(f"{a:.2f}" for a in values) for name, values in areas.items()]
    return Check({"epsilon": EPSILONS, "area": areas, "passed": passed}, figure, lines)


RADII = (0.05, 0.03)
"""Of the fixed sphere and of the one that slides past [m]."""


def force_map() -> Check:
    """Force on a sphere that slides past another, along y and over the x–y plane; MuJoCo's contact beside."""
    balls = [cloud.sphere(r, 0.2 * r) for r in RADII]
    params = ContactParams(stiffness=1e4, eps1=2e-5, eps2=2e-3, eps3=2e-3)

    def force(p: jax.Array) -> jax.Array:
        return dense_pair(*balls[0], *balls[1], jnp.eye(3, dtype=p.dtype), p, jnp.zeros(6, p.dtype), params).wrench[:3]

    y = np.linspace(-0.11, 0.11, 89)
    line = np.column_stack([np.full_like(y, 0.04), y, np.zeros_like(y)])
    with jax.enable_x64(True):
        many = jax.jit(lambda x: jax.lax.map(force, x))
        ours = np.asarray(many(jnp.asarray(line)))
        xs = np.linspace(-0.1, 0.1, 31)
        grid = np.stack(np.meshgrid(xs, xs), axis=-1).reshape(-1, 2)
        grid = np.hstack([grid, np.zeros((len(grid), 1))])
        ours_map = np.linalg.norm(np.asarray(many(jnp.asarray(grid))), axis=1).reshape(len(xs), -1)
        apart = jnp.array([0.0, sum(RADII) + 0.01, 0.0])  # a centimetre out of contact
        push = lambda p: force(p)[1]  # noqa: E731
        gradient, hessian = (np.asarray(jax.jit(f(push))(apart)) for f in (jax.grad, jax.hessian))
    theirs, theirs_map = mujoco_force(line), np.linalg.norm(mujoco_force(grid), axis=1).reshape(len(xs), -1)
    jump = lambda f: float(np.abs(np.diff(np.linalg.norm(f, axis=1), 2)).max() / np.linalg.norm(f, axis=1).max())  # noqa: E731
    finite = bool(np.isfinite(gradient).all() and np.isfinite(hessian).all() and gradient[1] != 0.0 and hessian[1, 1] != 0.0)
    results = {
        "gradient_out_of_contact": gradient,
        "hessian_out_of_contact": hessian,
        "second_difference": {"soft": jump(ours), "mujoco": jump(theirs)},
        "passed": finite and jump(ours) < jump(theirs),
    }
    figure = Figure(figsize=(11.0, 6.0), layout="constrained")
    axes = figure.subplots(2, 2)
    for row, (name, curve, area) in zip(axes, (("SCM", ours, ours_map), ("MuJoCo", theirs, theirs_map)), strict=True):
        for i, colour in enumerate((BLUE, PINK)):
            row[0].plot(1e3 * y, curve[:, i], color=colour, label=f"force along {'xy'[i]}")
        row[0].set(xlabel="y [mm]", ylabel="force [N]", title=f"{name}: past at x = 40 mm")
        row[0].legend()
        image = row[1].imshow(area, extent=(-100, 100, -100, 100), origin="lower", cmap="viridis")
        figure.colorbar(image, ax=row[1], label="force [N]")
        row[1].set(xlabel="x [mm]", ylabel="y [mm]", title=name)
    lines = [
        f"10 mm apart: gradient along y {gradient[1]:.3g} N/m, Hessian {hessian[1, 1]:.3g} N/m², both finite and not zero: {finite}",
        f"largest second difference along y over the largest force: SCM {jump(ours):.3f}, MuJoCo {jump(theirs):.3f}",
    ]
    return Check(results, figure, lines)


def mujoco_force(where: np.ndarray) -> np.ndarray:
    """(N, 3) contact force on a sphere at rest with its centre at ``where`` (N, 3)."""
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><option gravity="0 0 0"/><worldbody><geom size="{RADII[0]}"/>'
        f'<body name="b"><freejoint/><geom size="{RADII[1]}" mass="1"/></body></worldbody></mujoco>'
    )
    data = mujoco.MjData(model)
    result = np.zeros((len(where), 3))
    for i, p in enumerate(where):
        data.qpos[:3], data.qvel[:] = p, 0.0
        mujoco.mj_forward(model, data)
        result[i] = data.qfrc_constraint[:3]
    return result


SEQUENCES = (
    ((0.0, -0.20), (0.0, -0.12), (0.0, -0.20), (0.19, -0.15), (0.19, 0.07), (0.10, 0.07), (0.20, 0.07)),
    ((0.01, -0.20), (0.01, -0.13), (0.01, -0.20), (-0.12, -0.15), (-0.12, -0.05), (-0.02, -0.05), (-0.12, -0.05)),
    ((0.10, -0.10), (0.01, -0.10), (0.12, -0.10), (0.20, 0.12), (0.08, 0.14), (0.08, 0.04), (0.08, 0.14)),
    ((-0.08, 0.14), (-0.08, 0.04), (-0.08, 0.14), (0.07, 0.14), (0.07, 0.04), (0.07, 0.14)),
    ((0.19, 0.03), (0.10, 0.03), (0.19, 0.03), (0.19, -0.20), (0.0, -0.22), (-0.02, -0.13), (-0.02, -0.22)),
)
"""Way points (x, y) [m] of the pusher; each makes and breaks contact at least twice."""
SPEED = 0.15
"""Of the pusher's target [m/s]."""
LOST = 1.0
"""A T that ends so far from MuJoCo's [m] was thrown, not pushed."""


def path(sequence: tuple[tuple[float, float], ...], dt: float, seconds: float) -> np.ndarray:
    """(K, 2) targets of the pusher every ``dt`` [s], the last one held until ``seconds``."""
    points = np.array(sequence)
    arrive = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1) / SPEED)])
    t = dt * np.arange(round(seconds / dt))
    return np.column_stack([np.interp(t, arrive, points[:, i]) for i in range(2)])


def duration() -> float:
    """Of the longest sequence, and half a second to come to rest [s]."""
    return max(float(np.linalg.norm(np.diff(np.array(s), axis=0), axis=1).sum()) for s in SEQUENCES) / SPEED + 0.5


def pushed_in_mujoco(sequence: tuple[tuple[float, float], ...], dt: float, rk4: bool) -> tuple[np.ndarray, int]:
    """The T's track (K, 3) x, y, yaw, and how often contact was made."""
    model = scenes.pusher_spec(dt, rk4=rk4).compile()
    data = mujoco.MjData(model)
    data.qpos[:] = scenes.pusher_start()[0]
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
    """[rad] of a quaternion wxyz (…, 4)."""
    w, x, y, z = np.moveaxis(np.asarray(quat), -1, 0)
    return np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))


def aware(dt: float) -> Callable[..., SoftSystem]:
    """The law of :mod:`dexstack.engines.soft.aware` with MuJoCo's time constant, as far as steps of ``dt`` [s] can follow it."""
    return functools.partial(AwareSystem, time_constant=max(0.02, 2.0 * dt), stick_time=max(0.005, dt))


LAWS: dict[str, Callable[[float], Callable[..., SoftSystem]]] = {"scm": lambda dt: SoftSystem, "aware": aware}
"""Force laws, by the step [s]."""


def pushed_softly(points: int, dt: float, method: str, law: str = "scm", patch: int | None = 32) -> np.ndarray:
    """(S, K, 3) tracks of the T under all sequences at once; float32."""
    system = scenes.pusher_system(points, patch=None if points == 26 else patch, law=LAWS[law](dt))
    data = jax.device_put(system.data)
    step = getattr(system, method)
    q0, v0 = scenes.pusher_start()
    starts = np.tile(q0, (len(SEQUENCES), 1)).astype(np.float32)
    starts[:, :2] = [s[0] for s in SEQUENCES]
    paths = np.stack([path(s, dt, duration()) for s in SEQUENCES]).astype(np.float32)

    def roll(data: Any, q: jax.Array, targets: jax.Array) -> jax.Array:
        def one(state: Any, u: jax.Array) -> Any:
            state = step(data, *state, scenes.pusher_force(*state, u), dt)
            return state, state[0][2:]

        return jax.lax.scan(one, (q, jnp.asarray(v0, q.dtype)), targets)[1]

    tracks = np.asarray(jax.jit(jax.vmap(roll, (None, 0, 0)))(data, starts, paths), float)
    return np.concatenate([tracks[..., :2], yaw(tracks[..., 3:7])[..., None]], axis=-1)


def push(steps_ms: tuple[int, ...] = (2, 8, 16), methods: tuple[str, ...] = ("rk4", "euler")) -> Check:
    """Open-loop pushing against MuJoCo (2 ms, the same integrator) under both force laws: where the T ends."""
    truth = {rk4: [pushed_in_mujoco(s, 0.002, rk4) for s in SEQUENCES] for rk4 in (True, False)}
    made = [n for _, n in truth[True]]
    rows, lines, shown = [], [], None
    for method, points, ms, law in itertools.product(methods, (26, 4000), steps_ms, LAWS):
        tracks = pushed_softly(points, 1e-3 * ms, method, law)
        ends = np.array([t[-1] for t, _ in truth[method == "rk4"]])
        d = np.linalg.norm(tracks[:, -1, :2] - ends[:, :2], axis=1)
        turn = np.abs((tracks[:, -1, 2] - ends[:, 2] + np.pi) % (2 * np.pi) - np.pi)
        kept = np.isfinite(d) & (d < LOST)
        if (method, points, ms, law) == ("rk4", 4000, steps_ms[0], "scm"):
            shown = tracks
        row = {"law": law, "method": method, "points": points, "step_s": 1e-3 * ms, "lost": int((~kept).sum())}
        rows.append(row | {"position_error_m": d, "orientation_error_rad": turn})
        line = f"{law:5s} {method:5s} {ms:2d} ms {points:4d} points: "
        if kept.any():
            near, turned = 100 * d[kept], np.degrees(turn[kept])
            line += f"Δd {near.mean():5.1f} ± {near.std():.1f} cm, Δθ {turned.mean():5.1f} ± {turned.std():.1f}°, "
        lines.append(line + f"{(~kept).sum()} diverged")
    best = next((r for r in rows if (r["law"], r["method"], r["points"], r["step_s"]) == ("scm", "rk4", 4000, 0.002)), rows[0])
    passed = bool(min(made) >= 2 and np.nanmean(best["position_error_m"]) <= 0.012 and best["lost"] == 0)
    figure = Figure(figsize=(12.0, 3.2), layout="constrained")
    for k, ax in enumerate(figure.subplots(1, len(SEQUENCES))):
        ax.plot(*np.array(SEQUENCES[k]).T, ":", color="0.6", label="pusher")
        ax.plot(*truth[True][k][0][:, :2].T, color=BLUE, label="MuJoCo")
        if shown is not None:
            ax.plot(*shown[k, :, :2].T, color=PINK, label="soft")
            for (x, y, angle), colour in ((truth[True][k][0][-1], BLUE), (shown[k, -1], PINK)):
                R = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
                for low, high in scenes.t_rectangles()[1]:
                    corners = np.array([low, (high[0], low[1]), high, (low[0], high[1]), low]) @ R.T + (x, y)
                    ax.plot(*corners.T, color=colour, linewidth=0.8)
        ax.set(aspect="equal", title=f"sequence {k + 1}", xticks=[], yticks=[])
    ax.legend(fontsize=7)
    lines.append(f"contacts made per sequence (MuJoCo): {made}; the paper: RK4 2 ms 4k 1.2 cm, 10.8°; Euler 2 ms 4k 6.7 cm, 42.3°")
    return Check({"contacts_made": made, "cases": rows, "passed": passed}, figure, lines)


def palm(seconds: float = 60.0, name: str = "cube") -> Check:
    """The hand holds its pose under its servo, an object rests on the palm."""
    from dexstack.engines.soft.plant import SoftPlant
    from dexstack.model.gravity import GravityCompensation
    from dexstack.model.hand import load_hand
    from dexstack.model.objects import load_object

    hand, obj = load_hand(), load_object(name)
    gravity, start = GravityCompensation(hand), obj.start("allegro")
    pose = hand.pose(start.hand_pose)
    plant = SoftPlant(hand, obj)
    plant.reset(pose, start.pose_WO)
    n = round(seconds / plant.dt)
    track, stepping = np.empty((n, 3)), 0.0
    for k in range(n):
        q = plant.joint_position
        torque = np.clip(1.0 * (pose - q) + gravity(q), -hand.effort, hand.effort)
        begin = time.process_time()
        plant.step(torque)
        stepping += time.process_time() - begin
        track[k] = plant.pose_WO[:3]
    settled = track[min(round(1.0 / plant.dt), n - 1)]
    drift, factor = float(np.linalg.norm(track[-1] - settled)), seconds / stepping
    results = {"object": name, "seconds": seconds, "real_time_factor": factor, "drift_m": drift}
    results["passed"] = bool(drift < 5e-3 and factor >= 1.0 and np.linalg.norm(plant.twist_WO[:3]) < 1e-3)
    figure = Figure(figsize=(7.0, 3.6), layout="constrained")
    ax = figure.subplots()
    for i, colour in enumerate((BLUE, PINK, GREEN)):
        ax.plot(plant.dt * np.arange(n)[::10], 1e3 * (track[::10, i] - settled[i]), color=colour, label="xyz"[i])
    ax.set(xlabel="time [s]", ylabel="motion since 1 s [mm]", title=f"{name} on the palm: real-time factor {factor:.1f}")
    ax.legend()
    line = f"{name} on the palm, {seconds:g} s: creeps {1e3 * drift:.2f} mm after the first second, real-time factor {factor:.2f}"
    return Check(results, figure, [line])
