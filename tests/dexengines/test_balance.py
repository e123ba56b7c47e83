"""The balance of a body's momentum tells Coulomb's friction from other forces."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from dexengines.balance import Balance
from dexengines.touching import Sight

R, G, DT = 0.05, 9.81, 0.05
HALF, LENGTH = 0.05, 0.05 * (2 / 3) ** 0.5
"""Of the box, and its radius of gyration [m]."""
MODEL = mujoco.MjModel.from_xml_string(f"""<mujoco><option gravity="0 0 {-G}"/><worldbody>
  <geom name="floor" type="plane" size="0 0 1"/><body name="ball"><freejoint/>
  <geom name="ball" size="{R}" mass=".5"/></body></worldbody></mujoco>""")


def said(mu: float, speed: float, acceleration: float, spin: float, pushed: float = 0.0) -> list[str]:
    """Return what is said every 50 ms of a ball with a speed and an acceleration along x, whose spin
    about y starts at 0 or rolling and has an acceleration."""
    balance, data, found = Balance(MODEL, Sight(MODEL, {(0, 1): mu})), mujoco.MjData(MODEL), []
    rolls = speed / R if spin * R == acceleration else 0.0
    for t in np.arange(3) * DT:
        data.qpos[:3] = 0.0, 0.0, R - 1e-5
        data.qvel[:] = speed + acceleration * t, 0, 0, 0, rolls + spin * t, 0
        mujoco.mj_fwdPosition(MODEL, data)
        mujoco.mj_fwdVelocity(MODEL, data)
        applied = np.array([pushed, 0, 0, 0, 0, 0]) * DT
        found.append(balance.see(data, applied, DT))
    return found


@pytest.mark.parametrize(("mu", "speed", "slope"), [(0.15, 3.0, 1.0), (0.5, 1.0, 0.0), (0.5, 0.0, 0.0)])
def test_friction_of_a_ball_that_slides_rolls_or_rests_is_explained(mu, speed, slope):
    assert said(mu, speed, -slope * mu * G, slope * 2.5 * mu * G / R) == [""] * 3


def test_sliding_friction_that_is_too_much_is_named_at_once():
    """The friction that is too much, and its moment, are 0.05 √(1 + (r/L)²) of the load, (r/L)² = 5/2,
    and a little less where a larger load explains a part."""
    first = said(0.1, 3.0, -0.15 * G, 2.5 * 0.15 * G / R)[1]
    assert first.startswith("9 % of the contact forces on 'ball'")


def test_rolling_that_is_braked_is_named_if_it_stays():
    brake = -5 / 7 * 0.05 * G
    found = said(0.5, 3.0, brake, brake / R)
    assert not found[1] and "of the contact forces on 'ball'" in found[2]


def test_pushed_bodies_are_not_judged():
    assert said(0.1, 3.0, -0.15 * G, 0.0, pushed=1.0) == [""] * 3


BOX = mujoco.MjModel.from_xml_string(f"""<mujoco><option gravity="0 0 {-G}"/><worldbody>
  <geom name="floor" type="plane" size="0 0 1"/><body name="box"><freejoint/>
  <geom name="box" type="box" size="{HALF} {HALF} {HALF}" mass=".5"/></body></worldbody></mujoco>""")


def said_of_box(mu: float, speed: float, acceleration: float, tilt: float = 0.0) -> list[str]:
    """Return what is said every 50 ms of a box that slides along x, after the first 50 ms turned by
    ``tilt`` [rad]."""
    balance, data, found = Balance(BOX, Sight(BOX, {(0, 1): mu})), mujoco.MjData(BOX), []
    for t in np.arange(11) * DT:
        turn = 0.5 * tilt * (t > 0.0)
        data.qpos[:] = speed * t, 0.0, HALF - 1e-5, np.cos(turn), 0.0, np.sin(turn), 0.0
        data.qvel[:] = speed + acceleration * t, 0, 0, 0, 0, 0
        mujoco.mj_fwdPosition(BOX, data)
        mujoco.mj_fwdVelocity(BOX, data)
        found.append(balance.see(data, np.zeros(6), DT))
    return found


def test_a_box_that_creeps_is_named_if_it_moves_by_a_fiftieth_of_its_size_in_half_a_second():
    assert said_of_box(0.5, 0.02 * LENGTH / (10 * DT) * 0.98, 0.0) == [""] * 11
    assert "although friction would hold it" in said_of_box(0.5, 0.02 * LENGTH / (10 * DT) * 1.02, 0.0)[-1]


def test_a_small_error_that_stays_is_named_by_the_change_of_momentum():
    """Of the load 0.4 %, of the braking 4 %."""
    assert said_of_box(0.1, 3.0, -0.1 * G) == [""] * 11
    found = said_of_box(0.1, 3.0, -0.104 * G)
    assert not any(found[:2]) and found[-1].startswith("steadily 0.4 % of the contact forces on 'box'")


@pytest.mark.parametrize(("tilt", "stays"), [(0.05, True), (0.2, False)])
def test_a_box_that_leaves_its_place_by_itself_is_named(tilt, stays):
    found = said_of_box(0.5, 0.0, 0.0, tilt)
    assert found[0] == "" and ("'box' leaves the place where it was in equilibrium" in found) != stays


def test_a_round_body_bears_no_moment_about_the_normal_unless_it_has_a_material():
    """A spin about the normal that is braked."""
    for points in ((), (1,)):
        balance, data = Balance(MODEL, Sight(MODEL, {(0, 1): 0.5}, points=points)), mujoco.MjData(MODEL)
        for t in np.arange(3) * DT:
            data.qpos[:3], data.qvel[5] = (0.0, 0.0, R - 1e-5), 20.0 - 20.0 * t
            mujoco.mj_fwdPosition(MODEL, data)
            mujoco.mj_fwdVelocity(MODEL, data)
            said = balance.see(data, np.zeros(6), DT)
        assert ("not explained by Coulomb's law" in said) == bool(points)
