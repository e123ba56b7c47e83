"""Standard nodes of a ROS 2 installation in place of the graph's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from standard_packages import PROGRAMS, install

from dexstack.errors import ConfigError
from dexstack.graph.modes import MODES
from dexstack.graph.standard import (
    StandardNode,
    find_program,
    foxglove_bridge,
    rviz,
    use_standard_nodes,
)

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
