"""Import of hands: the packaged hands are reproduced, other files are read like by MuJoCo, files without
a plausible hand are rejected."""

import json
import re

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from dexstack.cli.main import main
from dexstack.errors import ConfigError
from dexstack.graph.settings import Spec
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.model.placing import place_on_palm
from dexstack.model.scene import build_scene
from dexstack.onboarding.add_hand import HandWishes, add_hand
from dexstack.onboarding.resting import WIDTHS, Figure
from dexstack.trials.sweep import loop_of
from tests.dexstack.model.generated_hand import LENGTH, RADIUS, SPACING, TIP, write_hand
from tests.dexstack.model.tree import at

ALLEGRO_TIPS = tuple(f"link_{k}.0_tip" for k in (3, 7, 11, 15))


@pytest.fixture(scope="module")
def allegro(tmp_path_factory):
    """The packaged hand's URDF, imported without arguments for palm or tips."""
    return add_hand(load_hand("right").urdf_path, tmp_path_factory.mktemp("allegro"))


def generated(folder, fingers=(3, 3, 3), edit=lambda text: text):
    write_hand(folder, fingers)
    file = folder / "robot.urdf"
    file.write_text(edit((folder / "hand.urdf").read_text()))
    return file


def assert_same_robot(hand, own):
    assert hand.joint_names == own.joint_names and hand.chains == own.chains and hand.side == own.side
    for key in ("lower", "upper", "effort", "velocity", "damping"):
        np.testing.assert_allclose(getattr(hand, key), getattr(own, key), rtol=1e-9)
    assert [body.name for body in hand.bodies] == [body.name for body in own.bodies]
    for body, theirs in zip(hand.bodies, own.bodies, strict=True):
        assert body.mass == pytest.approx(theirs.mass, rel=1e-9)
        np.testing.assert_allclose(body.com, theirs.com, atol=1e-9)
        np.testing.assert_allclose(body.inertia, theirs.inertia, rtol=1e-5, atol=1e-12)
        np.testing.assert_allclose(body.p_PB, theirs.p_PB, atol=1e-9)
        np.testing.assert_allclose(body.R_PB_at_zero, theirs.R_PB_at_zero, atol=1e-9)
        assert sorted(s.kind for s in body.shapes) == sorted(s.kind for s in theirs.shapes)
        for shape in theirs.shapes:
            assert any(
                s.kind == shape.kind
                and np.allclose(s.p, shape.p, atol=1e-9)
                and np.allclose(s.size, shape.size)
                for s in body.shapes
            )
    for tip, theirs in zip(hand.fingertips, own.fingertips, strict=True):
        assert tip.body == theirs.body
        np.testing.assert_allclose(tip.p_BT, theirs.p_BT, atol=1e-9)
    assert hand.fingertip_radius == pytest.approx(own.fingertip_radius)
    np.testing.assert_allclose(hand.quat_WP, own.quat_WP, atol=1e-9)


def test_the_packaged_allegro_is_reproduced(allegro):
    """The mount is 11 mm lower by rule, and the fingertips at home are within 22 mm of ours."""
    hand, own = allegro.hand, load_hand("right")
    assert_same_robot(hand, own)
    assert allegro.draft.tips == ALLEGRO_TIPS and allegro.draft.fits == () and hand.ignored_contacts == ()
    assert hand.swing_joints == own.swing_joints and hand.planner == "sampling" and own.planner == ""
    np.testing.assert_allclose(hand.p_WP, own.p_WP, atol=0.012)
    tips = [
        np.asarray(h.kinematics().fingertips(h.kinematics().poses(jnp.asarray(h.home)))) - h.p_WP
        for h in (hand, own)
    ]
    assert np.linalg.norm(tips[0] - tips[1], axis=1).max() < 0.022


@pytest.mark.slow
@pytest.mark.parametrize("name", ["left", "leap_right", "leap_left"])
def test_the_other_packaged_hands_are_reproduced(name, tmp_path):
    assert_same_robot(add_hand(load_hand(name).urdf_path, tmp_path).hand, load_hand(name))


