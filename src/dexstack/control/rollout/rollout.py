"""Rollouts of B plans over T steps by the quasi-dynamic model, with contacts detected at every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dexstack.contact.params import DetectorParams
from dexstack.contact.query_points import robot_query_points
from dexstack.contact.support import BoxSupport, PlaneSupport, make_support
from dexstack.control.params import PlannerParams
from dexstack.control.problem import OBJECT_DOF, ModelParams
from dexstack.control.rollout.arrays import BLOCK, Bodies, Limbs, Numbers, Physics, Room
from dexstack.control.rollout.step import roll
from dexstack.geometry.decomposition import plane_sets
from dexstack.geometry.rotations import rotation_matrix
from dexstack.model.hand import HandModel

if TYPE_CHECKING:
    from dexstack.model.objects import ObjectModel
    from dexstack.model.robot import Robot

PLANNER = PlannerParams()


class ContactRollouts:
    """A robot and objects, compiled at the first rollout of a process and cached.

    One step is that of the model ``implicit`` with contacts of the
    :class:`~dexstack.contact.detector.ContactDetector`; each step starts from the displacement of the
    last one. θ, gravity and object are arguments, one for all plans or one each.
    """

    def __init__(
        self,
        robot: Robot,
        objects: Sequence[ObjectModel],
        step: float,
        *,
        planner: PlannerParams = PLANNER,
        detector: DetectorParams = DetectorParams(),
        newton: int = 3,
        momentum: float = 0.0,
        usual: float = 0.0,
    ) -> None:
        """
        Args:
            step: h, length of a step, also of θ [s].
            planner: stiffness and smoothing of contact rows.
            newton: Newton steps per step.
            momentum: share of the object's displacement of the last step that continues without
                forces; 0: the quasi-dynamic model, 1: rigid-body dynamics if θ has its inertia.
            usual: friction of θ at which contacts have the friction of the robot's and the first
                object's surfaces; 0: all contacts have that of θ.
        """
        self.step, self._newton, self._capacity = step, newton, detector.capacity
        self._limbs, self._bodies = (
            _limbs(robot, objects[0], detector, usual),
            _bodies(robot, objects, detector),
        )
        f = np.float32
        self._settings = {
            "margin": f(detector.margin),
            "sigma": f(detector.sigma),
            "tilt": f(detector.footprint_tilt),
            "stiffness": f(planner.implicit_stiffness),
            "smoothing": f(planner.implicit_smoothing),
            "momentum": f(momentum),
        }
        self._chains, self._gravity = robot.chains, np.array(robot.gravity, float)

    def roll(
        self,
        pose_WO: np.ndarray,
        q: np.ndarray,
        targets: np.ndarray,
        theta: ModelParams,
        *,
        u_max: float = np.inf,
        gravity: Any = None,
        which: np.ndarray | int = 0,
        twist_WO: np.ndarray | float = 0.0,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Roll out B sequences of joint targets.

        Args:
            pose_WO: (7,) or (B, 7) object pose at the start.
            q: (N,) or (B, N) joint positions at the start.
            targets: (B, T, N) [rad, m].
            theta: numbers of the model for steps of ``step``; each may have a leading axis B.
            u_max: largest displacement of a target from its joint that has an effect [rad, m].
            gravity: (3,) or (B, 3) in the world [m/s²]; None: the robot's.
            which: index of the object, or one for each plan (B,).
            twist_WO: (6,) or (B, 6) object velocity at the start, linear in the world [m/s], angular
                in body axes [rad/s]; without momentum only the start of Newton's method.

        Returns:
            Joint positions (B, T, N) and object poses (B, T, 7) after every step, float32.
        """
        # copies: a read-only array has another type, for which numba would compile again
        targets = np.array(targets, np.float32, order="C")
        B, T, N = targets.shape
        pose = np.array(np.broadcast_to(np.asarray(pose_WO, np.float32), (B, 7)))
        pose[:, 3:] /= np.linalg.norm(pose[:, 3:], axis=1, keepdims=True)
        joints = np.array(np.broadcast_to(np.asarray(q, np.float32), (B, N)))
        physics = self._physics(theta, self._gravity if gravity is None else gravity, which, B, N)
        before = np.zeros((B, OBJECT_DOF + N), np.float32)
        before[:, :OBJECT_DOF] = np.asarray(twist_WO) * self.step
        numbers = Numbers(u_max=np.float32(min(u_max, 1e9)), **self._settings)
        out = np.empty((B, T, N), np.float32), np.empty((B, T, 7), np.float32)
        roll(
            self._limbs,
            self._bodies,
            physics,
            numbers,
            self._newton,
            targets,
            joints,
            pose,
            before,
            *out,
            self._room(),
        )
        return out

    def _physics(self, theta: ModelParams, gravity: Any, which: Any, B: int, N: int) -> Physics:
        def many(value: Any, *shape: int) -> np.ndarray:
            return np.array(np.broadcast_to(np.asarray(value, np.float32), (B, *shape)), order="C")

        stiffness, cover = many(theta.stiffness, N), many(theta.cover, N)
        mass = many(theta.mass)
        Q = np.concatenate([many(theta.inertia, OBJECT_DOF) / np.float32(self.step**2), stiffness / cover], 1)
        return Physics(
            Q=Q,
            pull=stiffness,
            weight=mass[:, None] * many(gravity, 3),
            friction=many(theta.friction),
            body=np.array(np.broadcast_to(np.asarray(which, np.int32), (B,))),
        )

    def _room(self) -> Room:
        bodies, limbs = len(self._limbs.chain), self._limbs
        most, candidates = int(np.diff(limbs.begin).max()), 2 * bodies
        C, F, M = self._capacity, len(self._chains), max(self._chains)
        real = lambda *shape: np.zeros(shape, np.float32)  # noqa: E731
        return Room(
            R=real(bodies, 3, 3),
            p=real(bodies, 3),
            axis=real(bodies, 3),
            planes=real(6, self._bodies.offsets.shape[2]),
            at=real(4, most),
            peak=real(most),
            near=real(candidates, 7),
            near_body=np.zeros(candidates, np.int32),
            order=np.zeros(candidates, np.int32),
            feet=real(self._bodies.feet.shape[1], 5),
            phi=real(C),
            link=np.zeros(C, np.int32),
            friction=real(C),
            J_object=real(C, 3, 6),
            J_chain=real(C, 3, M),
            H_object=real(6, 6),
            H_chain=real(F, M, M),
            H_cross=real(F, M, 6),
            g=real(6 + limbs.limits.shape[1]),
            dq=real(6 + limbs.limits.shape[1]),
            b=real(6 + limbs.limits.shape[1]),
            R_WO=real(3, 3),
            used=np.zeros(F, np.int32),
        )


