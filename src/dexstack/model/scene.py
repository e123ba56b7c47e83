"""Scenes of hand or balls, object, floor and camera as MuJoCo specs, built from the hand and object
models.

Layout of the compiled model's state: ``qpos`` = joint angles or ball positions (3 per ball), then
the object's position and quaternion (wxyz); ``qvel`` = their rates, then the object's linear
velocity (world) and angular velocity (body). A hand with coupled hinges has more joint angles in
its scene than joints, see :class:`JointLayout`. Geom groups: 0 collides and is drawn, 2 is only
drawn.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from dexstack.geometry.rotations import quaternion_of
from dexstack.model.balls import Ball, BallsModel
from dexstack.model.hand import Body, HandModel
from dexstack.model.mount import DOWN, upright
from dexstack.model.objects import ObjectModel
from dexstack.model.urdf import Shape

TIMESTEP = 0.002
GROUP_SOLID = 0
GROUP_DRAWN = 2
OBJECT_BODY = "object"
MOTOR_TIME = 2.0 * TIMESTEP
"""Mechanical time constant of the motor of a joint that others follow, its inertia over its damping
[s]; a geared motor's is no shorter. Without it the damping, which is integrated implicitly, would
slow the joint within a step, so that its followers lag."""
_STIFF = (2.0 * TIMESTEP, 1.0), (0.9999, 0.9999, 1e-3, 0.5, 2.0)
"""solref and solimp: with MuJoCo's defaults a joint this light creeps at 1 rad/s under half of its
friction limit, and a follower lags by half a radian."""


_KINDS = {
    "box": mujoco.mjtGeom.mjGEOM_BOX,
    "sphere": mujoco.mjtGeom.mjGEOM_SPHERE,
    "capsule": mujoco.mjtGeom.mjGEOM_CAPSULE,
    "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER,
}
_DARK, _LIGHT, _PALM = (0.30, 0.31, 0.34, 1.0), (0.92, 0.91, 0.88, 1.0), (0.22, 0.23, 0.25, 1.0)
_FACES = (  # outward axis and colour of the marker on each side of an object; yaw is visible in a film
    ((1, 0, 0), (0.84, 0.19, 0.15, 1.0)),
    ((-1, 0, 0), (0.95, 0.55, 0.12, 1.0)),
    ((0, 1, 0), (0.16, 0.50, 0.73, 1.0)),
    ((0, -1, 0), (0.18, 0.63, 0.34, 1.0)),
    ((0, 0, 1), (0.97, 0.97, 0.95, 1.0)),
    ((0, 0, -1), (0.45, 0.30, 0.65, 1.0)),
)


def _wxyz_from_z(axis: np.ndarray) -> np.ndarray:
    """Return the smallest rotation that takes the z axis to ``axis`` (3,)."""
    quat = np.empty(4)
    mujoco.mju_quatZ2Vec(quat, axis)
    return quat


def _set_inertia(body: mujoco.MjsBody, mass: float, com: np.ndarray, inertia: np.ndarray) -> None:
    body.explicitinertial = True
    body.mass = mass
    body.ipos = com
    body.fullinertia = inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]


def new_spec(name: str, gravity: Sequence[float] | np.ndarray = DOWN) -> mujoco.MjSpec:
    """Return an empty spec with the stack's time step, integrator and friction cone, and gravity (3,)
    in the world [m/s²]."""
    spec = mujoco.MjSpec()
    spec.modelname = name
    spec.compiler.degree = False
    spec.compiler.autolimits = True
    spec.option.timestep = TIMESTEP
    spec.option.gravity = gravity
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.impratio = 10.0
    # a diverging plant must not jump back to the start unnoticed
    spec.option.disableflags = mujoco.mjtDisableBit.mjDSBL_AUTORESET
    return spec


def add_hand(spec: mujoco.MjSpec, hand: HandModel) -> None:
    """Add palm, links and joints of ``hand``, mounted in the world; neighbouring links, and those
    that overlap at rest, do not collide."""
    frames = []
    for body in hand.bodies:
        parent = spec.worldbody if body.parent < 0 else frames[body.parent]
        frame = parent.add_body(name=body.name)
        frames.append(frame)
        if body.joint is None:
            frame.pos, frame.quat = hand.p_WP, hand.quat_WP
        else:
            frame.pos, frame.quat = body.p_PB, quaternion_of(body.R_PB_at_zero)
            _add_hinge(spec, frame, hand, body)
        _set_inertia(frame, body.mass, body.com, body.inertia)
        for k, shape in enumerate(body.shapes):
            rgba = _PALM if body.joint is None else _LIGHT if shape.kind == "capsule" else _DARK
            friction = hand.friction_palm if body.joint is None else hand.friction_fingers
            _add_shape(frame, f"{body.name}/{k}", shape, rgba, friction)
        _add_knuckle(frame, body)
    for first, second in [
        *((hand.bodies[body.parent].name, body.name) for body in hand.bodies[1:]),
        *hand.ignored_contacts,
    ]:
        spec.add_exclude(bodyname1=first, bodyname2=second)


def _add_hinge(spec: mujoco.MjSpec, frame: mujoco.MjsBody, hand: HandModel, body: Body) -> None:
    """Add a joint of the hand, with its limits, or a hinge that follows such a joint."""
    j = body.joint
    if body.hinge != hand.joint_names[j]:
        frame.add_joint(name=body.hinge, type=mujoco.mjtJoint.mjJNT_HINGE, axis=body.axis)
        coupling = spec.add_equality(type=mujoco.mjtEq.mjEQ_JOINT, objtype=mujoco.mjtObj.mjOBJ_JOINT)
        coupling.name1, coupling.name2 = body.hinge, hand.joint_names[j]
        coupling.data[:2] = body.offset, body.ratio
        coupling.solref[:], coupling.solimp[:] = _STIFF
        return
    leads = sum(other.joint == j for other in hand.bodies) > 1
    frame.add_joint(
        name=hand.joint_names[j],
        type=mujoco.mjtJoint.mjJNT_HINGE,
        axis=body.axis,
        range=(hand.lower[j], hand.upper[j]),
        damping=(hand.damping[j], 0.0, 0.0),  # linear, quadratic, cubic in the speed
        armature=hand.joint_armature + (MOTOR_TIME * hand.damping[j] if leads else 0.0),
        frictionloss=hand.joint_friction,
        solref_friction=_STIFF[0],
        solimp_friction=_STIFF[1],
    )


def _add_knuckle(frame: mujoco.MjsBody, body: Body) -> None:
    """Add a drawn cylinder around a joint that bends across its link, where two boxes would leave a
    gap."""
    across = int(np.argmax(np.abs(body.axis)))
    boxes = [s for s in body.shapes if s.kind == "box" and np.allclose(s.R, np.eye(3))]
    if across == 2 or not boxes or abs(boxes[0].p[across]) > 1e-6:
        return
    frame.add_geom(
        name=f"{body.name}/knuckle",
        type=mujoco.mjtGeom.mjGEOM_CYLINDER,
        size=(min(boxes[0].size), boxes[0].size[across], 0.0),
        quat=_wxyz_from_z(np.eye(3)[across]),
        rgba=_DARK,
        contype=0,
        conaffinity=0,
        mass=0.0,
        group=GROUP_DRAWN,
    )


def _add_shape(
    frame: mujoco.MjsBody, name: str, shape: Shape, rgba: tuple[float, ...], friction: float
) -> None:
    size = np.zeros(3)
    size[: len(shape.size)] = shape.size
    frame.add_geom(
        name=name,
        type=_KINDS[shape.kind],
        size=size,
        pos=shape.p,
        quat=quaternion_of(shape.R),
        rgba=rgba,
        friction=(friction, 0.005, 0.0001),
        group=GROUP_SOLID,
    )


def part_name(k: int) -> str:
    """Return the name of the geom of an object's k-th convex part."""
    return OBJECT_BODY if k == 0 else f"{OBJECT_BODY}/part{k}"


