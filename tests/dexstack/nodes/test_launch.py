"""The launch files with launch_ros: they load, start the graph, restart nodes and leave no process."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from harness import NODES, wait_until
from standard_packages import install

from dexstack.config import share_dir
from dexstack.graph.modes import MODES
from dexstack.graph.standard import LAUNCH_ARGUMENTS
from dexstack.model.hand import load_hand
from tests.acceptance.programs import Program, alive

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


def launch(folder: Path, mode: str, *arguments: str) -> Program:
    """Start `ros2 launch` through its Python interface."""
    path = str(share_dir() / "launch" / f"{mode}.launch.py")
    environment = {**os.environ, "ROS_LOG_DIR": str(folder / "log")}
    return Program([sys.executable, "-c", LAUNCH, path, *arguments], folder / mode, environment)


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
    with launch(tmp_path, mode, "goal_yaw:=170", "seconds:=600", "namespace:=") as launched:
        wait_until(
            lambda: set(probe.reports) >= set(NODES) and probe.phase() == "running", 120, "the rollout"
        )
        first = probe.pid("contact_detector")
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: probe.pid("contact_detector") != first, 60, "the node to come back")
        nodes = [probe.pid(name) for name in NODES]
        assert all(map(alive, nodes))
        launched.interrupt()
        wait_until(lambda: not any(map(alive, nodes)), 10, "the nodes to end")
    assert "Traceback" not in launched.out + launched.err, launched.err


@pytest.mark.slow
def test_installed_standard_nodes_replace_own_nodes(domain, tmp_path, monkeypatch):
    packages = "robot_state_publisher rosbag2_transport rosbag2_storage_mcap diagnostic_aggregator rviz2"
    ros = install(tmp_path / "ros", *packages.split())
    before = os.environ.get("AMENT_PREFIX_PATH", "")
    monkeypatch.setenv("AMENT_PREFIX_PATH", os.pathsep.join([str(ros), before]).strip(os.pathsep))
    *robots, recorder = [
        ros / "started" / f"{name}.json"
        for name in ("robot_state_publisher", "analyzers", "rviz", "rosbag2_recorder")
    ]
    arguments = ("mode:=sim", "robot_state:=yes", "rviz:=yes", "interface:=pcan")
    record = f"record:={tmp_path / 'run.mcap'}"
    with launch(tmp_path, "bringup", *arguments, record) as robot:
        wait_until(lambda: all(file.is_file() for file in robots), 60, "the nodes of the robot")
        assert not recorder.exists(), "the recorder runs with the task"
        with launch(tmp_path, "task", record):
            wait_until(recorder.is_file, 60, "the recorder")
    assert "'interface' has no effect" in robot.out + robot.err
    publisher, analyzers, rviz, bag = (json.loads(file.read_text()) for file in (*robots, recorder))
    description = load_hand("right").urdf_path.read_text()
    assert publisher["parameters"]["robot_description"] == description, "a string stays a string"
    assert publisher["parameters"]["use_sim_time"] is True
    assert publisher["topics"]["joint_states"] == "/joint_states"
    assert bag["parameters"]["storage.uri"] == str(tmp_path / "run")
    assert bag["parameters"]["record.all_topics"] is True
    assert analyzers["parameters"]["hand.path"] == "Hand", "the groups of its file"
    assert rviz["arguments"][0] == "-d"
