"""Scenes that the checks of the engine run on: a coin on a table, a gripper that holds a bar or a
spatula, a ball on the ground."""

from __future__ import annotations

import argparse
import math

import mujoco
import numpy as np

from dexengines.forces import contactless
from dexengines.hydroelastic import shapes
from dexengines.hydroelastic.convex import LAGGED, SAP
from dexengines.hydroelastic.fields import RigidMesh
from dexengines.hydroelastic.system import Geometry, HydroelasticSystem, moved

SCHEMES = {"lagged": LAGGED, "sap": SAP}
"""How friction is made convex, by the names of the command line."""

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
    body.mass, body.inertia, body.ipos = (
        mass,
        inertia,
        (0.0, 0.0, 0.0),
    )  # left out, MuJoCo takes the body's own position for ipos


def cylinder_inertia(mass: float, radius: float, length: float) -> tuple[float, float, float]:
    """About the centre; the axis is z."""
    across = mass * (radius**2 / 4 + length**2 / 12)
    return across, across, mass * radius**2 / 2


def disk(radius: float, thickness: float, segments: int, rings: int = 1) -> RigidMesh:
    """The surface of a flat cylinder about z; either face is a fan of ``segments`` triangles inside
    ``rings`` − 1 rings of quadrangles."""
    angle = 2 * math.pi * np.arange(segments) / segments
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    points, triangles = [], []
    i, j = np.arange(segments), np.roll(np.arange(segments), -1)
    for side in (-1.0, 1.0):
        first = sum(map(len, points))
        points.append(np.array([[0.0, 0.0, 0.5 * side * thickness]]))
        cap = [np.column_stack([np.full(segments, first), first + 1 + i, first + 1 + j])]
        for ring in range(rings):
            points.append(
                np.column_stack(
                    [circle * radius * (ring + 1) / rings, np.full(segments, 0.5 * side * thickness)]
                )
            )
            if ring:
                a, b = first + 1 + (ring - 1) * segments, first + 1 + ring * segments
                cap += [np.column_stack([a + i, b + i, b + j]), np.column_stack([a + i, b + j, a + j])]
        triangles.append(np.concatenate(cap)[:, :: int(side)])
    n = 1 + rings * segments
    low, high = n - segments, 2 * n - segments
    triangles += [
        np.column_stack([low + i, low + j, high + j]),
        np.column_stack([low + i, high + j, high + i]),
    ]
    return RigidMesh("disk", np.concatenate(points), np.concatenate(triangles))


def coin(
    dt: float, scheme: int = LAGGED, *, modulus: float = COIN_MODULUS, segments: int = 152, rings: int = 1
) -> HydroelasticSystem:
    """A rigid coin, a :func:`disk`, lying at rest on compliant ground as deep as half the coin is
    thick."""
    spec = _spec(dt)
    body = spec.worldbody.add_body(name="coin")
    body.add_freejoint()
    _inertial(body, COIN_MASS, cylinder_inertia(COIN_MASS, COIN_RADIUS, COIN_THICKNESS))
    depth = 0.5 * COIN_THICKNESS
    system = HydroelasticSystem(
        contactless(spec.compile()),
        [
            Geometry("ground", "world", shapes.half_space(modulus, depth=depth), COIN_FRICTION),
            Geometry("coin", "coin", disk(COIN_RADIUS, COIN_THICKNESS, segments, rings), COIN_FRICTION),
        ],
        scheme,
    )
    area = 0.5 * segments * COIN_RADIUS**2 * math.sin(2 * math.pi / segments)
    system.data.qpos[2] = 0.5 * COIN_THICKNESS - COIN_MASS * 9.81 * depth / (modulus * area)
    return system


def _fingers(spec: mujoco.MjSpec, radius: float) -> None:
    """Two fingers on slides along y, pressed together by their forces, about a handle; the MuJoCo
    geoms are for its own contact."""
    for name, side in (("left", -1.0), ("right", 1.0)):
        finger = spec.worldbody.add_body(name=name, pos=(0.0, side * (radius + FINGER_AXES[1]), 0.0))
        finger.add_joint(
            name=name, type=mujoco.mjtJoint.mjJNT_SLIDE, axis=(0.0, -side, 0.0), damping=(1.0, 0.0, 0.0)
        )
        _inertial(finger, FINGER_MASS, (1e-4, 1e-4, 1e-4))
        finger.add_geom(
            type=mujoco.mjtGeom.mjGEOM_ELLIPSOID,
            size=FINGER_AXES,
            friction=(GRIP_FRICTION, 0.0, 0.0),
            condim=3,
        )


