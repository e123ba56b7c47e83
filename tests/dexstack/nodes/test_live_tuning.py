"""Weights and bounds change while the planner runs, without a compilation or a missed cycle."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from harness import joint_state, pose_message, spinning, wait_until
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState, PointCloud2

from dexstack.contact.detector import ContactDetector, DetectorParams
from dexstack.nodes.mpc import MpcNode
from dexstack.nodes.wire import COMMAND, LATCHED, SENSOR, contacts_message
from dexstack.tasks.palm_turn import PalmTurn

pytestmark = pytest.mark.slow
CHANGES = {
    "orientation_weight": 300.0,
    "u_max": 0.02,
    "effort_weight": 0.5,
    "limit_margin": 0.05,
    "stall_window": 5.0,
    "damping": 0.05,
}


@pytest.fixture
def mpc(domain):
    with spinning(domain, MpcNode) as (node,):
        assert node.autostart()
        yield node


def test_parameters_change_without_a_compilation_or_a_missed_cycle(mpc, probe, compilations):
    task = PalmTurn()
    hand, obj, start = task.setup()
    goal = pose_message(task.at_yaw(1.0).pose_WO, kind=PoseStamped)
    found = ContactDetector(hand, obj, DetectorParams()).detect(start.pose_WO, hand.home)
    on = np.asarray(found.active)
    to_pose, to_joints, to_contacts = (
        probe.node.create_publisher(kind, topic, SENSOR)
        for kind, topic in (
            (PoseWithCovarianceStamped, "object_pose"),
            (JointState, "joint_states"),
            (PointCloud2, "contacts"),
        )
    )
    commands: list[JointState] = []
    probe.node.create_subscription(JointState, "joint_command", commands.append, COMMAND)
    probe.node.create_publisher(PoseStamped, "task/goal", LATCHED).publish(goal)
    client = probe.node.create_client(SetParameters, "mpc/set_parameters")

    def cycle(k: int) -> None:
        """Publish a contact set and wait for its command."""
        t = 0.02 * k
        to_pose.publish(pose_message(start.pose_WO, t))
        to_joints.publish(joint_state(t, position=hand.home))
        time.sleep(0.005)
        to_contacts.publish(
            contacts_message(t, found.p_W[on], found.nhat_W[on], found.phi[on], found.link[on])
        )
        count = len(commands)
        wait_until(lambda: len(commands) > count, 5, f"the command of cycle {k}")

    wait_until(lambda: to_contacts.get_subscription_count() and client.service_is_ready(), 20, "the node")
    time.sleep(0.5)  # the other topics and the goal
    for k in range(1, 20):
        cycle(k)
    before = np.array(commands[-1].position) - hand.home
    compiled = len(compilations)
    futures = []

    def change(values: dict[str, float]) -> None:
        parameters = [Parameter(n, value=v).to_parameter_msg() for n, v in values.items()]
        futures.append(client.call_async(SetParameters.Request(parameters=parameters)))

    for k in range(20, 60):  # every other cycle changes all parameters, there and back
        change(CHANGES if (k // 2) % 2 == 0 else {name: mpc.get_parameter(name).value for name in CHANGES})
        cycle(k)
    change(CHANGES)
    wait_until(lambda: all(f.done() for f in futures), 10, "the answers")
    assert all(result.successful for f in futures for result in f.result().results)
    for k in range(60, 70):
        cycle(k)
    assert len(compilations) == compiled, "no compilation"
    stamps = [c.header.stamp.sec + 1e-9 * c.header.stamp.nanosec for c in commands]
    np.testing.assert_allclose(stamps, 0.02 * np.arange(1, 70), atol=1e-9, err_msg="a command per set")
    after = np.array(commands[-1].position) - hand.home
    # Joints near a limit are also drawn away from it.
    inside = (hand.home > hand.lower + 0.05) & (hand.home < hand.upper - 0.05)
    assert np.abs(before[inside]).max() > 0.05, "the old bound"
    assert np.abs(after[inside]).max() < 0.02 + 1e-6, "the new bound"


@pytest.mark.skipif(not hasattr(os, "SCHED_FIFO"), reason="no real-time scheduling here")
def test_plans_under_realtime_scheduling_where_permitted(mpc):
    def policies() -> set[int]:
        return {os.sched_getscheduler(int(thread)) for thread in os.listdir("/proc/self/task")}

    granted = mpc.status()[2]["realtime"]
    assert policies() == {os.SCHED_FIFO if granted else os.SCHED_OTHER}
    mpc.stop_worker()
    assert policies() == {os.SCHED_OTHER}
