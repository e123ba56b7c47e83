"""The hand's model against the manufacturer's, other readers of the same file, and physics."""

from importlib.metadata import files
from pathlib import Path

import numpy as np
import pytest
import trimesh

from dexstack.errors import ConfigError
from dexstack.model import HANDS
from dexstack.model.description import data_dir
from dexstack.model.hand import HandModel, load_hand
from dexstack.model.urdf import Shape, check_inertia, read_urdf
from tests.dexstack.model.tree import body_poses, random_angles

SIDES = ("right", "left")
"""Sides of the Allegro Hand."""
PWM_PER_NEWTON_METRE = 1200.0
PWM_LIMITS = [375, 675, 450, 285] * 3 + [525, 405, 270, 270]


def vendor_urdf(side: str) -> Path:
    return next(
        Path(f.locate()) for f in files("example-robot-data") or [] if f.name == f"allegro_{side}_hand.urdf"
    )


def in_model_order(model, hand: HandModel, q: np.ndarray) -> np.ndarray:
    out = np.zeros(model.nq)
    for name, angle in zip(hand.joint_names, q, strict=True):
        out[model.joints[model.getJointId(name)].idx_q] = angle
    return out


@pytest.mark.parametrize("side", SIDES)
def test_forward_kinematics_equal_the_vendors(side, pinocchio):
    hand, model = load_hand(side), pinocchio.buildModelFromUrdf(str(vendor_urdf(side)))
    data = model.createData()
    for q in random_angles(hand):
        pinocchio.framesForwardKinematics(model, data, in_model_order(model, hand, q))
        poses = list(zip(*body_poses(hand, q), strict=True))
        for body, (R, p) in zip(hand.bodies, poses, strict=True):
            oMf = data.oMf[model.getFrameId(body.name)]
            np.testing.assert_allclose(p, oMf.translation, atol=1e-9)
            np.testing.assert_allclose(R, oMf.rotation, atol=1e-9)
        for tip, name in zip(
            hand.fingertips, ("link_3.0_tip", "link_7.0_tip", "link_11.0_tip", "link_15.0_tip"), strict=True
        ):
            R, p = poses[tip.body]
            np.testing.assert_allclose(
                p + R @ tip.p_BT, data.oMf[model.getFrameId(name)].translation, atol=1e-9
            )


@pytest.mark.parametrize("side", SIDES)
def test_limits_and_masses_equal_the_vendors(side, pinocchio):
    hand, model = load_hand(side), pinocchio.buildModelFromUrdf(str(vendor_urdf(side)))
    index = [model.joints[model.getJointId(name)].idx_q for name in hand.joint_names]
    np.testing.assert_array_equal(hand.lower, model.lowerPositionLimit[index])
    np.testing.assert_array_equal(hand.upper, model.upperPositionLimit[index])
    np.testing.assert_array_equal(hand.velocity, model.velocityLimit[index])
    # pinocchio reads the vendor's file although its inertias are not physical
    masses = {f"link_{i}.0": model.inertias[model.getJointId(n)].mass for i, n in enumerate(hand.joint_names)}
    assert {b.name: b.mass for b in hand.bodies[1:]} == pytest.approx(masses, abs=1e-9)
    assert hand.bodies[0].mass == pytest.approx(0.4154, abs=1e-9)


@pytest.mark.parametrize("side", SIDES)
def test_torque_limits_are_the_pwm_limits_in_newton_metres(side):
    np.testing.assert_allclose(
        load_hand(side).effort, np.array(PWM_LIMITS) / PWM_PER_NEWTON_METRE, rtol=1e-12
    )


def test_left_hand_mirrors_the_right():
    right, left = load_hand("right"), load_hand("left")
    abduction = np.ones(16)
    abduction[[0, 4, 8]] = -1.0
    mirror = np.diag([1.0, -1.0, 1.0])
    for name in right.poses:
        np.testing.assert_allclose(left.poses[name], abduction * right.poses[name])
    for q in random_angles(right):
        (R_r, p_r), (R_l, p_l) = body_poses(right, q), body_poses(left, abduction * q)
        np.testing.assert_allclose(p_r @ mirror, p_l, atol=1e-8)
        np.testing.assert_allclose(mirror @ R_r @ mirror, R_l, atol=1e-8)
    for b_r, b_l in zip(right.bodies, left.bodies, strict=True):
        np.testing.assert_allclose(mirror @ b_r.com, b_l.com, atol=1e-12)
        np.testing.assert_allclose(mirror @ b_r.inertia @ mirror, b_l.inertia, atol=1e-12)


