"""Standard nodes of a ROS 2 installation, which ``ros2 launch`` starts in place of, or in addition to,
the graph's own; ``dexstack up`` needs none of them.

The ament index says what is installed, as for ``ros2 run``.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dexstack.config import share_dir
from dexstack.errors import ConfigError
from dexstack.graph.arguments import YES_NO, Argument
from dexstack.graph.modes import NodeDescription
from dexstack.model.hand import load_hand

LAUNCH_ARGUMENTS = (
    Argument("standard", "yes", "use the standard nodes of the ROS 2 installation where installed", YES_NO),
    Argument("rviz", "no", "open rviz with config/dexstack.rviz", YES_NO),
    Argument("foxglove", "no", "start foxglove_bridge for the Foxglove application", YES_NO),
)
"""Arguments of launch files in addition to those of a mode."""
PICTURE = "object_pose/image"


@dataclass(frozen=True)
class StandardNode(NodeDescription):
    """One process of a program that is not part of dexstack."""

    parameters: Mapping[str, Any] = field(default_factory=dict)  # may hold lists
    program: Path = Path()
    arguments: tuple[str, ...] = ()

    @property
    def command(self) -> list[str]:
        """Command line before the ROS arguments."""
        return [str(self.program), *self.arguments]


def find_program(package: str, executable: str) -> Path | None:
    """Return the path of a program; None if the package or the program is not installed."""
    prefix = find_package(package)
    path = Path() if prefix is None else prefix / "lib" / package / executable
    return path if path.is_file() and os.access(path, os.X_OK) else None


def find_package(package: str) -> Path | None:
    """Return the prefix of a package; None if it is not installed."""
    try:
        from ament_index_python.packages import PackageNotFoundError, get_package_prefix
    except ImportError:
        return None
    try:
        return Path(get_package_prefix(package))
    except (PackageNotFoundError, OSError):  # OSError: no installation is sourced
        return None


def use_standard_nodes(nodes: Sequence[NodeDescription], *, simulated: bool) -> list[NodeDescription]:
    """Return the graph with installed standard nodes in place of, or next to, its own.

    Args:
        simulated: whether a simulator, here or elsewhere, provides the time on ``clock``.
    """
    made = [n for own in nodes for n in (_REPLACED[own.name](own) if own.name in _REPLACED else [own])]
    time = {"use_sim_time": True} if simulated else {}
    return [
        replace(n, parameters={**n.parameters, **time}) if isinstance(n, StandardNode) else n for n in made
    ]


def rviz(graph: Sequence[NodeDescription], *, simulated: bool) -> NodeDescription:
    """Return rviz with ``config/dexstack.rviz``; it is not restarted after its window is closed.

    Raises:
        ConfigError: rviz2 is not installed.
    """
    view = ("-d", str(share_dir() / "config" / "dexstack.rviz"))
    node = _standard(graph[0], "rviz", _required("rviz2"), {"use_sim_time": simulated})
    return replace(node, arguments=view, respawn=False)


def foxglove_bridge(graph: Sequence[NodeDescription], *, simulated: bool) -> NodeDescription:
    """Return foxglove_bridge on its default port, for this machine only.

    Clients may call ``hand/stop`` and no other service; they cannot publish or set parameters.

    Raises:
        ConfigError: foxglove_bridge is not installed.
    """
    parameters = {
        "address": "127.0.0.1",
        "capabilities": ["services", "connectionGraph"],
        "service_whitelist": [".*/hand/stop$"],
        "use_sim_time": simulated,
    }
    return _standard(graph[0], "foxglove_bridge", _required("foxglove_bridge"), parameters)


def _required(package: str) -> Path:
    program = find_program(package, package)
    if program is None:
        raise ConfigError(
            f"the package {package} is not installed; "
            f"install it with sudo apt install ros-$ROS_DISTRO-{package.replace('_', '-')}"
        )
    return program


def _standard(own: NodeDescription, name: str, program: Path, parameters: Mapping[str, Any]) -> StandardNode:
    """Return a node in the namespace of ``own``, with its clock and environment."""
    kept = {
        "namespace": own.namespace,
        "remappings": own.remappings,
        "environment": own.environment,
        "respawn": own.respawn,
    }
    return StandardNode(name, parameters, program=program, **kept)


def _robot_state(own: NodeDescription) -> list[NodeDescription]:
    """Leave the links to robot_state_publisher; the own node keeps the frames of palm and object."""
    program = find_program("robot_state_publisher", "robot_state_publisher")
    if program is None:
        return [own]
    prefix = own.namespace.strip("/")
    described = {
        "robot_description": load_hand(str(own.parameters["hand"])).urdf_path.read_text(encoding="utf-8"),
        "frame_prefix": f"{prefix}/" if prefix else "",
        "publish_frequency": 30.0,
    }
    rest = replace(own, parameters={**own.parameters, "links": False})
    return [rest, _standard(own, "robot_state_publisher", program, described)]


def _recorder(own: NodeDescription) -> list[NodeDescription]:
    """Record with rosbag2 into a folder of MCAP files.

    The folder is a new one and the node is not restarted, since rosbag2 refuses an existing folder.
    """
    program = find_program("rosbag2_transport", "recorder")
    if program is None or find_package("rosbag2_storage_mcap") is None:
        return [own]
    wanted = Path(str(own.parameters["file"])).with_suffix("")
    folders = (wanted.with_name(f"{wanted.name}_{k}") if k else wanted for k in itertools.count())
    folder = next(path for path in folders if not path.exists())
    all_topics = {"record.all_topics": True, "record.disable_keyboard_controls": True}
    storage = {"storage.uri": str(folder), "storage.storage_id": "mcap"}
    return [replace(_standard(own, "rosbag2_recorder", program, all_topics | storage), respawn=False)]


def _pose_estimator(own: NodeDescription) -> list[NodeDescription]:
    """Add a node that compresses the picture with the detections on demand."""
    program = find_program("image_transport", "republish")
    if program is None or find_package("compressed_image_transport") is None:
        return [own]
    qos = f"qos_overrides.{own.namespace}/{PICTURE}.subscription.reliability"
    node = _standard(
        own,
        "image_republisher",
        program,
        {"in_transport": "raw", "out_transport": "compressed", qos: "best_effort"},
    )
    clock = tuple(pair for pair in own.remappings if pair[0] == "/clock")
    return [
        own,
        replace(node, remappings=(*clock, ("in", PICTURE), ("out/compressed", f"{PICTURE}/compressed"))),
    ]


def _hand(own: NodeDescription) -> list[NodeDescription]:
    """Add an aggregator of diagnostics, except in a namespace: ``/diagnostics`` is shared by all graphs."""
    program = find_program("diagnostic_aggregator", "aggregator_node")
    if program is None or own.namespace:
        return [own]
    groups = (share_dir() / "config" / "diagnostics.yaml",)
    return [own, replace(_standard(own, "analyzers", program, {}), parameter_files=groups)]


_REPLACED: dict[str, Callable[[NodeDescription], list[NodeDescription]]] = {
    "robot_state": _robot_state,
    "recorder": _recorder,
    "pose_estimator": _pose_estimator,
    "hand": _hand,
}
"""Replacements of the graph's own nodes by name."""
