"""Motions with a closed form, at default parameters: rolling, and momentum of two balls."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from dexengines import load


def scene(bodies: str, option: str = ""):
    xml = f"<mujoco><option timestep='.001' {option}/><worldbody>{bodies}</worldbody></mujoco>"
    return load(mujoco.MjModel.from_xml_string(xml), "hydroelastic")


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
