"""ROS 2 launch descriptions of the graph; needs ``launch`` and ``launch_ros``, which come with a ROS 2
installation."""

from __future__ import annotations

import os
from typing import Any

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, LogInfo, OpaqueFunction, Shutdown
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from dexstack.config import share_dir
from dexstack.graph.modes import MODES, NodeDescription, discovery_range
from dexstack.graph.standard import LAUNCH_ARGUMENTS, foxglove_bridge, rviz, use_standard_nodes
from dexstack.lazy import Registry


def launch_description(mode: str) -> LaunchDescription:
    """Return the launch description of ``ros2 launch dexstack <mode>.launch.py``."""
    arguments = MODES[mode].arguments

    def nodes(context: LaunchContext) -> list[Node | LogInfo]:
        values = {a.name: context.launch_configurations[a.name] for a in arguments}
        MODES[mode].check(values)
        said = MODES[mode].notes(values)
        graph = MODES[mode].describe(values)
        chosen = {a.name: a.parse(context.launch_configurations[a.name]) for a in LAUNCH_ARGUMENTS}
        simulated = "plant" not in MODES[mode].without_effect
        views = [rviz(graph, simulated=simulated)] if chosen["rviz"] == "yes" else []
        views += [foxglove_bridge(graph, simulated=simulated)] if chosen["foxglove"] == "yes" else []
        if chosen["standard"] == "yes":
            graph = use_standard_nodes(graph, simulated=simulated)
        reach = discovery_range(values["discovery"], values["part"])
        return [*(LogInfo(msg=text) for text in said), *(_node(d, reach) for d in graph + views)]

    declared = [
        DeclareLaunchArgument(
            a.name,
            default_value=str(a.default),
            description=a.doc,
            # The values of a registry include paths of files, so the mode checks them.
            choices=list(a.choices) if a.choices and not isinstance(a.choices, Registry) else None,
        )
        for a in (*arguments, *LAUNCH_ARGUMENTS)
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=nodes)])


def part_of_a_graph(part: str) -> LaunchDescription:
    """Return the launch description of one part of the graph of a ``mode``, with that mode's arguments.

    Unlike ``<mode>.launch.py part:=…`` it looks for the other part on this machine by default.
    """
    mode = DeclareLaunchArgument(
        "mode", default_value="sim", description="mode of the graph", choices=list(MODES)
    )
    near = DeclareLaunchArgument(
        "discovery", default_value="localhost", description="range of discovery of the other part"
    )
    of_mode = PythonLaunchDescriptionSource(
        [str(share_dir() / "launch") + "/", LaunchConfiguration("mode"), ".launch.py"]
    )
    return LaunchDescription(
        [mode, near, IncludeLaunchDescription(of_mode, launch_arguments=[("part", part)])]
    )


def _node(d: NodeDescription, reach: str) -> Node:
    return Node(
        executable=d.command[0],
        arguments=d.command[1:],
        name=d.name,
        exec_name=d.name,
        namespace=d.namespace,
        parameters=[
            *(str(path) for path in d.parameter_files),
            {name: _value(value) for name, value in d.parameters.items()},
        ],
        remappings=list(d.remappings),
        additional_env={"ROS_AUTOMATIC_DISCOVERY_RANGE": reach}
        | {key: os.environ.get(key, value) for key, value in d.environment.items()},
        respawn=d.respawn and not d.ends_run,
        respawn_delay=d.respawn_delay,
        output="screen",
        on_exit=Shutdown() if d.ends_run else None,
    )


def _value(value: Any) -> Any:
    """Return the value so that a string stays a string, even one that reads as a number."""
    return ParameterValue(value, value_type=str) if isinstance(value, str) else value
