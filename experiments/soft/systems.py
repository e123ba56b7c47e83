"""Scenes: a sphere that pushes a T over the ground, as one MuJoCo spec for every engine; a pair of
clouds."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from dexengines.soft import cloud
from dexengines.soft.cloud import Cloud
from dexengines.soft.near import Room
from dexengines.soft.scm import (
    ContactParams,
    Dissipation,
    Law,
    PairWrench,
    Side,
    all_planes,
    combine,
    paper_dissipation,
    respond,
)
from dexengines.soft.system import Ground, Meeting, SoftSystem, Surface
from dexengines.soft.vectors import about, kept, turn, twist_in

BAR, STEM, HEIGHT = (0.25, 0.05), (0.05, 0.15), 0.04
"""The T [m]: its bar over its stem, 25 × 20 cm, and its thickness."""
T_MASS, T_FRICTION = 0.5, 0.5
PUSHER_RADIUS, PUSHER_MASS = 0.02, 0.2
PUSHER_GAIN, PUSHER_DAMPING = 200.0, 12.0
"""Position control of the pusher [N/m, N s/m]."""
APART = 1.0
"""Distance between several Ts [m]."""
T_SPACING = {26: 0.15, 4000: 0.00448}
"""Largest quad of the T [m] by its approximate number of points."""
ROOM = Room(1, 16, 12)
"""Room for the pusher and the T, also in an inner corner."""
SPHERE_SPACING = {26: 0.016, 4000: 0.0040}


def t_rectangles() -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """Return the centre of mass (2,) in the drawing's frame, and the T's plan as rectangles (low,
    high) in the body's frame."""
    bar = (np.array([-BAR[0] / 2, 0.0]), np.array([BAR[0] / 2, BAR[1]]))
    stem = (np.array([-STEM[0] / 2, -STEM[1]]), np.array([STEM[0] / 2, 0.0]))
    areas = [np.prod(h - low) for low, h in (bar, stem)]
    com = sum(a * (low + h) / 2 for a, (low, h) in zip(areas, (bar, stem), strict=True)) / sum(areas)
    return com, [(low - com, high - com) for low, high in (bar, stem)]


def t_cloud(spacing: float) -> Cloud:
    """Return the T's surface in quads of at most ``spacing`` [m], at least 26."""
    _, ((bar_low, bar_high), (stem_low, stem_high)) = t_rectangles()
    x = [bar_low[0], stem_low[0], stem_high[0], bar_high[0]]
    thirds = np.linspace(stem_low[1], stem_high[1], 4)
    cells = [(x[i], bar_low[1], x[i + 1], bar_high[1]) for i in range(3)]
    cells += [(x[1], thirds[i], x[2], thirds[i + 1]) for i in range(3)]
    h = HEIGHT / 2
    parts = []
    for x0, y0, x1, y1 in cells:
        u, v = np.array([x1 - x0, 0, 0]), np.array([0, y1 - y0, 0])
        parts += [cloud.rectangle([x0, y0, h], u, v, spacing), cloud.rectangle([x0, y0, -h], v, u, spacing)]
    up = np.array([0, 0, HEIGHT])
    top, low = bar_high[1], bar_low[1]
    outline = [
        (x[3], low, x[3], top),
        (x[3], top, x[2], top),
        (x[2], top, x[1], top),
        (x[1], top, x[0], top),
        (x[0], top, x[0], low),
    ]
    outline += [(x[0], low, x[1], low), (x[2], low, x[3], low)]
    outline += [(x[1], thirds[i + 1], x[1], thirds[i]) for i in reversed(range(3))]
    outline += [(x[1], thirds[0], x[2], thirds[0])]
    outline += [(x[2], thirds[i], x[2], thirds[i + 1]) for i in range(3)]
    for x0, y0, x1, y1 in outline:  # anticlockwise, so that the side × up points outward
        parts.append(cloud.rectangle([x0, y0, -h], np.array([x1 - x0, y1 - y0, 0]), up, spacing))
    return cloud.joined(*parts)


def pusher_spec(dt: float, *, rk4: bool = False, count: int = 1) -> mujoco.MjSpec:
    """Return Ts on the ground, each with a position-controlled sphere on two slides; q: spheres (x,
    y), Ts (position, quaternion)."""
    spec = mujoco.MjSpec()
    spec.option.timestep = dt
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_RK4 if rk4 else mujoco.mjtIntegrator.mjINT_EULER
    spec.worldbody.add_geom(
        type=mujoco.mjtGeom.mjGEOM_PLANE, size=(0, 0, 0.05), friction=(T_FRICTION, 0.005, 0.0001)
    )
    for k, name in enumerate(_names("pusher", count)):
        ball = spec.worldbody.add_body(name=name, pos=(k * APART, 0, HEIGHT / 2 + 1e-3))
        for at, axis in (("x", (1, 0, 0)), ("y", (0, 1, 0))):
            joint = at if count == 1 else f"{at}{k}"
            ball.add_joint(name=joint, type=mujoco.mjtJoint.mjJNT_SLIDE, axis=axis)
            motor = spec.add_actuator(name=joint, target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT)
            motor.gainprm[0] = PUSHER_GAIN
            motor.biastype = mujoco.mjtBias.mjBIAS_AFFINE
            motor.biasprm[1:3] = -PUSHER_GAIN, -PUSHER_DAMPING
        ball.add_geom(
            type=mujoco.mjtGeom.mjGEOM_SPHERE,
            size=(PUSHER_RADIUS, 0, 0),
            mass=PUSHER_MASS,
            friction=(T_FRICTION, 0.005, 0.0001),
        )
        spec.add_exclude(bodyname1="world", bodyname2=name)
    _, rectangles = t_rectangles()
    area = sum(float(np.prod(high - low)) for low, high in rectangles)
    for k, name in enumerate(_names("T", count)):
        body = spec.worldbody.add_body(name=name, pos=(k * APART, 0, HEIGHT / 2))
        body.add_freejoint()
        for low, high in rectangles:
            half = (high - low) / 2
            body.add_geom(
                type=mujoco.mjtGeom.mjGEOM_BOX,
                size=(*half, HEIGHT / 2),
                pos=(*((low + high) / 2), 0),
                mass=T_MASS * float(np.prod(high - low)) / area,
                friction=(T_FRICTION, 0.005, 0.0001),
            )
    return spec


