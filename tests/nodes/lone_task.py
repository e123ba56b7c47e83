"""A task node alone, on simulated time: the object is where it is put, and a controller and a robot speak."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import rclpy
from geometry_msgs.msg import PoseWithCovarianceStamped
from harness import wait_until
from sensor_msgs.msg import JointState

from dexstack.cli.bench.probe import Probe
from dexstack.nodes.task import TaskNode
from dexstack.nodes.wire import COMMAND, SENSOR, STATE, fill_pose, set_stamp


class LoneTask:
    """What the node hears."""

    def __init__(self, node: TaskNode, probe: Probe, *, robot_speaks: bool = True) -> None:
        self.node, self.t, self.pose, self.robot_speaks = node, 0.0, node._object_start.pose_WO.copy(), robot_speaks
        self._to_pose = probe.node.create_publisher(PoseWithCovarianceStamped, "object_pose", SENSOR)
        self._to_command = probe.node.create_publisher(JointState, "joint_command", COMMAND)
        self._to_state = probe.node.create_publisher(JointState, "joint_states", STATE)
        names = node._task.robot().joint_names
        self._joints = JointState(name=list(names), position=[0.0] * len(names))

    def tick(self) -> None:
        self.t += 0.02
        message = PoseWithCovarianceStamped()
        message.header.frame_id = "world"
        set_stamp(message.header.stamp, self.t)
        fill_pose(message.pose.pose, self.pose)
        self._to_pose.publish(message)
        self._to_command.publish(self._joints)
        if self.robot_speaks:
            self._to_state.publish(self._joints)


@contextmanager
def lone_task(domain: int, probe: Probe, *, robot_speaks: bool = True) -> Iterator[LoneTask]:
    """In a rollout that runs, with a thousand seconds to go."""
    rclpy.init(domain_id=domain)
    node = TaskNode()
    node.set_parameters([rclpy.parameter.Parameter("reset_service", value=""), rclpy.parameter.Parameter("seconds", value=1000.0)])
    assert node.autostart()
    made = LoneTask(node, probe, robot_speaks=robot_speaks)
    wait_until(lambda: made.tick() or node._phase == "running", 30, "the rollout")
    yield made
    node.stop_worker()
    node.destroy_node()
    rclpy.shutdown()
