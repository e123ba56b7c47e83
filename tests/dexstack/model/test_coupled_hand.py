"""Hands with coupled joints: read, rejected in one sentence, and consistent in kinematics, statics, plant
and loop."""

import re

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from dexstack.errors import ConfigError
from dexstack.graph.settings import Spec, make_task, read_settings
from dexstack.identification.rollouts import Predictor, Targets, Windows, servo_of
from dexstack.model.frames import FrameTree
from dexstack.model.gravity import GravityCompensation
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.model.scene import JointLayout, build_scene
from dexstack.model.strength import finger_forces
from dexstack.onboarding.add_hand import HandWishes, add_hand
from dexstack.onboarding.reaching import Finger
from dexstack.plants.mujoco import MujocoPlant
from dexstack.tasks.base import World
from dexstack.trials.sweep import loop_of
from tests.dexstack.model.generated_hand import LENGTH, write_cube, write_hand
from tests.dexstack.model.tree import at, random_angles

RATIO, OFFSET = 0.8, 0.1


def mimic(text, joint, leader, ratio, offset):
    """Return a hand's URDF in which a joint follows another."""
    head, tail = text.split(f'<joint name="{joint}"')
    follows = f'<mimic joint="{leader}" multiplier="{ratio}" offset="{offset}"/></joint>'
    return f'{head}<joint name="{joint}"{tail.replace("</joint>", follows, 1)}'


FOLLOWER = ("joint_f0_2", "joint_f0_1", RATIO, OFFSET)


def write_coupled(folder, *couplings, fingers=(3, 3, 2)):
    """Write a hand with couplings (joint, leader, ratio, offset); return its YAML."""
    file, urdf = write_hand(folder, fingers), folder / "hand.urdf"
    for coupling in couplings:
        urdf.write_text(mimic(urdf.read_text(), *coupling))
    followers = [sum(c[0].startswith(f"joint_f{f}_") for c in couplings) for f in range(len(fingers))]
    home = [[-0.5] + [0.3] * (n - 1 - k) for n, k in zip(fingers, followers, strict=True)]
    file.write_text(re.sub(r"home: .*\]\]", f"home: {home}", file.read_text()))
    return file


def coupled(folder):
    """The last joint of the first two fingers follows the one before it."""
    return write_coupled(folder, FOLLOWER, ("joint_f1_2", "joint_f1_1", -0.5, 0.0))


@pytest.fixture
def hand(tmp_path):
    return load_hand(coupled(tmp_path))


def test_joints_and_hinges_are_distinguished(hand):
    assert hand.joint_names == (
        "joint_f0_0",
        "joint_f0_1",
        "joint_f1_0",
        "joint_f1_1",
        "joint_f2_0",
        "joint_f2_1",
    )
    assert hand.chains == (2, 2, 2) and len(hand.bodies) == 9 and not hand.alike
    q = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    expected = [0.1, 0.2, RATIO * 0.2 + OFFSET, 0.3, 0.4, -0.2, 0.5, 0.6]
    np.testing.assert_allclose(hand.hinge_angles(q), expected)
    layout = JointLayout(build_scene(hand, load_object("cube")).compile())
    assert not layout.plain and list(layout.own) == [0, 1, 3, 4, 6, 7]
    np.testing.assert_allclose(layout.coordinates(q), expected)
    np.testing.assert_allclose(layout.rates(q), [0.1, 0.2, RATIO * 0.2, 0.3, 0.4, -0.2, 0.5, 0.6])
    assert JointLayout(build_scene(load_hand("right"), load_object("cube")).compile()).plain


def test_only_narrow_followers_narrow_their_leader(hand, tmp_path):
    """All limits are ±1.2: 0.8 q + 0.1 is within them up to 1.375, −0.5 q always, −2 q + 0.2 from −0.5 to
    0.7."""
    assert (hand.lower == -1.2).all() and (hand.upper == 1.2).all()
    narrow = load_hand(write_coupled(tmp_path, ("joint_f0_2", "joint_f0_1", -2.0, 0.2)))
    k = narrow.joint_names.index("joint_f0_1")
    assert (narrow.lower[k], narrow.upper[k]) == pytest.approx((-0.5, 0.7))


