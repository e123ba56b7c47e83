"""Files of a hand for ros2_control and MoveIt, generated from its model."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import Any

import yaml

from dexstack.hand.allegro.names import vendor_names
from dexstack.hand.trajectory import FollowParams
from dexstack.model.frames import PALM
from dexstack.model.hand import HandModel
from dexstack.model.urdf import read_urdf

PLUGIN = "joint_state_topic_hardware_interface/JointStateTopicSystem"
CONTROLLER = "joint_trajectory"
"""Name of the controller, that of the trajectory node's topic so that both have the same action."""
VENDOR = "vendor"
"""Namespace of the joint states under the vendor's names; see the hand node's ``vendor_names``."""
RATE = 100
"""Rate of the controller manager [Hz]."""
FINGERS = {4: ("index", "middle", "ring", "thumb")}
"""Names of the fingers by their number; fingers of other hands are numbered."""


def files(hand: HandModel, namespace: str = "", vendor: bool = False) -> dict[str, str]:
    """Return the files' texts by name.

    Args:
        namespace: namespace of the hand's graph.
        vendor: name joints as the vendor's driver does.

    Raises:
        ConfigError: the hand has no such names.
    """
    own = _files(hand, namespace, f"{VENDOR}/joint_states" if vendor else "joint_states")
    return {name: renamed(text, vendor_names(hand)) if vendor else text for name, text in own.items()}


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Return the text with every joint name that stands alone replaced."""
    pattern = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.sub(rf"(?<![\w.])(?:{pattern})(?![\w.])", lambda match: names[match[0]], text)


def _files(hand: HandModel, namespace: str, states: str) -> dict[str, str]:
    prefix = f"/{namespace.strip('/')}".rstrip("/")
    return {
        f"{hand.name}.urdf": urdf(hand, prefix, states),
        "ros2_controllers.yaml": yaml.safe_dump(controllers(hand, prefix), sort_keys=False),
        f"{hand.name}.srdf": srdf(hand, f"{prefix}/".lstrip("/")),
        "joint_limits.yaml": yaml.safe_dump({"joint_limits": joint_limits(hand)}, sort_keys=False),
        "moveit_controllers.yaml": yaml.safe_dump(moveit_controllers(hand, prefix), sort_keys=False),
    }


def fingers(hand: HandModel) -> dict[str, list[int]]:
    """Return the bodies of each finger, from the palm to the tip."""
    chains, count = {}, len(hand.fingertips)
    for name, tip in zip(
        FINGERS.get(count) or [f"finger{k + 1}" for k in range(count)], hand.fingertips, strict=True
    ):
        chain = [tip.body]
        while (parent := hand.bodies[chain[0]].parent) > 0:
            chain.insert(0, parent)
        chains[name] = chain
    return chains


def urdf(hand: HandModel, prefix: str = "", states: str = "joint_states") -> str:
    """Return the hand's URDF with a ros2_control system whose hardware are the topics of the node
    ``hand``.

    Repeated commands are sent too, because the hand treats silence as a dead planner. The plugin takes
    position, velocity and effort from the messages, and no other quantity.
    """
    root = ET.parse(hand.urdf_path).getroot()
    system = ET.SubElement(root, "ros2_control", name=hand.name, type="system")
    hardware = ET.SubElement(system, "hardware")
    ET.SubElement(hardware, "plugin").text = PLUGIN
    for name, value in (
        ("joint_commands_topic", f"{prefix}/joint_command"),
        ("joint_states_topic", f"{prefix}/{states}"),
        ("trigger_joint_command_threshold", "-1"),
    ):
        ET.SubElement(hardware, "param", name=name).text = value
    for name, low, high, home in zip(hand.joint_names, hand.lower, hand.upper, hand.home, strict=True):
        joint = ET.SubElement(system, "joint", name=name)
        command = ET.SubElement(joint, "command_interface", name="position")
        ET.SubElement(command, "param", name="min").text = f"{low:g}"
        ET.SubElement(command, "param", name="max").text = f"{high:g}"
        state = ET.SubElement(joint, "state_interface", name="position")
        ET.SubElement(state, "param", name="initial_value").text = f"{home:g}"
        for interface in ("velocity", "effort"):
            ET.SubElement(joint, "state_interface", name=interface)
    return _text(root)


def controllers(hand: HandModel, prefix: str = "") -> dict[str, Any]:
    """Return the parameters of the controller manager and of the controller.

    There is no joint_state_broadcaster, which would publish the hand's ``joint_states`` again. The
    tolerances are those of the trajectory node: without them the controller would report success for a
    hand that is limp or whose angles are stale. A velocity tolerance would fail on encoder noise.
    """
    tolerances = FollowParams()
    each = {"trajectory": tolerances.path_tolerance, "goal": tolerances.goal_tolerance}
    manager = {
        "update_rate": RATE,
        CONTROLLER: {"type": "joint_trajectory_controller/JointTrajectoryController"},
    }
    controller = {
        "joints": list(hand.joint_names),
        "command_interfaces": ["position"],
        "state_interfaces": ["position", "velocity"],
        "allow_partial_joints_goal": True,
        "constraints": {
            "goal_time": tolerances.goal_time,
            "stopped_velocity_tolerance": 0.0,
            **{name: dict(each) for name in hand.joint_names},
        },
    }
    sections = {"controller_manager": manager, CONTROLLER: controller}
    return {f"{prefix}/{name}": {"ros__parameters": values} for name, values in sections.items()}


def srdf(hand: HandModel, frame_prefix: str = "") -> str:
    """Return MoveIt's groups, named poses and pairs of adjacent links."""
    _, _, joints = read_urdf(hand.urdf_path)
    root = ET.Element("robot", name=ET.parse(hand.urdf_path).getroot().get("name", hand.name))
    tips = {j.parent: j.child for j in joints if j.kind == "fixed"}
    palm = hand.bodies[0].name
    for name, chain in fingers(hand).items():
        group, last = ET.SubElement(root, "group", name=name), hand.bodies[chain[-1]].name
        ET.SubElement(group, "chain", base_link=palm, tip_link=tips.get(last, last))
    everything = ET.SubElement(root, "group", name="hand")
    for name in fingers(hand):
        ET.SubElement(everything, "group", name=name)
    for pose, q in hand.poses.items():
        state = ET.SubElement(root, "group_state", name=pose, group="hand")
        for name, angle in zip(hand.joint_names, q, strict=True):
            ET.SubElement(state, "joint", name=name, value=f"{angle:g}")
    mount = {"name": "palm_mount", "type": "fixed", "parent_frame": frame_prefix + PALM, "child_link": palm}
    ET.SubElement(root, "virtual_joint", mount)
    for joint in joints:
        ET.SubElement(root, "disable_collisions", link1=joint.parent, link2=joint.child, reason="Adjacent")
    return _text(root)


def joint_limits(hand: HandModel) -> dict[str, dict[str, Any]]:
    """Return MoveIt's joint limits, without accelerations."""
    return {
        name: {
            "has_position_limits": True,
            "min_position": float(hand.lower[i]),
            "max_position": float(hand.upper[i]),
            "has_velocity_limits": True,
            "max_velocity": float(hand.velocity[i]),
            "has_acceleration_limits": False,
        }
        for i, name in enumerate(hand.joint_names)
    }


def moveit_controllers(hand: HandModel, prefix: str = "") -> dict[str, Any]:
    """Return the controllers that execute MoveIt's plans."""
    name = f"{prefix}/{CONTROLLER}".lstrip("/")
    follow = {
        "type": "FollowJointTrajectory",
        "action_ns": "follow_joint_trajectory",
        "default": True,
        "joints": list(hand.joint_names),
    }
    return {
        "moveit_controller_manager": "moveit_simple_controller_manager/MoveItSimpleControllerManager",
        "moveit_simple_controller_manager": {"controller_names": [name], name: follow},
    }


def _text(root: ET.Element) -> str:
    ET.indent(root)
    return '<?xml version="1.0"?>\n' + ET.tostring(root, encoding="unicode") + "\n"
