"""Scenes that the checks of the engine run on: a coin on a table, a gripper that holds a bar, a ball on the ground."""

from __future__ import annotations

import math

import mujoco
import numpy as np

from dexstack.engines.hydroelastic import shapes
from dexstack.engines.hydroelastic.convex import LAGGED
from dexstack.engines.hydroelastic.fields import RigidMesh
from dexstack.engines.hydroelastic.system import Geometry, HydroelasticSystem, contactless, moved

COIN_RADIUS, COIN_THICKNESS, COIN_MASS, COIN_FRICTION = 0.01213, 0.00175, 0.00567, 0.2
"""A US quarter dollar [m, m, kg, -]."""
COIN_MODULUS = 1e9
"""[Pa]"""


def _spec(dt: float, gravity: bool = True) -> mujoco.MjSpec:
    spec = mujoco.MjSpec()
    spec.option.timestep = dt
    spec.option.gravity = (0.0, 0.0, -9.81 if gravity else 0.0)
    return spec


def _inertial(body: mujoco.MjsBody, mass: float, inertia: tuple[float, float, float]) -> None:
    body.explicitinertial = True
    body.mass, body.inertia, body.ipos = mass, inertia, (0.0, 0.0, 0.0)  # left out, MuJoCo takes the body's own position for ipos


def cylinder_inertia(mass: float, radius: float, length: float) -> tuple[float, float, float]:
    """About the centre; the axis is z."""
    across = mass * (radius**2 / 4 + length**2 / 12)
    return across, across, mass * radius**2 / 2


def disk(radius: float, thickness: float, segments: int, rings: int = 1) -> RigidMesh:
    """The surface of a flat cylinder about z; either face is a fan of ``segments`` triangles inside ``rings`` − 1 rings of quadrangles."""
    angle = 2 * math.pi * np.arange(segments) / segments
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    points, triangles = [], []
    i, j = np.arange(segments), np.roll(np.arange(segments), -1)
    for side in (-1.0, 1.0):
        first = sum(map(len, points))
        points.append(np.array([[0.0, 0.0, 0.5 * side * thickness]]))
        cap = [np.column_stack([np.full(segments, first), first + 1 + i, first + 1 + j])]
        for ring in range(rings):
            points.append(np.column_stack([circle * radius * (ring + 1) / rings, np.full(segments, 0.5 * side * thickness)]))
            if ring:
                a, b = first + 1 + (ring - 1) * segments, first + 1 + ring * segments
                cap += [np.column_stack([a + i, b + i, b + j]), np.column_stack([a + i, b + j, a + j])]
        triangles.append(np.concatenate(cap)[:, :: int(side)])
    n = 1 + rings * segments
    low, high = n - segments, 2 * n - segments
    triangles += [np.column_stack([low + i, low + j, high + j]), np.column_stack([low + i, high + j, high + i])]
    return RigidMesh("disk", np.concatenate(points), np.concatenate(triangles))


def coin(dt: float, scheme: int = LAGGED, *, modulus: float = COIN_MODULUS, segments: int = 152, rings: int = 1) -> HydroelasticSystem:
    """A rigid coin, a :func:`disk`, lying at rest on compliant ground as deep as half the coin is thick."""
    spec = _spec(dt)
    body = spec.worldbody.add_body(name="coin")
    body.add_freejoint()
    _inertial(body, COIN_MASS, cylinder_inertia(COIN_MASS, COIN_RADIUS, COIN_THICKNESS))
    depth = 0.5 * COIN_THICKNESS
    system = HydroelasticSystem(
        contactless(spec),
        [
            Geometry("ground", "world", shapes.half_space(modulus, depth=depth), COIN_FRICTION),
            Geometry("coin", "coin", disk(COIN_RADIUS, COIN_THICKNESS, segments, rings), COIN_FRICTION),
        ],
        scheme,
    )
    area = 0.5 * segments * COIN_RADIUS**2 * math.sin(2 * math.pi / segments)
    system.data.qpos[2] = 0.5 * COIN_THICKNESS - COIN_MASS * 9.81 * depth / (modulus * area)
    return system


def gripper_spec(dt: float, *, point_contact: bool = False, offset: float = 0.0, mass: float = 0.1) -> mujoco.MjSpec:
    """Two fingers on slides along y, pressed together by their forces, with a bar between them; the MuJoCo geoms are for its contact."""
    spec = _spec(dt)
    if point_contact:
        spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
        spec.option.impratio = 100.0
    for name, side in (("left", -1.0), ("right", 1.0)):
        finger = spec.worldbody.add_body(name=name, pos=(0.0, side * (BAR_RADIUS + FINGER_AXES[1]), 0.0))
        finger.add_joint(name=name, type=mujoco.mjtJoint.mjJNT_SLIDE, axis=(0.0, -side, 0.0), damping=(1.0, 0.0, 0.0))
        _inertial(finger, FINGER_MASS, (1e-4, 1e-4, 1e-4))
        finger.add_geom(type=mujoco.mjtGeom.mjGEOM_ELLIPSOID, size=FINGER_AXES, friction=(GRIP_FRICTION, 0.0, 0.0), condim=3)
    bar = spec.worldbody.add_body(name="bar", pos=(offset, 0.0, 0.0), quat=(math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0))
    bar.add_freejoint()
    _inertial(bar, mass, cylinder_inertia(mass, BAR_RADIUS, BAR_LENGTH))
    bar.add_geom(
        type=mujoco.mjtGeom.mjGEOM_CYLINDER, size=(BAR_RADIUS, 0.5 * BAR_LENGTH, 0.0), friction=(GRIP_FRICTION, 0.0, 0.0), condim=3
    )
    return spec