@pytest.mark.parametrize("side", HANDS)
def test_merged_inertias_equal_pinocchios(side, pinocchio):
    hand = load_hand(side)
    model = pinocchio.buildModelFromUrdf(str(hand.urdf_path))
    for i, name in enumerate(hand.joint_names):
        theirs, ours = model.inertias[model.getJointId(name)], hand.bodies[i + 1]
        assert ours.mass == pytest.approx(theirs.mass, rel=1e-12)
        np.testing.assert_allclose(ours.com, theirs.lever, atol=1e-12)
        np.testing.assert_allclose(ours.inertia, theirs.inertia, rtol=1e-9, atol=1e-15)


def solid(shape: Shape) -> trimesh.Trimesh:
    if shape.kind == "box":
        mesh = trimesh.creation.box(2 * shape.size)
    else:
        ball = trimesh.creation.icosphere(subdivisions=4, radius=shape.size[0]).vertices
        end = np.array([0.0, 0.0, shape.size[1]])
        mesh = trimesh.convex.convex_hull(np.vstack([ball - end, ball + end]))
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = shape.R, shape.p
    mesh.apply_transform(pose)
    return mesh


@pytest.mark.parametrize("side", SIDES)
def test_each_links_mass_is_spread_evenly_over_its_shapes(side):
    _, links, _ = read_urdf(load_hand(side).urdf_path)
    for link in links:
        whole = [solid(s) for s in link.shapes]
        volume = sum(m.volume for m in whole)
        com = sum(m.volume * m.center_mass for m in whole) / volume
        inertia = np.zeros((3, 3))
        for mesh in whole:
            mesh.density = link.mass / volume
            d = mesh.center_mass - com
            inertia += mesh.moment_inertia + mesh.mass * (d @ d * np.eye(3) - np.outer(d, d))
        np.testing.assert_allclose(link.com, com, atol=1e-6)
        np.testing.assert_allclose(link.inertia, inertia, atol=3e-3 * np.trace(inertia))


@pytest.mark.parametrize("side", HANDS)
def test_body_inertias_are_physical_and_shapes_primitive(side):
    hand = load_hand(side)
    assert [b.joint for b in hand.bodies] == [None, *range(16)]
    for i, body in enumerate(hand.bodies):
        assert body.parent < i
        moments = np.linalg.eigvalsh(body.inertia)
        assert moments[0] > 0 and moments[0] + moments[1] >= moments[2]
        assert {s.kind for s in body.shapes} <= {"box", "capsule"}
    for tip in hand.fingertips:
        capsule = next(s for s in hand.bodies[tip.body].shapes if s.kind == "capsule")
        np.testing.assert_allclose(capsule.p + capsule.size[1] * capsule.R[:, 2], tip.p_BT, atol=1e-12)
        assert capsule.size[0] == hand.fingertip_radius


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: load_hand("leap_rigth"),
            r"unknown hand 'leap_rigth'; did you mean 'leap_right'\? \(known: leap_left",
        ),
        (lambda: load_hand("/nowhere/hand.yaml"), r"cannot read /nowhere/hand\.yaml"),
        (lambda: load_hand("right").pose("fist"), "no pose 'fist'; it has home"),
    ],
)
def test_an_unknown_hand_or_pose_is_rejected(call, message):
    with pytest.raises(ConfigError, match=message):
        call()


@pytest.mark.parametrize(
    ("mass", "inertia", "message"),
    [
        (0.0, np.eye(3), "mass must be positive"),
        (float("nan"), np.eye(3), "mass must be positive"),
        (1.0, np.diag([1.0, 1.0, np.inf]), "finite symmetric"),
        (1.0, np.array([[1.0, 0.5, 0], [0, 1, 0], [0, 0, 1]]), "finite symmetric"),
        (1.0, np.diag([-1.0, 1.0, 1.0]), "not positive definite"),
        (1.0, np.diag([1.0, 1.0, 3.0]), "triangle inequality"),
    ],
)
def test_an_impossible_inertia_is_rejected(mass, inertia, message):
    with pytest.raises(ConfigError, match=f"link x.*{message}"):
        check_inertia("link x", mass, inertia)


def test_the_vendors_inertias_are_rejected():
    """The manufacturer's file contains impossible tensors; the error names the link."""
    with pytest.raises(ConfigError, match=r"link 'link_\d+.0.*' of .*(triangle|positive definite)"):
        read_urdf(vendor_urdf("right"))