def test_the_written_hand_touches_nothing_and_has_a_place_for_a_cube(allegro):
    hand = load_hand(allegro.yaml)
    model = build_scene(hand, None).compile()
    for q in hand.poses.values():
        assert (q >= hand.lower).all() and (q <= hand.upper).all() and at(model, q).ncon == 0
    assert set(hand.poses) == {"home", "flat", "open"}
    thumb_tip = at(model, hand.poses["open"]).body(hand.bodies[hand.fingertips[-1].body].name).xpos[2]
    assert (
        thumb_tip
        < 0.02
        < at(model, hand.poses["flat"]).body(hand.bodies[hand.fingertips[-1].body].name).xpos[2]
    )
    start = place_on_palm(hand, load_object("cube"))
    assert start.hand_pose == "home" and np.linalg.norm(start.pose_WO[:2]) < 0.02
    assert sorted(path.name for path in allegro.yaml.parent.iterdir()) == [
        "allegro_v4_right.urdf",
        "allegro_v4_right.yaml",
    ]


def test_the_free_space_is_over_the_palm_where_the_fingers_reach_that_far(tmp_path):
    """Not over the first links, of a hand whose fingers reach several places as easily."""
    low, high = Figure(add_hand(load_hand("leap_right").urdf_path, tmp_path).hand).palm()
    assert low[:, 0].min() <= -WIDTHS[0] and high[:, 0].max() >= WIDTHS[0]


def test_a_claw_of_unequal_fingers(tmp_path):
    """Its palm is up in the file; tips and radius in closed form."""
    hand = add_hand(generated(tmp_path, (3, 2, 4)), tmp_path / "made").hand
    assert hand.chains == (3, 2, 4) and hand.side == "right" and set(hand.poses) == {"home"}
    assert hand.fingertip_radius == pytest.approx(TIP)
    np.testing.assert_allclose(np.abs(hand.quat_WP[[1, 2]]), 0.0, atol=1e-6)
    tree = hand.kinematics()
    found = np.asarray(tree.fingertips(tree.poses(jnp.zeros(9)))) - hand.p_WP
    heights = [SPACING + n * LENGTH for n in hand.chains]
    np.testing.assert_allclose(found[:, 2], heights, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found[:, :2], axis=1), RADIUS, atol=1e-6)


def test_a_claw_that_is_wide_open_at_zero(tmp_path):
    """Fingers that lie level and point away from each other stand around the palm's middle, too."""

    def opened(text):
        return re.sub(r'(<parent link="palm"/>.*?rpy="0) 0 ', rf"\1 {np.pi / 2} ", text)

    hand = add_hand(generated(tmp_path, (3, 3, 3), opened), tmp_path / "made").hand
    assert set(hand.poses) == {"home"}
    np.testing.assert_allclose(hand.p_WP[:2], 0.0, atol=1e-3)


def test_mjcf_and_urdf_give_the_same_hand(tmp_path):
    """The model is the one that MuJoCo writes of the URDF, with joints off the bodies' origins and
    shifted zeros."""
    file = generated(tmp_path, (3, 3, 3))
    spec = mujoco.MjSpec.from_string(file.read_text())
    spec.compiler.fusestatic = False
    for joint in spec.joints:
        joint.actfrclimited, joint.actfrcrange = mujoco.mjtLimited.mjLIMITED_FALSE, (0, 0)
        actuator = spec.add_actuator(
            name=f"{joint.name}_motor", target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT
        )
        actuator.set_to_motor()
        actuator.forcelimited, actuator.forcerange = mujoco.mjtLimited.mjLIMITED_TRUE, (-0.6, 0.6)
    spec.compile()
    (tmp_path / "robot.xml").write_text(spec.to_xml())
    wishes = HandWishes("h", "palm", ("f0_tip", "f1_tip", "f2_tip"))
    of_urdf = add_hand(file, tmp_path / "a", wishes).hand
    of_mjcf = add_hand(tmp_path / "robot.xml", tmp_path / "b", wishes).hand
    np.testing.assert_allclose(of_mjcf.effort, 0.6)
    assert of_mjcf.joint_names == of_urdf.joint_names
    for key in ("lower", "upper", "home", "p_WP", "quat_WP"):
        np.testing.assert_allclose(getattr(of_mjcf, key), getattr(of_urdf, key), atol=1e-3)
    for one, other in zip(of_mjcf.bodies, of_urdf.bodies, strict=True):
        np.testing.assert_allclose(one.p_PB, other.p_PB, atol=1e-6)
        np.testing.assert_allclose(one.inertia, other.inertia, rtol=1e-4, atol=1e-12)


