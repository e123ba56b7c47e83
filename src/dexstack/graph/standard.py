"""Nodes that a ROS 2 installation brings, where the graph has nodes of its own or none; ``ros2
launch`` starts those that are installed.

``dexstack up`` needs none of them. What is installed is asked of the ament index, as ``ros2 run``
does.
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
from dexstack.graph.modes import Argument, NodeDescription
from dexstack.model.hand import load_hand

STANDARD = Argument(
    "standard", "yes", "use the nodes of the ROS 2 installation where they are installed", ("yes", "no")
)
RVIZ = Argument("rviz", "no", "open rviz on config/dexstack.rviz", ("yes", "no"))
LAUNCH_ARGUMENTS = (STANDARD, RVIZ)
"""What launch files take beside the arguments of a mode."""
PICTURE = "object_pose/image"


@dataclass(frozen=True)
class StandardNode(NodeDescription):
    """One process whose program is not dexstack's."""

    parameters: Mapping[str, Any] = field(default_factory=dict)  # lists, too
    program: Path = Path()
    arguments: tuple[str, ...] = ()

    @property
    def command(self) -> list[str]:
        """The program, before its ROS arguments."""
        return [str(self.program), *self.arguments]


def find_program(package: str, executable: str) -> Path | None:
    """A program of an installed package; None where the package or the program is not installed."""
    prefix = find_package(package)
    path = Path() if prefix is None else prefix / "lib" / package / executable
    return path if path.is_file() and os.access(path, os.X_OK) else None


def find_package(package: str) -> Path | None:
    """Where a package is installed; None where it is not."""
    try:
        from ament_index_python.packages import PackageNotFoundError, get_package_prefix
    except ImportError:
        return None
    try:
        return Path(get_package_prefix(package))
    except (PackageNotFoundError, OSError):  # OSError: no installation is sourced
        return None


def use_standard_nodes(nodes: Sequence[NodeDescription], *, simulated: bool) -> list[NodeDescription]:
    """The graph with what is installed in the place of own nodes, or beside them.

    Args:
        simulated: there is a simulator, here or elsewhere, whose time the standard nodes take from
            ``clock``.
    """
    made = []
    for own in nodes:
        taken = _TAKEN.get(own.name)
        made += [own] if taken is None else taken(own)
    time = {"use_sim_time": True} if simulated else {}
    return [
        replace(n, parameters={**n.parameters, **time}) if isinstance(n, StandardNode) else n for n in made
    ]


def rviz(graph: Sequence[NodeDescription], *, simulated: bool) -> NodeDescription:
    """rviz with the stack's view of the graph; who closes its window does not get it again.

    Raises:
        ConfigError: rviz2 is not installed.
    """
    program = find_program("rviz2", "rviz2")
    if program is None:
        raise ConfigError("'rviz' needs the package rviz2, which is not installed")
    view = ("-d", str(share_dir() / "config" / "dexstack.rviz"))
    return replace(
        _standard(graph[0], "rviz", program, {"use_sim_time": simulated}), arguments=view, respawn=False
    )


def _standard(own: NodeDescription, name: str, program: Path, parameters: Mapping[str, Any]) -> StandardNode:
    """In the namespace of one of the graph's nodes, and with its clock."""
    kept = {
        "namespace": own.namespace,
        "remappings": own.remappings,
        "environment": own.environment,
        "respawn": own.respawn,
    }
    return StandardNode(name, parameters, program=program, **kept)


def _robot_state(own: NodeDescription) -> list[NodeDescription]:
    """robot_state_publisher has the links; where the palm and the object are the own node knows."""
    program = find_program("robot_state_publisher", "robot_state_publisher")
    if program is None:
        return [own]
    prefix = own.namespace.strip("/")
    described = {
        "robot_description": load_hand(str(own.parameters["hand"])).urdf_path.read_text(),
        "frame_prefix": f"{prefix}/" if prefix else "",
        "publish_frequency": 30.0,
    }
    rest = replace(own, parameters={**own.parameters, "links": False})
    return [rest, _standard(own, "robot_state_publisher", program, described)]


def _recorder(own: NodeDescription) -> list[NodeDescription]:
    """rosbag2 writes a folder of that name, of MCAP files; it refuses one that is there, so that it
    is not started again."""
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
    """The picture with the detection compressed, too, while somebody asks for it so."""
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
    """An aggregator's tree is of all graphs, as /diagnostics is: one in a namespace starts none."""
    program = find_program("diagnostic_aggregator", "aggregator_node")
    if program is None or own.namespace:
        return [own]
    groups = (share_dir() / "config" / "diagnostics.yaml",)
    return [own, replace(_standard(own, "analyzers", program, {}), parameter_files=groups)]


def _foxglove(own: NodeDescription) -> list[NodeDescription]:
    """With the bridge's own port; it, too, listens to this machine only, and offers what the own
    node would."""
    program = find_program("foxglove_bridge", "foxglove_bridge")
    if program is None:
        return [own]
    shown = {
        "address": "127.0.0.1",
        "capabilities": ["services", "connectionGraph"],
        "service_whitelist": [".*/hand/stop$"],
    }
    return [_standard(own, "foxglove_bridge", program, shown)]


_TAKEN: dict[str, Callable[[NodeDescription], list[NodeDescription]]] = {
    "robot_state": _robot_state,
    "recorder": _recorder,
    "pose_estimator": _pose_estimator,
    "hand": _hand,
    "foxglove": _foxglove,
}
"""What runs in the place of an own node of that name."""
