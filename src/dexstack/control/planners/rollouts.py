"""A robot, its servo and an object in MuJoCo, as a planner believes them: where a scene is by now,
and where joint targets would lead."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import mujoco
import mujoco.rollout
import numpy as np

from dexstack.control.base import Observation
from dexstack.model.scene import GRAVITY, OBJECT_BODY, JointLayout, part_name, robot_scene

if TYPE_CHECKING:
    from dexstack.control.problem import ModelParams
    from dexstack.model.objects import ObjectModel
    from dexstack.model.robot import Robot

FULL = mujoco.mjtState.mjSTATE_FULLPHYSICS
FASTEST = 1.0 - 1e-7
"""Largest share of a step's way that a joint covers: 1 in single precision says no more of its
damping."""
PARTING_STEPS = 8
"""Steps in which bodies are parted that a noisy pose has pushed into each other. A millimetre of
penetration would throw them apart at 50 mm/s otherwise, by MuJoCo's 20 ms of solref, in every
rollout."""


class Rollouts:
    """MuJoCo with a position servo per joint.

    The servo's force is limited to what a target ``u_max`` ahead of its joint asks for, because no
    command is farther ahead. Links do not collide with each other, friction cones are pyramids, and
    parts that are boxes meet as such: all for speed.
    """

    def __init__(
        self, robot: Robot, obj: ObjectModel, servo: tuple[np.ndarray, float, float], dt: float, threads: int
    ) -> None:
        """
        Args:
            servo: stiffness (N,) [N·m/rad, N/m], derivative gain [N·m·s/rad], and u_max, the
                farthest target [rad, m].
            dt: physics step [s].
        """
        stiffness, kd, u_max = servo
        spec = robot_scene(robot, obj)
        _box_up(spec, obj)
        spec.option.timestep = dt
        spec.option.cone, spec.option.impratio = mujoco.mjtCone.mjCONE_PYRAMIDAL, 1.0
        for name, kp in zip(robot.joint_names, np.asarray(stiffness, float), strict=True):
            drive = spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
            drive.set_to_position(kp=kp, kv=kd)
            drive.forcerange = (-kp * u_max, kp * u_max)
        for body in spec.bodies:
            if body.name != OBJECT_BODY:
                body.gravcomp = 1.0  # the servo balances the robot's weight
        _pair_up(spec)
        self.model = spec.compile()
        self._kd, self._u_max = kd, u_max
        self._object = self.model.body(OBJECT_BODY).id
        self.layout = JointLayout(self.model)
        self._threads = threads
        self._make_room()
        self.model.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
        self.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_EULERDAMP
        self._made = copy.copy(self.model)
        self.believe(obj.mass, 1.0, np.asarray(stiffness, float), robot.damping + kd)

    def limit(self, u_max: float) -> None:
        """Let no target be farther than ``u_max`` [rad, m] ahead of its joint."""
        self._u_max = u_max
        self.model.actuator_forcerange[:] = u_max * self.model.actuator_gainprm[:, :1] * np.array([-1.0, 1.0])

    def believe(self, mass: float, friction: float, stiffness: np.ndarray, damping: np.ndarray) -> None:
        """Change what is known badly; nothing may be rolled out meanwhile.

        Contacts feel the joints' damping. MuJoCo's implicit integrators solve (M + h D) Δv = h f
        with contact forces f found for M alone. A finger's link is far lighter than h D, so that
        its contacts would be far too weak in a step, and what they let in be thrown out in the next
        ones. An armature h D with the damping in f is the same step in free motion, and contacts
        know of it.

        Args:
            mass: of the object, whose inertia grows with it [kg].
            friction: of all contacts, as a multiple of what hand and object have by their models.
            stiffness: (N,) of the joints' servo [N·m/rad, N/m].
            damping: (N,) of a joint and its servo together [N·m·s/rad].
        """
        m, made, own, body = self.model, self._made, self.layout.own, self._object
        m.body_mass[body], m.body_inertia[body] = (
            mass,
            made.body_inertia[body] * (mass / made.body_mass[body]),
        )
        m.pair_friction[:, :2] = friction * made.pair_friction[:, :2]
        m.actuator_gainprm[:, 0], m.actuator_biasprm[:, 1] = stiffness, -stiffness
        m.dof_damping[own] = np.maximum(damping - self._kd, 0.0)
        m.dof_armature[own] = made.dof_armature[own] + m.opt.timestep * damping
        mujoco.mj_setConst(m, self._data)
        self.limit(self._u_max)

    def believe_theta(self, theta: ModelParams, step: float, usual: float) -> None:
        """:meth:`believe` what θ says.

        Damping D is what a free joint's lag over a ``step`` h [s] says: cover = 1 − e^{−h K/D}.

        Args:
            usual: friction of θ at which contacts have what the models of robot and object say; 0:
                whatever θ says.
        """
        stiffness, cover = np.asarray(theta.stiffness, float), np.asarray(theta.cover, float)
        friction = float(theta.friction) / usual if usual > 0.0 else 1.0
        self.believe(
            float(theta.mass), friction, stiffness, -step * stiffness / np.log1p(-np.minimum(cover, FASTEST))
        )

    def _make_room(self) -> None:
        self._data = mujoco.MjData(self.model)
        self._room = [mujoco.MjData(self.model) for _ in range(self._threads)]

    def fork(self) -> Rollouts:
        """The same model with memory of its own, for another thread."""
        other = copy.copy(self)
        other.model = copy.copy(self.model)
        other._make_room()
        return other

    def coordinates(self, observation: Observation) -> np.ndarray:
        """(H + 7,) of all joints and the object."""
        return self._joined(observation.q, observation.pose_WO)

    def _joined(self, q: np.ndarray, pose_WO: np.ndarray) -> np.ndarray:
        return np.concatenate([self.layout.coordinates(q), pose_WO])

    def state(
        self, sights: Sequence[Observation], target: Callable[[float], np.ndarray], until: float
    ) -> np.ndarray:
        """MuJoCo's full state at a time, by what was seen before and what is commanded until then.

        Args:
            sights: the last observations, the newest last.
            target: joint targets (N,) at a time [rad, m].
            until: time of the state [s].
        """
        m, d, now = self.model, self._data, sights[-1]
        self._place(self.coordinates(now), self._velocity(sights))
        for k in range(round((until - now.t) / m.opt.timestep)):
            d.ctrl[:] = target(now.t + k * m.opt.timestep)
            mujoco.mj_step(m, d)
        return self._state()

    def standing(
        self, q: np.ndarray, pose_WO: np.ndarray, qd: np.ndarray, twist_WO: np.ndarray
    ) -> np.ndarray:
        """MuJoCo's full state of joints (N,) and object (7,) that move so: (N,), and (6,), linear
        in world, angular in body axes."""
        self._place(self._joined(q, pose_WO), np.concatenate([self.layout.rates(qd), twist_WO]))
        return self._state()

    def _place(self, coordinates: np.ndarray, velocity: np.ndarray) -> None:
        d = self._data
        mujoco.mj_resetData(self.model, d)
        d.qpos[:] = coordinates
        self._part(d)
        d.qvel[:] = velocity

    def _state(self) -> np.ndarray:
        state = np.empty(mujoco.mj_stateSize(self.model, FULL))
        mujoco.mj_getState(self.model, self._data, state, FULL)
        return state

    def _part(self, d: mujoco.MjData) -> None:
        """Push the object out of what it is in: steps without speed or weight in which the joints
        stay."""
        joints = d.qpos[:-7].copy()
        d.ctrl[:] = joints[self.layout.own]
        d.xfrc_applied[self._object, :3] = -self.model.body_mass[self._object] * GRAVITY
        for _ in range(PARTING_STEPS):
            d.qvel[:] = 0.0
            mujoco.mj_step(self.model, d)
            d.qpos[:-7] = joints
        d.xfrc_applied[:] = 0.0

    def _velocity(self, sights: Sequence[Observation]) -> np.ndarray:
        """(nv,) now: the object's by least squares over all sights, since its pose is noisy, the
        joints' from the last two."""
        v = np.zeros(self.model.nv)
        if len(sights) < 2:
            return v
        newest = self.coordinates(sights[-1])
        t = np.array([s.t - sights[-1].t for s in sights])
        way = np.zeros((len(t), len(v)))
        for row, sight in zip(way, sights, strict=True):
            mujoco.mj_differentiatePos(self.model, row, 1.0, newest, self.coordinates(sight))
        v[:] = (t - t.mean()) @ way / np.sum((t - t.mean()) ** 2)
        v[:-6] = way[-2, :-6] / t[-2]
        return v

    def roll(self, state: np.ndarray, targets: np.ndarray, every: int) -> tuple[np.ndarray, np.ndarray]:
        """Joints (B, T, N) and object poses (B, T, 7) after each ``every`` of the targets (B, T ·
        every, N), one per physics step, from one state or from one for each."""
        starts = np.array(np.broadcast_to(state, (len(targets), state.shape[-1])))
        states, _ = mujoco.rollout.rollout(self.model, self._room, starts, targets)
        ends = states[:, every - 1 :: every, 1 : 1 + self.model.nq]
        return ends[:, :, self.layout.own], ends[:, :, -7:]