FINGER_AXES, FINGER_MASS, FINGER_MODULUS = (0.03, 0.015, 0.03), 0.1, 1e5
BAR_RADIUS, BAR_LENGTH = 0.01, 0.16
GRIP_FRICTION = 1.0
"""The gripper [m, kg, Pa]: soft ellipsoids about a bar along x."""


def gripper(dt: float, scheme: int = LAGGED, *, size: float, offset: float = 0.0, mass: float = 0.1) -> HydroelasticSystem:
    """Soft ellipsoidal fingers that hold a rigid bar along x.

    Args:
        dt: step [s].
        scheme: see :class:`~dexstack.engines.hydroelastic.system.HydroelasticSystem`.
        size: longest edge of the fingers' meshes [m].
        offset: how far the bar's centre of mass is from the fingers, along x [m].
        mass: of the bar [kg].
    """
    finger = shapes.ellipsoid(FINGER_AXES, FINGER_MODULUS, size=size)
    bar = shapes.rigid(shapes.cylinder(BAR_RADIUS, BAR_LENGTH, 1.0, size=0.005))
    return HydroelasticSystem(
        contactless(gripper_spec(dt, offset=offset, mass=mass)),
        [
            Geometry("left", "left", finger, GRIP_FRICTION, GRIP_RELAXATION),
            Geometry("right", "right", finger, GRIP_FRICTION, GRIP_RELAXATION),
            Geometry("bar", "bar", bar, GRIP_FRICTION, 0.0),
        ],
        scheme,
    )


GRIP_RELAXATION = 0.01
"""τ of the fingers [s]"""


def press(system: HydroelasticSystem, force: float) -> None:
    """Let both fingers of :func:`gripper` press with ``force`` [N]."""
    system.data.qfrc_applied[:2] = force


def ball(dt: float = 1e-3, *, height: float = 0.05) -> HydroelasticSystem:
    """An undamped, frictionless compliant ball with its lowest point ``height`` [m] above rigid ground."""
    spec = _spec(dt)
    body = spec.worldbody.add_body(name="ball", pos=(0.0, 0.0, BALL_RADIUS + height))
    body.add_freejoint()
    _inertial(body, BALL_MASS, (0.4 * BALL_MASS * BALL_RADIUS**2,) * 3)
    return HydroelasticSystem(
        contactless(spec),
        [
            Geometry("ball", "ball", shapes.sphere(BALL_RADIUS, BALL_MODULUS, size=0.02), 0.0),
            Geometry("ground", "world", shapes.rigid_half_space(), 0.0),
        ],
    )


BALL_RADIUS, BALL_MASS, BALL_MODULUS = 0.05, 0.5, 1e6
"""[m, kg, Pa]"""


def dumbbell(dt: float = 1e-3, *, height: float = 0.05) -> HydroelasticSystem:
    """Two balls joined off the centre of mass, tilted, over a bowl of two compliant slabs: not convex, and never hit through its centre."""
    spec = _spec(dt)
    body = spec.worldbody.add_body(name="dumbbell", pos=(0.01, 0.02, 0.09 + height), quat=(0.9, 0.3, 0.2, 0.2449489742783178))
    body.add_freejoint()
    _inertial(body, BALL_MASS, (2e-3, 2e-3, 8e-4))
    lower = moved(shapes.sphere(0.03, BALL_MODULUS, size=0.02), np.eye(3), np.array([0.0, 0.0, -0.05]))
    upper = moved(shapes.sphere(0.04, BALL_MODULUS, size=0.02), np.eye(3), np.array([0.01, 0.0, 0.04]))
    slab = shapes.box((0.6, 0.6, 0.2), 2 * BALL_MODULUS)
    bowl = []
    for name, angle in (("left slab", 0.4), ("right slab", -0.4)):
        R = np.array([[math.cos(angle), 0, math.sin(angle)], [0, 1, 0], [-math.sin(angle), 0, math.cos(angle)]])
        bowl.append(Geometry(name, "world", moved(slab, R, R @ np.array([-math.copysign(0.3, angle), 0.0, -0.1])), 0.0))
    return HydroelasticSystem(
        contactless(spec), [Geometry("lower", "dumbbell", lower, 0.0), Geometry("upper", "dumbbell", upper, 0.0), *bowl]
    )


def pitch(qpos_quat: np.ndarray) -> float:
    """Angle of the bar's axis below the horizontal [rad], from its quaternion wxyz."""
    _, x, y, _ = qpos_quat
    return -math.asin(max(-1.0, min(1.0, 1 - 2 * (x * x + y * y))))
