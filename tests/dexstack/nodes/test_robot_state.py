"""Frames, descriptions and markers for rviz, and the views in config/ against the topics of the nodes."""

import importlib.util
import itertools
import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np
import pytest
import yaml
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from harness import HAND, joint_state, pose_message, spinning, wait_until
from rclpy.qos import DurabilityPolicy, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from visualization_msgs.msg import MarkerArray

from dexstack.config import share_dir
from dexstack.model.frames import FrameTree
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.model.scene import build_scene
from dexstack.nodes import robot_state, wire
from dexstack.nodes.frames import FrameBuffer
from dexstack.nodes.robot_state import RobotStateNode
from dexstack.nodes.tf import transforms
from dexstack.nodes.wire import LATCHED, SENSOR
from dexstack.perception.se3 import Transform, difference
from docs.write_reference import _nodes as reference_nodes


@pytest.mark.parametrize("side", ["right", "left"])
def test_the_tree_is_complete_and_agrees_with_the_scene(side):
    hand = load_hand(side)
    tree = FrameTree(hand)
    q = np.random.default_rng(0).uniform(hand.lower, hand.upper)
    messages = transforms(1.5, [*tree.fixed, *tree.moving(q)])
    parents = {m.child_frame_id: m for m in messages}
    links = ElementTree.parse(hand.urdf_path).getroot().findall("link")
    names = {link.get("name") for link in links}
    assert set(parents) == names | {"palm"} and len(messages) == len(parents), "every frame has one parent"
    assert sum(len(link.findall("visual")) for link in links) >= 17
    assert all(len(link.findall("visual")) >= len(link.findall("collision")) for link in links)

    def X_W(name: str) -> Transform:
        if name == "world":
            return Transform.of_pose([0, 0, 0, 1, 0, 0, 0])
        p, r = parents[name].transform.translation, parents[name].transform.rotation
        own = Transform.of_pose([p.x, p.y, p.z, r.w, r.x, r.y, r.z])
        return X_W(parents[name].header.frame_id).compose(own)

    model = build_scene(hand, load_object("cube")).compile()
    data = mujoco.MjData(model)
    data.qpos[:16] = q
    mujoco.mj_kinematics(model, data)
    for body in hand.bodies:
        np.testing.assert_allclose(X_W(body.name).p, data.body(body.name).xpos, atol=1e-9)
        np.testing.assert_allclose(X_W(body.name).R, data.body(body.name).xmat.reshape(3, 3), atol=1e-9)
    for tip in hand.fingertips:
        X = X_W(hand.bodies[tip.body].name)
        named = X_W(hand.bodies[tip.body].name + "_tip")
        np.testing.assert_allclose(named.p, X.p + X.R @ tip.p_BT, atol=1e-9)


@pytest.fixture
def feed(probe) -> Callable[[], None]:
    """Return a function that publishes the object's pose and the joint angles."""
    to_pose = probe.node.create_publisher(PoseWithCovarianceStamped, "object_pose", SENSOR)
    to_joints, ticks = probe.node.create_publisher(JointState, "joint_states", SENSOR), itertools.count(1)

    def publish() -> None:
        to_pose.publish(pose_message([0.25, 0, 0, 1, 0, 0, 0]))
        to_joints.publish(joint_state(next(ticks), position=HAND.home))

    return publish


def test_description_and_markers_reach_late_subscribers(domain, probe, feed):
    descriptions: list[String] = []
    seen: list[MarkerArray] = []
    to_goal = probe.node.create_publisher(PoseStamped, "task/goal", LATCHED)
    to_goal.publish(pose_message([0.5, 0, 0, 1, 0, 0, 0], kind=PoseStamped))
    with spinning(domain, RobotStateNode) as (node,):
        assert node.autostart()
        probe.node.create_subscription(String, "robot_description", descriptions.append, LATCHED)
        probe.node.create_subscription(MarkerArray, "object_markers", seen.append, 1)

        wait_until(
            lambda: feed() or (descriptions and seen and len(seen[-1].markers) == 2),
            20,
            "the description and two markers",
        )
        has_tf = importlib.util.find_spec("tf2_msgs") is not None
        assert ("/tf" in dict(node.get_topic_names_and_types())) == has_tf
    assert descriptions[0].data == load_hand("right").urdf_path.read_text()
    object_, target = seen[-1].markers
    assert (object_.pose.position.x, target.pose.position.x) == (0.25, 0.5)
    assert object_.color.a > target.color.a
    corners = np.array([(p.x, p.y, p.z) for p in object_.points])
    np.testing.assert_allclose(np.ptp(corners, axis=0), load_object("cube").size, atol=1e-6)


