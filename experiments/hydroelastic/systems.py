"""Scenes of the experiments: a coin on a table, and a gripper that holds a bar."""

from __future__ import annotations

import argparse
import math

import mujoco
import numpy as np

from dexengines.forces import contactless
from dexengines.hydroelastic import shapes
from dexengines.hydroelastic.fields import RigidMesh
from dexengines.hydroelastic.problem import LAGGED, SAP
from dexengines.hydroelastic.system import Geometry, HydroelasticSystem

SCHEMES = {"lagged": LAGGED, "sap": SAP}
"""Convex approximations of friction, by their names on the command line."""

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
    body.mass, body.inertia = mass, inertia
    body.ipos = (0.0, 0.0, 0.0)  # MuJoCo's default is the body's position


def cylinder_inertia(mass: float, radius: float, length: float) -> tuple[float, float, float]:
    """Return the principal inertia about the centre, axis z [kg m²]."""
    across = mass * (radius**2 / 4 + length**2 / 12)
    return across, across, mass * radius**2 / 2


def disk(radius: float, thickness: float, segments: int, rings: int = 1) -> RigidMesh:
    """Return the surface of a flat cylinder about z; each face is a fan of ``segments`` triangles
    inside ``rings`` − 1 rings of quadrangles."""
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
    """Return a rigid coin, a :func:`disk`, at rest on compliant ground of half the coin's
    thickness."""
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


def _fingers(spec: mujoco.MjSpec) -> None:
    """Add two fingers on slides along y, pressed together about the bar."""
    for name, side in (("left", -1.0), ("right", 1.0)):
        finger = spec.worldbody.add_body(name=name, pos=(0.0, side * (BAR_RADIUS + FINGER_AXES[1]), 0.0))
        finger.add_joint(
            name=name, type=mujoco.mjtJoint.mjJNT_SLIDE, axis=(0.0, -side, 0.0), damping=(1.0, 0.0, 0.0)
        )
        _inertial(finger, FINGER_MASS, (1e-4, 1e-4, 1e-4))


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
    """Return two fingers with a bar between them."""
    spec = _spec(dt)
    _fingers(spec)
    bar = spec.worldbody.add_body(name="bar", quat=ALONG_X)
    bar.add_freejoint()
    _inertial(bar, BAR_MASS, cylinder_inertia(BAR_MASS, BAR_RADIUS, BAR_LENGTH))
    return spec


ALONG_X = (math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0)
"""Quaternion wxyz that turns z to x."""


def gripper(dt: float, scheme: int = LAGGED, *, size: float) -> HydroelasticSystem:
    """Return soft ellipsoidal fingers that hold a rigid bar along x.

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


def press(system: HydroelasticSystem, force: float) -> None:
    """Let both fingers of :func:`gripper` press with ``force`` [N]."""
    system.data.qfrc_applied[:2] = force


SPATULA_LEVER = 0.005
"""Torsional friction of MuJoCo's contacts [m]."""


def spatula_spec(dt: float, torsion: bool = False) -> mujoco.MjSpec:
    """Return a spatula held by two pads with motors; q: left and right pad, then the pose of the
    handle, whose frame has its origin in the grip, x along the handle, z up.

    Args:
        dt: step [s].
        torsion: contacts of MuJoCo have torsional friction.
    """
    axes = " ".join(map(str, FINGER_AXES))
    pads = "".join(
        f'<body name="{name}" pos="0 {-side * (BAR_RADIUS + FINGER_AXES[1])} 0">'
        f'<joint name="{name}" type="slide" axis="0 {side} 0" damping="100"/>'
        f'<geom name="{name}" type="ellipsoid" size="{axes}" mass="0.1"/></body>'
        for name, side in (("left", 1), ("right", -1))
    )
    motors = "".join(f'<motor joint="{name}"/>' for name in ("left", "right"))
    return mujoco.MjSpec.from_string(
        f"""<mujoco>
  <option timestep="{dt}" cone="elliptic" impratio="100"/>
  <default>
    <geom friction="1 {SPATULA_LEVER} 0" condim="{4 if torsion else 3}" rgba="0.55 0.7 0.9 1"/>
  </default>
  <worldbody>{pads}
    <body name="handle">
      <freejoint/>
      <geom name="handle" type="cylinder" size="{BAR_RADIUS}" fromto="-0.13 0 0 0.07 0 0" mass="0.03"
            rgba="0.85 0.5 0.2 1"/>
      <geom name="blade" type="box" size="0.03 0.03 0.001" pos="0.1 0 0" mass="0.02" contype="0"
            conaffinity="0" rgba="0.3 0.3 0.3 1"/>
    </body>
  </worldbody>
  <actuator>{motors}</actuator>
</mujoco>"""
    )


def add_scheme(parser: argparse.ArgumentParser) -> None:
    """Add ``--scheme`` to an experiment's parser."""
    parser.add_argument(
        "--scheme", default="lagged", choices=list(SCHEMES), help="convex approximation of friction"
    )