def add_object(spec: mujoco.MjSpec, obj: ObjectModel) -> None:
    """Add a free ``obj`` as body ``"object"``, with one geom for each of its convex parts and
    coloured markers."""
    body = spec.worldbody.add_body(name=OBJECT_BODY)
    body.add_freejoint(name=OBJECT_BODY)
    _set_inertia(body, obj.mass, np.array(obj.com), obj.inertia)
    for k, part in enumerate(obj.parts):
        name = part_name(k)
        spec.add_mesh(
            name=name,
            uservert=np.asarray(part.vertices, dtype=np.float32).ravel(),
            userface=np.asarray(part.faces, dtype=np.int32).ravel(),
            inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_EXACT,
        )
        body.add_geom(
            name=name,
            type=mujoco.mjtGeom.mjGEOM_MESH,
            meshname=name,
            friction=obj.friction,
            condim=obj.contact_dimension,
            rgba=(0.93, 0.80, 0.35, 1.0),
            group=GROUP_SOLID,
        )
    _add_face_markers(body, obj)


def _add_face_markers(body: mujoco.MjsBody, obj: ObjectModel) -> None:
    """Add a thin coloured plate where each axis of the object leaves its surface."""
    for axis, rgba in _FACES:
        direction = np.array(axis, dtype=float)
        k = int(np.argmax(np.abs(direction)))
        reach = np.max(obj.surface.vertices @ direction)
        size = 0.32 * obj.size
        size[k] = 0.0004
        body.add_geom(
            name=f"{OBJECT_BODY}/face{'+-'[int(direction[k] < 0)]}{'xyz'[k]}",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=size,
            pos=direction * reach,
            rgba=rgba,
            contype=0,
            conaffinity=0,
            mass=0.0,
            group=GROUP_DRAWN,
        )


