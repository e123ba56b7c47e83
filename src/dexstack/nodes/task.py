"""The task node: says where the object shall go, when a rollout starts and ends, and whether the goal was reached.

A rollout starts when the controller speaks for the first time: the node then has the simulator put everything to its start (on a robot
there is nothing to reset) and publishes the goal again, stamped with the start of the rollout. A new ``goal_yaw`` starts a rollout from
where things are, the service ``~/restart`` one from the start pose. ``rollout/state`` carries one JSON object::

    phase            waiting (no command yet) | starting | running | reached | timeout | dropped | lost (no pose comes any more)
    t, elapsed       time of the pose it was judged by, and since the start of the rollout [s]
    goal_yaw, yaw    turn from the nominal start [rad]
    error            geodesic orientation error [rad]
    position_error   [m]
    attempt          1, and one more for every further rollout: a new goal, a restart, a clock that went backwards with its simulator

``rollout/error`` carries the orientation error alone [rad], for what can only plot numbers.
"""

from __future__ import annotations

import json
import math
import sys
import time
from dataclasses import dataclass
from typing import Any

from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from rclpy.client import Client
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, String
from std_srvs.srv import Trigger

from dexstack.config import param
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_start
from dexstack.nodes.common import OK, PATIENCE, WARN, StackNode, run_node
from dexstack.nodes.wire import COMMAND, LATCHED, SENSOR, WORLD, JointReader, PoseSample, WaitSet, fill_pose, read_pose, set_stamp
from dexstack.tasks.palm_turn import AllegroTask

ENDED = ("reached", "timeout", "dropped", "lost")
STATE_PERIOD = 0.1
"""Time between two messages on rollout/state while the phase does not change [s]."""
SERVICE_TIMEOUT = 5.0
SILENCE = 15.0
"""Wall time without a pose after which nobody knows where the object is [s]; a simulator that is restarted is quiet for less."""


@dataclass(frozen=True)
class TaskParams:
    """Parameters of the task node."""

    hand: str = param("right", "side of the hand, or the path of a hand's YAML")
    object: str = param("cube", "name of an object, or the path of an object's YAML")
    goal_yaw: float = param(math.pi / 2, "turn of the object from its nominal start [rad]", -math.pi, math.pi)
    seconds: float = param(30.0, "time after which the rollout counts as failed [s]", 0.1, 1e5)
    reset_service: str = param("simulator/reset", "service that puts everything to its start; empty when there is none")