def _gripping(size: float) -> list[Geometry]:
    finger = shapes.ellipsoid(FINGER_AXES, FINGER_MODULUS, size=size)
    return [Geometry(side, side, finger, GRIP_FRICTION, GRIP_RELAXATION) for side in ("left", "right")]


FINGER_AXES, FINGER_MASS, FINGER_MODULUS = (0.03, 0.015, 0.03), 0.1, 1e5
GRIP_FRICTION = 1.0
GRIP_RELAXATION = 0.01
"""The gripper [m, kg, Pa, -, s]: soft ellipsoids."""
BAR_RADIUS, BAR_LENGTH, BAR_MASS = 0.01, 0.16, 0.1
"""A bar [m, kg] along x."""


def gripper_spec(dt: float) -> mujoco.MjSpec:
    """Two fingers with a bar between them."""
    spec = _spec(dt)
    _fingers(spec, BAR_RADIUS)
    bar = spec.worldbody.add_body(name="bar", quat=ALONG_X)
    bar.add_freejoint()
    _inertial(bar, BAR_MASS, cylinder_inertia(BAR_MASS, BAR_RADIUS, BAR_LENGTH))
    return spec


ALONG_X = (math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0)
"""Quaternion wxyz that turns z to x."""


def gripper(dt: float, scheme: int = LAGGED, *, size: float) -> HydroelasticSystem:
    """Soft ellipsoidal fingers that hold a rigid bar along x.

    Args:
        dt: step [s].
        scheme: see :class:`~dexengines.hydroelastic.system.HydroelasticSystem`.
        size: longest edge of the fingers' meshes [m].
    """
    bar = shapes.rigid(shapes.cylinder(BAR_RADIUS, BAR_LENGTH, 1.0, size=0.005))
    return HydroelasticSystem(
        contactless(gripper_spec(dt).compile()),
        [*_gripping(size), Geometry("bar", "bar", bar, GRIP_FRICTION)],
        scheme,
    )


HANDLE_RADIUS, HANDLE_LENGTH = 0.008, 0.22
NECK, BLADE = (0.08, 0.012, 0.004), (0.09, 0.075, 0.002)
GRIPPED_AT = 0.175
"""A spatula [m]: a round handle, a flat neck and a blade, one behind the other along x, and where
on the handle the fingers are."""
WOOD, NYLON = 700.0, 1150.0
"""[kg/m³]"""


def spatula_spec(dt: float) -> mujoco.MjSpec:
    """The fingers with a spatula between them, its handle of wood, the rest of nylon. Its body's
    origin is where they grip it.

    MuJoCo's geoms give it its mass, and are what touches in a run with MuJoCo's own contact: one
    point per finger.
    """
    spec = _spec(dt)
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.impratio = 100.0
    _fingers(spec, HANDLE_RADIUS)
    body = spec.worldbody.add_body(name="spatula")
    body.add_freejoint()
    touch = {"friction": (GRIP_FRICTION, 0.0, 0.0), "condim": 3}
    handle, neck, blade = _spatula_centres()
    size = (HANDLE_RADIUS, 0.5 * HANDLE_LENGTH, 0.0)
    body.add_geom(
        type=mujoco.mjtGeom.mjGEOM_CYLINDER, size=size, pos=handle, quat=ALONG_X, density=WOOD, **touch
    )
    for dims, centre in ((NECK, neck), (BLADE, blade)):
        body.add_geom(
            type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.5 * x for x in dims], pos=centre, density=NYLON, **touch
        )
    return spec


def _spatula_centres() -> np.ndarray:
    """(3, 3) of handle, neck and blade in the spatula's frame [m]."""
    ends = np.cumsum([HANDLE_LENGTH, NECK[0], BLADE[0]])
    centres = np.zeros((3, 3))
    centres[:, 0] = ends - 0.5 * np.array([HANDLE_LENGTH, NECK[0], BLADE[0]]) - GRIPPED_AT
    return centres


