"""Regrasps: hold at the goal, and release and grasp elsewhere at a local optimum of the planner.

A planner with a horizon of half a second has fixed points short of the goal (a flip whose balls press
against each other), and near the goal it keeps touching an object that should be left alone. The
phases around the planner:

* PLAN      the plan is followed.
* HOLD      the object is within the settle tolerances of a goal where it can rest: the robot does
            not move. Ends outside twice the tolerances.
* RETREAT   the terminal cost has not fallen by the share ``progress`` below its best for
            ``patience`` plans, or for ``patience_still`` plans without motion of the object:
            every ball moves away from the object. Balls that bear it go first, while the others
            stay and keep it from falling over. Meanwhile placements of all balls on the object's
            surface are drawn; for each, a fork of the planner predicts how near to the goal it
            would come from there, and the one with the least predicted terminal cost is chosen.
            Near a goal where the object cannot rest the robot does not release it.
* TRAVEL    the balls go to that placement, over the object where it is in the way; then planning
            starts again.

All draws are seeded. The planner plans in every phase, so that solve times are comparable.
"""

from __future__ import annotations

import time
from dataclasses import replace
from enum import IntEnum

import numpy as np
import trimesh

from dexstack.contact.contact import Contacts
from dexstack.control.base import Observation, Plan, SolveStatus
from dexstack.control.params import RegraspParams
from dexstack.control.supervisors.base import PlanningContext, Supervisor
from dexstack.errors import ConfigError
from dexstack.geometry.rotations import geodesic_angle, rotation_matrix
from dexstack.model.balls import BallsModel

SURFACE_POINTS = 400
"""Number of surface points from which placements are drawn."""
SOLVES = 2
"""Solves per placement, each warm-started by the last."""
NEAR = 0.005
"""Distance at which a ball has reached a waypoint [m]."""
HELD = 5.0
"""An object within this many settle tolerances of a goal where it cannot rest is not released."""
CLEARANCE = 0.006
"""Clearance from the object while travelling [m]."""


class Phase(IntEnum):
    """See the module's docstring."""

    PLAN = 0
    HOLD = 1
    RETREAT = 2
    TRAVEL = 3


