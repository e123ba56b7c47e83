"""The servo node: position control of a simulated robot other than a hand, such as three balls.

Every ``hand/feedback`` of the simulator is answered by the forces of the task's servo on
``hand/torque``, and published as ``joint_states``. The robot is always enabled, and holds without a
command.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sensor_msgs.msg import JointState

from dexstack.nodes.common import OK, PATIENCE, WARN, run_node
from dexstack.nodes.scene import SceneNode
from dexstack.nodes.topic_link import TopicLink
from dexstack.nodes.wire import COMMAND, STATE, JointReader, JointWriter


class ServoNode(SceneNode):
    """See the module's docstring."""

    def __init__(self) -> None:
        super().__init__("servo")
        self._servo_params = self.task_type.servo_params()
        self.declare_block(self._servo_params)

    def configure(self) -> None:
        task = self.make_task()
        robot = task.robot()
        self._servo = task.servo(robot, self.params(self._servo_params))
        self._link = TopicLink(self, robot.joint_names)
        self._commands = self.newest(
            JointState, "joint_command", COMMAND, JointReader(robot.joint_names, "position")
        )
        self._state = JointWriter(robot.joint_names, "position", "velocity", "effort")
        self._to_state = self.create_publisher(JointState, "joint_states", STATE)

    def begin(self) -> None:
        self._servo.reset()
        self._servo.enable()
        self._ticks = self._reported = 0
        self._before: tuple[float, np.ndarray] | None = None

    def work(self) -> None:
        feedback = self._link.read(PATIENCE)
        if feedback is None:
            return
        self.time = t = feedback.t
        if self._before is not None and t < self._before[0]:  # the simulator was restarted
            self._servo.reset()
            self._before = None
        command = self._commands.take()
        if command is not None:
            self._servo.set_command(command.values, t)
        tau = self._servo.step(feedback.q, t).tau
        self._link.write(tau)
        elapsed = 0.0 if self._before is None else t - self._before[0]
        velocity = (feedback.q - self._before[1]) / elapsed if elapsed > 0.0 else np.zeros_like(feedback.q)
        self._state.position[:], self._state.velocity[:], self._state.effort[:] = feedback.q, velocity, tau
        self._to_state.publish(self._state.at(t))
        self._before = t, feedback.q
        self._ticks += 1

    def finish(self) -> None:
        self._link.servo_off()

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        rate, self._reported = self._ticks - self._reported, self._ticks
        return (
            (OK, "tracking", {"rate_hz": rate})
            if rate
            else (WARN, "no feedback from the simulator", {"rate_hz": rate})
        )


main = partial(run_node, ServoNode)
