"""Rollouts of a robot, its servo and an object in MuJoCo with the planner's parameters."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import mujoco
import mujoco.rollout
import numpy as np

from dexstack.control.base import Observation
from dexstack.geometry.decomposition import Surface
from dexstack.model.scene import OBJECT_BODY, JointLayout, part_name, robot_scene

if TYPE_CHECKING:
    from dexstack.control.problem import ModelParams
    from dexstack.model.objects import ObjectModel
    from dexstack.model.robot import Robot

Cost = Callable[[np.ndarray, np.ndarray], np.ndarray]
FULL = mujoco.mjtState.mjSTATE_FULLPHYSICS
FASTEST = 1.0 - 1e-7
"""Largest ``cover`` of θ: at 1 in single precision the damping cannot be recovered."""
SOLID = 0.9
"""Share of its convex hull from which an object's dents are ignored: most are narrower than a fingertip,
and sixteen parts take twice as long as one."""
CORNERS = 256
"""Largest number of corners of an object of one part: faces between them lie up to 0.7 mm inside a round
body of 80 mm. With 64 corners it is 2.6 mm, and a lemon rolls otherwise than in its rollouts."""
PART_CORNERS = 32
"""Largest number of corners of each of several parts."""
CUT = 0.2
"""Share of the horizon between two halvings of the rollouts; two halvings leave 45 % of the steps."""
PARTING_STEPS = 8
"""Number of steps that separate bodies which penetrate because the pose is noisy. Otherwise a
millimetre of penetration would throw them apart at 50 mm/s in every rollout (MuJoCo's solref of
20 ms)."""


class Rollouts:
    """MuJoCo with a position servo per joint.

    The servo's force is limited to that of a target ``u_max`` ahead of its joint, since no command is
    farther ahead, and to the joint's effort limit. For speed, links do not collide with each other,
    friction cones are pyramids, box-shaped parts collide as boxes, other parts have few corners, and an
    object that nearly fills its convex hull collides as that hull (:data:`SOLID`).
    """

    def __init__(
        self, robot: Robot, obj: ObjectModel, servo: tuple[np.ndarray, float, float], dt: float, threads: int
    ) -> None:
        """
        Args:
            servo: stiffness (N,) [N·m/rad, N/m], derivative gain [N·m·s/rad], and u_max, the
                farthest target [rad, m].
            dt: physics step [s].
            threads: number of threads of a rollout.
        """
        stiffness, kd, u_max = servo
        obj = without_dents(obj)
        spec = robot_scene(robot, obj)
        use_box_geoms(spec, obj)
        for k in range(len(obj.parts)):
            spec.mesh(part_name(k)).maxhullvert = CORNERS if len(obj.parts) == 1 else PART_CORNERS
        spec.option.timestep = dt
        spec.option.cone, spec.option.impratio = mujoco.mjtCone.mjCONE_PYRAMIDAL, 1.0
        for name, kp in zip(robot.joint_names, np.asarray(stiffness, float), strict=True):
            drive = spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
            drive.set_to_position(kp=kp, kv=kd)
            drive.forcerange = (-kp * u_max, kp * u_max)
        for body in spec.bodies:
            if body.name != OBJECT_BODY:
                body.gravcomp = 1.0  # the servo balances the robot's weight
        _list_pairs(spec)
        self.model = spec.compile()
        self._kd, self._u_max, self._effort = kd, u_max, robot.effort
        self._object = self.model.body(OBJECT_BODY).id
        self.layout = JointLayout(self.model)
        self._threads = threads
        self._make_room()
        self.model.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
        self.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_EULERDAMP
        self._made = copy.copy(self.model)
        self.set_physics(obj.mass, 1.0, np.asarray(stiffness, float), robot.damping + kd)

    def limit(self, u_max: float) -> None:
        """Limit targets to ``u_max`` [rad, m] ahead of their joint."""
        self._u_max = u_max
        force = np.minimum(u_max * self.model.actuator_gainprm[:, 0], self._effort)
        self.model.actuator_forcerange[:] = force[:, None] * np.array([-1.0, 1.0])

    def set_gravity(self, gravity: Sequence[float]) -> None:
        """Set gravity (3,) in the world [m/s²]; not during a rollout."""
        self.model.opt.gravity[:] = gravity

    def set_physics(self, mass: float, friction: float, stiffness: np.ndarray, damping: np.ndarray) -> None:
        """Set uncertain parameters; not during a rollout.

        The damping D of a joint enters as an armature h D with the damping force in f. MuJoCo's
        implicit integrators solve (M + h D) Δv = h f with contact forces in f computed for M alone; a
        finger's link is far lighter than h D, so that contacts would be far too weak in one step, and
        the penetration would be thrown out in the next ones. The armature gives the same step in free
        motion, and contact forces account for it.

        Args:
            mass: of the object, whose inertia scales with it [kg].
            friction: of all contacts, as a multiple of that of the models.
            stiffness: (N,) of the joint servo [N·m/rad, N/m].
            damping: (N,) of joint and servo together [N·m·s/rad].
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

    def set_theta(self, theta: ModelParams, step: float, usual: float) -> None:
        """Set the physics of θ, see :meth:`set_physics`.

        Damping D follows from a free joint's lag over a ``step`` h [s]: cover = 1 − e^{−h K/D}.

        Args:
            usual: friction of θ at which contacts have the friction of the models; 0: at any.
        """
        stiffness, cover = np.asarray(theta.stiffness, float), np.asarray(theta.cover, float)
        friction = float(theta.friction) / usual if usual > 0.0 else 1.0
        self.set_physics(
            float(theta.mass), friction, stiffness, -step * stiffness / np.log1p(-np.minimum(cover, FASTEST))
        )

    def _make_room(self) -> None:
        self._data = mujoco.MjData(self.model)
        self._room = [mujoco.MjData(self.model) for _ in range(self._threads)]

    def fork(self) -> Rollouts:
        """Return the same model with separate memory, for another thread."""
        other = copy.copy(self)
        other.model = copy.copy(self.model)
        other._make_room()
        return other

    def coordinates(self, observation: Observation) -> np.ndarray:
        """Return the coordinates (H + 7,) of all joints and the object."""
        return self._joined(observation.q, observation.pose_WO)

    def _joined(self, q: np.ndarray, pose_WO: np.ndarray) -> np.ndarray:
        return np.concatenate([self.layout.coordinates(q), pose_WO])

    def state(
        self, observations: Sequence[Observation], target: Callable[[float], np.ndarray], until: float
    ) -> np.ndarray:
        """Return MuJoCo's full state at a time, predicted from past observations under the commanded
        targets.

        Args:
            observations: the last ones, the newest last.
            target: joint targets (N,) as a function of time [rad, m].
            until: time of the state [s].
        """
        m, d, now = self.model, self._data, observations[-1]
        self._place(self.coordinates(now), self.velocity(observations))
        for k in range(round((until - now.t) / m.opt.timestep)):
            d.ctrl[:] = target(now.t + k * m.opt.timestep)
            mujoco.mj_step(m, d)
        return self._state()

    def standing(
        self, q: np.ndarray, pose_WO: np.ndarray, qd: np.ndarray, twist_WO: np.ndarray
    ) -> np.ndarray:
        """Return MuJoCo's full state.

        Args:
            q: (N,) joint positions [rad, m].
            pose_WO: (7,) object pose.
            qd: (N,) joint velocities [rad/s, m/s].
            twist_WO: (6,) object velocity, linear in world axes [m/s], angular in body axes [rad/s].
        """
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
        """Separate the object from the robot: steps without velocity or weight, with the joints
        fixed."""
        joints = d.qpos[:-7].copy()
        d.ctrl[:] = joints[self.layout.own]
        d.xfrc_applied[self._object, :3] = -self.model.body_mass[self._object] * self.model.opt.gravity
        for _ in range(PARTING_STEPS):
            d.qvel[:] = 0.0
            mujoco.mj_step(self.model, d)
            d.qpos[:-7] = joints
        d.xfrc_applied[:] = 0.0

    def velocity(self, observations: Sequence[Observation]) -> np.ndarray:
        """Return the present velocity (nv,): of the object by least squares over all observations,
        since its pose is noisy, of the joints from the last two."""
        v = np.zeros(self.model.nv)
        if len(observations) < 2:
            return v
        newest = self.coordinates(observations[-1])
        t = np.array([s.t - observations[-1].t for s in observations])
        way = np.zeros((len(t), len(v)))
        for row, observation in zip(way, observations, strict=True):
            mujoco.mj_differentiatePos(self.model, row, 1.0, newest, self.coordinates(observation))
        v[:] = (t - t.mean()) @ way / np.sum((t - t.mean()) ** 2)
        v[:-6] = way[-2, :-6] / t[-2]
        return v

    def roll(self, state: np.ndarray, targets: np.ndarray, every: int) -> tuple[np.ndarray, np.ndarray]:
        """Roll out B sequences of targets.

        Args:
            state: full state, or (B, …) one for each sequence.
            targets: (B, T · every, N), one per physics step [rad, m].
            every: physics steps per returned state.

        Returns:
            Joint positions (B, T, N) and object poses (B, T, 7).
        """
        starts = np.array(np.broadcast_to(state, (len(targets), state.shape[-1])))
        return self._advance(starts, targets, every)[:2]

    def _advance(
        self, starts: np.ndarray, targets: np.ndarray, every: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return joints and poses as :meth:`roll`, and the full states at the end."""
        states, _ = mujoco.rollout.rollout(self.model, self._room, starts, targets)
        stops = states[:, every - 1 :: every, 1 : 1 + self.model.nq]
        return stops[:, :, self.layout.own], stops[:, :, -7:], states[:, -1]

    def roll_best(
        self, state: np.ndarray, targets: np.ndarray, every: int, cost: Cost, halvings: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Roll out B sequences of targets by successive halving: after every :data:`CUT` of the horizon,
        ``halvings`` times, only the better half goes on, by the cost if robot and object stayed where
        they are. The first always goes on.

        Args:
            state: full state.
            targets: (B, T · every, N), one per physics step [rad, m].
            every: physics steps per returned state.
            cost: function of joint positions (B, T, N) and object poses (B, T, 7) that returns (B,).

        Returns:
            Joint positions (B, T, N), object poses (B, T, 7), costs (B,), and the indices of those that
            were rolled out to the end; the others stay where they were last.
        """
        B, T = len(targets), targets.shape[1] // every
        q, pose_WO = np.empty((B, T, targets.shape[2])), np.empty((B, T, 7))
        states, left = np.array(np.broadcast_to(state, (B, state.shape[-1]))), np.arange(B)
        ends = sorted({round((k + 1) * CUT * T) for k in range(halvings)} - {0} | {T})
        for begin, end in itertools.pairwise([0, *ends]):
            stops = self._advance(states, targets[left, begin * every : end * every], every)
            for whole, part in ((q, stops[0]), (pose_WO, stops[1])):
                whole[left, begin:end], whole[left, end:] = part, part[:, -1:]
            costs = cost(q, pose_WO)
            if end < T:
                better = np.argsort(costs[left], kind="stable")[: -(-len(left) // 2)]
                better = np.union1d(better, 0)
                states, left = stops[2][better], left[better]
        return q, pose_WO, costs, left


def without_dents(obj: ObjectModel) -> ObjectModel:
    """Return an object that fills the share :data:`SOLID` of its convex hull as that hull, any other as
    it is."""
    if len(obj.parts) == 1 or obj.mesh.volume < SOLID * obj.mesh.convex_hull.volume:
        return obj
    hull = obj.mesh.convex_hull
    return replace(obj, surface=Surface(np.asarray(hull.vertices), np.asarray(hull.faces)))


def use_box_geoms(spec: mujoco.MjSpec, obj: ObjectModel) -> None:
    """Replace box-shaped parts by box geoms, which collide faster than meshes."""
    for k, part in enumerate(obj.parts):
        low, high = part.vertices.min(axis=0), part.vertices.max(axis=0)
        middle, half = (low + high) / 2, (high - low) / 2
        if len(part.vertices) == 8 and np.allclose(np.abs(part.vertices - middle), half, atol=1e-6):
            geom = spec.geom(part_name(k))
            geom.type, geom.size, geom.pos, geom.meshname = mujoco.mjtGeom.mjGEOM_BOX, half, middle, ""


def _list_pairs(spec: mujoco.MjSpec) -> None:
    """List the pairs that may collide: object, robot and world with each other. For so few geoms this
    is faster than a broad phase."""
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
            # MuJoCo's rule for the friction of a pair
            pair.friction = np.maximum(first.friction, second.friction)[[0, 0, 1, 2, 2]]
