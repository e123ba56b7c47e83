"""The launch files with launch_ros: they load, start the graph, restart nodes and leave no process."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from harness import NODES, alive, wait_until
from ros2_command import ros2
from sensor_msgs.msg import JointState
from standard_packages import install

from dexstack.config import share_dir
from dexstack.graph.modes import MODES
from dexstack.graph.standard import LAUNCH_ARGUMENTS
from dexstack.model.hand import load_hand
from dexstack.nodes.wire import SENSOR

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("launch_ros") is None,
    reason="launch and launch_ros come with a ROS 2 installation only",
)
LAUNCH = """
import sys
from launch import LaunchService
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch import LaunchDescription
arguments = [tuple(a.split(":=")) for a in sys.argv[2:]]
service = LaunchService()
source = PythonLaunchDescriptionSource(sys.argv[1])
included = IncludeLaunchDescription(source, launch_arguments=arguments)
service.include_launch_description(LaunchDescription([included]))
sys.exit(service.run())
"""


class Launched:
    """A `ros2 launch` through its Python interface."""

    def __init__(self, tmp_path, mode: str, *arguments: str) -> None:
        self._log = tmp_path / f"{mode}.txt"
        path = str(share_dir() / "launch" / f"{mode}.launch.py")
        environment = {**os.environ, "ROS_LOG_DIR": str(tmp_path / "log")}
        with self._log.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-c", LAUNCH, path, *arguments], env=environment, stdout=out, stderr=out
            )

    @property
    def output(self) -> str:
        return self._log.read_text()

    def close(self) -> None:
        """Interrupt it; nodes outlive a launch that is killed."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(60)


@pytest.mark.parametrize("mode", MODES)
def test_a_launch_file_loads_and_describes_its_arguments(mode):
    from launch.launch_description_sources import get_launch_description_from_python_launch_file

    description = get_launch_description_from_python_launch_file(
        str(share_dir() / "launch" / f"{mode}.launch.py")
    )
    arguments = description.get_launch_arguments()
    assert [a.name for a in arguments] == [a.name for a in (*MODES[mode].arguments, *LAUNCH_ARGUMENTS)]
    assert all(len(a.description) > 5 and a.default_value is not None for a in arguments)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sim", "mock"])
def test_a_launch_file_starts_the_graph_and_keeps_it_alive(mode, probe, tmp_path):
    launched = Launched(tmp_path, mode, "goal_yaw:=170", "seconds:=600", "namespace:=")
    try:
        wait_until(
            lambda: set(probe.reports) >= set(NODES) and probe.phase() == "running", 120, "the rollout"
        )
        first = probe.pid("contact_detector")
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: probe.pid("contact_detector") != first, 60, "the node to come back")
        nodes = [probe.pid(name) for name in NODES]
        assert all(alive(pid) for pid in nodes)
        launched.process.send_signal(signal.SIGINT)
        launched.process.wait(30)
        wait_until(lambda: not any(alive(pid) for pid in nodes), 10, "the nodes to end")
    finally:
        launched.close()
    assert "Traceback" not in launched.output, launched.output


@pytest.mark.slow
def test_installed_standard_nodes_replace_own_nodes(domain, tmp_path, monkeypatch):
    ros = install(
        tmp_path / "ros",
        "robot_state_publisher",
        "rosbag2_transport",
        "rosbag2_storage_mcap",
        "diagnostic_aggregator",
        "rviz2",
    )
    before = os.environ.get("AMENT_PREFIX_PATH", "")
    monkeypatch.setenv("AMENT_PREFIX_PATH", os.pathsep.join([str(ros), before]).strip(os.pathsep))
    started = {
        name: ros / "started" / f"{name}.json"
        for name in ("robot_state_publisher", "rosbag2_recorder", "analyzers", "rviz")
    }
    arguments = ("mode:=sim", "robot_state:=yes", "rviz:=yes", "interface:=pcan")
    robot = Launched(tmp_path, "bringup", *arguments, f"record:={tmp_path / 'run.mcap'}")
    task = None
    try:
        wait_until(
            lambda: all(started[name].is_file() for name in started if name != "rosbag2_recorder"),
            60,
            "the nodes of the robot",
        )
        assert not started["rosbag2_recorder"].exists(), "the recorder runs with the task"
        task = Launched(tmp_path, "task", f"record:={tmp_path / 'run.mcap'}")
        wait_until(started["rosbag2_recorder"].is_file, 60, "the recorder")
    finally:
        for launched in (robot, task):
            if launched is not None:
                launched.close()
    assert "'interface' has no effect" in robot.output
    read = {name: json.loads(path.read_text()) for name, path in started.items()}
    publisher = read["robot_state_publisher"]
    assert publisher["parameters"]["robot_description"] == load_hand("right").urdf_path.read_text(), (
        "a string stays a string"
    )
    assert (
        publisher["parameters"]["use_sim_time"] is True
        and publisher["topics"]["joint_states"] == "/joint_states"
    )
    assert read["rosbag2_recorder"]["parameters"]["storage.uri"] == str(tmp_path / "run")
    assert read["rosbag2_recorder"]["parameters"]["record.all_topics"] is True
    assert read["analyzers"]["parameters"]["hand.path"] == "Hand", "the groups of its file"
    assert read["rviz"]["arguments"][0] == "-d"


@pytest.mark.slow
def test_a_trajectory_plays_on_a_robot_that_launch_brought_up(probe, tmp_path):
    pytest.importorskip("ros2topic", reason="ros2cli comes with a ROS 2 installation only")
    hand = load_hand("right")
    robot = Launched(tmp_path, "bringup", "mode:=mock", "trajectories:=yes")
    try:
        wait_until(lambda: "trajectory" in probe.reports and "hand" in probe.reports, 120, "the robot")
        ros2("service", "call", "/hand/enable", "std_srvs/srv/Trigger")
        there = hand.home + 0.1 * np.sign((hand.lower + hand.upper) / 2 - hand.home)
        points = [{"positions": there.tolist(), "time_from_start": {"sec": 2}}]
        text = json.dumps({"joint_names": list(hand.joint_names), "points": points})
        angles = []
        probe.node.create_subscription(
            JointState, "joint_states", lambda m: angles.append(np.array(m.position)), SENSOR
        )
        ros2("topic", "pub", "--once", "/joint_trajectory", "trajectory_msgs/msg/JointTrajectory", text)
        wait_until(
            lambda: angles and np.abs(angles[-1] - there).max() < 0.02, 30, "the end of the trajectory"
        )
    finally:
        robot.close()


@pytest.mark.slow
def test_two_namespaced_graphs_turn_two_cubes(domain, tmp_path):
    sides = {}
    try:
        for side in ("left", "right"):
            (tmp_path / side).mkdir()
            arguments = (
                f"namespace:={side}",
                f"hand:={side}",
                "goal_yaw:=20",
                "seconds:=120",
                f"results:={tmp_path / side}",
            )
            sides[side] = Launched(tmp_path / side, "sim", *arguments)
        for side, launched in sides.items():
            assert launched.process.wait(240) == 0, launched.output
            with np.load(tmp_path / side / "recording.npz") as recording:
                assert json.loads(str(recording["summary"]))["reached"]
    finally:
        for launched in sides.values():
            launched.close()


def test_a_wrong_argument_is_one_clear_error(domain, tmp_path):
    launched = Launched(tmp_path, "sim", "goal_yaw:=ninety")
    assert launched.process.wait(60) != 0
    assert "'goal_yaw' must be a number" in launched.output
