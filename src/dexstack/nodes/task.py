"""The task node: publishes the goal, and judges when a rollout starts and ends and whether the goal was
reached (:class:`~dexstack.tasks.judge.Judge`).

A rollout starts with the first command of the controller: the node then has the simulator reset
everything to its start (on a robot there is nothing to reset) and publishes the goal again, stamped
with the start of the rollout. The next goal of the same rollout has the same stamp. Where there is
something to reset, an object that was dropped or lost is put back after PUT_BACK. A new
``goal_yaw``, or a pose published on ``goal_pose``, starts a rollout from the present state; the service
``~/restart`` starts one from the start pose. ``task/goal`` carries the current goal, and
``rollout/state`` one JSON object::

    phase            waiting (no command yet) | starting | running | reached | timeout | dropped |
                     lost (no pose comes) | cancelled
    t, elapsed       time of the judged pose, and since the start of the rollout [s]
    goal             description of the goal
    goal_yaw, yaw    turn about the vertical from the nominal start [rad]
    error            geodesic orientation error [rad]
    position_error   [m]
    goals_reached    in this rollout: a task may have one goal, several, or an infinite stream
    attempt          1, plus one for every further rollout: a new goal, a restart, an object that was put
                     back, or a clock that went backwards with its simulator
    drops            rollouts in this bring-up that ended with the object dropped or lost

``rollout/error`` carries the orientation error alone [rad], for tools that plot numbers. The service
``~/cancel`` ends a rollout: the hand holds its target. Where dexstack_msgs is built, the action
``task/reach_goal`` combines goal, feedback, result and cancelling (:mod:`.goal_action`).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from rclpy.client import Client
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, String
from std_srvs.srv import Trigger

from dexstack.geometry.rotations import wrap_angle, yaw_of
from dexstack.graph.parameters import TaskNodeParams
from dexstack.nodes.common import OK, PATIENCE, WARN, run_node
from dexstack.nodes.goal_action import SUPERSEDED, Follower, serve
from dexstack.nodes.scene import SceneNode
from dexstack.nodes.wire import (
    COMMAND,
    LATCHED,
    SENSOR,
    WORLD,
    JointReader,
    PoseSample,
    WaitSet,
    answered,
    fill_pose,
    set_stamp,
)
from dexstack.tasks.base import Goal
from dexstack.tasks.judge import Judge

ENDED = ("reached", "timeout", "dropped", "lost", "cancelled")
STATE_PERIOD = 0.1
"""Time between two messages on rollout/state while the phase does not change [s]."""
SERVICE_TIMEOUT = 5.0
SILENCE = 15.0
"""Wall time without a pose after which the object counts as lost [s]; a restart of the simulator takes
less."""
PUT_BACK = 3.0
"""Wall time after which a simulated object that was dropped or lost is put back [s]."""


class TaskNode(SceneNode):
    """See the module's docstring."""

    LIVE = frozenset({"seconds", "goal_yaw", "own_goals"})

    def __init__(self) -> None:
        super().__init__("task", TaskNodeParams)

    def configure(self) -> None:
        p = self.params(TaskNodeParams)
        self._task = self.make_task()
        self._object_start = self._task.start()
        self._poses = self.newest(PoseWithCovarianceStamped, "object_pose", SENSOR, self.read_pose)
        self._commands = self.newest(
            JointState, "joint_command", COMMAND, JointReader(self._task.robot().joint_names, "position")
        )
        self._wait = WaitSet(self, self._poses)
        self._asked_for = self.newest(PoseStamped, "goal_pose", COMMAND, self.read_pose)
        self._to_goal = self.create_publisher(PoseStamped, "task/goal", LATCHED)
        self._to_state = self.create_publisher(String, "rollout/state", LATCHED)
        self._to_error = self.create_publisher(Float64, "rollout/error", COMMAND)
        self._reset: Client | None = self.create_client(Trigger, p.reset_service) if p.reset_service else None
        self._state: dict[str, Any] = {}
        self._follower: Follower | None = None
        self._goal = PoseStamped()
        self._goal.header.frame_id = WORLD
        self._aim(self._own_goals if p.own_goals else self._towards(p.goal_yaw))
        self.create_service(Trigger, "~/restart", self._on_restart)
        self.create_service(Trigger, "~/cancel", self._on_cancel)
        serve(self)

    def apply(self, block: Any) -> None:
        old = self.params(TaskNodeParams)
        if not isinstance(block, TaskNodeParams) or (block.goal_yaw, block.own_goals) == (
            old.goal_yaw,
            old.own_goals,
        ):
            return
        stream = (
            self._own_goals
            if block.own_goals and block.goal_yaw == old.goal_yaw
            else self._towards(block.goal_yaw)
        )
        if not self.in_worker(lambda: self._new_goals(stream)):
            self._aim(stream)  # not active: published when it is

    def begin(self) -> None:
        self.phase = "waiting"
        """See ``rollout/state``."""
        self._attempt = 1
        self._fallen = 0
        self._again = False
        self._since = math.inf
        """Time at which the phase began, on the monotonic clock [s]."""
        self._start = math.nan
        self._last: PoseSample | None = None
        self._stated = -math.inf
        self._heard = time.monotonic()
        self._publish_goal(0.0)

    def work(self) -> None:
        self._wait.wait(PATIENCE)
        if (asked := self._asked_for.take()) is not None:
            goal = self._task.at_pose(asked.pose)
            self._new_goals(lambda: iter([goal]))
        gone = self.phase in ("dropped", "lost") and time.monotonic() - self._since > PUT_BACK
        if gone and self._reset is not None:
            self._restart()
        if self._again:  # needs no pose: the object may be out of the camera's view
            self._again = False
            self._to_start()
            if self._last is not None:
                self._publish_state(self._last)
            return
        pose = self._poses.take()
        if pose is None:
            self._wait_for_pose()
            return
        self._heard = time.monotonic()
        backwards = self._last is not None and pose.t < self._last.t
        self._last = pose
        self.time = pose.t
        before = self.phase
        if self.phase == "waiting":
            if self._commands.take() is not None:
                self._to_start()
        elif self.phase == "starting" or (self.phase == "running" and backwards):
            self._attempt += backwards
            self._begin_rollout(pose.t)
        elif self.phase == "running":
            self._look(pose)
        if self.phase != before or not 0.0 <= pose.t - self._stated < STATE_PERIOD:
            self._publish_state(pose)

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        missing = self.silent(self._poses, self._commands) if self.phase == "waiting" else ""
        return (
            (WARN if self.phase in ("waiting", *ENDED[1:]) else OK),
            missing or self.phase,
            {"attempt": self._attempt, "drops": self._fallen},
        )

    def reach(self, pose: PoseSample, follower: Follower) -> bool:
        """Pursue a pose from the present state, reporting to ``follower``; return False when the node is
        not active."""
        goal = self._task.at_pose(pose.pose)
        return self.in_worker(lambda: self._new_goals(lambda: iter([goal]), follower))

    def cancel(self) -> bool:
        """End the rollout; return False when none runs."""
        return self.phase in ("starting", "running") and self.in_worker(self._cancel)

    def _own_goals(self) -> Iterator[Goal]:
        return self._task.goals(0, self.params(TaskNodeParams).seed)

    def _towards(self, yaw: float) -> Callable[[], Iterator[Goal]]:
        """Return the stream of one goal, a turn from the start [rad]."""
        return lambda: iter([self._task.at_yaw(yaw)])

    def _aim(self, stream: Callable[[], Iterator[Goal]], follower: Follower | None = None) -> None:
        """Pursue these goals from the first one on; notify the follower of the previous ones that they
        are superseded."""
        before, self._follower = self._follower, follower
        if before is not None:
            before.ended(SUPERSEDED, self._state)
        self._stream = stream
        self._judge = Judge(self._task, self._object_start, stream())

    def _new_goals(self, stream: Callable[[], Iterator[Goal]], follower: Follower | None = None) -> None:
        """In the worker: pursue these goals; after a rollout that runs or has ended, begin another."""
        self._aim(stream, follower)
        if self.phase in ("running", *ENDED) and self._last is not None:
            self._attempt += 1
            self._begin_rollout(self._last.t)
            self._publish_state(self._last)
        else:
            self._publish_goal(0.0)

    def _on_restart(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        done = self.phase != "waiting" and self.in_worker(self._restart)
        why_not = "there is nothing to restart: the controller has not sent a command yet"
        return answered(response, done, why_not)

    def _on_cancel(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        return answered(response, self.cancel(), "there is nothing to cancel: no rollout runs")

    def _cancel(self) -> None:
        """In the worker."""
        self.phase = "cancelled"
        if self._last is not None:
            self._publish_state(self._last)

    def _restart(self) -> None:
        """In the worker: begin a rollout from the start pose towards the first goal."""
        self._aim(self._stream)
        self._attempt += 1
        self._again = True

    def _to_start(self) -> None:
        """Request the reset until it succeeds; the next pose starts the rollout."""
        self.phase = "starting"
        if self._reset is None:
            return
        request = None
        for _ in range(round(SERVICE_TIMEOUT / PATIENCE)):
            if self.stopping:
                return
            if request is None and self._reset.wait_for_service(PATIENCE):
                request = self._reset.call_async(Trigger.Request())
            elif request is not None and request.done():
                if request.result().success:
                    break
                request = None  # a busy simulator may accept it later
            elif request is not None:
                self._wait.wait(PATIENCE)
                self._poses.take()
        else:
            self.get_logger().error(
                f"{self._reset.srv_name} failed: the rollout starts from the present state"
            )
        self._poses.take()  # a pose from before the reset

    def _begin_rollout(self, t: float) -> None:
        self.phase = "running"
        self._start = t
        self._judge = Judge(self._task, self._object_start, self._stream())
        self._publish_goal(t)

    def _wait_for_pose(self) -> None:
        """End a rollout in which no pose comes any more."""
        if self.phase == "running" and self._last is not None and time.monotonic() - self._heard > SILENCE:
            self.phase = "lost"
            self._fallen += 1
            self._publish_state(self._last)

    def _look(self, pose: PoseSample) -> None:
        """Judge a pose of the rollout."""
        judge, t = self._judge, pose.t - self._start
        if judge.look(t, pose.pose):
            self._publish_goal(self._start)  # the same stamp: the next goal of the same rollout
        if judge.dropped:
            self.phase = "dropped"
            self._fallen += 1
        elif judge.complete:
            self.phase = "reached"
        elif judge.over or t > self.params(TaskNodeParams).seconds:
            succeeded = judge.reached_at and self._task.succeeded(judge.outcome(t, pose.pose))
            self.phase = "reached" if succeeded else "timeout"

    def _publish_goal(self, t: float) -> None:
        set_stamp(self._goal.header.stamp, t)
        fill_pose(self._goal.pose, self._judge.goal.pose_WO)
        self._to_goal.publish(self._goal)

    def _turned(self, pose_WO: np.ndarray) -> float:
        """Return the turn about the vertical from the nominal start [rad], in (−π, π]."""
        return wrap_angle(yaw_of(pose_WO[3:]) - yaw_of(self._object_start.pose_WO[3:]))

    def _publish_state(self, pose: PoseSample) -> None:
        self._stated = pose.t
        if self.phase != self._state.get("phase"):
            self._since = time.monotonic()
        task, goal = self._task, self._judge.goal
        elapsed = 0.0 if math.isnan(self._start) else pose.t - self._start
        self._state = state = {
            "phase": self.phase,
            "t": pose.t,
            "elapsed": elapsed,
            "goal": goal.label,
            "goal_yaw": self._turned(goal.pose_WO),
            "yaw": self._turned(pose.pose),
            "error": task.orientation_error(pose.pose, goal),
            "position_error": task.position_error(pose.pose, goal),
            "goals_reached": len(self._judge.reached_at),
            "attempt": self._attempt,
            "drops": self._fallen,
        }
        self._to_state.publish(String(data=json.dumps(state)))
        self._to_error.publish(Float64(data=state["error"]))
        if self._follower is not None and self.phase in ENDED:
            follower, self._follower = self._follower, None
            follower.ended(self.phase, state)
        elif self._follower is not None:
            self._follower.progress(state, self.params(TaskNodeParams).seconds - elapsed)


main = partial(run_node, TaskNode)
