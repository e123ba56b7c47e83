"""Simulator: runs the plant, its clock and the true object pose.

Every servo period (3 ms) the node publishes the joint angles on ``hand/feedback`` and advances the
plant to the next period under the torques that answered the *previous* feedback: one period of
transport delay, as on the hand's bus, independent of the host. The node waits for a late answer for
up to ``torque_timeout`` of wall time, so that a busy host slows ``/clock`` rather than changing the
physics. Without an answer by then the hand counts as dead: its torque is zero, and the node does not
wait again before the next answer.

With the parameter ``interface`` the plant is behind an emulated hand on a bus instead
(:mod:`dexstack.hand.links`): it runs in real time on the system's clock under the last torque on the
bus, as a real hand would. Faults of that hand are parameters that may change at run time
(``ros2 param set /simulator loss 0.1``); the service ``~/power_cycle`` switches it off and on.

The physics engine may change at run time: ``ros2 param set /simulator plant lcp`` resets hand and
object to their start in the other engine. The old engine runs until the new one is compiled.
"""

from __future__ import annotations

import time
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseWithCovarianceStamped
from rosgraph_msgs.msg import Clock
from std_srvs.srv import Trigger
from visualization_msgs.msg import MarkerArray

from dexstack.errors import ConfigError
from dexstack.graph.parameters import SimulatorParams
from dexstack.hand.links import Emulation
from dexstack.hand.params import BusParams, EmulatedHandParams, FaultParams, MotorFaultParams, MotorParams
from dexstack.nodes.common import OK, WARN, run_node
from dexstack.nodes.markers import patch_markers
from dexstack.nodes.scene import SceneNode
from dexstack.nodes.simulated_hand import EmulatedBusHand, SimulatedHand, TopicHand
from dexstack.nodes.wire import COMMAND, SENSOR, WORLD, answered, fill_pose, set_stamp
from dexstack.plants import make_plant, plant_params
from dexstack.plants.base import PatchPlant, Plant, WatchedPlant
from dexstack.tasks.base import read_world

LARGEST_LAG = 0.1
"""Largest lag behind the wall clock that the simulation catches up on [s]."""