def add_balls(spec: mujoco.MjSpec, balls: Sequence[Ball]) -> None:
    """Add each ball with its joints ``ball_<i>_x``, ``_y``, ``_z``; its coordinates are positions
    in the world, not offsets."""
    for i, ball in enumerate(balls):
        body = spec.worldbody.add_body(name=f"ball_{i}", pos=ball.p_W)
        for k, axis in enumerate(np.eye(3)):
            body.add_joint(
                name=f"ball_{i}_{'xyz'[k]}",
                type=mujoco.mjtJoint.mjJNT_SLIDE,
                axis=axis,
                ref=ball.p_W[k],
                damping=(ball.damping, 0.0, 0.0),
            )
        body.add_geom(
            name=f"ball_{i}",
            type=mujoco.mjtGeom.mjGEOM_SPHERE,
            size=(ball.radius, 0.0, 0.0),
            mass=ball.mass,
            friction=(ball.friction, 0.005, 0.0001),
            rgba=_FACES[2 * (i % 3)][1],
            group=GROUP_SOLID,
        )


def build_scene(
    hand: HandModel | None,
    obj: ObjectModel | None,
    *,
    balls: Sequence[Ball] = (),
    floor: float | None = None,
    camera: bool = True,
    gravity: Sequence[float] | np.ndarray | None = None,
) -> mujoco.MjSpec:
    """Build hand, object and surroundings as one spec; ``.compile()`` returns the plant's model.

    Args:
        hand: mounted by its palm mount, or None.
        obj: the free object, or None.
        balls: point fingers, after the hand's joints in the state.
        floor: height of a floor in the world [m], or None.
        camera: add a camera named "film" that looks down at the palm, upright under this gravity.
        gravity: (3,) in the world [m/s²]; None: the hand's, or along -z without one.
    """
    if gravity is None:
        gravity = DOWN if hand is None else hand.gravity
    name = " with ".join(part.name for part in (hand, obj) if part is not None) or "scene"
    spec = new_spec(name, gravity)
    if hand is not None:
        add_hand(spec, hand)
    add_balls(spec, balls)
    if obj is not None:
        add_object(spec, obj)
    if floor is not None:
        spec.worldbody.add_geom(
            name="floor",
            type=mujoco.mjtGeom.mjGEOM_PLANE,
            size=(0.0, 0.0, 0.05),
            pos=(0.0, 0.0, floor),
            rgba=(0.75, 0.77, 0.8, 1.0),
            friction=(0.5, 0.005, 0.0001),
            group=GROUP_SOLID,
        )
    if camera:
        R_WU, target = upright(np.asarray(gravity, float)), np.array([0.035, 0.0, 0.02])
        eye = target + R_WU @ np.array([0.125, -0.26, 0.38])
        back = (eye - target) / np.linalg.norm(eye - target)
        right = np.cross(R_WU[:, 2], back)
        right /= np.linalg.norm(right)
        R_WC = np.column_stack([right, np.cross(back, right), back])
        spec.worldbody.add_camera(name="film", pos=eye, quat=quaternion_of(R_WC), fovy=28.0)
    spec.worldbody.add_light(pos=(0.2, 0.2, 1.0), dir=(-0.2, -0.2, -1.0))
    return spec


