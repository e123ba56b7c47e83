"""A task node alone, in simulated time, with published object poses and commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import rclpy
from geometry_msgs.msg import PoseWithCovarianceStamped
from harness import wait_until
from sensor_msgs.msg import JointState

from dexstack.nodes.task import TaskNode
from dexstack.nodes.wire import COMMAND, SENSOR, fill_pose, set_stamp
from dexstack.tasks.palm_turn import PalmTurn
from tests.acceptance.probe import Probe


class LoneTask:
    """Publishes the inputs of the node."""

    def __init__(self, node: TaskNode, probe: Probe) -> None:
        self.node, self.t, self.pose = node, 0.0, PalmTurn().start().pose_WO.copy()
        self._to_pose = probe.node.create_publisher(PoseWithCovarianceStamped, "object_pose", SENSOR)
        self._to_command = probe.node.create_publisher(JointState, "joint_command", COMMAND)
        names = PalmTurn().robot().joint_names
        self._command = JointState(name=list(names), position=[0.0] * len(names))

    def tick(self, *, others: bool = True) -> None:
        self.t += 0.02
        message = PoseWithCovarianceStamped()
        message.header.frame_id = "world"
        set_stamp(message.header.stamp, self.t)
        fill_pose(message.pose.pose, self.pose)
        self._to_pose.publish(message)
        if others:
            self._to_command.publish(self._command)


@contextmanager
def lone_task(domain: int, probe: Probe) -> Iterator[LoneTask]:
    """Yield a node in a running rollout with 1000 s left."""
    rclpy.init(domain_id=domain)
    node = TaskNode()
    node.set_parameters(
        [
            rclpy.parameter.Parameter("reset_service", value=""),
            rclpy.parameter.Parameter("seconds", value=1000.0),
        ]
    )
    assert node.autostart()
    made = LoneTask(node, probe)
    wait_until(lambda: made.tick() or node.phase == "running", 30, "the rollout")
    yield made
    node.stop_worker()
    node.destroy_node()
    rclpy.shutdown()