class SimulatorNode(SceneNode):
    LIVE = frozenset(
        {
            "plant",
            "real_time_factor",
            "clock_period",
            "pose_period",
            "patch_period",
            "torque_timeout",
            *(f.name for block in (FaultParams, MotorFaultParams) for f in fields(block)),
        }
    )

    def __init__(self) -> None:
        super().__init__(
            "simulator",
            SimulatorParams,
            BusParams,
            EmulatedHandParams,
            MotorParams,
            FaultParams,
            MotorFaultParams,
        )
        self._plant_params = plant_params(self.params(SimulatorParams).plant)
        self.declare_block(self._plant_params)

    def configure(self) -> None:
        p = self.params(SimulatorParams)
        self._task = self.make_task()
        self._scene = self._task.setup()
        self._actual = self._task.setup(read_world(Path(p.world))) if p.world else self._scene
        self._plant = self._make_plant(p.plant)
        self._clock_message = Clock()
        self._pose = PoseWithCovarianceStamped()
        self._pose.header.frame_id = WORLD
        self._to_clock = self.create_publisher(Clock, "clock", SENSOR)
        self._to_pose = self.create_publisher(PoseWithCovarianceStamped, p.pose_topic, SENSOR)
        self._to_patch = self.create_publisher(MarkerArray, "contact_patch", COMMAND)
        bus = self.params(BusParams)
        self._hand: SimulatedHand
        if bus.interface:
            faults = (self.params(FaultParams), self.params(MotorFaultParams))
            emulation = Emulation(self.params(EmulatedHandParams), self.params(MotorParams), faults, p.seed)
            self._hand = EmulatedBusHand(self, self._scene.robot, bus, emulation)
            self.create_service(
                Trigger, "~/power_cycle", lambda _, response: self._answer(response, self._hand.power_cycle)
            )
        else:
            self._hand = TopicHand(self, self._scene.robot.joint_names)
        self.create_service(Trigger, "~/reset", lambda _, response: self._answer(response, self._reset))

    def apply(self, block: Any) -> None:
        if isinstance(block, FaultParams | MotorFaultParams):
            self._hand.inject(block)
        elif isinstance(block, SimulatorParams) and block.plant != self.params(SimulatorParams).plant:
            self._change_plant(block.plant)

    def begin(self) -> None:
        self._hand.open()
        self._time_of_start = self._hand.start_time()
        self._place()
        self._next_clock = self._next_pose = self._next_patch = self._now()
        self._mark = (self._now(), time.monotonic())
        self._wall_zero = time.monotonic() - self._now() / self._factor
        self._paced_factor = self._factor

    def work(self) -> None:
        p = self.params(SimulatorParams)
        self._pace()
        t = self._now()
        tau = self._hand.exchange(t, self._plant.joint_position, p.torque_timeout)
        self._next_feedback += p.feedback_period
        self._publish_due(p)
        while self._now() < self._next_feedback - 1e-9:
            self._plant.step(tau)
            self._publish_due(p)

    def finish(self) -> None:
        self._hand.close()

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        t, wall = self.time, time.monotonic()
        factor = (t - self._mark[0]) / max(wall - self._mark[1], 1e-6)
        self._mark = (t, wall)
        level, text, values = self._hand.status()
        trouble = self._plant.trouble() if isinstance(self._plant, WatchedPlant) else ""
        if trouble and level == OK:
            level, text = WARN, trouble
        plant = self.params(SimulatorParams).plant
        return (
            level,
            text or f"{plant}, real-time factor {factor:.2f}",
            {"plant": plant, "time": t, "real_time_factor": factor, **values},
        )

    @property
    def _factor(self) -> float:
        return self.params(SimulatorParams).real_time_factor if self._hand.waits else 1.0

    def _now(self) -> float:
        return self._time_of_start + self._plant.time

    def _make_plant(self, name: str) -> Plant:
        """Return the plant of that name, compiled and at its start, with its parameters declared in
        place of the old plant's."""
        old, new = self._plant_params, plant_params(name)
        if new is not old:
            self.exchange_block(old, new)
        try:
            plant = make_plant(name, self._actual.robot, self._actual.obj, self.params(new))
        except ConfigError:
            if new is not old:
                self.exchange_block(new, old)
            raise
        self._plant_params = new
        plant.reset(self._scene.rest, self._actual.start.pose_WO)
        plant.step(np.zeros(len(self._scene.robot.joint_names)))
        return plant

    def _change_plant(self, name: str) -> None:
        """Make another plant in the executor, while the worker runs the old one, and switch to it.

        Raises:
            ConfigError: the plant cannot be made, or an emulated hand runs in real time.
        """
        if not self._hand.waits:
            raise ConfigError(
                "an emulated hand runs in real time and cannot wait for another plant; "
                "restart the graph with the other plant"
            )
        self.get_logger().info(f"making the plant '{name}'")
        plant = self._make_plant(name)

        def take_over() -> None:
            t = self._now() + self._hand.reset_gap
            self._plant = plant
            self._start_at(t)

        if not self.in_worker(take_over, timeout=10.0):
            self._plant = plant  # not active: placed on activation
        self.get_logger().info(f"the plant is '{name}'")

    def _place(self) -> None:
        """Reset hand and object to their start, which the seed determines."""
        rng = np.random.default_rng(self.params(SimulatorParams).seed)
        self._plant.reset(self._scene.rest, self._task.start_pose(self._actual.start, rng))
        self._next_feedback = self._now()
        self._hand.placed()

    def _pace(self) -> None:
        """Wait until the wall clock has reached simulated time."""
        factor = self._factor
        if factor != self._paced_factor:
            self._paced_factor, self._wall_zero = factor, time.monotonic() - self._now() / factor
        early = self._wall_zero + self._now() / factor - time.monotonic()
        self._hand.wait(early, self._plant.joint_position)
        if early < -LARGEST_LAG:
            if self._hand.waits:
                self._wall_zero -= early
            else:  # the system's clock cannot be slowed: skip simulated time
                self._time_of_start -= early
                self._next_feedback -= early
                self._hand.late()

    def _publish_due(self, p: SimulatorParams) -> None:
        t = self.time = self._now()
        if t >= self._next_clock - 1e-9:
            self._next_clock = max(self._next_clock + p.clock_period, t - LARGEST_LAG)
            set_stamp(self._clock_message.clock, t)
            self._to_clock.publish(self._clock_message)
        if t >= self._next_pose - 1e-9:
            self._next_pose = max(self._next_pose + p.pose_period, t - LARGEST_LAG)
            set_stamp(self._pose.header.stamp, t)
            fill_pose(self._pose.pose.pose, self._plant.pose_WO)
            self._to_pose.publish(self._pose)
        if t >= self._next_patch - 1e-9:
            self._next_patch = max(self._next_patch + p.patch_period, t - LARGEST_LAG)
            if isinstance(self._plant, PatchPlant) and self._to_patch.get_subscription_count():
                self._to_patch.publish(patch_markers(t, self._plant.patches()))

    def _answer(self, response: Trigger.Response, action: Any) -> Trigger.Response:
        return answered(response, self.in_worker(action), "the simulator is not active")

    def _reset(self) -> None:
        self._start_at(self._now() + self._hand.reset_gap)

    def _start_at(self, t: float) -> None:
        """Reset everything to its start at simulated time ``t`` [s], without a step of wall time."""
        gap = t - self.time
        self._time_of_start = t
        self._place()
        self._next_clock = self._next_pose = self._next_patch = self._now()
        self._wall_zero -= gap / self._paced_factor
        self._mark = (self._mark[0] + gap, self._mark[1])


main = partial(run_node, SimulatorNode)
