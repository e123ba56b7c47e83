"""Motions with a closed form, at default parameters: rolling, edges, planes without end."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest

from dexengines import load

SLOPE = math.radians(15.0)
ROLL = f"gravity='{9.81 * math.sin(SLOPE)} 0 {-9.81 * math.cos(SLOPE)}'"
"""Gravity in the frame of a slope down along x."""


def scene(bodies: str, option: str = "", dt: float = 1e-3):
    xml = f"<mujoco><option timestep='{dt}' {option}/><worldbody>{bodies}</worldbody></mujoco>"
    return load(mujoco.MjModel.from_xml_string(xml), "hydroelastic")


@pytest.mark.parametrize(
    ("geom", "share"),
    [("type='sphere' size='.04'", 5 / 7), ("type='cylinder' size='.04 .06' euler='90 0 0'", 2 / 3)],
    ids=["ball", "cylinder"],
)
@pytest.mark.parametrize("ground", ["type='plane' size='0 0 1'", "type='box' size='2 1 .1' pos='0 0 -.1'"])
def test_round_bodies_roll_down_a_slope(geom, share, ground):
    made = scene(
        f"<geom {ground} friction='.6'/><body pos='-.5 .1 .04'><freejoint/>"
        f"<geom {geom} mass='.3' friction='.6'/></body>",
        ROLL,
    )
    states = made.rollout(made.reset(), np.zeros((500, 0)))
    way = 0.5 * share * 9.81 * math.sin(SLOPE) * 0.5**2
    assert states.q[-1, 0] - states.q[0, 0] == pytest.approx(way, rel=0.03)
    assert made.trouble() == ""


def test_a_ball_keeps_rolling_on_a_level_plane_and_one_at_rest_stays():
    made = scene(
        "<geom type='plane' size='0 0 1' friction='.6'/><body pos='0 0 .04'><freejoint/>"
        "<geom type='sphere' size='.04' mass='.3' friction='.6'/></body>"
    )
    start = made.reset()
    rolling = start._replace(v=np.array([0.4, 0, 0, 0, 10.0, 0]))
    ahead = made.rollout(rolling, np.zeros((1000, 0)))
    assert ahead.v[-1, 0] == pytest.approx(0.4, rel=0.03)
    tilted = start._replace(q=np.array([0, 0, 0.04, 0.8, 0.36, -0.48, 0.0]))
    rest = made.rollout(tilted, np.zeros((1000, 0)))
    assert np.abs(rest.q[-1, :2]).max() < 1e-4 and np.abs(rest.v[-1]).max() < 1e-3


def test_two_balls_in_free_space_keep_momentum_and_angular_momentum():
    made = scene(
        "".join(
            f"<body pos='{x} {y} 0'><freejoint/><geom size='.04' mass='{m}' friction='.6'/></body>"
            for x, y, m in ((-0.05, 0.0, 0.3), (0.05, 0.03, 0.2))
        ),
        "gravity='0 0 0'",
    )
    v0 = np.array([1.0, 0, 0, 0, 0, 20.0, 0, 0, 0, 3.0, 0, 0])
    states = made.rollout(made.reset()._replace(v=v0), np.zeros((100, 0)))
    assert np.abs(states.v[-1, 6:9]).max() > 0.1  # they met
    mass, inertia = np.array([0.3, 0.2]), 0.4 * np.array([0.3, 0.2]) * 0.04**2
    data = mujoco.MjData(made.model)
    momenta = []
    for q, v in ((states.q[0], v0), (states.q[-1], states.v[-1])):
        data.qpos[:], data.qvel[:] = q, v
        mujoco.mj_kinematics(made.model, data)
        spin = [data.xmat[b + 1].reshape(3, 3) @ v[6 * b + 3 : 6 * b + 6] for b in range(2)]
        linear = [mass[b] * v[6 * b : 6 * b + 3] for b in range(2)]
        angular = [np.cross(q[7 * b : 7 * b + 3], linear[b]) + inertia[b] * spin[b] for b in range(2)]
        momenta.append(np.concatenate([sum(linear), sum(angular)]))
    np.testing.assert_allclose(momenta[1], momenta[0], atol=1e-4 * np.abs(momenta[0]).max())


@pytest.mark.parametrize("inside", [0.003, -0.003])
def test_a_box_at_the_edge_of_a_table_stays_or_falls_by_its_centre(inside):
    made = scene(
        "<geom type='box' size='.2 .2 .05' friction='.8'/>"
        f"<body pos='{0.2 - inside} 0 .075'><freejoint/>"
        "<geom type='box' size='.08 .04 .025' mass='.4' friction='.8'/></body>"
    )
    end = made.rollout(made.reset(), np.zeros((1500, 0))).q[-1, 2]
    assert abs(end - 0.075) < 1e-3 if inside > 0 else end < 0.0


def test_planes_have_no_end():
    made = scene(
        "<geom type='plane' size='0 0 1' euler='20 0 0' pos='0 0 .3'/>"
        "<body pos='900 0 .3554'><freejoint/><geom type='box' size='.05 .05 .05' mass='.5'/></body>",
        f"gravity='0 {9.81 * math.sin(math.radians(20))} {-9.81 * math.cos(math.radians(20))}'",
    )
    depths = made.rollout(made.reset(), np.zeros((300, 0))).q[:, 2]
    assert np.isfinite(depths).all() and depths.min() > 0.25


@pytest.mark.parametrize("half", [0.002, 0.02, 0.2])
def test_a_dropped_cube_comes_to_rest_on_its_side_whatever_its_size(half):
    made = scene(
        f"<geom type='plane' size='0 0 1'/><body pos='0 0 {1.2 * half}' euler='3 2 0'><freejoint/>"
        f"<geom type='box' size='{half} {half} {half}' density='1000'/></body>",
        dt=2e-3,
    )
    heights = made.rollout(made.reset(), np.zeros((500, 0))).q[:, 2]
    assert heights.max() <= 1.21 * half and heights[-1] == pytest.approx(half, rel=0.03)
    assert made.trouble() == ""
