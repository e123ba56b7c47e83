"""The `ros2` command on a running graph: lists, parameters, topics and services."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest
import rclpy
from geometry_msgs.msg import PoseStamped
from harness import NODES, Run, wait_until
from rcl_interfaces.msg import Parameter
from ros2_command import listed, program, ros2

from dexstack.config import share_dir
from dexstack.nodes.wire import LATCHED
from tests.acceptance.probe import Probe

WHY = "ros2cli comes with a ROS 2 installation only; .ci/genuine-ros.sh runs these tests without one"
ros2param = pytest.importorskip("ros2param.api", reason=WHY)
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def stop_daemon(domain):
    yield
    subprocess.run([program(), "daemon", "stop"], capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def running(domain, tmp_path_factory):
    """A probe of a graph that runs as long as the tests of this module."""
    run = Run(
        tmp_path_factory.mktemp("run"),
        "--goal-yaw",
        "170",
        "--seconds",
        "3000",
        "--stay",
        "--trajectories",
        domain=domain,
    )
    probe = Probe(domain)
    try:
        wait_until(
            lambda: set(probe.reports) >= set(NODES) and probe.phase() == "running", 180, "the rollout"
        )
        yield probe
    finally:
        probe.close()
        run.close()


def test_nodes_topics_and_services_are_listed(running):
    assert listed("node", "list") >= {f"/{name}" for name in NODES}
    assert listed("topic", "list", "-t") >= {
        "/joint_states [sensor_msgs/msg/JointState]",
        "/goal_pose [geometry_msgs/msg/PoseStamped]",
    }
    assert listed("service", "list", "-t") >= {"/hand/stop [std_srvs/srv/Trigger]"}
    assert ros2("lifecycle", "get", "/mpc", "--no-daemon", "--spin-time", "10").startswith("active")


@pytest.fixture
def outsider(running, domain):
    """A node that is not part of the graph."""
    rclpy.init(domain_id=domain)
    node = rclpy.create_node("outsider")
    yield node
    node.destroy_node()
    rclpy.shutdown()


def test_every_parameter_of_every_node_is_listed_described_and_set_under_load(outsider):
    count = 0
    for name in NODES:
        who = {"node": outsider, "node_name": f"/{name}"}
        names = sorted(ros2param.call_list_parameters(**who).result().result.names)
        described = ros2param.call_describe_parameters(**who, parameter_names=names).descriptors
        values = ros2param.call_get_parameters(**who, parameter_names=names).values
        for descriptor, value in zip(described, values, strict=True):
            if descriptor.read_only or descriptor.name.startswith(
                ("qos_overrides", "use_sim_time", "start_type_description")
            ):
                continue  # rclpy's own
            assert descriptor.description, f"{name} {descriptor.name}"
            parameters = [Parameter(name=descriptor.name, value=value)]
            (answer,) = ros2param.call_set_parameters(**who, parameters=parameters).results
            assert answer.successful, f"{name} {descriptor.name}: {answer.reason}"
            count += 1
    assert count > 100
    assert "successful" in ros2(
        "param", "set", "/mpc", "orientation_weight", "200.0", "--no-daemon", "--spin-time", "10"
    )
    assert "200.0" in ros2("param", "get", "/mpc", "orientation_weight", "--no-daemon", "--spin-time", "10")


def test_joint_states_are_received_with_the_default_quality_of_service(running):
    said = ros2("topic", "echo", "--once", "/joint_states", "--full-length")
    assert "joint_0.0" in said and said.count("- ") >= 3 * 16


def test_a_goal_is_published_with_the_default_quality_of_service(running):
    goals = []
    listens = running.node.create_subscription(PoseStamped, "task/goal", goals.append, LATCHED)
    wait_until(lambda: goals, 20, "the goal so far")
    before = len(goals)
    text = "{header: {frame_id: world}, pose: {orientation: {z: 0.5, w: 0.8660254}}}"
    ros2("topic", "pub", "--once", "/goal_pose", "geometry_msgs/msg/PoseStamped", text)
    wait_until(lambda: len(goals) > before, 20, "the new goal")
    orientation = goals[-1].pose.orientation
    assert np.allclose(
        [orientation.x, orientation.y, orientation.z, orientation.w], [0.0, 0.0, 0.5, 0.8660254], atol=1e-4
    )
    running.node.destroy_subscription(listens)


def test_the_hand_is_stopped_and_enabled_from_the_command_line(running):
    assert "success=True" in ros2("service", "call", "/hand/stop", "std_srvs/srv/Trigger")
    wait_until(lambda: running.values("hand").get("enabled") == "False", 20, "the servo to be off")
    assert "success=True" in ros2("service", "call", "/hand/enable", "std_srvs/srv/Trigger")
    wait_until(lambda: running.values("hand").get("enabled") == "True", 20, "the servo to be on")


def test_a_launch_file_shows_its_arguments(domain):
    said = ros2("launch", str(share_dir() / "launch" / "sim.launch.py"), "--show-args")
    assert "'goal_yaw'" in said and "'standard'" in said
