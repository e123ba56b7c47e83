"""Stand-in for a ROS 2 installation: packages in an ament index, programs in its lib."""

from __future__ import annotations

import sys
from pathlib import Path

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