class RegraspSupervisor(Supervisor):
    """Holds, releases and regrasps with balls."""

    params: RegraspParams

    def __init__(self, context: PlanningContext, params: RegraspParams) -> None:
        """
        Raises:
            ConfigError: the robot does not consist of balls.
        """
        super().__init__(context, params)
        robot = context.robot
        if not isinstance(robot, BallsModel):
            raise ConfigError(
                "the supervisor 'regrasp' works only with balls; use 'gait' or 'none' for a hand"
            )
        self._balls, self._radius = robot, robot.balls[0].radius
        hull = context.obj.mesh.convex_hull
        self._p_B, faces = trimesh.sample.sample_surface(hull, SURFACE_POINTS, seed=0)
        self._nhat_B = np.asarray(hull.face_normals)[faces]
        self._corners_B = np.asarray(hull.vertices)
        self.reset()

    def reset(self) -> None:
        """Begin a rollout: discard warm start, phase and draws."""
        self.stalls = 0
        self._rng = np.random.default_rng(0)
        self._goal_WO: np.ndarray | None = None
        self._restart()

    def _restart(self) -> None:
        self.planner.reset()
        self.phase, self._best, self._since = Phase.PLAN, np.inf, 0
        self._seen_WO, self._still = np.array([1e9, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]), 0

    def plan(self, observation: Observation, goal_WO: np.ndarray) -> Plan:
        """See :meth:`Supervisor.plan`."""
        if self._goal_WO is not None and not np.array_equal(goal_WO, self._goal_WO):
            self._restart()
        self._goal_WO = goal_WO
        plan = self.planner.plan(observation, goal_WO)
        if not plan.status.usable:
            return plan
        wall, cpu = time.perf_counter(), time.process_time()
        pose_WO, q = np.asarray(observation.pose_WO, float), np.asarray(observation.q, float)
        goal_WO = np.asarray(goal_WO, float)
        self._change_phase(pose_WO, q, goal_WO, self.planner.goal_cost(pose_WO, q, goal_WO))
        if self.phase is Phase.PLAN:
            return plan
        target = self._held if self.phase is Phase.HOLD else q
        if self.phase is Phase.RETREAT:
            target = self._away(pose_WO, q, observation.contacts)
            self._choose_placement(pose_WO, goal_WO)
        elif self.phase is Phase.TRAVEL:
            target = self._travel(pose_WO, q.reshape(-1, 3))
        return replace(
            plan,
            status=plan.status if self.phase is Phase.HOLD else SolveStatus.RETREAT,
            q_des=np.clip(target, self._balls.lower, self._balls.upper),
            cpu_s=plan.cpu_s + time.process_time() - cpu,
            wall_s=plan.wall_s + time.perf_counter() - wall,
        )

    def _away(self, pose_WO: np.ndarray, q: np.ndarray, contacts: Contacts) -> np.ndarray:
        """Return targets (N,) that move the balls away from the object, those that bear it first."""
        away = q.reshape(-1, 3) - pose_WO[:3]
        away[:, 2] = np.maximum(away[:, 2], 0.0)
        away /= np.linalg.norm(away, axis=1, keepdims=True) + 1e-9
        beneath = self._beneath(contacts)
        if np.any(beneath) and self._freed < self.params.travel:
            away[~beneath] = 0.0
            self._since -= 1
            self._freed += 1
        return q + self.planner.u_max * away.ravel()

    def _choose_placement(self, pose_WO: np.ndarray, goal_WO: np.ndarray) -> None:
        """Draw placements of the balls and keep the one with the least predicted terminal cost."""
        fork = self.planner.fork()
        for _ in range(self.params.placements):
            centres, normals = self._draw(pose_WO)
            q = centres.ravel()
            state = Observation(0.0, pose_WO, q, self.context.detector.detect(pose_WO, q))
            fork.reset()
            for _ in range(SOLVES):
                answer = fork.plan(state, goal_WO)
            end = answer.prediction[-1]
            value = self.planner.goal_cost(end[:7], end[7:], goal_WO) if answer.status.usable else np.inf
            if value < self._placement[0]:
                self._placement = value, centres, normals

    def _change_phase(self, pose_WO: np.ndarray, q: np.ndarray, goal_WO: np.ndarray, cost: float) -> None:
        p = self.params
        self._since += 1
        if self.phase is Phase.RETREAT and self._since > p.retreat:
            self.phase, self._since = Phase.TRAVEL, 0
            self._assign(q.reshape(-1, 3))
        if self.phase is Phase.TRAVEL and (self._since > p.travel or np.all(self._leg == 2)):
            self._restart()
        if self.phase in (Phase.RETREAT, Phase.TRAVEL):
            return
        slack = 2.0 if self.phase is Phase.HOLD else 1.0
        position, angle = _errors(pose_WO, goal_WO)
        rests = self._rests(goal_WO)
        if rests and position < slack * p.settle_position and angle < slack * p.settle_angle:
            if self.phase is Phase.PLAN:
                self.phase, self._held = Phase.HOLD, q.copy()
            return
        if self.phase is Phase.HOLD:
            self._restart()
        if cost < (1 - p.progress) * self._best:
            self._best, self._since = cost, 0
        held = not rests and position < HELD * p.settle_position and angle < HELD * p.settle_angle
        moved = _errors(pose_WO, self._seen_WO)
        if moved[0] > p.settle_position or moved[1] > p.settle_angle:
            self._seen_WO, self._still = pose_WO, 0
        self._still += 1
        stuck = self._since >= p.patience or min(self._since, self._still) >= p.patience_still
        if stuck and not held:
            self.stalls += 1
            self.phase, self._since, self._freed = Phase.RETREAT, 0, 0
            self._placement = (np.inf, q.reshape(-1, 3), np.tile([0.0, 0.0, 1.0], (len(q) // 3, 1)))

    def _beneath(self, contacts: Contacts) -> np.ndarray:
        """Return which balls (B,) bear the object."""
        bears = (
            np.asarray(contacts.active)
            & (np.asarray(contacts.link) > 0)
            & (contacts.phi < NEAR)
            & (contacts.nhat_W[:, 2] < -0.5)
        )
        return np.isin(np.arange(1, len(self._balls.chains) + 1), np.asarray(contacts.link)[bears])

    def _rests(self, goal_WO: np.ndarray) -> bool:
        """Return whether the object rests in the goal pose: its footprint there encloses the centre of
        mass."""
        corners = self._corners_B @ rotation_matrix(goal_WO[3:]).T
        standing = corners[corners[:, 2] < np.min(corners[:, 2]) + 0.001, :2]
        around = np.linspace(0, 2 * np.pi, 16, endpoint=False)
        return bool(np.min(np.max(standing @ np.stack([np.cos(around), np.sin(around)]), axis=0)) > 0.002)

    def _draw(self, pose_WO: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return centres (B, 3) of balls that touch the object above the floor without touching each
        other, and the object's normals there (B, 3)."""
        R_WO, count = rotation_matrix(pose_WO[3:]), len(self._balls.chains)
        normals = self._nhat_B @ R_WO.T
        centres = pose_WO[:3] + self._p_B @ R_WO.T + (self._radius + 0.0005) * normals
        free = np.flatnonzero(centres[:, 2] >= self._radius)
        for _ in range(100):
            pick = self._rng.choice(free, count, replace=False)
            apart = np.linalg.norm(centres[pick][:, None] - centres[pick][None], axis=2) + 10 * np.eye(count)
            if np.min(apart) > 2.4 * self._radius:
                break
        return centres[pick], normals[pick]

    def _assign(self, q: np.ndarray) -> None:
        """Assign the places of the chosen placement, the farthest first, each to its nearest ball."""
        _, centres, normals = self._placement
        distance = np.linalg.norm(q[:, None] - centres[None], axis=2)
        order = np.full(len(q), -1)
        for place in np.argsort(-np.min(distance, axis=0)):
            ball = int(np.argmin(np.where(order < 0, distance[:, place], np.inf)))
            order[ball] = place
        self._places, self._outward = centres[order], normals[order]
        self._leg = np.zeros(len(q), int)
        """(B,) 0: on the way to a point before the place, 1: from there to the place, 2: arrived."""

    def _travel(self, pose_WO: np.ndarray, q: np.ndarray) -> np.ndarray:
        """Return the targets (N,) of the next step."""
        before = self._places + (self._radius + CLEARANCE) * self._outward
        before[:, 2] = np.maximum(before[:, 2], self._radius)
        R_WO = rotation_matrix(pose_WO[3:])
        top = np.max(self._corners_B @ R_WO[2]) + pose_WO[2] + self._radius + CLEARANCE
        target = np.empty_like(q)
        for i, (p, via, place) in enumerate(zip(q, before, self._places, strict=True)):
            if self._leg[i] == 0 and np.linalg.norm(p - via) < NEAR:
                self._leg[i] = 1
            if self._leg[i] == 1 and np.linalg.norm(p - place) < NEAR:
                self._leg[i] = 2
            if self._leg[i] > 0:
                target[i] = place
            elif self._is_free(pose_WO[:3], R_WO, p, via) or np.linalg.norm(p[:2] - via[:2]) < NEAR:
                target[i] = via
            elif p[2] < top - NEAR:
                target[i] = [*p[:2], top]
            else:
                target[i] = [*via[:2], top]
        return (q + np.clip(target - q, -self.planner.u_max, self.planner.u_max)).ravel()

    def _is_free(self, p_WO: np.ndarray, R_WO: np.ndarray, start: np.ndarray, end: np.ndarray) -> bool:
        """Return whether a straight path of a ball clears the object."""
        way = start + np.linspace(0.1, 1.0, 10)[:, None] * (end - start)
        distance = self.context.detector.planes.distance((way - p_WO) @ R_WO)
        return bool(np.min(distance) > self._radius + 0.5 * CLEARANCE)


def _errors(pose_WO: np.ndarray, goal_WO: np.ndarray) -> tuple[float, float]:
    """Return distance [m] and angle [rad] to the goal."""
    return float(np.linalg.norm(pose_WO[:3] - goal_WO[:3])), geodesic_angle(pose_WO[3:7], goal_WO[3:])