@pytest.mark.parametrize(("links", "on_palm"), [(True, False), (False, True)])
def test_the_links_and_the_palm_may_be_left_to_others(domain, feed, monkeypatch, links, on_palm):
    sent: dict[str, list] = {"/tf": [], "/tf_static": []}
    # A stand-in for TFMessage, which is not on PyPI.
    monkeypatch.setattr(robot_state, "tf_message", lambda: SimpleNamespace)
    publisher = RobotStateNode.create_publisher

    def create(node, kind, name, qos):
        if kind is not SimpleNamespace:
            return publisher(node, kind, name, qos)
        return SimpleNamespace(publish=lambda m: sent[name].extend(m.transforms))

    monkeypatch.setattr(RobotStateNode, "create_publisher", create)
    settings = {"links": links, "world_on_palm": on_palm}
    arguments = [x for name, value in settings.items() for x in ("-p", f"{name}:={str(value).lower()}")]
    with spinning(domain, RobotStateNode, arguments=arguments) as (node,):
        assert node.autostart()
        assert ("/robot_description" in {p.topic_name for p in node.publishers}) == links

        wait_until(
            lambda: feed() or "object" in {m.child_frame_id for m in sent["/tf"]},
            10,
            "the object's frame",
        )
    urdf = ElementTree.parse(load_hand("right").urdf_path).getroot()
    theirs = {joint.find("child").get("link") for joint in urdf.findall("joint")}
    (root,) = {link.get("name") for link in urdf.findall("link")} - theirs
    ours = {m.child_frame_id for messages in sent.values() for m in messages}
    assert ours == {"world" if on_palm else "palm", root, "object"} | (theirs if links else set())
    buffer, hand = FrameBuffer(), load_hand("right")
    buffer.note(SimpleNamespace(transforms=sent["/tf_static"]), fixed=True)
    mounted = Transform.of_pose([*hand.p_WP, *hand.quat_WP])
    assert np.abs(difference(buffer.pose("world", "palm", 1.0), mounted)).max() < 1e-9


def topics(part) -> list[dict]:
    """Return every topic of an rviz configuration with its quality of service."""
    inside = part.values() if isinstance(part, dict) else part if isinstance(part, list) else []
    mine = [part] if isinstance(part, dict) and "Durability Policy" in part else []
    return mine + [topic for x in inside for topic in topics(x)]


def uses(*how: str) -> dict[str, Any]:
    """Return the topics and services that nodes use in these ways, and their quality of service."""
    named = ((use.name.replace("~", node.name), use) for node in reference_nodes() for use in node.uses)
    return {name: getattr(wire, use.qos or "", None) for name, use in named if use.how in how}


def test_rviz_shows_existing_topics_and_requests_no_more_than_publishers_offer():
    """A reliable reader gets nothing from a best-effort writer, a latched one nothing from a volatile one."""
    manager = yaml.safe_load((share_dir() / "config" / "dexstack.rviz").read_text())["Visualization Manager"]
    assert manager["Global Options"]["Fixed Frame"] == "world"
    shown, offers = topics(manager["Displays"]), uses("writes")
    names = {topic["Value"] for topic in shown}
    assert {"robot_description", "object_pose", "contact_markers", "object_markers", "contact_patch"} <= names
    for topic in shown:
        offer = offers[topic["Value"]]
        if topic["Reliability Policy"] == "Reliable":
            assert offer.reliability == ReliabilityPolicy.RELIABLE, topic
        if topic["Durability Policy"] == "Transient Local":
            assert offer.durability == DurabilityPolicy.TRANSIENT_LOCAL, topic
    (tool,) = topics(manager["Tools"])
    assert tool["Value"] == "goal_pose" and tool["Reliability Policy"] == "Reliable"
    assert uses("reads")["goal_pose"].durability == DurabilityPolicy.VOLATILE, "the tool is volatile"


def test_rqt_shows_existing_topics():
    perspective = json.loads((share_dir() / "config" / "dexstack.perspective").read_text())
    topics = set(re.findall(r"/([\w/]+)/data", json.dumps(perspective)))
    assert topics and topics <= set(uses("writes"))
    plugins = perspective["groups"]["pluginmanager"]["keys"]["running-plugins"]["repr"]
    assert "rqt_reconfigure/Param" in plugins


def test_the_diagnostics_groups_contain_every_node_once():
    analyzers = yaml.safe_load((share_dir() / "config" / "diagnostics.yaml").read_text())["analyzers"][
        "ros__parameters"
    ]
    named = [name for group in analyzers.values() if isinstance(group, dict) for name in group["contains"]]
    assert sorted(named) == sorted(f"/{node.name}" for node in reference_nodes())


def test_the_foxglove_layout_uses_existing_topics_and_services():
    layout = json.loads((share_dir() / "config" / "dexstack.foxglove.json").read_text())
    panels = layout["configById"]

    def of(kind: str) -> list[dict]:
        return [panel for name, panel in panels.items() if name.startswith(f"{kind}!")]

    (scene,) = of("3D")
    looked = {*scene["topics"], *(layer["topic"] for layer in scene["layers"].values() if "topic" in layer)}
    looked |= {path["value"].partition(".")[0] for panel in of("Plot") for path in panel["paths"]}
    looked |= {panel["imageMode"]["imageTopic"] for panel in of("Image")}
    assert {"/robot_description", "/contact_patch", "/rollout/error"} <= looked
    assert looked <= {f"/{name}" for name in uses("writes")} and scene["followTf"] == "world"
    assert scene["publish"]["poseTopic"] in {f"/{name}" for name in uses("reads")}
    called = {panel["serviceName"] for panel in of("CallService")}
    assert len(called) == 3 and called <= {f"/{name}" for name in uses("offers")}

    def placed(part) -> list[str]:
        return [part] if isinstance(part, str) else placed(part["first"]) + placed(part["second"])

    assert sorted(placed(layout["layout"])) == sorted(panels)
