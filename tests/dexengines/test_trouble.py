"""States that no physics gives are named, in every engine by the same rules; others are not."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from dexengines import load

FLOOR = "<geom name='floor' type='plane' size='0 0 1'/>"


def scene(bodies: str, engine: str = "mujoco", option: str = "", extra: str = ""):
    xml = f"<mujoco><option timestep='.001' {option}/><worldbody>{bodies}</worldbody>{extra}</mujoco>"
    return load(mujoco.MjModel.from_xml_string(xml), engine)


def box(z: float, half: float = 0.05, name: str = "box") -> str:
    return (
        f"<body name='{name}' pos='0 0 {z}'><freejoint/>"
        f"<geom name='{name}' type='box' size='{half} {half} {half}' mass='.5'/></body>"
    )


@pytest.mark.parametrize("engine", ["mujoco", "hydroelastic", "lcp"])
def test_a_box_that_falls_and_rests_is_no_trouble(engine):
    made = scene(FLOOR + box(0.15), engine)
    made.rollout(made.reset(), np.zeros((600, 0)))
    assert made.trouble() == ""


@pytest.mark.parametrize(
    ("engine", "z", "what"),
    [
        ("mujoco", 0.05, "'floor' and 'box' overlap by"),
        ("mujoco", 0.01, "of energy came from nowhere"),
        ("hydroelastic", 0.01, "of energy came from nowhere"),
        ("hydroelastic", -0.02, "'floor' and 'box' overlap by"),
    ],
)
def test_bodies_inside_each_other_and_what_throws_them_out_are_named_until_the_next_reset(engine, z, what):
    soft = "solref='.4 1'" if z == 0.05 else ""
    made = scene(FLOOR.replace("/>", f" {soft}/>") + box(z).replace("mass", f"{soft} mass"), engine)
    made.rollout(made.reset(), np.zeros((800, 0)))
    assert what in made.trouble()
    made.step(made.reset()._replace(q=np.array([0, 0, 0.06, 1, 0, 0, 0.0])))
    assert made.trouble() == ""


@pytest.mark.parametrize("engine", ["mujoco", "hydroelastic", "lcp"])
def test_a_bullet_is_named_where_it_may_pass_through_a_wall(engine):
    wall = "<geom name='wall' type='box' size='.002 .3 .3'/>"
    ball = "<body name='ball' pos='-.5 0 0'><freejoint/><geom size='.005' mass='.01'/></body>"
    made = scene(wall + ball, engine, "gravity='0 0 0'")
    made.rollout(made.reset()._replace(v=np.array([80.0, 0, 0, 0, 0, 0])), np.zeros((20, 0)))
    assert ("'ball' moves farther in a step than it is thick" in made.trouble()) == (engine != "lcp")


def test_energy_from_nowhere_is_named():
    """Negative damping drives a pendulum."""
    made = scene(
        "<body><joint axis='0 1 0' damping='-.02'/>"
        "<geom type='capsule' fromto='0 0 0 0 0 -.3' size='.02' mass='.3'/></body>"
    )
    start = made.reset()
    made.rollout(start, np.zeros((300, 0)))
    assert made.trouble() == ""
    made.rollout(start._replace(v=np.array([3.0])), np.zeros((2000, 0)))
    assert "of energy came from nowhere" in made.trouble()


def test_work_of_motors_is_no_trouble():
    arm = (
        "<body><joint name='j' axis='0 1 0'/><geom type='capsule' fromto='0 0 0 0 0 -.3' size='.02'/></body>"
    )
    made = scene(arm, extra="<actuator><motor joint='j' gear='5'/></actuator>")
    made.rollout(made.reset(), np.ones((400, 1)))
    assert made.trouble() == ""