class JointLayout:
    """Map between the H joints of a robot's scene and the N of them that do not follow others.

    Joints follow by a joint equality of degree one, x = ratio q + offset, as :func:`add_hand`
    writes it. The object's joint is the last.
    """

    def __init__(self, model: mujoco.MjModel) -> None:
        count = model.njnt - int(model.njnt > 0 and model.jnt_type[-1] == mujoco.mjtJoint.mjJNT_FREE)
        coupled = [e for e in range(model.neq) if model.eq_type[e] == mujoco.mjtEq.mjEQ_JOINT]
        followers = {
            int(model.eq_obj1id[e]): (int(model.eq_obj2id[e]), *model.eq_data[e, :2]) for e in coupled
        }
        self.own = np.array([j for j in range(count) if j not in followers], int)
        """(N,) indices of the robot's own joints."""
        self.plain = not followers
        """True if no joint follows another one."""
        self._C, self._c = np.zeros((count, len(self.own))), np.zeros(count)
        self._C[self.own, np.arange(len(self.own))] = 1.0
        for j, (leader, offset, ratio) in followers.items():
            self._C[j, np.searchsorted(self.own, leader)], self._c[j] = ratio, offset

    def coordinates(self, q: np.ndarray) -> np.ndarray:
        """Return the positions (…, H) of all joints with the robot's own at q (…, N)."""
        return np.asarray(q, float) if self.plain else np.asarray(q, float) @ self._C.T + self._c

    def rates(self, v: np.ndarray) -> np.ndarray:
        """Return the velocities (…, H) of all joints with the robot's own at v (…, N)."""
        return np.asarray(v, float) if self.plain else np.asarray(v, float) @ self._C.T

    def forces(self, tau: np.ndarray) -> np.ndarray:
        """Return the forces (…, N) on the robot's own joints that do the same work as tau (…, H) on
        all."""
        return np.asarray(tau, float) if self.plain else np.asarray(tau, float) @ self._C


@functools.singledispatch
def robot_scene(robot: Any, obj: ObjectModel | None) -> mujoco.MjSpec:
    """Build the scene of a robot with an object or alone: a hand without a floor, balls on one."""
    raise TypeError(f"no scene is known for a robot of type {type(robot).__name__}")


@robot_scene.register
def _(robot: HandModel, obj: ObjectModel | None) -> mujoco.MjSpec:
    return build_scene(robot, obj)


@robot_scene.register
def _(robot: BallsModel, obj: ObjectModel | None) -> mujoco.MjSpec:
    return build_scene(None, obj, balls=robot.balls, floor=0.0, gravity=robot.gravity)
