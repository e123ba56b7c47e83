"""Small scenes for experiments and tests."""

from __future__ import annotations

import mujoco
import numpy as np
from numpy.typing import ArrayLike

from dexengines.lcp.shapes import Geometry, box, capsule, cylinder, plane, prism, sphere
from dexengines.lcp.system import LcpSystem


def free_bodies(
    bodies: dict[str, tuple[float, ArrayLike]], *, dt: float, gravity: float = 9.81
) -> mujoco.MjModel:
    """Return free bodies without shapes: mass [kg] and principal moments [kg m²] by name, frames at
    their centres of mass."""
    spec = mujoco.MjSpec()
    spec.option.timestep = dt
    spec.option.gravity = (0.0, 0.0, -gravity)
    for name, (mass, moments) in bodies.items():
        body = spec.worldbody.add_body(name=name)
        body.add_freejoint()
        body.explicitinertial = True
        body.mass = mass
        body.inertia = moments
    return spec.compile()


def throw(system: LcpSystem, rng: np.random.Generator) -> None:
    """Place two free bodies 0.45 m apart, turned at random, and throw them at each other at 8 times
    that per second, spinning."""
    away = rng.normal(size=3)
    away *= 0.45 / np.linalg.norm(away)
    for k, side in ((0, -0.5), (1, 0.5)):
        quat = rng.normal(size=4)
        system.q[7 * k : 7 * k + 7] = *(side * away), *(quat / np.linalg.norm(quat))
        system.v[6 * k : 6 * k + 3] = -16.0 * side * away + rng.normal(size=3)
        system.v[6 * k + 3 : 6 * k + 6] = 8.0 * rng.normal(size=3)


def box_moments(mass: float, half: ArrayLike) -> np.ndarray:
    """Return the moments of inertia (3,) of a solid box."""
    square = np.square(half)
    return mass / 3.0 * (square.sum() - square)


def boxes(
    count: int,
    half: ArrayLike = (0.1, 0.1, 0.1),
    *,
    mass: float = 1.0,
    dt: float = 0.01,
    friction: float = 0.5,
    restitution: float = 0.0,
    gravity: float = 9.81,
    directions: int = 2,
) -> LcpSystem:
    """Return boxes over a floor at z = 0, all at the origin."""
    names = [f"box{i}" for i in range(count)]
    model = free_bodies({n: (mass, box_moments(mass, half)) for n in names}, dt=dt, gravity=gravity)
    more = {"friction": friction, "restitution": restitution}
    return LcpSystem(model, [plane("floor", **more), *(box(n, n, half, **more) for n in names)], directions)


def cylinder_moments(mass: float, radius: float, half: float) -> np.ndarray:
    """Return the moments of inertia (3,) of a solid cylinder along z."""
    across = mass * (radius**2 / 4.0 + half**2 / 3.0)
    return np.array([across, across, 0.5 * mass * radius**2])


def cylinders(
    count: int,
    radius: float = 0.1,
    half: float = 0.1,
    *,
    mass: float = 1.0,
    dt: float = 0.01,
    friction: float = 0.5,
    restitution: float = 0.0,
    gravity: float = 9.81,
    slope: float = 0.0,
) -> LcpSystem:
    """Return cylinders over a floor through the origin that falls by ``slope`` [rad] along x, all
    at the origin."""
    names = [f"cylinder{i}" for i in range(count)]
    model = free_bodies(
        {n: (mass, cylinder_moments(mass, radius, half)) for n in names}, dt=dt, gravity=gravity
    )
    more = {"friction": friction, "restitution": restitution}
    floor = plane("floor", normal=(np.sin(slope), 0.0, np.cos(slope)), **more)
    return LcpSystem(model, [floor, *(cylinder(n, n, radius, half, **more) for n in names)])


def stack(count: int, half: ArrayLike = (0.1, 0.1, 0.1), *, gap: float = 1e-5, **more) -> LcpSystem:
    """Return boxes on boxes on the floor, ``gap`` apart."""
    system = boxes(count, half, **more)
    for i in range(count):
        system.q[7 * i : 7 * i + 3] = (0.0, 0.0, (2 * i + 1) * half[2] + (i + 1) * gap)
    return system


def two_balls(*, dt: float = 0.01, restitution: float = 1.0) -> LcpSystem:
    """Return the paper's two balls in a plane: r 0.05 at (−0.4, 0) and (0, 0), without friction."""
    spec = mujoco.MjSpec()
    spec.option.timestep = dt
    spec.option.gravity = (0.0, 0.0, 0.0)
    geometries: list[Geometry] = []
    for name, x in (("blue", -0.4), ("yellow", 0.0)):
        body = spec.worldbody.add_body(name=name, pos=(x, 0.0, 0.0))
        body.explicitinertial = True
        body.mass = 1.0
        body.inertia = (1e-3, 1e-3, 1e-3)
        for k, axis in enumerate(np.eye(3)[:2]):
            body.add_joint(
                name=f"{name}_{'xy'[k]}", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=axis, ref=(x, 0.0)[k]
            )
        geometries.append(sphere(name, name, 0.05, friction=0.0, restitution=restitution))
    return LcpSystem(spec.compile(), geometries)


