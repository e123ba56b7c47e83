"""Gaits: a rollout that stalls is detected, and the robot releases the object and grasps it
elsewhere.

A planner with a horizon of four steps stops at fixed points: fingers at the end of their swing, or
blocking each other, with nothing better within the horizon. Another initial guess of the same solve
does not help; another grasp does. A rollout has stalled when its error has not fallen for a while
or, sooner, when neither object nor robot moves. The robot then releases by plan: the same MPC lays
the object down where it is, with its commands drawn to the rest pose and without attraction of the
fingertips to the object. Joints that swing a finger sideways are drawn to the opposite side of their
rest pose by the same angle, so that the next grasp has the whole swing ahead of it. Between two goals
the robot releases the same way, to the rest pose.

An object that has moved to where the fingers cannot turn it, or to the edge of the palm, is then
brought back towards its place with its present orientation before the goal is pursued again.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dexstack.control.base import Observation, Plan, Pull, SolveStatus
from dexstack.control.params import GaitParams
from dexstack.control.supervisors.base import PlanningContext, Supervisor
from dexstack.geometry.rotations import geodesic_angle, quaternion_product, yaw_quaternion

STILL_JOINT, STILL_DISTANCE, STILL_ANGLE = 0.05, 0.002, 0.02
"""Smaller changes do not count as motion [rad or m, m, rad]."""


class GaitSupervisor(Supervisor):
    """Releases and regrasps where the planner alone would stall."""

    params: GaitParams

    def __init__(self, context: PlanningContext, params: GaitParams) -> None:
        super().__init__(context, params)
        self._rest = context.rest
        self._swings = np.zeros(len(self._rest))
        self._swings[list(context.robot.swing_joints)] = 1.0
        self.reset()

    def reset(self) -> None:
        super().reset()
        self._release_from = self._release_until = self._recentre_until = -math.inf
        self._to = self._rest
        self._place_WO: np.ndarray | None = None
        self._held_WO: np.ndarray | None = None
        self._seen: tuple[np.ndarray, np.ndarray, float] | None = None
        """Pose, joints and time of the last motion."""
        self._goal_WO: np.ndarray | None = None
        self._last: Plan | None = None
        self._kept: Plan | None = None
        self._begin(math.inf, math.nan)

    def plan(self, observation: Observation, goal_WO: np.ndarray) -> Plan:
        """See :meth:`Supervisor.plan`. The robot also releases between two goals; a releasing plan
        has the status RETREAT."""
        t, q = observation.t, observation.q
        if self._goal_WO is not None and not np.array_equal(goal_WO, self._goal_WO):
            self._kept = None
            self._release(t)
        self._goal_WO = goal_WO
        goal_WO = self.context.nearest(observation.pose_WO, goal_WO)
        error = self.context.error(observation.pose_WO, goal_WO)
        if math.isnan(self._since):
            self._since = t
        self._watch(observation, error, goal_WO)
        if t < self._release_until:
            still = (
                self._seen is not None
                and self.speed * (t - max(self._seen[2], self._release_from)) >= self.params.still_window
            )
            if np.max(np.abs(self._to - q)) > self.params.release_reached and not still:
                return self._plan_release(observation, goal_WO)
            self._release_until = -math.inf  # released as far as possible: grasp again at once
        if self._held_WO is not None:
            self.planner.reset()  # the warm start is from before the release
            self._held_WO, self._release_until = None, -math.inf
            self._begin(error, max(t, self._recentre_until))
        if self._keeps(error, t):
            return self._keep(observation)
        self._last = self.planner.plan(observation, self._present_goal(observation, error, goal_WO))
        return self._last

    def _keeps(self, error: float, t: float) -> bool:
        """Return whether to keep the object: at its goal, or near it after having been there."""
        p = self.params
        kept = self._kept is not None and error < p.stall_tolerance
        if not kept and self._kept is not None:
            self._kept = None
            self.planner.reset()  # the warm start is old
        if (
            not kept
            and error < p.keep_error
            and t >= self._recentre_until
            and self._last is not None
            and self._last.status.usable
        ):
            self._kept = self._last
        return self._kept is not None

    def _keep(self, observation: Observation) -> Plan:
        """Repeat the command that holds the object, without solving."""
        assert self._kept is not None
        states = np.tile(
            np.concatenate([observation.pose_WO, observation.q]), (len(self._kept.prediction), 1)
        )
        still = np.zeros_like(self._kept.displacements)
        return replace(self._kept, displacements=still, prediction=states, cpu_s=0.0, wall_s=0.0)

    def _release(self, t: float) -> None:
        self._release_from, self._release_until, self._to = t, t + self.params.release_time, self._rest

    def _begin(self, error: float, t: float) -> None:
        self._best, self._since = error, t

    def _watch(self, observation: Observation, error: float, goal_WO: np.ndarray) -> None:
        p, (t, pose_WO, q, _) = self.params, observation
        if not math.isfinite(error):
            return
        if self._seen is None or _moved(pose_WO, q, *self._seen[:2]):
            self._seen = np.array(pose_WO), np.array(q), t
        if t < max(self._release_until, self._recentre_until):
            return
        if error < p.stall_tolerance or error < self._best - p.stall_progress:
            self._begin(error, t)
        elif self.speed * (t - self._since) >= p.stall_window or (
            self.speed * (t - max(self._since, self._seen[2])) >= p.still_window
        ):
            self.stalls += 1
            self._release(t)
            self._to = self._rest + p.stall_swing * self._swings * (self._rest - q)
            self._to = np.clip(self._to, self.planner.robot.lower, self.planner.robot.upper)
            if np.linalg.norm(pose_WO[:3] - goal_WO[:3]) > p.recentre_distance and p.recentre_time > 0.0:
                self._recentre_until, self._place_WO = self._release_until + p.recentre_time, None
            self._begin(error, max(self._release_until, self._recentre_until))

    def _present_goal(self, observation: Observation, error: float, goal_WO: np.ndarray) -> np.ndarray:
        """Return the goal or, while the object is brought back, its place with its present
        orientation."""
        t, pose_WO = observation.t, observation.pose_WO
        if t >= self._recentre_until:
            return goal_WO
        if np.linalg.norm(pose_WO[:3] - goal_WO[:3]) < self.params.recentre_distance / 2:
            self._recentre_until = -math.inf
            self._begin(error, t)
            return goal_WO
        if self._place_WO is None:
            self._place_WO = np.concatenate([goal_WO[:3], pose_WO[3:]])
        return self._place_WO

    def _plan_release(self, observation: Observation, goal_WO: np.ndarray) -> Plan:
        planner = self.planner
        if self._held_WO is None:
            self._held_WO = laid_down(observation.pose_WO, goal_WO)
            self._releasing = planner.fork()
            self._releasing.weights = self.context.release(planner.weights)
        pull = Pull(
            np.clip(self._to - observation.q, -planner.u_max, planner.u_max), self.params.release_weight
        )
        plan = self._releasing.plan(observation, self._held_WO, pull)
        return replace(plan, status=SolveStatus.RETREAT) if plan.status.usable else plan


def laid_down(pose_WO: np.ndarray, goal_WO: np.ndarray) -> np.ndarray:
    """Return the pose (7,) with height and tilt of the goal, and with the present place and turn
    about the vertical."""
    pose_WO, goal_WO = np.asarray(pose_WO, float), np.asarray(goal_WO, float)
    from_goal = quaternion_product(pose_WO[3:], goal_WO[3:] * [1, -1, -1, -1])
    turn = yaw_quaternion(
        2.0 * math.atan2(from_goal[3], from_goal[0])
    )  # the turn about z nearest to from_goal
    return np.concatenate([pose_WO[:2], goal_WO[2:3], quaternion_product(turn, goal_WO[3:])])


def _moved(pose_WO: np.ndarray, q: np.ndarray, pose_before_WO: np.ndarray, q_before: np.ndarray) -> bool:
    """Return whether object or robot has moved."""
    return bool(
        np.max(np.abs(q - q_before)) > STILL_JOINT
        or np.linalg.norm(pose_WO[:3] - pose_before_WO[:3]) > STILL_DISTANCE
        or geodesic_angle(pose_WO[3:], pose_before_WO[3:]) > STILL_ANGLE
    )