@pytest.mark.slow
def test_bodies_and_jacobians_equal_mujocos(hand, x64):
    tree, model = hand.kinematics(), build_scene(hand, None).compile()
    layout, tips = JointLayout(model), jax.jit(lambda q: tree.fingertips(tree.poses(q)))
    links = jnp.asarray(tree.tip_body)
    for q in random_angles(hand, 10):
        data = at(model, layout.coordinates(q))
        poses = tree.poses(jnp.asarray(q))
        np.testing.assert_allclose(poses.p_WB, [data.body(b.name).xpos for b in hand.bodies], atol=1e-12)
        ours = np.asarray(tree.point_jacobian(poses, tips(jnp.asarray(q)), links))
        assert ours.shape == (3, 3, 6)
        np.testing.assert_allclose(ours, jax.jacfwd(tips)(jnp.asarray(q)), atol=1e-12)


def test_frames_and_fingers_include_followers(hand, x64):
    tree = hand.kinematics()
    fingers, frames = [Finger(hand, f) for f in range(3)], FrameTree(hand)
    for q in random_angles(hand, 5):
        tips = np.asarray(tree.fingertips(tree.poses(jnp.asarray(q))))
        for f, finger in enumerate(fingers):
            np.testing.assert_allclose(finger.at(q[None, finger.joints])[0][0], tips[f], atol=1e-9)
        turns = {
            frame.name: 2.0 * np.arctan2(np.linalg.norm(frame.quat[1:]), frame.quat[0])
            for frame in frames.moving(q)
        }
        assert turns["f0_2"] == pytest.approx(abs(RATIO * q[1] + OFFSET)) and turns["f1_2"] == pytest.approx(
            abs(0.5 * q[3])
        )


def test_gravity_torques_are_the_slope_of_the_potential_energy(hand):
    gravity, model = GravityCompensation(hand), build_scene(hand, None, camera=False).compile()
    layout = JointLayout(model)

    def energy(q):
        return 9.81 * float(model.body_mass @ at(model, layout.coordinates(q)).xipos[:, 2])

    h = 1e-6 * np.eye(6)
    for q in random_angles(hand, 5):
        np.testing.assert_allclose(gravity(q), [(energy(q + d) - energy(q - d)) / 2e-6 for d in h], atol=1e-8)


def test_the_levers_of_a_joint_and_its_followers_add_up(hand):
    """A force F at the tip requires τ₁ = F (l + 0.8 · l) at the middle joint, τ₀ = F · 3 l at the first."""
    tau = hand.effort[0]
    np.testing.assert_allclose(finger_forces(hand)[0], tau / (3 * LENGTH), rtol=1e-9)
    np.testing.assert_allclose(finger_forces(hand)[2], tau / (2 * LENGTH), rtol=1e-9)


def test_followers_keep_their_coupling_in_the_plant(hand):
    """Within 0.05 rad at full torque, within a milliradian at rest."""
    plant = MujocoPlant(hand, load_object("cube"))
    layout = JointLayout(plant.model)
    plant.reset(hand.home, np.array([1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0]))  # where the object touches nothing
    np.testing.assert_allclose(plant.joint_position, hand.home)
    off, target = [], np.array([0.5, -0.6, 0.4, 0.7, -0.5, 0.5])
    for _ in range(500):
        plant.step(np.clip(2.0 * (target - plant.joint_position), -0.6, 0.6))
        hinges = plant.scene.values()[0][: len(hand.bodies) - 1]
        off.append(float(np.abs(hinges - layout.coordinates(plant.joint_position)).max()))
    assert max(off) < 0.05 and off[-1] < 1e-3
    np.testing.assert_allclose(plant.joint_position, target, atol=0.02)  # sagging under its weight
    assert plant.joint_velocity.shape == (6,) and plant.pose_WO.shape == (7,) and plant.twist_WO.shape == (6,)


@pytest.mark.parametrize(
    ("couplings", "said"),
    [
        ([("joint_f0_2", "joint_f1_1", 1.0, 0.0)], "'joint_f0_2' follows 'joint_f1_1' of another finger"),
        (
            [("joint_f0_2", "joint_f0_9", 1.0, 0.0)],
            "'joint_f0_2' of .* follows 'joint_f0_9', which is not another revolute joint",
        ),
        (
            [("joint_f0_2", "joint_f0_2", 1.0, 0.0)],
            "'joint_f0_2' of .* follows 'joint_f0_2', which is not another revolute joint",
        ),
        ([("joint_f0_2", "joint_f0_1", 0.0, 0.0)], "the multiplier must not be zero"),
        ([("joint_f0_2", "joint_f0_1", "much", 0.0)], "'multiplier' must be numbers, got 'much'"),
        ([FOLLOWER, ("joint_f0_1", "joint_f0_2", 1.0, 0.0)], "follows itself"),
        (
            [("joint_f0_2", "joint_f0_1", 1.0, 9.0)],
            "limits of the joint 'joint_f0_1' and of the joints that follow it exclude each other",
        ),
    ],
)
def test_an_invalid_coupling_is_rejected_in_one_sentence(couplings, said, tmp_path):
    with pytest.raises(ConfigError, match=said) as caught:
        load_hand(write_coupled(tmp_path, *couplings))
    assert "\n" not in str(caught.value)


