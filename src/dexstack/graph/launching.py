"""The graph description as a ROS 2 launch description; needs ``launch`` and ``launch_ros``, which
come with a ROS 2 installation."""

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
from dexstack.graph.standard import LAUNCH_ARGUMENTS, RVIZ, STANDARD, rviz, use_standard_nodes
from dexstack.lazy import Registry


def launch_description(mode: str) -> LaunchDescription:
    """What ``ros2 launch dexstack <mode>.launch.py`` runs."""
    arguments = MODES[mode].arguments

    def nodes(context: LaunchContext) -> list[Node | LogInfo]:
        values = {a.name: context.launch_configurations[a.name] for a in arguments}
        idle = [
            LogInfo(msg=f"'{name}' changes nothing in the mode '{mode}'")
            for name in MODES[mode].ignored(values)
        ]
        MODES[mode].check(values)
        reach = discovery_range(values["discovery"], values["part"])
        graph = MODES[mode].describe(values)
        own = {a.name: a.parse(context.launch_configurations[a.name]) for a in LAUNCH_ARGUMENTS}
        simulated = "plant" not in MODES[mode].without_effect
        shown = [rviz(graph, simulated=simulated)] if own[RVIZ.name] == "yes" else []
        if own[STANDARD.name] == "yes":
            graph = use_standard_nodes(graph, simulated=simulated)
        return idle + [_node(description, reach) for description in graph + shown]

    declarations = [*arguments, *LAUNCH_ARGUMENTS]
    # a registry takes own files beside its names: the mode looks at what was given
    closed = {
        a.name: list(a.choices) for a in declarations if a.choices and not isinstance(a.choices, Registry)
    }
    declared = [
        DeclareLaunchArgument(
            a.name, default_value=str(a.default), description=a.doc, choices=closed.get(a.name)
        )
        for a in declarations
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=nodes)])


def part_of_a_graph(part: str) -> LaunchDescription:
    """One part of the graph of a ``mode``, with that mode's arguments; unlike a part of
    ``<mode>.launch.py`` it looks for the other one on this machine, unless ``discovery`` says
    otherwise."""
    mode = DeclareLaunchArgument(
        "mode", default_value="sim", description="what the robot is", choices=list(MODES)
    )
    near = DeclareLaunchArgument(
        "discovery", default_value="localhost", description="how far the other part is looked for"
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
    """A string stays one, whatever it looks like."""
    return ParameterValue(value, value_type=str) if isinstance(value, str) else value
