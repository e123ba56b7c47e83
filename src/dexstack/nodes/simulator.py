"""The simulator node: owns the plant, its time, and the truth.

Every servo period (3 ms) the node publishes the joint angles on ``hand/feedback`` and lets the plant run to the next one under the
torques that answered the *previous* feedback: one period of transport delay, as on the hand's bus, and the same whatever the host does.
If the answer is late the node waits for it, up to ``torque_timeout`` of wall time, so that a busy host slows ``/clock`` rather than
changing the physics. If it does not come the hand counts as dead: its torque is zero and nobody waits until it speaks again.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseWithCovarianceStamped
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from dexstack.config import param
from dexstack.engines import PLANTS, make_plant, plant_params
from dexstack.errors import ConfigError
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.nodes.common import OK, WARN, StackNode, run_node
from dexstack.nodes.wire import SENSOR, SERVO, WORLD, JointReader, JointWriter, WaitSet, fill_pose, set_stamp
from dexstack.tasks.allegro import AllegroTask

LARGEST_LAG = 0.1
"""Wall time by which the simulation may run behind before it gives up catching up [s]."""
RESET_GAP = 0.5
"""A reset moves the clock on by this much, so that every watchdog sees a gap and nobody takes the leap of the joints for a motion [s]."""


@dataclass(frozen=True)
class SimulatorParams:
    """Parameters of the simulator node."""

    hand: str = param("right", "side of the hand, or the path of a hand's YAML")
    object: str = param("cube", "name of an object, or the path of an object's YAML")
    plant: str = param("mujoco", f"physics engine ({', '.join(PLANTS)}); fixed when the node starts")
    seed: int = param(0, "seed of the noise of the start pose", 0, 2**31 - 1)
    real_time_factor: float = param(1.0, "simulated seconds per second of wall time", 0.01, 100.0)
    feedback_period: float = param(0.003, "time between two joint feedbacks [s]", 0.001, 0.1)
    clock_period: float = param(0.01, "time between two messages on /clock [s]", 0.001, 1.0)
    pose_period: float = param(0.02, "time between two object poses [s]", 0.005, 1.0)
    torque_timeout: float = param(0.05, "wall time after which a hand that does not answer counts as dead [s]", 0.001, 1.0)


class SimulatorNode(StackNode):
    """See the module's docstring."""

    LIVE = frozenset({"real_time_factor", "clock_period", "pose_period", "torque_timeout"})

    def __init__(self) -> None:
        super().__init__("simulator", SimulatorParams)
        self._plant_name = self.params(SimulatorParams).plant
        self._declare(plant_params(self._plant_name))

    def configure(self) -> None:
        p = self.params(SimulatorParams)
        self._hand = load_hand(p.hand)
        obj = load_object(p.object)
        self._task = AllegroTask(obj.start("allegro"), 0.0)
        if p.plant != self._plant_name:
            raise ConfigError(f"the plant was '{self._plant_name}' when this node started; start another one for '{p.plant}'")
        self._plant = make_plant(p.plant, self._hand, obj, self.params(plant_params(p.plant)))
        names = self._hand.joint_names
        self._feedback = JointWriter(names, "position")
        self._clock = Clock()
        self._pose = PoseWithCovarianceStamped()
        self._pose.header.frame_id = WORLD
        self._to_hand = self.create_publisher(JointState, "hand/feedback", SERVO)
        self._to_clock = self.create_publisher(Clock, "/clock", SENSOR)
        self._to_pose = self.create_publisher(PoseWithCovarianceStamped, "object_pose", SENSOR)
        self._torques = self.newest(JointState, "hand/torque", SERVO, JointReader(names, "effort"))
        self._torque_wait = WaitSet(self, self._torques)
        self.create_service(Trigger, "~/reset", self._on_reset)

    def begin(self) -> None:
        self._time_of_start = 0.0
        self._place()
        self._answering = False
        self._timeouts = 0
        self._next_clock = self._next_pose = 0.0
        self._mark = (0.0, time.monotonic())
        self._wall_zero = time.monotonic()
        self._paced_factor = self.params(SimulatorParams).real_time_factor

    def work(self) -> None:
        p = self.params(SimulatorParams)
        t = self._now()
        self._pace(t, p.real_time_factor)
        tau = self._answer(p.torque_timeout)
        self._feedback.position[:] = self._plant.joint_position
        self._to_hand.publish(self._feedback.at(t))
        self._awaited = t
        self._next_feedback += p.feedback_period
        self._publish_due(p)
        while self._now() < self._next_feedback - 1e-9:
            self._plant.step(tau)
            self._publish_due(p)

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        t, wall = self.time, time.monotonic()
        factor = (t - self._mark[0]) / max(wall - self._mark[1], 1e-6)
        self._mark = (t, wall)
        values = {"time": t, "real_time_factor": factor, "torque_timeouts": self._timeouts}
        if not self._answering:
            return WARN, "the hand does not answer: its torque is zero", values
        return OK, f"real-time factor {factor:.2f}", values

    def _now(self) -> float:
        return self._time_of_start + self._plant.time

    def _place(self) -> None:
        """Hand and object to their start, the same for the same seed."""
        rng = np.random.default_rng(self.params(SimulatorParams).seed)
        self._plant.reset(self._hand.pose(self._task.start.hand_pose), self._task.start_pose(rng))
        self._next_feedback = self._now()
        self._awaited: float | None = None

    def _pace(self, t: float, factor: float) -> None:
        """Sleep until the wall clock has reached simulated time ``t``."""
        if factor != self._paced_factor:
            self._paced_factor, self._wall_zero = factor, time.monotonic() - t / factor
        early = self._wall_zero + t / factor - time.monotonic()
        if early > 0:
            time.sleep(early)
        elif early < -LARGEST_LAG:
            self._wall_zero -= early

    def _answer(self, timeout: float) -> np.ndarray:
        """Torques that answer the last feedback; zero without an answer."""
        deadline = time.monotonic() + timeout
        while self._awaited is not None:
            sample = self._torques.take()
            if sample is not None:
                self._answering = True  # an old answer, too, says that the hand is there again
                if abs(sample.t - self._awaited) < 1e-6:
                    return sample.values
            left = deadline - time.monotonic()
            if not self._answering or left <= 0.0:
                break
            self._torque_wait.wait(left)
        if self._answering and self._awaited is not None:
            self._timeouts += 1
            self._answering = False
            self.get_logger().warning(f"no torque for {timeout:g} s: the hand is limp", throttle_duration_sec=5.0)
        return np.zeros(len(self._hand.joint_names))

    def _publish_due(self, p: SimulatorParams) -> None:
        t = self.time = self._now()
        if t >= self._next_clock - 1e-9:
            self._next_clock += p.clock_period
            set_stamp(self._clock.clock, t)
            self._to_clock.publish(self._clock)
        if t >= self._next_pose - 1e-9:
            self._next_pose += p.pose_period
            set_stamp(self._pose.header.stamp, t)
            fill_pose(self._pose.pose.pose, self._plant.pose_WO)
            self._to_pose.publish(self._pose)

    def _on_reset(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.success = self.in_worker(self._reset)
        response.message = "" if response.success else "the simulator is not active"
        return response

    def _reset(self) -> None:
        self._time_of_start = self._now() + RESET_GAP
        self._place()
        self._next_clock = self._next_pose = self._now()
        self._wall_zero -= RESET_GAP / self._paced_factor
        self._mark = (self._mark[0] + RESET_GAP, self._mark[1])


def main() -> int:
    return run_node(SimulatorNode)


if __name__ == "__main__":
    sys.exit(main())
