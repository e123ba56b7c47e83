"""The launch files with launch_ros, and standard nodes of a ROS 2 installation instead of the graph's own."""

import importlib.util
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from harness import NODES, wait_until

from dexstack.config import share_dir
from dexstack.errors import ConfigError
from dexstack.graph.modes import MODES
from dexstack.graph.standard import (
    LAUNCH_ARGUMENTS,
    StandardNode,
    find_program,
    foxglove_bridge,
    rviz,
    use_standard_nodes,
)
from dexstack.model.hand import load_hand
from tests.acceptance.programs import Program, alive

PROGRAMS = {
    "robot_state_publisher": "robot_state_publisher",
    "rosbag2_transport": "recorder",
    "rosbag2_storage_mcap": "",
    "image_transport": "republish",
    "compressed_image_transport": "",
    "diagnostic_aggregator": "aggregator_node",
    "rviz2": "rviz2",
    "foxglove_bridge": "foxglove_bridge",
}
"""Each package and the program of it that the graph starts."""

TELL = '''#!{python}
"""Write to a file what rcl was started with; run until interrupted."""
import json, os, sys
import rclpy
from rclpy.node import Node
rclpy.init(args=sys.argv)
node = Node("program", automatically_declare_parameters_from_overrides=True)
parameters = {{name: p.value for name, p in node.get_parameters_by_prefix("").items()}}
names = "joint_states", "in", "out/compressed", "/clock"
topics = {{name: node.resolve_topic_name(name) for name in names}}
started = {{"parameters": parameters, "topics": topics, "arguments": sys.argv[1:]}}
with open("{folder}/" + node.get_name() + ".part", "w") as out:
    json.dump(started, out, default=list)
os.rename(out.name, "{folder}/" + node.get_name() + ".json")
try:
    rclpy.spin(node)
except (KeyboardInterrupt, rclpy.executors.ExternalShutdownException):
    pass
'''


def install(prefix: Path, *packages: str) -> Path:
    """Install packages; their programs write to ``prefix/started`` how they were started."""
    started = prefix / "started"
    started.mkdir(parents=True, exist_ok=True)
    for package in packages:
        mark = prefix / "share" / "ament_index" / "resource_index" / "packages" / package
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
        if PROGRAMS[package]:
            program = prefix / "lib" / package / PROGRAMS[package]
            program.parent.mkdir(parents=True)
            program.write_text(TELL.format(python=sys.executable, folder=started))
            program.chmod(0o755)
    return prefix


NEEDS_LAUNCH = pytest.mark.skipif(
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


@NEEDS_LAUNCH
@pytest.mark.parametrize("mode", MODES)
def test_a_launch_file_loads_and_describes_its_arguments(mode):
    from launch.launch_description_sources import get_launch_description_from_python_launch_file

    description = get_launch_description_from_python_launch_file(
        str(share_dir() / "launch" / f"{mode}.launch.py")
    )
    arguments = description.get_launch_arguments()
    assert [a.name for a in arguments] == [a.name for a in (*MODES[mode].arguments, *LAUNCH_ARGUMENTS)]
    assert all(len(a.description) > 5 and a.default_value is not None for a in arguments)


@NEEDS_LAUNCH
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


@NEEDS_LAUNCH
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


EVERYTHING = {"robot_state": "yes", "record": "run.mcap", "perception": "camera"}


@pytest.fixture
def prefix(tmp_path, monkeypatch) -> Path:
    """An installation without packages."""
    pytest.importorskip("pupil_apriltags", reason="perception by camera needs the extra 'camera'")
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path / "ros"))
    return install(tmp_path / "ros")


def graph(mode="sim", **values):
    return MODES[mode].describe(EVERYTHING | values)


def standard(nodes, *, simulated=True) -> dict[str, StandardNode]:
    return {n.name: n for n in use_standard_nodes(nodes, simulated=simulated) if isinstance(n, StandardNode)}