def spatula(dt: float, scheme: int = LAGGED, *, size: float) -> HydroelasticSystem:
    """Soft fingers that pinch a rigid spatula by its handle, not under its centre of mass;
    arguments as of :func:`gripper`."""
    R = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
    handle, neck, blade = _spatula_centres()
    parts = {
        "handle": moved(
            shapes.rigid(shapes.cylinder(HANDLE_RADIUS, HANDLE_LENGTH, 1.0, size=0.004)), R, handle
        ),
        "neck": moved(shapes.rigid(shapes.box(NECK, 1.0)), np.eye(3), neck),
        "blade": moved(shapes.rigid(shapes.box(BLADE, 1.0)), np.eye(3), blade),
    }
    return HydroelasticSystem(
        contactless(spatula_spec(dt).compile()),
        [*_gripping(size), *(Geometry(name, "spatula", mesh, GRIP_FRICTION) for name, mesh in parts.items())],
        scheme,
    )


def press(system: HydroelasticSystem, force: float) -> None:
    """Let both fingers of :func:`gripper` or :func:`spatula` press with ``force`` [N]."""
    system.data.qfrc_applied[:2] = force


def ball(dt: float = 1e-3, *, height: float = 0.05) -> HydroelasticSystem:
    """An undamped, frictionless compliant ball with its lowest point ``height`` [m] above rigid
    ground."""
    spec = _spec(dt)
    body = spec.worldbody.add_body(name="ball", pos=(0.0, 0.0, BALL_RADIUS + height))
    body.add_freejoint()
    _inertial(body, BALL_MASS, (0.4 * BALL_MASS * BALL_RADIUS**2,) * 3)
    return HydroelasticSystem(
        contactless(spec.compile()),
        [
            Geometry("ball", "ball", shapes.sphere(BALL_RADIUS, BALL_MODULUS, size=0.02), 0.0),
            Geometry("ground", "world", shapes.rigid_half_space(), 0.0),
        ],
    )


BALL_RADIUS, BALL_MASS, BALL_MODULUS = 0.05, 0.5, 1e6
"""[m, kg, Pa]"""


def dumbbell(
    dt: float = 1e-3, scheme: int = LAGGED, *, height: float = 0.05, friction: float = 0.0
) -> HydroelasticSystem:
    """Two balls joined off the centre of mass, tilted, over a bowl of two compliant slabs: not
    convex, and never hit through its centre."""
    spec = _spec(dt)
    body = spec.worldbody.add_body(
        name="dumbbell", pos=(0.01, 0.02, 0.09 + height), quat=(0.9, 0.3, 0.2, 0.2449489742783178)
    )
    body.add_freejoint()
    _inertial(body, BALL_MASS, (2e-3, 2e-3, 8e-4))
    lower = moved(shapes.sphere(0.03, BALL_MODULUS, size=0.02), np.eye(3), np.array([0.0, 0.0, -0.05]))
    upper = moved(shapes.sphere(0.04, BALL_MODULUS, size=0.02), np.eye(3), np.array([0.01, 0.0, 0.04]))
    slab = shapes.box((0.6, 0.6, 0.2), 2 * BALL_MODULUS)
    bowl = []
    for name, angle in (("left slab", 0.4), ("right slab", -0.4)):
        R = np.array(
            [[math.cos(angle), 0, math.sin(angle)], [0, 1, 0], [-math.sin(angle), 0, math.cos(angle)]]
        )
        bowl.append(
            Geometry(
                name, "world", moved(slab, R, R @ np.array([-math.copysign(0.3, angle), 0.0, -0.1])), friction
            )
        )
    return HydroelasticSystem(
        contactless(spec.compile()),
        [Geometry("lower", "dumbbell", lower, 0.0), Geometry("upper", "dumbbell", upper, 0.0), *bowl],
        scheme,
    )


def pitch(quat: np.ndarray) -> float:
    """By how much the x axis of a body that turns about y points down [rad], from its quaternion
    wxyz."""
    w, x, y, z = quat
    return math.atan2(2 * (w * y - x * z), 1 - 2 * (y * y + z * z))


def add_scheme(parser: argparse.ArgumentParser) -> None:
    """Add ``--scheme`` to an experiment's parser."""
    parser.add_argument(
        "--scheme", default="lagged", choices=list(SCHEMES), help="how friction is made convex"
    )