def write_mjcf(folder, *polynomial):
    """Write a hand whose third joint is coupled to its second by an equality; return its MJCF."""
    write_hand(folder, (3, 3, 3))
    text = (folder / "hand.urdf").read_text()
    spec = mujoco.MjSpec.from_string(
        text.replace("</robot>", '<mujoco><compiler fusestatic="false"/></mujoco></robot>')
    )
    coupling = spec.add_equality(type=mujoco.mjtEq.mjEQ_JOINT, objtype=mujoco.mjtObj.mjOBJ_JOINT)
    coupling.name1, coupling.name2, coupling.data[: len(polynomial)] = *FOLLOWER[:2], polynomial
    spec.compile()
    (folder / "hand.xml").write_text(spec.to_xml())
    return folder / "hand.xml"


def test_a_coupled_robot_file_is_imported(tmp_path):
    """From a URDF with <mimic>, and from an MJCF with the same as joint equalities."""
    mjcf = write_mjcf(tmp_path, OFFSET, RATIO)
    urdf = write_coupled(tmp_path, FOLLOWER, fingers=(3, 3, 3)).with_suffix(".urdf")
    of_urdf = add_hand(urdf, tmp_path / "a", HandWishes(effort=0.6))
    assert of_urdf.hand.chains == (2, 3, 3) and any(
        "1 joints are led by others: joint_f0_2 by joint_f0_1" in n for n in of_urdf.notes
    )
    body = next(b for b in of_urdf.hand.bodies if b.hinge == "joint_f0_2")
    assert (body.ratio, body.offset) == (RATIO, OFFSET)
    of_mjcf = add_hand(mjcf, tmp_path / "b", HandWishes("h", effort=0.6))
    for one, other in zip(of_mjcf.hand.bodies, of_urdf.hand.bodies, strict=True):
        assert one.hinge == other.hinge
        assert (one.ratio, one.offset) == pytest.approx((other.ratio, other.offset))


def test_couplings_by_a_polynomial_are_rejected(tmp_path):
    with pytest.raises(
        ConfigError, match=r"'joint_f0_2' of hand\.xml is coupled to a polynomial of 'joint_f0_1'"
    ):
        add_hand(write_mjcf(tmp_path, 0.0, 1.0, 0.5), tmp_path / "a", HandWishes(effort=0.6))


def test_rollouts_of_identify_are_of_the_hands_own_joints(tmp_path):
    """Over 20 ms from rest a hand that is asked to stay does."""
    spec = Spec("palm_turn", write_cube(tmp_path), str(coupled(tmp_path)))
    settings = read_settings(spec)
    task = make_task(spec, settings)
    state = np.concatenate([task.setup().rest, [1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0]])
    after = np.array([[0.01, 0.02]])
    windows = Windows(state[None], np.zeros((1, 12)), np.zeros(1), after, np.tile(state, (1, 2, 1)))
    asked = Targets(np.array([-1.0, 1.0]), np.tile(state[:6], (2, 1)))
    (predicted,) = Predictor(task, servo_of(task, settings)).predict([(World(), 0.0)], windows, asked)
    assert predicted.shape == (1, 2, 13)
    np.testing.assert_allclose(predicted[0, :, :6], windows.measured[0, :, :6], atol=0.01)
    np.testing.assert_allclose(predicted[0, :, 8], 1.0 - 0.5 * 9.81 * after[0] ** 2, atol=5e-4)


@pytest.mark.slow
@pytest.mark.parametrize("planner", ["gauss_newton", "sampling"])
def test_the_loop_runs_with_a_coupled_hand(planner, tmp_path):
    """A second towards a goal: every plan is usable, and the error has not grown."""
    spec = Spec("palm_turn", write_cube(tmp_path), str(coupled(tmp_path)), overrides=(("planner", planner),))
    loop = loop_of(spec)
    trial = loop.run(0, 0, 1.0, goals=iter([loop.task.at_yaw(0.5)]))
    assert not trial.dropped and trial.recording["q"].shape[1] == 6
    assert np.isfinite(trial.recording["q_command"]).all()
    assert trial.recording["error"][-1] < trial.recording["error"][0] + 0.05