def test_nothing_changes_without_installed_packages(prefix, monkeypatch):
    own = graph()
    assert use_standard_nodes(own, simulated=True) == own
    for start, package in ((rviz, "ros-.*-rviz2"), (foxglove_bridge, "ros-.*-foxglove-bridge")):
        with pytest.raises(ConfigError, match=package):
            start(own, simulated=True)
    monkeypatch.delenv("AMENT_PREFIX_PATH")
    assert find_program("rviz2", "rviz2") is None


@pytest.mark.parametrize(
    ("package", "name"), [("robot_state_publisher",) * 2, ("diagnostic_aggregator", "analyzers")]
)
def test_a_package_starts_only_its_program(prefix, package, name):
    install(prefix, package)
    (node,) = standard(graph()).values()
    assert node.name == name and node.command == [str(prefix / "lib" / package / PROGRAMS[package])]


def test_a_package_without_its_program_or_plugin_is_not_used(prefix):
    install(prefix, "rosbag2_transport", "image_transport", "robot_state_publisher")
    (prefix / "lib" / "robot_state_publisher" / "robot_state_publisher").unlink()
    assert standard(graph()) == {}


def test_the_links_have_a_single_publisher(prefix):
    install(prefix, "robot_state_publisher")
    nodes = {n.name: n for n in use_standard_nodes(graph(namespace="left", hand="left"), simulated=True)}
    own, publisher = nodes["robot_state"], nodes["robot_state_publisher"]
    assert own.parameters["links"] is False and own.parameters["object"] == "cube"
    assert publisher.parameters["frame_prefix"] == "left/" and publisher.namespace == "/left"
    assert 'joint name="joint_' in publisher.parameters["robot_description"]
    assert ("/clock", "/left/clock") in publisher.remappings and publisher.parameters["use_sim_time"]
    real = standard(MODES["hardware"].describe({"robot_state": "yes"}), simulated=False)
    assert "use_sim_time" not in real["robot_state_publisher"].parameters


def test_rosbag2_replaces_the_recorder_and_never_overwrites_a_bag(prefix, tmp_path):
    install(prefix, "rosbag2_transport", "rosbag2_storage_mcap")
    for name in ("run", "run_1"):
        nodes = standard(graph(record=str(tmp_path / "run.mcap")))
        assert nodes["rosbag2_recorder"].parameters["storage.uri"] == str(tmp_path / name)
        assert not nodes["rosbag2_recorder"].respawn
        (tmp_path / name).mkdir()
    assert "recorder" not in {n.name for n in use_standard_nodes(graph(), simulated=True)}


def test_pictures_are_compressed_from_a_best_effort_topic(prefix):
    install(prefix, "image_transport", "compressed_image_transport")
    node = standard(graph(namespace="left"))["image_republisher"]
    assert node.parameters["qos_overrides./left/object_pose/image.subscription.reliability"] == "best_effort"
    assert ("in", "object_pose/image") in node.remappings
    assert "image_republisher" not in standard(graph(perception="truth"))


def test_a_graph_in_a_namespace_starts_no_aggregator(prefix):
    install(prefix, "diagnostic_aggregator")
    assert "analyzers" in standard(graph(part="robot")) and "analyzers" not in standard(graph(part="planner"))
    assert "analyzers" not in standard(graph(namespace="left"))


def test_rviz_is_not_restarted_and_the_bridge_is_local_and_may_only_stop_the_hand(prefix):
    install(prefix, "rviz2", "foxglove_bridge")
    node = rviz(graph(namespace="left"), simulated=True)
    assert not node.respawn and node.namespace == "/left"
    assert node.command[1] == "-d" and Path(node.command[2]).is_file()
    bridge = foxglove_bridge(graph(namespace="left"), simulated=True)
    assert bridge.namespace == "/left" and bridge.parameters["address"] == "127.0.0.1"
    assert not {"clientPublish", "parameters"} & set(bridge.parameters["capabilities"])
    assert bridge.parameters["service_whitelist"] == [".*/hand/stop$"] and bridge.parameters["use_sim_time"]