def sliding_prism(sides: int, heading: float = 0.0, *, directions: int = 2, dt: float = 0.01) -> LcpSystem:
    """Return a regular prism that slides at 2 m/s over the floor: μ 0.16, g 9; ``heading`` of its
    velocity [rad]."""
    radius, half = 0.2, 0.1
    model = free_bodies({"prism": (1.0, (0.02, 0.02, 0.02))}, dt=dt, gravity=9.0)
    system = LcpSystem(
        model,
        [plane("floor", friction=0.16), prism("prism", "prism", sides, radius, half, friction=0.16)],
        directions,
    )
    system.q[2] = half + 1e-5
    system.v[:2] = 2.0 * np.cos(heading), 2.0 * np.sin(heading)
    return system


def two_cubes(*, speed: float = 2.0, dt: float = 0.01) -> LcpSystem:
    """Return a cube that slides towards another, half a metre away: μ 0.16, g 9, no restitution."""
    half = (0.1, 0.1, 0.1)
    system = boxes(2, half, dt=dt, friction=0.16, gravity=9.0)
    for i, x in enumerate((0.0, 0.5 + 2 * half[0])):
        system.q[7 * i], system.q[7 * i + 2] = x, half[2] + 1e-5
    system.v[0] = speed
    return system


def bouncing_ball(*, restitution: float = 1.0, gravity: float = 0.0, dt: float = 0.01) -> LcpSystem:
    """Return a ball of r 0.1 above the floor, with its height as only coordinate."""
    spec = mujoco.MjSpec()
    spec.option.timestep = dt
    spec.option.gravity = (0.0, 0.0, -gravity)
    body = spec.worldbody.add_body(name="ball", mass=1.0, inertia=(1e-3, 1e-3, 1e-3), explicitinertial=True)
    body.add_joint(name="height", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=(0, 0, 1))
    more = {"restitution": restitution, "friction": 0.0}
    return LcpSystem(spec.compile(), [plane("floor", **more), sphere("ball", "ball", 0.1, **more)])


def bowling(*, dt: float = 0.01, speed: float = 10.0) -> LcpSystem:
    """Return a ball that rolls into ten pins, upright capsules on a flat foot."""
    names = [f"pin{i}" for i in range(10)]
    masses: dict[str, tuple[float, ArrayLike]] = {"ball": (6.0, (0.0281, 0.0281, 0.0281))}
    masses |= {n: (1.5, (0.013, 0.013, 0.0015)) for n in names}
    rough = {"friction": 0.2, "restitution": 0.5}
    geometries = [plane("lane", friction=0.2), sphere("ball", "ball", 0.108, **rough)]
    for n in names:
        geometries.append(capsule(f"{n}/neck", n, 0.03, 0.1, (0, 0, 0.15), **rough))
        geometries.append(prism(f"{n}/foot", n, 8, 0.05, 0.06, friction=0.2, restitution=0.5))
    system = LcpSystem(free_bodies(masses, dt=dt), geometries)
    system.q[:3] = -0.8, 0.01, 0.108 + 1e-5
    system.v[0], system.v[4] = speed, speed / 0.108
    places = [(row, column) for row in range(4) for column in range(row + 1)]
    for i, (row, column) in enumerate(places):
        system.q[7 * (i + 1) : 7 * (i + 1) + 3] = 0.264 * row, 0.305 * (column - row / 2), 0.06 + 1e-5
    return system


def gripper(thickness: float = 0.02, *, dt: float = 0.01) -> LcpSystem:
    """Return two fingers on a base that moves up and down, around a plate on the floor: μ 0.8, g
    8, 0.1 kg."""
    spec = mujoco.MjSpec()
    spec.option.timestep = dt
    spec.option.gravity = (0.0, 0.0, -8.0)
    base = spec.worldbody.add_body(name="base", mass=0.5, inertia=(1e-3, 1e-3, 1e-3), explicitinertial=True)
    base.add_joint(name="lift", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=(0, 0, 1))
    half, geometries = (0.01, 0.02, 0.02), [plane("floor", friction=0.8)]
    for name, side in (("left", -1.0), ("right", 1.0)):
        finger = base.add_body(
            name=name,
            pos=(side * (0.03 + half[0]), 0.0, 0.06),
            mass=0.1,
            inertia=(1e-4, 1e-4, 1e-4),
            explicitinertial=True,
        )
        finger.add_joint(
            name=name, type=mujoco.mjtJoint.mjJNT_SLIDE, axis=(-side, 0, 0), range=(-0.05, 0.05), limited=True
        )
        geometries.append(box(name, name, half, friction=0.8))
    size = (0.5 * thickness, 0.04, 0.04)
    plate = spec.worldbody.add_body(
        name="plate", mass=0.1, inertia=tuple(box_moments(0.1, size)), explicitinertial=True
    )
    plate.add_freejoint()
    geometries.append(box("plate", "plate", size, friction=0.8))
    system = LcpSystem(spec.compile(), geometries)
    system.q[3:6] = 0.0, 0.0, size[2] + 1e-5
    return system
