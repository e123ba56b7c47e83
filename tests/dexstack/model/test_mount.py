"""Gravity of a palm that is not level."""

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dexstack.errors import ConfigError
from dexstack.model.balls import Ball, BallsModel
from dexstack.model.hand import load_hand
from dexstack.model.mount import DOWN, inclined, read_incline, upright
from dexstack.model.scene import build_scene


def test_a_level_palm_has_the_usual_gravity_to_the_bit():
    assert inclined(0.0) == inclined(0.0, "x") == DOWN == load_hand().gravity == (0.0, 0.0, -9.81)
    np.testing.assert_array_equal(upright(np.array(DOWN)), np.eye(3))


@pytest.mark.parametrize(("axis", "vector"), [("x", (1, 0, 0)), ("y", (0, 1, 0)), ("-x", (-1, 0, 0))])
def test_the_palm_turns_by_the_right_hand_rule(axis, vector):
    R_level = Rotation.from_rotvec(np.radians(28.0) * np.array(vector)).as_matrix()
    np.testing.assert_allclose(inclined(28.0, axis), R_level.T @ DOWN, atol=1e-12)


def test_fingers_sink_by_default():
    assert read_incline("20")[0] > 0.0 and read_incline("20") == inclined(20.0, "y")
    assert read_incline("-10, x") == inclined(-10.0, "x")
    for text in ("", "steep", "20,z", "200", "nan"):
        with pytest.raises(ConfigError, match="DEG or DEG,AXIS"):
            read_incline(text)


@pytest.mark.parametrize("gravity", [inclined(20.0, "-y"), inclined(135.0, "x"), (0.0, 0.0, 9.81), (3, 4, 0)])
def test_upright_is_the_smallest_rotation_from_z_to_up(gravity):
    R, up = upright(np.array(gravity)), -np.array(gravity) / np.linalg.norm(gravity)
    np.testing.assert_allclose(R @ R.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(R[:, 2], up, atol=1e-12)
    assert np.linalg.norm(Rotation.from_matrix(R).as_rotvec()) == pytest.approx(np.arccos(up[2]))


def test_a_film_shows_the_incline():
    """The camera sees the true vertical upright: its horizontal axis is level."""
    for gravity in (DOWN, inclined(28.0)):
        model = build_scene(None, None, gravity=gravity).compile()
        R_WC = np.zeros(9)
        mujoco.mju_quat2Mat(R_WC, model.cam("film").quat)
        assert R_WC.reshape(3, 3)[:, 0] @ gravity == pytest.approx(0.0, abs=1e-9)


def test_forces_hold_balls_against_any_gravity():
    balls = BallsModel((Ball((0.0, 0.0, 0.1), mass=0.01),), gravity=inclined(30.0))
    np.testing.assert_allclose(balls.weight, [-0.04905, 0.0, 0.0981 * np.sqrt(0.75)])
