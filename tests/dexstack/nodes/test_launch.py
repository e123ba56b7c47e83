"""The launch files with launch_ros: they load, start the graph, restart nodes and leave no process."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys

import pytest
from harness import NODES, alive, wait_until
from standard_packages import install

from dexstack.config import share_dir
from dexstack.graph.modes import MODES
from dexstack.graph.standard import LAUNCH_ARGUMENTS
from dexstack.model.hand import load_hand

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
