"""Friction against closed forms: sliding contacts have that of the cone, along their slip."""

import mujoco
import numpy as np
import pytest

from dexengines import load
from dexengines.scene import State

G = 9.81
FLOOR = '<geom type="box" size="1 1 .1" pos="0 0 -.1"/>'
BOX = '<geom type="box" size=".04 .03 .03" mass="1"/>'
SCENES = {
    "corner": (
        "0 -9.81 -9.81",
        FLOOR + '<geom type="box" size="1 .1 1" pos="0 -.1 1"/>',
        "0 .03001 .03001", BOX, 0, 1.0, 2.0 * 0.3 * G,
    ),
    "disc": (
        "0 0 -9.81", FLOOR, "0 0 .00501", '<geom type="cylinder" size=".05 .005" mass="1"/>',
        5, 20.0, 4.0 * 0.3 * G / (3.0 * 0.05),
    ),
}  # fmt: skip


def _run(gravity, fixed, at, geom, velocity, seconds):
    text = f"""<mujoco><option timestep="0.001" gravity="{gravity}"/>
    <default><geom friction="0.3"/></default><worldbody>{fixed}
    <body pos="{at}"><freejoint/>{geom}</body></worldbody></mujoco>"""
    scene = load(mujoco.MjModel.from_xml_string(text), "lcp")
    start = State(0.0, scene.reset().q, np.array(velocity), np.zeros(0))
    return scene, scene.rollout(start, np.zeros((round(seconds / 0.001), 0)))


@pytest.mark.parametrize("name", SCENES)
def test_a_sliding_body_is_braked_by_the_friction_of_the_cone(name):
    gravity, fixed, at, geom, axis, speed, expected = SCENES[name]
    _, states = _run(gravity, fixed, at, geom, speed * np.eye(6)[axis], 0.1)
    assert (speed - states.v[-1, axis]) / 0.1 == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("angle", (0.1, 0.5, 0.785))
def test_a_box_slides_straight_in_every_direction(angle):
    along = np.array([np.cos(angle), np.sin(angle)])
    _, states = _run("0 0 -9.81", FLOOR, "0 0 .03001", BOX, [*along, 0, 0, 0, 0], 0.2)
    np.testing.assert_allclose(states.v[-1, :2], (1.0 - 0.3 * G * 0.2) * along, atol=0.005)


def test_a_ball_without_loss_bounces_to_its_height_for_ever():
    ball = '<geom type="sphere" size=".05" mass="1"/>'
    text = f"""<mujoco><option timestep="0.001"/><worldbody>{FLOOR}<body pos="0 0 .15"><freejoint/>{ball}
    </body></worldbody><custom><numeric name="contact_restitution" data="1"/></custom></mujoco>"""
    scene = load(mujoco.MjModel.from_xml_string(text), "lcp")
    z = scene.rollout(scene.reset(), np.zeros((10000, 0))).q[:, 2] - 0.05
    assert z[-500:].max() == pytest.approx(0.1, rel=0.01) and scene.trouble() == ""
