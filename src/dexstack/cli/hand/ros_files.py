"""What ros2_control and MoveIt read of a hand, made of its model: nothing is said twice."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import yaml

from dexstack.model.frames import PALM
from dexstack.model.hand import HandModel
from dexstack.model.urdf import read_urdf

PLUGIN = "joint_state_topic_hardware_interface/JointStateTopicSystem"
CONTROLLER = "joint_trajectory"
"""The controller bears the name of the trajectory node's topic, so that its action has the name of
that node's."""
RATE = 100
"""Of the controller manager [Hz]."""
FINGERS = {4: ("index", "middle", "ring", "thumb")}
"""Names of so many fingers; others are numbered."""


def files(hand: HandModel, namespace: str = "") -> dict[str, str]:
    """File names and texts.

    Args:
        namespace: of the graph in which the hand is.
    """
    prefix = f"/{namespace.strip('/')}".rstrip("/")
    return {
        f"{hand.name}.urdf": urdf(hand, prefix),
        "ros2_controllers.yaml": yaml.safe_dump(controllers(hand, prefix), sort_keys=False),
        f"{hand.name}.srdf": srdf(hand, f"{prefix}/".lstrip("/")),
        "joint_limits.yaml": yaml.safe_dump({"joint_limits": joint_limits(hand)}, sort_keys=False),
        "moveit_controllers.yaml": yaml.safe_dump(moveit_controllers(hand, prefix), sort_keys=False),
    }


def fingers(hand: HandModel) -> dict[str, list[int]]:
    """The bodies that each finger moves, from the palm to the tip."""
    chains, count = {}, len(hand.fingertips)
    for name, tip in zip(
        FINGERS.get(count) or [f"finger{k + 1}" for k in range(count)], hand.fingertips, strict=True
    ):
        chain = [tip.body]
        while (parent := hand.bodies[chain[0]].parent) > 0:
            chain.insert(0, parent)
        chains[name] = chain
    return chains


def urdf(hand: HandModel, prefix: str = "") -> str:
    """The hand's URDF with a system of ros2_control whose hardware are the topics of the node
    ``hand``.

    Every command is sent, also one that repeats the last: the hand takes silence for a planner that
    has died.
    """
    root = ET.parse(hand.urdf_path).getroot()
    system = ET.SubElement(root, "ros2_control", name=hand.name, type="system")
    hardware = ET.SubElement(system, "hardware")
    ET.SubElement(hardware, "plugin").text = PLUGIN
    for name, value in (
        ("joint_commands_topic", f"{prefix}/joint_command"),
        ("joint_states_topic", f"{prefix}/joint_states"),
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
    """Parameters of the controller manager and of the controller.

    There is no joint_state_broadcaster: it would publish the hand's own ``joint_states`` a second
    time.
    """
    manager = {
        "update_rate": RATE,
        CONTROLLER: {"type": "joint_trajectory_controller/JointTrajectoryController"},
    }
    controller = {
        "joints": list(hand.joint_names),
        "command_interfaces": ["position"],
        "state_interfaces": ["position", "velocity"],
        "allow_partial_joints_goal": True,
    }
    sections = {"controller_manager": manager, CONTROLLER: controller}
    return {f"{prefix}/{name}": {"ros__parameters": values} for name, values in sections.items()}


def srdf(hand: HandModel, frame_prefix: str = "") -> str:
    """Groups, named poses, and the pairs of links that touch for ever, for MoveIt."""
    _, _, joints = read_urdf(hand.urdf_path)
    root = ET.Element("robot", name=ET.parse(hand.urdf_path).getroot().get("name", hand.name))
    tips = {j.parent: j.child for j in joints if j.kind == "fixed"}
    for name, chain in fingers(hand).items():
        last = hand.bodies[chain[-1]].name
        ET.SubElement(
            ET.SubElement(root, "group", name=name),
            "chain",
            base_link=hand.bodies[0].name,
            tip_link=tips.get(last, last),
        )
    everything = ET.SubElement(root, "group", name="hand")
    for name in fingers(hand):
        ET.SubElement(everything, "group", name=name)
    for pose, q in hand.poses.items():
        state = ET.SubElement(root, "group_state", name=pose, group="hand")
        for name, angle in zip(hand.joint_names, q, strict=True):
            ET.SubElement(state, "joint", name=name, value=f"{angle:g}")
    ET.SubElement(
        root,
        "virtual_joint",
        name="palm_mount",
        type="fixed",
        parent_frame=frame_prefix + PALM,
        child_link=hand.bodies[0].name,
    )
    for joint in joints:
        ET.SubElement(root, "disable_collisions", link1=joint.parent, link2=joint.child, reason="Adjacent")
    return _text(root)


def joint_limits(hand: HandModel) -> dict[str, dict[str, Any]]:
    """As MoveIt reads them; the hand says nothing of accelerations."""
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
    """Where MoveIt sends what it has planned."""
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