def test_an_impossible_inertia_is_balanced(tmp_path):
    added = add_hand(
        generated(tmp_path, edit=lambda text: text.replace(f'izz="{0.03 * 2e-4}"', 'izz="1e-4"', 1)),
        tmp_path / "made",
    )
    mean = (2 * 0.03 * 2e-4 + 1e-4) / 3
    np.testing.assert_allclose(added.hand.bodies[1].inertia, mean * np.eye(3), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(added.hand.bodies[2].inertia, 0.03 * 2e-4 * np.eye(3), rtol=1e-6, atol=1e-12)
    assert any("impossible" in note for note in added.notes)


def test_a_finger_without_a_named_tip_is_fixed(tmp_path):
    wishes = HandWishes(palm="palm", tips=("f0_tip", "f1_tip", "f2_tip"))
    added = add_hand(generated(tmp_path, (3, 3, 3, 2)), tmp_path / "made", wishes)
    assert added.hand.chains == (3, 3, 3)
    assert any("fixed" in note and "joint_f3_0" in note for note in added.notes)
    assert added.hand.bodies[0].mass == pytest.approx(0.4 + 2 * 0.03)


@pytest.mark.parametrize(
    ("old", "new", "fixed", "fingers"),
    [
        ('<axis xyz="0 -1 0"/>', '<axis xyz="0 -1 0"/><mimic joint="joint_f1_0"/>', "joint_f0_0", (2, 3, 3)),
        (
            '<parent link="palm"/><child link="f1_0"/>',
            '<parent link="f0_0"/><child link="f1_0"/>',
            "joint_f0_0",
            (2, 3, 3),
        ),
    ],
    ids=["follows another finger", "moves two fingers"],
)
def test_a_joint_on_which_several_fingers_depend_is_fixed(old, new, fixed, fingers, tmp_path):
    file = generated(tmp_path, (3, 3, 3), lambda text: text.replace(old, new, 1))
    assert new in file.read_text()
    wishes = HandWishes(palm="palm", tips=("f0_tip", "f1_tip", "f2_tip"))
    added = add_hand(file, tmp_path / "made", wishes)
    assert added.hand.chains == fingers and fixed not in added.hand.joint_names
    assert any(
        note.startswith("fixed, because they move several fingers") and fixed in note for note in added.notes
    )


def test_a_driven_tendon_couples_its_joints(tmp_path):
    """Coefficients 1 and −0.5: the second joint turns by −0.5 of the first, and a tension of 0.8 N m
    acts on the first by 0.8 (1 + 0.25) N m."""
    spec = mujoco.MjSpec.from_string(generated(tmp_path, (3, 3, 3)).read_text())
    spec.compiler.fusestatic = False
    tendon = spec.add_tendon(name="cord")
    tendon.wrap_joint("joint_f0_1", 1.0)
    tendon.wrap_joint("joint_f0_2", -0.5)
    motor = spec.add_actuator(name="motor", target="cord", trntype=mujoco.mjtTrn.mjTRN_TENDON)
    motor.set_to_motor()
    motor.forcelimited, motor.forcerange = mujoco.mjtLimited.mjLIMITED_TRUE, (-0.8, 0.8)
    for joint in spec.joints:
        if joint.name in ("joint_f0_1", "joint_f0_2"):
            joint.actfrclimited, joint.actfrcrange = mujoco.mjtLimited.mjLIMITED_FALSE, (0, 0)
    spec.compile()
    (tmp_path / "robot.xml").write_text(spec.to_xml())
    wishes = HandWishes("h", "palm", ("f0_tip", "f1_tip", "f2_tip"))
    hand = add_hand(tmp_path / "robot.xml", tmp_path / "made", wishes).hand
    assert hand.chains == (2, 3, 3)
    follower = next(body for body in hand.bodies if body.hinge == "joint_f0_2")
    assert hand.joint_names[follower.joint] == "joint_f0_1" and follower.ratio == pytest.approx(-0.5)
    assert hand.effort[1] == pytest.approx(0.8 * 1.25) and hand.effort[0] == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            'lower="-1.2" upper="1.2"',
            'lower="0" upper="0"',
            "the joint 'joint_f0_0' of robot.urdf has no limits",
        ),
        (
            'name="joint_f0_1" type="revolute"',
            'name="joint_f0_1" type="continuous"',
            "the joint 'joint_f0_1' of robot.urdf has no limits",
        ),
        ('name="joint_f0_1" type="revolute"', 'name="joint_f0_1" type="prismatic"', "is not a hinge"),
        (
            'effort="0.6"',
            'effort="0"',
            "'joint_f0_0' of robot.urdf has no torque limit up to 100 N m; give it with --effort",
        ),
        (
            'lower="-1.2" upper="1.2"',
            'lower="-11" upper="90"',
            r"limits of the joint 'joint_f0_0' of robot.urdf are -11 to 90 rad.*degrees\? Write them in "
            r"radians",
        ),
        (
            '<box size="0.12 0.12 0.02"/>',
            '<box size="120 120 20"/>',
            "'palm' of robot.urdf has a collision shape of 120 m.*millimetres",
        ),
        (f'xyz="0 0 {LENGTH}"', 'xyz="0 0 30"', "'f0_0' of robot.urdf has a collision shape .* reaches 30 m"),
        (
            f'xyz="0 0 {LENGTH}"/></joint>',
            'xyz="0 0 30"/></joint>',
            "finger to 'f0_tip' of robot.urdf is 30.* m long",
        ),
        (
            f'ixx="{0.03 * 2e-4}" iyy="{0.03 * 2e-4}" izz="{0.03 * 2e-4}"',
            'ixx="6" iyy="6" izz="6"',
            "'f0_0' of robot.urdf has a mass of 0.03 kg and a radius of gyration of 14.1 m",
        ),
        ('effort="0.6"', 'effort="1000"', "'joint_f0_0' of robot.urdf has no torque limit up to 100 N m"),
        (
            'velocity="6"',
            'velocity="fast"',
            "joint 'joint_f0_0' of .* 'velocity' must be a number, got 'fast'",
        ),
        (
            '<box size="0.12 0.12 0.02"/>',
            '<mesh filename="none.stl"/>',
            "the mesh 'none.stl' of the link 'palm' is missing",
        ),
        (
            '<box size="0.12 0.12 0.02"/>',
            '<mesh filename="package://palms/none.stl"/>',
            "is missing: it is not in .*, or in its package above it or in AMENT_PREFIX_PATH",
        ),
        ('lower="-1.2" upper="1.2"', 'lower="-inf" upper="inf"', "'joint_f0_0' of robot.urdf"),
        ('effort="0.6"', 'effort="inf"', "'joint_f0_0' of robot.urdf"),
        (
            'name="joint_f0_1" type',
            'name="joint_f0_0" type',
            "robot.urdf has several joints named 'joint_f0_0'",
        ),
        ('<link name="f0_1"', '<link name="f0_0"', "robot.urdf has several links named 'f0_0'"),
        (
            '<parent link="f0_1"/>',
            '<parent link="f0_9"/>',
            "joint 'joint_f0_2' of .* refers to the link 'f0_9', which does not exist",
        ),
        ("<robot", "<sdf", "not valid XML"),
        (
            '"generated">',
            '"generated"><xacro:macro xmlns:xacro="http://www.ros.org/wiki/xacro"/>',
            "is a xacro file; convert it first: xacro robot.urdf > robot_expanded.urdf",
        ),
    ],
)
def test_a_robot_without_a_plausible_hand_is_rejected_in_one_sentence(old, new, said, tmp_path):
    file = generated(tmp_path, (3, 3, 3), lambda text: text.replace(old, new, 1))
    assert new in file.read_text()
    with pytest.raises(ConfigError, match=said) as caught:
        add_hand(file, tmp_path / "made")
    assert "\n" not in str(caught.value) and not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        (HandWishes(palm="plam"), "unknown link in robot.urdf 'plam'; did you mean 'palm'"),
        (HandWishes(tips=("f0_tip", "nail")), "unknown link in robot.urdf 'nail'"),
        (HandWishes(palm="palm", tips=("palm",)), "'palm' of robot.urdf does not move relative to the palm"),
        (
            HandWishes(palm="f0_1", tips=("f1_tip",)),
            "'f1_tip' of robot.urdf is not connected to the palm 'f0_1'",
        ),
        (
            HandWishes(palm="palm", tips=("f0_tip", "f0_1")),
            "'f0_tip' and 'f0_1' of robot.urdf share the joint 'joint_f0_0'",
        ),
        (HandWishes(up=(0.0, 0.0, 0.0)), "the direction 'up' must be three finite numbers"),
        (HandWishes(up=(0.0, 0.0, 1.0), forward=(0.0, 0.0, 2.0)), "'up' and 'forward' are parallel"),
        (HandWishes(name=" "), "not a name for a hand"),
    ],
)
def test_wishes_that_do_not_fit_the_file_are_rejected(wishes, said, tmp_path):
    with pytest.raises(ConfigError, match=said):
        add_hand(generated(tmp_path), tmp_path / "made", wishes)