class TaskNode(StackNode):
    """See the module's docstring."""

    LIVE = frozenset({"seconds", "goal_yaw"})

    def __init__(self) -> None:
        super().__init__("task", TaskParams)

    def configure(self) -> None:
        p = self.params(TaskParams)
        hand = load_hand(p.hand)
        self._object_start = load_start(p.object, "allegro", hand.side)
        self._poses = self.newest(PoseWithCovarianceStamped, "object_pose", SENSOR, read_pose)
        self._commands = self.newest(JointState, "joint_command", COMMAND, JointReader(hand.joint_names, "position"))
        self._wait = WaitSet(self, self._poses)
        self._to_goal = self.create_publisher(PoseStamped, "goal_pose", LATCHED)
        self._to_state = self.create_publisher(String, "rollout/state", LATCHED)
        self._to_error = self.create_publisher(Float64, "rollout/error", COMMAND)
        self._reset: Client | None = self.create_client(Trigger, p.reset_service) if p.reset_service else None
        self._goal = PoseStamped()
        self._goal.header.frame_id = WORLD
        self._aim(p.goal_yaw)
        self.create_service(Trigger, "~/restart", self._on_restart)

    def apply(self, block: Any) -> None:
        if block.goal_yaw != self._task.goal_yaw and not self.in_worker(lambda: self._new_goal(block.goal_yaw)):
            self._aim(block.goal_yaw)  # not active: published when it is

    def begin(self) -> None:
        self._phase = "waiting"
        self._attempt = 1
        self._again = False
        self._start = self._inside_since = math.nan
        self._last: PoseSample | None = None
        self._stated = -math.inf
        self._heard = time.monotonic()
        self._publish_goal(0.0)

    def work(self) -> None:
        self._wait.wait(PATIENCE)
        pose = self._poses.take()
        if pose is None:
            self._wait_for_pose()
            return
        self._heard = time.monotonic()
        backwards = self._last is not None and pose.t < self._last.t
        self._last = pose
        self.time = pose.t
        before = self._phase
        if self._again:
            self._again = False
            self._to_start(pose)
        elif self._phase == "waiting":
            if self._commands.take() is not None:
                self._to_start(pose)
        elif self._phase == "starting" or (self._phase == "running" and backwards):
            self._attempt += backwards
            self._begin_rollout(pose.t)
        elif self._phase == "running":
            self._judge(pose)
        if self._phase != before or not 0.0 <= pose.t - self._stated < STATE_PERIOD:
            self._publish_state(pose)

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        return (WARN if self._phase in ("waiting", "timeout", "dropped", "lost") else OK), self._phase, {"attempt": self._attempt}

    def _aim(self, goal_yaw: float) -> None:
        self._task = AllegroTask(self._object_start, goal_yaw)
        fill_pose(self._goal.pose, self._task.goal_WO)

    def _new_goal(self, goal_yaw: float) -> None:
        """In the worker: from now on this is the goal; a rollout that runs or has ended is followed by another one."""
        self._aim(goal_yaw)
        if self._phase in ("running", *ENDED) and self._last is not None:
            self._attempt += 1
            self._begin_rollout(self._last.t)
            self._publish_state(self._last)
        else:
            self._publish_goal(0.0)

    def _on_restart(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.success = self._phase != "waiting" and self.in_worker(self._restart)
        response.message = "" if response.success else "there is nothing to restart: the controller has not spoken yet"
        return response

    def _restart(self) -> None:
        """In the worker: the next pose starts a rollout at the start."""
        self._attempt += 1
        self._again = True

    def _to_start(self, pose: PoseSample) -> None:
        """Ask for the reset and wait for it; the next pose starts the rollout."""
        self._phase = "starting"
        if self._reset is None:
            return
        request = None
        for _ in range(round(SERVICE_TIMEOUT / PATIENCE)):
            if self.stopping:
                return
            if request is None and self._reset.wait_for_service(PATIENCE):
                request = self._reset.call_async(Trigger.Request())
            elif request is not None and request.done():
                break
            elif request is not None:
                self._wait.wait(PATIENCE)
                self._poses.take()
        else:
            self.get_logger().error(f"no answer from {self._reset.srv_name}: the rollout starts from where things are")
        self._poses.take()  # a pose from before the reset

    def _begin_rollout(self, t: float) -> None:
        self._phase = "running"
        self._start, self._inside_since = t, math.nan
        self._publish_goal(t)

    def _wait_for_pose(self) -> None:
        """An object that fell out of the camera's view has no pose to be judged by."""
        if self._phase == "running" and self._last is not None and time.monotonic() - self._heard > SILENCE:
            self._phase = "lost"
            self._publish_state(self._last)

    def _judge(self, pose: PoseSample) -> None:
        task = self._task
        if task.dropped(pose.pose):
            self._phase = "dropped"
            return
        if task.orientation_error(pose.pose) >= task.tolerance:
            self._inside_since = math.nan
        elif math.isnan(self._inside_since):
            self._inside_since = pose.t
        if pose.t - self._inside_since >= task.hold:
            self._phase = "reached"
        elif pose.t - self._start > self.params(TaskParams).seconds:
            self._phase = "timeout"

    def _publish_goal(self, t: float) -> None:
        set_stamp(self._goal.header.stamp, t)
        self._to_goal.publish(self._goal)

    def _publish_state(self, pose: PoseSample) -> None:
        self._stated = pose.t
        task = self._task
        elapsed = 0.0 if math.isnan(self._start) else pose.t - self._start
        state = {
            "phase": self._phase,
            "t": pose.t,
            "elapsed": elapsed,
            "goal_yaw": task.goal_yaw,
            "yaw": task.yaw(pose.pose),
            "error": task.orientation_error(pose.pose),
            "position_error": task.position_error(pose.pose),
            "attempt": self._attempt,
        }
        self._to_state.publish(String(data=json.dumps(state)))
        self._to_error.publish(Float64(data=state["error"]))


def main() -> int:
    return run_node(TaskNode)


if __name__ == "__main__":
    sys.exit(main())