def _names(kind: str, count: int) -> list[str]:
    return [kind] if count == 1 else [f"{kind}{k}" for k in range(count)]


def pusher_system(
    points: int = 26,
    *,
    count: int = 1,
    tolerance: float | None = 1e-6,
    room: Room | None = None,
    params: ContactParams | None = None,
) -> SoftSystem:
    """Return the scene in the soft engine; ``points`` is a key of T_SPACING. Several Ts meet each
    other, too. The ground meets a T in at most 300 points (see :func:`t_cloud`)."""
    model = pusher_spec(0.002, count=count).compile()
    t, ball = t_cloud(T_SPACING[points]), cloud.sphere(PUSHER_RADIUS, SPHERE_SPACING[points])
    params = params or pusher_params(points)
    base = t_cloud(max(T_SPACING[points], 0.011))
    base = Cloud(
        *(x[base.normals[:, 2] < -0.5] for x in base)
    )  # the T never tumbles: its underside carries it
    ts = [Surface(name, name, t, T_FRICTION) for name in _names("T", count)]
    pushers = [Surface(name, name, ball, T_FRICTION) for name in _names("pusher", count)]
    meetings = [Meeting(ts, pushers, tolerance, params, room=room)]
    if count > 1:
        pairs = [(i, j, T_FRICTION) for i in range(count) for j in range(i)]
        meetings.append(Meeting(ts, ts, tolerance, params, pairs, room=room))
    return SoftSystem(
        model,
        meetings,
        [Ground(Surface(f"underside of {t.name}", t.body, base, T_FRICTION), params) for t in ts],
    )


def pusher_params(points: int) -> ContactParams:
    """Return parameters that fit the spacing of the points."""
    return ContactParams(
        stiffness=5e3,
        eps1=1e-6 if points > 26 else 1e-4,
        eps2=2e-4 if points > 26 else 5e-4,
        eps3=2e-4,
        v_d=0.3,
        v_s=0.01,
    )


def pusher_force(q: np.ndarray, v: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the force (nv,) of the pushers' position control towards ``target`` (2 for each)
    [m]."""
    n = len(target)
    return jnp.concatenate(
        [PUSHER_GAIN * (target - q[:n]) - PUSHER_DAMPING * v[:n], jnp.zeros(len(v) - n, v.dtype)]
    )


def pusher_start(count: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return q (9 count,) and v (8 count,): the first T lies at the origin, each pusher stands
    behind the end of its stem."""
    ts = [[k * APART, 0.0, HEIGHT / 2, 1.0, 0.0, 0.0, 0.0] for k in range(count)]
    return np.concatenate([np.tile([0.0, -0.20], count), *ts]), np.zeros(8 * count)


def dense_pair(
    points_a: Array, normals_a: Array, points_b: Array, normals_b: Array, R_AB: Array, p_AB: Array,
    twist: Array, c: ContactParams, dissipation: Dissipation = paper_dissipation,
) -> PairWrench:  # fmt: skip
    """Return the contact of two whole clouds (I, 3), without the axis S; B has the pose (R_AB, p_AB)
    and the twist (6,) relative to A, in A: the velocity of B's material point at A's origin, then the
    angular velocity."""
    real, one = p_AB.dtype, jnp.ones((1, 1), p_AB.dtype)
    rows_a, rows_b = (
        jnp.concatenate([p, n, jnp.zeros((len(p), 2))], axis=1).astype(real)
        for p, n in ((points_a, normals_a), (points_b, normals_b))
    )
    R_BA, law, a, b = R_AB.T, Law(dissipation), rows_a.T[:, None], rows_b.T[:, None]
    on_b = kept(turn(R_AB, b[:3], p_AB))
    on_a = kept(turn(R_BA, a[:3], -turn(R_BA, p_AB)))
    felt_b = respond(on_b, about(twist, on_b), all_planes(rows_a[..., None]), c, law)
    felt_a = respond(on_a, about(-twist_in(twist, R_AB, p_AB), on_a), all_planes(rows_b[..., None]), c, law)
    felt_a = felt_a._replace(force=turn(R_AB, felt_a.force), normal=turn(R_AB, felt_a.normal))
    sides = [
        Side(sign * one, one[None], *(jax.tree.map(lambda x: x[None], part) for part in parts))
        for sign, *parts in ((1.0, on_b, b[7], felt_b), (-1.0, a[:3], a[7], felt_a))
    ]
    return PairWrench(*(x[0] for x in combine(sides, jnp.reshape(jnp.asarray(c.eps2, real), (1,)))))