def _bodies(robot: Robot, objects: Sequence[ObjectModel], detector: DetectorParams) -> Bodies:
    sets = [plane_sets(obj.parts, detector.num_planes) for obj in objects]
    feet = [_feet(robot, obj) for obj in objects]
    parts, planes = (max(s.offset.shape[k] for s in sets) for k in (0, 1))
    planes = -(-planes // BLOCK) * BLOCK
    normals = np.zeros((len(sets), parts, 3, planes), np.float32)
    normals[:, :, 2] = 1.0
    offsets = np.full((len(sets), parts, planes), 1e3, np.float32)  # a part that is not there is far away
    points = np.stack([np.resize(f, (max(map(len, feet)), 3)) for f in feet])
    for k, s in enumerate(sets):
        P, K = s.offset.shape
        normals[k, :P, :, :K], offsets[k, :P, :K] = np.swapaxes(s.nhat_B, 1, 2), s.offset
        offsets[k, :P, K:] = -1e3  # nor is such a plane
    return Bodies(normals, offsets, np.array(points, np.float32, order="C"))


def _feet(robot: Robot, obj: ObjectModel) -> np.ndarray:
    support = make_support(robot, obj)
    return support._footprint_B if isinstance(support, BoxSupport) else support._corners_B


def _limbs(robot: Robot, obj: ObjectModel, detector: DetectorParams, usual: float) -> Limbs:
    hinges = _hinges(robot) if isinstance(robot, HandModel) else _slides(robot)
    bodies = len(hinges["joint"]) + 1
    query = robot_query_points(robot, detector.spacing, detector.outer_links)
    of = query.body if isinstance(robot, HandModel) else 3 * query.body
    order = np.argsort(of, kind="stable")
    begin = np.searchsorted(of[order], np.arange(bodies + 1))
    points = np.column_stack([query.p_BQ, query.radius])[order]
    ball = np.zeros((bodies, 5))
    for b in range(bodies):
        own = points[begin[b] : begin[b + 1]]
        if len(own):
            middle = (own[:, :3].min(axis=0) + own[:, :3].max(axis=0)) / 2
            reach = np.linalg.norm(own[:, :3] - middle, axis=1).max()
            ball[b] = (*middle, reach, own[:, 3].max())
    support, base = make_support(robot, obj), hinges["base"]
    boxes, plane = np.zeros((0, 5, 3)), np.zeros(4)
    if isinstance(support, PlaneSupport):
        plane[:] = (*support._nhat_W, support._offset)
    else:
        R, p = base[:3], base[3]
        boxes = np.array([np.vstack([R @ s.R, p + R @ s.p, s.size]) for s in support._boxes])
    ends = np.cumsum([0, *robot.chains])
    chain = np.append(-1, np.searchsorted(ends, hinges["joint"], side="right") - 1)
    arrays = {
        **hinges,
        "chain": chain,
        "first": ends,
        "ancestors": _ancestors(hinges["parent"]),
        "limits": np.stack([robot.lower, robot.upper]),
        "begin": begin,
        "points": points.T,
        "ball": ball,
        "boxes": boxes,
        "plane": plane,
        "friction": _frictions(robot, obj, bodies) / usual if usual > 0.0 else np.ones(bodies),
    }
    whole = {"slides", "parent", "joint", "chain", "first", "ancestors", "begin"}
    return Limbs(
        **{
            name: np.array(a, np.int32 if name in whole else np.float32, order="C")
            for name, a in arrays.items()
        }
    )


def _frictions(robot: Robot, obj: ObjectModel, bodies: int) -> np.ndarray:
    """Return the friction (B,) of contacts with each body, the larger of both surfaces'."""
    if isinstance(robot, HandModel):
        base, moving = robot.friction_palm, robot.friction_fingers
    else:
        base, moving = 0.0, max(ball.friction for ball in robot.balls)
    return np.maximum(np.append(base, np.full(bodies - 1, moving)), obj.friction[0])


def _ancestors(parent: np.ndarray) -> np.ndarray:
    """Return the hinges (B, A) that move each body, ended by −1."""
    lists: list[list[int]] = [[]]
    for h, b in enumerate(parent):
        lists.append([h, *lists[b]])
    most = max(map(len, lists)) + 1
    return np.array([[*hinges, *[-1] * (most - len(hinges))] for hinges in lists])


def _hinges(hand: HandModel) -> dict[str, np.ndarray]:
    bodies = hand.bodies[1:]
    axis = np.array([b.axis for b in bodies], float)
    outer, skew = axis[:, :, None] * axis[:, None, :], np.cross(np.eye(3)[None], axis[:, None, :])
    R0 = np.array([b.R_PB_at_zero for b in bodies])
    C, c = hand.coupling
    return {
        "slides": np.zeros(len(bodies)),
        "parent": np.array([max(b.parent, 0) for b in bodies]),
        "turn": np.stack([R0 @ outer, R0 @ (np.eye(3) - outer), R0 @ skew], axis=1),
        "offset": np.array([b.p_PB for b in bodies]),
        "axis": axis,
        "joint": np.array([b.joint for b in bodies]),
        "ratio": C.sum(axis=1),
        "shift": c,
        "base": np.vstack([rotation_matrix(hand.quat_WP), hand.p_WP]),
    }


def _slides(robot: Robot) -> dict[str, np.ndarray]:
    """Return the joints of balls: three slides each, of which the last has the ball."""
    N = len(robot.joint_names)
    parent = np.where(np.arange(N) % 3 == 0, 0, np.arange(N))
    turn = np.zeros((N, 3, 3, 3))
    turn[:, 0] = 0.5 * np.eye(3)
    turn[:, 1] = 0.5 * np.eye(3)
    return {
        "slides": np.ones(N),
        "parent": parent,
        "turn": turn,
        "offset": np.zeros((N, 3)),
        "axis": np.tile(np.eye(3), (N // 3, 1)),
        "joint": np.arange(N),
        "ratio": np.ones(N),
        "shift": np.zeros(N),
        "base": np.vstack([np.eye(3), np.zeros(3)]),
    }