def _box_up(spec: mujoco.MjSpec, obj: ObjectModel) -> None:
    """Make boxes of the object's parts that are some: two boxes are held against each other sooner
    than a mesh and a box."""
    for k, part in enumerate(obj.parts):
        low, high = part.vertices.min(axis=0), part.vertices.max(axis=0)
        middle, half = (low + high) / 2, (high - low) / 2
        if len(part.vertices) == 8 and np.allclose(np.abs(part.vertices - middle), half, atol=1e-6):
            geom = spec.geom(part_name(k))
            geom.type, geom.size, geom.pos, geom.meshname = mujoco.mjtGeom.mjGEOM_BOX, half, middle, ""


def _pair_up(spec: mujoco.MjSpec) -> None:
    """List what may meet: the object, the robot and the world each other. For so few a list is
    sooner read than what is near is found."""
    groups: dict[str, list[mujoco.MjsGeom]] = {}
    for k, geom in enumerate(spec.geoms):
        if geom.contype or geom.conaffinity:
            geom.name = geom.name or f"geom {k}"
            geom.contype = geom.conaffinity = 0
            body = geom.parent.name
            groups.setdefault(body if body in (OBJECT_BODY, spec.worldbody.name) else "robot", []).append(
                geom
            )
    for ones, others in itertools.combinations(groups.values(), 2):
        for first, second in itertools.product(ones, others):
            pair = spec.add_pair(
                geomname1=first.name, geomname2=second.name, condim=max(first.condim, second.condim)
            )
            pair.friction = np.maximum(first.friction, second.friction)[
                [0, 0, 1, 2, 2]
            ]  # as MuJoCo mixes them
