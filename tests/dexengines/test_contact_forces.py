"""Reported contact forces: weight at rest, friction of a sliding box, grip of two fingers."""

import mujoco
import numpy as np
import pytest

from dexengines import load

GRAVITY, MASS, FRICTION = 9.81, 0.5, 0.4
WEIGHT = MASS * GRAVITY
ENGINES = ("mujoco", "lcp", "soft")
REST = f"""<mujoco><option timestep="0.002" cone="elliptic"/><worldbody>
  <geom name="floor" type="plane" size="1 1 1" friction="{FRICTION} 0.005 0.0001"/>
  <body name="box" pos="0 0 0.05"><freejoint/>
  <geom name="box" type="box" size="0.05 0.05 0.05" mass="{MASS}" friction="{FRICTION} 0.005 0.0001"/></body>
  </worldbody></mujoco>"""
GRIP = f"""<mujoco><option timestep="0.002"/><default><geom friction="1 0.005 0.0001"/></default><worldbody>
  <body name="left" pos="-0.06 0 0"><joint name="push" type="slide" axis="1 0 0" damping="20"/>
    <geom type="box" size="0.01 0.03 0.03" mass="0.1"/></body>
  <body name="right" pos="0.06 0 0"><joint name="pull" type="slide" axis="-1 0 0" damping="20"/>
    <geom type="box" size="0.01 0.03 0.03" mass="0.1"/></body>
  <body name="box"><freejoint/><geom type="box" size="0.05 0.03 0.03" mass="{MASS}"/></body></worldbody>
  <actuator><motor joint="push"/><motor joint="pull"/></actuator></mujoco>"""


def on(body, contacts):
    """Return the sum (3,) of the forces on a body, by the other body of each contact."""
    total = {}
    for c in contacts:
        if body in (c.body_a, c.body_b):
            other, sign = (c.body_a, 1.0) if c.body_b == body else (c.body_b, -1.0)
            total[other] = total.get(other, np.zeros(3)) + sign * c.force_W
    return total


def after(xml, engine, seconds, control=()):
    """Return a scene and its state after some time under a control."""
    scene = load(mujoco.MjModel.from_xml_string(xml), engine)
    return scene, last(scene.rollout(scene.reset(), np.tile(control, (round(seconds / scene.dt), 1))))


def last(states):
    return type(states)(*(column[-1] for column in states))


@pytest.mark.parametrize("engine", ("mujoco", "lcp", pytest.param("soft", marks=pytest.mark.slow)))
def test_forces_on_a_box_at_rest_bear_its_weight(engine):
    scene, state = after(REST, engine, 1.0)
    (force,) = on("box", scene.contacts(state)).values()
    np.testing.assert_allclose(force, (0.0, 0.0, WEIGHT), atol=0.01 * WEIGHT)


@pytest.mark.parametrize("engine", ENGINES)
def test_friction_on_a_sliding_box_opposes_its_motion(engine):
    """At the first instant, before soft contacts oscillate; MuJoCo's need a moment."""
    scene, state = after(REST, engine, 0.5)
    state, within = state._replace(v=np.array([1.2, 0.9, 0.0, 0.0, 0.0, 0.0])), 0.01
    if engine == "mujoco":
        state, within = last(scene.rollout(state, np.zeros((50, 0)))), 0.05
    contacts = scene.contacts(state)
    (force,) = on("box", contacts).values()
    expected = WEIGHT * np.array([-0.8 * FRICTION, -0.6 * FRICTION, 1.0])
    np.testing.assert_allclose(force, expected, atol=within * WEIGHT)
    for c in contacts:
        normal = c.normal_W @ c.force_W
        assert normal >= 0.0
        assert np.linalg.norm(c.force_W - normal * c.normal_W) <= 1.01 * FRICTION * normal + 1e-9


@pytest.mark.parametrize("engine", ENGINES)
def test_two_fingers_bear_the_weight_and_press_as_they_are_driven(engine):
    scene, state = after(GRIP, engine, 1.0, control=(20.0, 20.0))
    forces = on("box", scene.contacts(state, np.array([20.0, 20.0])))
    assert set(forces) == {"left", "right"}
    np.testing.assert_allclose(forces["left"][0], 20.0, rtol=0.01)
    np.testing.assert_allclose(forces["right"][0], -20.0, rtol=0.01)
    np.testing.assert_allclose(sum(forces.values()), (0.0, 0.0, WEIGHT), atol=0.01 * WEIGHT)


def test_contacts_of_the_lcp_engine_are_where_mujocos_are():
    """A box on the floor: four corners, each with its gap and a normal from the floor to the
    box."""
    scene, state = after(REST, "lcp", 0.1)
    found, truth = (load(scene.model, engine).contacts(state) for engine in ("lcp", "mujoco"))
    assert len(found) == 4
    for c in found:
        assert (c.geom_a, c.geom_b) == ("floor", "box") and 0.0 < c.gap < 2e-5
        np.testing.assert_allclose(c.normal_W, (0.0, 0.0, 1.0), atol=1e-9)
    corners = [sorted(map(tuple, np.round([c.point_W[:2] for c in group], 6))) for group in (found, truth)]
    if truth:
        np.testing.assert_allclose(*corners, atol=1e-6)