def test_the_command_writes_a_hand_and_replaces_it_only_with_consent(tmp_path, capsys):
    options = ["--tips", "f0_tip,f1_tip,f2_tip", "--palm", "palm", "--up", "0,0,1"]
    argv = ["hand", "add", str(generated(tmp_path)), "-o", str(tmp_path / "made"), *options]
    assert main([*argv, "--json", "-"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert results["tips"] == ["f0_tip", "f1_tip", "f2_tip"] and len(results["joints"]) == 9
    assert (tmp_path / "made" / "generated.png").read_bytes().startswith(b"\x89PNG")
    assert load_hand(results["hand"]).chains == (3, 3, 3)
    assert main(argv) == 2
    assert "there is a hand already" in capsys.readouterr().err
    assert main([*argv, "--yes"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("plant", ["mujoco", "lcp"])
def test_the_loop_runs_with_an_added_hand(allegro, plant):
    """After two seconds towards a goal the cube is on the palm, and its error is smaller."""
    spec = Spec("palm_turn", "cube", str(allegro.yaml), plant=plant)
    loop = loop_of(spec)
    trial = loop.run(0, 0, 2.0, goals=iter([loop.task.at_yaw(0.5)]))
    assert not trial.dropped and np.isfinite(trial.recording["q_command"]).all()
    assert trial.recording["error"][-1] < trial.recording["error"][0]


def test_contacts_of_links_that_overlap_are_left_out(tmp_path):
    file = write_hand(tmp_path, (3, 3))
    file.write_text(file.read_text() + "ignored_contacts: [[palm, f0_1], [f0_0, f1_0]]\n")
    model = build_scene(load_hand(file), None).compile()
    assert model.nexclude == 6 + 2
    file.write_text(file.read_text().replace("f1_0", "f1_9"))
    with pytest.raises(ConfigError, match="'ignored_contacts' must list pairs of links, of palm, f0_0"):
        load_hand(file)