BROKEN_URDF = [
    ('radius="0.012"', 'radius="-0.012"', "sphere must have positive dimensions"),
    (
        'lower="-0.47" upper="0.47"',
        'lower="0.5" upper="0.47"',
        "joint 'joint_0.0'.*lower limit 0.5 must be below",
    ),
    ('effort="0.3125"', 'effort="0"', "effort and velocity limits and damping must be positive"),
    (' velocity="7"', "", "the <limit> of joint 'joint_0.0' of .* lacks 'velocity'"),
    (
        '<dynamics damping="0.1" friction="0"/>',
        "",
        "the <dynamics> of joint 'joint_0.0' of .* lacks 'damping'",
    ),
    ('damping="0.1"', 'damping="0"', "limits and damping must be positive"),
    ('effort="0.3125"', 'effort="much"', "'effort' must be numbers, got 'much'"),
    ('<axis xyz="0 0 1"/>', '<axis xyz="0 0 0"/>', "axis must not be zero"),
    ('type="revolute"', 'type="prismatic"', "of type 'prismatic'; only revolute and fixed"),
    (
        '<box size="0.0408 0.109 0.0455"/>',
        '<mesh filename="palm.stl"/>',
        "must be box, sphere or cylinder, got mesh",
    ),
    (
        '<parent link="link_0.0"/>',
        '<parent link="link_99"/>',
        "refers to the link 'link_99', which does not exist",
    ),
    ('<mass value="0.0119"/>', '<mass value="-0.0119"/>', "link 'link_0.0'.*mass must be positive"),
    ("</robot>", "", "not valid XML"),
    ('xyz="0 0.0435 -0.001542"', 'xyz="0 0.0435"', "'xyz' must be 3 finite numbers"),
]


def write_hand(folder: Path, urdf: tuple[str, str] = ("", ""), yaml: tuple[str, str] = ("", "")) -> Path:
    source = data_dir() / "hands"
    for suffix, (old, new) in (("urdf", urdf), ("yaml", yaml)):
        text = (source / f"allegro_v4_right.{suffix}").read_text()
        assert old in text
        (folder / f"allegro_v4_right.{suffix}").write_text(text.replace(old, new) if old else text)
    return folder / "allegro_v4_right.yaml"


def test_a_hand_is_loaded_from_a_yaml(tmp_path):
    np.testing.assert_array_equal(load_hand(write_hand(tmp_path)).home, load_hand("right").home)


BROKEN_YAML = [
    ("urdf: allegro_v4_right.urdf", "urdf: other.urdf", "cannot read the hand description .*other.urdf"),
    ("0.0, 0.7071067811865476]", "0.0, 0.9]", "must be a unit quaternion .* norm 1.145"),
    ("0.0, 0.7071067811865476]", "0.0]", "'palm_mount.quaternion' must be 4 finite numbers"),
    (
        "[0.08, 0.0, 1.65, 0.27]",
        "[0.08, 0.0, 1.75, 0.27]",
        r"poses.home puts 'joint_2.0' at 1.75 rad, outside .*1.709",
    ),
    ("[0.08, 0.0, 1.65, 0.27]", "[0.08, 0.0, .nan, 0.27]", "'poses.home' must be 16 finite numbers"),
    ("link_15.0_tip]", "link_16.0_tip]", "fingertip link 'link_16.0_tip' does not exist"),
    ("palm_link: palm_link", "palm_link: base", "palm link 'base' must exist"),
    ("radius: 0.012", "radius: 0", "'fingertips.radius' must be positive"),
    ("friction:", "frictions:", "lacks the key 'friction'"),
    ("side: right", "side: right\nspeed: 3", "unknown key of .* 'speed'"),
    (
        "[joint_0.0, joint_4.0",
        "[joint_0.0, joint_44.0",
        r"'swing_joints' lists the unknown joint 'joint_44.0'; joints are joint_0.0",
    ),
    (
        "swing_joints: [joint_0.0, joint_4.0, joint_8.0]",
        "swing_joints: 3",
        r"'swing_joints' lists the unknown joint '3'",
    ),
    ("poses:", "poses: [", "not valid YAML"),
]


@pytest.mark.parametrize(
    ("where", "old", "new", "message"),
    [*(("urdf", *row) for row in BROKEN_URDF), *(("yaml", *row) for row in BROKEN_YAML)],
)
def test_a_broken_file_gives_one_clear_sentence(tmp_path, where, old, new, message):
    with pytest.raises(ConfigError, match=message) as caught:
        load_hand(write_hand(tmp_path, **{where: (old, new)}))
    assert "\n" not in str(caught.value)
