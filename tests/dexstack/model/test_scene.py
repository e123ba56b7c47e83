"""The composed scene: it compiles for every hand and object, agrees with the models, and starts
free of deep contact."""

import mujoco
import numpy as np
import pytest

from dexstack.model import HANDS
from dexstack.model.balls import Ball
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object, object_names
from dexstack.model.scene import GROUP_DRAWN, OBJECT_BODY, build_scene
from tests.dexstack.model.tree import at


@pytest.mark.parametrize("side", HANDS)
@pytest.mark.parametrize("name", object_names())
def test_scene_agrees_with_hand_and_object(side, name):
    hand, obj = load_hand(side), load_object(name)
    model = build_scene(hand, obj, floor=-0.1).compile()
    assert (model.nq, model.nv) == (23, 22)
    assert [model.joint(i).name for i in range(16)] == list(hand.joint_names)
    np.testing.assert_array_equal(model.jnt_range[:16], np.column_stack([hand.lower, hand.upper]))
    assert model.jnt_limited[:16].all()
    np.testing.assert_array_equal(model.dof_damping[:16], hand.damping)
    assert not model.dof_dampingpoly.any() and not model.dof_damping[16:].any()
    for body in hand.bodies:
        compiled = model.body(body.name)
        assert compiled.mass[0] == pytest.approx(body.mass, rel=1e-12)
        R = np.zeros(9)
        mujoco.mju_quat2Mat(R, compiled.iquat)
        R = R.reshape(3, 3)
        np.testing.assert_allclose(R @ np.diag(compiled.inertia) @ R.T, body.inertia, rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(compiled.ipos, body.com, atol=1e-12)
    assert model.body(OBJECT_BODY).mass[0] == obj.mass
    drawn = model.geom_group == GROUP_DRAWN
    assert drawn.any() and not model.geom_contype[drawn].any() and not model.geom_conaffinity[drawn].any()


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", object_names())
def test_the_start_is_free_of_deep_contact(side, name):
    hand, obj = load_hand(side), load_object(name)
    start = obj.start("allegro", hand.side)
    data = at(build_scene(hand, obj).compile(), hand.pose(start.hand_pose), start.pose_WO)
    assert all(contact.dist > -0.0005 for contact in data.contact)


def test_the_mesh_is_neither_shifted_nor_turned_in_the_scene():
    """The stick's ends lie along the body's x axis, off-centre as designed."""
    hand, obj = load_hand("right"), load_object("stick")
    model = build_scene(hand, obj).compile()
    data = at(model, hand.home, np.array([0.0, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0]))
    geom = model.geom(OBJECT_BODY).id
    mesh = model.geom_dataid[geom]
    first = model.mesh_vertadr[mesh]
    vertices = model.mesh_vert[first : first + model.mesh_vertnum[mesh]]
    vertices_W = vertices @ data.geom_xmat[geom].reshape(3, 3).T + data.geom_xpos[geom]
    np.testing.assert_allclose(vertices_W.min(axis=0), obj.mesh.bounds[0] + (0, 0, 0.5), atol=1e-6)
    np.testing.assert_allclose(vertices_W.max(axis=0), obj.mesh.bounds[1] + (0, 0, 0.5), atol=1e-6)


def test_palm_surface_faces_up():
    hand = load_hand("right")
    model = build_scene(hand, None).compile()
    data = at(model, hand.pose("flat"))
    geom = np.zeros(1, dtype=np.int32)
    distance = mujoco.mj_ray(
        model, data, np.array([-0.02, 0.03, 1.0]), np.array([0.0, 0.0, -1.0]), None, 1, -1, geom, None
    )
    assert model.body(model.geom_bodyid[geom[0]]).name == "palm_link"
    assert 1.0 - distance == pytest.approx(0.0113, abs=1e-9)
    for tip in hand.fingertips[:3]:
        assert data.body(hand.bodies[tip.body].name).xpos[0] > 0.1


def test_neighbouring_links_do_not_collide_but_others_do():
    hand = load_hand("right")
    model = build_scene(hand, None).compile()
    rng = np.random.default_rng(0)
    pairs = set()
    for _ in range(300):
        data = at(model, rng.uniform(hand.lower, hand.upper))
        pairs |= {
            frozenset(model.body(model.geom_bodyid[g]).name for g in contact.geom) for contact in data.contact
        }
    for body in hand.bodies[1:]:
        assert frozenset((body.name, hand.bodies[body.parent].name)) not in pairs
    assert frozenset(("link_3.0", "link_7.0")) in pairs


def test_balls_and_floor_without_a_hand():
    balls = [
        Ball((0.05, 0.0, 0.02)),
        Ball((0.0, 0.0, 0.07)),
        Ball((-0.05, 0.0, 0.02), radius=0.007, mass=0.00144),
    ]
    model = build_scene(None, load_object("cube"), balls=balls, floor=0.0).compile()
    assert (model.nq, model.nv) == (16, 15)
    np.testing.assert_array_equal(model.qpos0[:9], np.concatenate([b.p_W for b in balls]))
    data = at(model, model.qpos0[:9] + 0.01, np.array([0, 0, 0.2, 1, 0, 0, 0]))
    for i, ball in enumerate(balls):
        np.testing.assert_allclose(data.geom(f"ball_{i}").xpos, np.array(ball.p_W) + 0.01, atol=1e-12)
