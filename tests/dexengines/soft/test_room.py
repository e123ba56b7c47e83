"""Scenes enlarge the arrays of the near set by themselves, alone and concurrently."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from dexengines import load, rollout
from dexengines.scene import State
from dexengines.soft.near import Room

pytestmark = pytest.mark.slow

PLATES = """<mujoco><option timestep="0.002"/><worldbody>
    <geom name="table" type="box" size="0.15 0.05 0.02" pos="0 0 -0.02"/>
  <body pos="0 0 0.0198"><freejoint/>
    <geom name="plate" type="box" size="0.03 0.03 0.02" mass="0.2" contype="2"/></body>
  <body pos="0.08 0 0.0198"><freejoint/>
    <geom name="other" type="box" size="0.03 0.03 0.02" mass="0.2" contype="2"/></body>
  </worldbody></mujoco>"""
REST = np.array([0.0, 0, 0.0198, 1, 0, 0, 0, 0.08, 0, 0.0198, 1, 0, 0, 0])
APART = np.array([0.0, 0, 0.1, 1, 0, 0, 0, 0.08, 0, 0.1, 1, 0, 0, 0])
TIGHT = Room(1, 4, 4)
"""For one pair, where two plates lie on the table."""


def made(room=None):
    materials = {name: {"resolution": 0.006} for name in ("table", "plate", "other")}
    scene = load(mujoco.MjModel.from_xml_string(PLATES), "soft", materials=materials)
    if room is not None:
        scene.set_room([room])
    return scene


def test_a_step_without_enough_room_is_repeated():
    scenes = made(), made(TIGHT)
    for scene in scenes:
        scene.place(REST, np.zeros(12))
        assert all(scene.advance(np.zeros(12)) for _ in range(5))
    (_, v), (_, w) = (scene.values() for scene in scenes)
    np.testing.assert_allclose(v, w, rtol=1e-9, atol=1e-12)
    assert scenes[1].system.room[0].pairs > 1


def test_concurrent_scenes_make_room_for_all():
    scenes = [made(TIGHT) for _ in range(2)]
    assert scenes[0].batch_key == scenes[1].batch_key
    start = State(np.zeros(2), np.stack([APART, REST]), np.zeros((2, 12)), np.zeros((2, 0)))
    found = rollout(scenes, start, np.zeros((3, 0)))
    assert (
        np.isfinite(found.v).all()
        and scenes[0].system.room == scenes[1].system.room
        and scenes[0].batch_key == scenes[1].batch_key
    )
    assert scenes[0].system.room[0].pairs > 1
    alone = made()
    alone.place(REST, np.zeros(12))
    for k in range(3):
        alone.advance(np.zeros(12))
        np.testing.assert_allclose(found.v[1, k + 1], alone.values()[1], rtol=1e-9, atol=1e-9)


def test_a_state_with_nan_makes_no_room():
    scene = made(TIGHT)
    scene.place(np.full(14, np.nan), np.zeros(12))
    assert not scene.advance(np.zeros(12)) and scene.system.room[0] == TIGHT


def test_wrench_and_derivative_are_nan_where_a_pair_is_left_out():
    system = made(TIGHT).system
    with jax.enable_x64(True):

        def pull(q):
            m = system.tree.motion(system.data.numbers, q, jnp.zeros(12))
            return jnp.sum(system.contact(system.data, m).wrench)

        value, slope = jax.jit(jax.value_and_grad(pull))(jnp.asarray(REST))
    assert np.isnan(value) and np.isnan(slope).any()
