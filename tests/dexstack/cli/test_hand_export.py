"""``dexstack hand export``: what it writes is well formed, agrees with the hand, and is read by a
genuine reader of URDF and SRDF."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import yaml

from dexstack.cli.hand.ros_files import fingers
from dexstack.cli.main import main
from dexstack.model.hand import load_hand
from tests.dexstack.model.generated_hand import write_hand


@pytest.fixture(params=["right", "left", "of three fingers"])
def made(request, tmp_path, outcome):
    """The hand, and the folder of its files."""
    given = str(write_hand(tmp_path, (3, 2, 4))) if " " in request.param else request.param
    code, results = outcome(main, "hand", "export", given, "-o", tmp_path / "out", "--namespace", "robot")
    assert code == 0 and set(results["files"]) == {path.name for path in (tmp_path / "out").iterdir()}
    return load_hand(given), tmp_path / "out"


def read(folder, ending):
    (path,) = folder.glob(f"*{ending}")
    return (
        ElementTree.parse(path).getroot()
        if ending in (".urdf", ".srdf")
        else yaml.safe_load(path.read_text())
    )


def test_ros2_control_commands_every_joint_once_within_the_hands_limits(made):
    hand, folder = made
    root = read(folder, ".urdf")
    assert root.get("name") == ElementTree.parse(hand.urdf_path).getroot().get("name")
    (system,) = root.findall("ros2_control")
    params = {p.get("name"): p.text for p in system.findall("hardware/param")}
    assert (
        params["joint_commands_topic"] == "/robot/joint_command"
        and params["joint_states_topic"] == "/robot/joint_states"
    )
    assert float(params["trigger_joint_command_threshold"]) < 0.0
    joints = system.findall("joint")
    assert [j.get("name") for j in joints] == list(hand.joint_names)
    for i, joint in enumerate(joints):
        (command,) = joint.findall("command_interface")
        limits = {p.get("name"): float(p.text) for p in command.findall("param")}
        assert command.get("name") == "position" and limits == {"min": hand.lower[i], "max": hand.upper[i]}
        assert [s.get("name") for s in joint.findall("state_interface")] == ["position", "velocity", "effort"]
        assert float(joint.find("state_interface/param").text) == hand.home[i]
    given = read(folder, "ros2_controllers.yaml")
    assert given["/robot/joint_trajectory"]["ros__parameters"]["joints"] == list(hand.joint_names)
    assert "joint_trajectory" in given["/robot/controller_manager"]["ros__parameters"]
    constraints = given["/robot/joint_trajectory"]["ros__parameters"]["constraints"]
    assert constraints.pop("goal_time") > 0.0 and constraints.pop("stopped_velocity_tolerance") == 0.0
    assert list(constraints) == list(hand.joint_names)
    for limits in constraints.values():
        assert 0.0 < limits["goal"] < limits["trajectory"], "without a tolerance a limp hand succeeds"


def test_the_fingers_of_the_srdf_cover_every_joint_once(made):
    hand, folder = made
    root, description = read(folder, ".srdf"), ElementTree.parse(hand.urdf_path).getroot()
    above = {
        j.find("child").get("link"): (j.get("name"), j.get("type"), j.find("parent").get("link"))
        for j in description.findall("joint")
    }
    groups = {g.get("name"): g for g in root.findall("group")}
    assert set(groups) == {*fingers(hand), "hand"} and [g.get("name") for g in groups["hand"]] == list(
        fingers(hand)
    )
    found = []
    for name in fingers(hand):
        (chain,) = groups[name].findall("chain")
        link, moved = chain.get("tip_link"), []
        while link != chain.get("base_link"):
            joint, kind, link = above[link]
            moved += [joint] * (kind == "revolute")
        assert [hand.joint_names[hand.bodies[b].joint] for b in fingers(hand)[name]] == moved[::-1]
        found += moved
    assert sorted(found) == sorted(hand.joint_names)
    pairs = {frozenset((p.get("link1"), p.get("link2"))) for p in root.findall("disable_collisions")}
    assert pairs == {frozenset((link, parent)) for link, (_, _, parent) in above.items()}
    states = {
        s.get("name"): {j.get("name"): float(j.get("value")) for j in s} for s in root.findall("group_state")
    }
    assert states == {name: dict(zip(hand.joint_names, q, strict=True)) for name, q in hand.poses.items()}
    assert root.find("virtual_joint").get("parent_frame") == "robot/palm"


def test_moveit_has_the_hands_limits_and_its_action(made):
    hand, folder = made
    limits = read(folder, "joint_limits.yaml")["joint_limits"]
    assert list(limits) == list(hand.joint_names)
    for key, wanted in (
        ("min_position", hand.lower),
        ("max_position", hand.upper),
        ("max_velocity", hand.velocity),
    ):
        np.testing.assert_array_equal([limits[name][key] for name in hand.joint_names], wanted)
    manager = read(folder, "moveit_controllers.yaml")["moveit_simple_controller_manager"]
    (name,) = manager["controller_names"]
    assert f"{name}/{manager[name]['action_ns']}" == "robot/joint_trajectory/follow_joint_trajectory"
    assert manager[name]["joints"] == list(hand.joint_names)


def test_pinocchio_reads_them(made, pinocchio):
    pin, (hand, folder) = pinocchio, made
    (urdf,), (srdf,) = folder.glob("*.urdf"), folder.glob("*.srdf")
    model = pin.buildModelFromUrdf(str(urdf))
    shapes = pin.buildGeomFromUrdf(model, str(urdf), pin.GeometryType.COLLISION)
    shapes.addAllCollisionPairs()
    before = len(shapes.collisionPairs)
    pin.removeCollisionPairs(model, shapes, str(srdf))
    assert len(shapes.collisionPairs) < before
    pin.loadReferenceConfigurations(model, str(srdf))
    order = [model.joints[model.getJointId(name)].idx_q for name in hand.joint_names]
    for name, q in hand.poses.items():
        np.testing.assert_allclose(model.referenceConfigurations[name][order], q)
    np.testing.assert_allclose(model.lowerPositionLimit[order], hand.lower)
    np.testing.assert_allclose(model.velocityLimit[order], hand.velocity)


def test_joints_have_the_vendors_names_on_request_thumb_first(tmp_path, capsys):
    """Only the names change: the thumb's joints are joint_12.0 … 15.0 here and ah_joint00 … 03 there."""
    for names in ("own", "vendor"):
        assert main(["hand", "export", "left", "--names", names, "-o", str(tmp_path / names)]) == 0
    fingers = {0: 12, 1: 0, 2: 4, 3: 8}
    vendor = {f"ah_joint{f}{j}": f"joint_{first + j}.0" for f, first in fingers.items() for j in range(4)}
    for own in (tmp_path / "own").iterdir():
        text = (tmp_path / "vendor" / own.name).read_text().replace("/vendor/joint_states", "/joint_states")
        for theirs, ours in vendor.items():
            assert theirs in text
            text = text.replace(f'"{theirs}"', f'"{ours}"').replace(f"- {theirs}\n", f"- {ours}\n")
            text = text.replace(f" {theirs}:\n", f" {ours}:\n")
        assert text == own.read_text()
    capsys.readouterr()
    assert main(["hand", "export", "leap_right", "--names", "vendor", "-o", str(tmp_path / "leap")]) == 2
    assert "only Allegro hands have them" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["hand", "export", "-o", str(tmp_path / "file" / "out")]) == 2
    assert "cannot write" in capsys.readouterr().err
