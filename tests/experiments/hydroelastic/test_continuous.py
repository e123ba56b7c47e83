"""The continuous mode: conserved energy, a conservative force, order of the fixed-step methods."""

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dexengines.forces import contactless
from dexengines.hydroelastic.scene import HydroelasticScene
from dexengines.hydroelastic.system import HydroelasticSystem
from dexstack.errors import ConfigError
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.model.scene import robot_scene
from experiments.hydroelastic import systems
from experiments.hydroelastic.continuous import STOP_TIME, ContinuousSystem
from experiments.hydroelastic.drop import energy_between_bounces

pytestmark = pytest.mark.slow


def test_bounces_keep_their_energy():
    rows = energy_between_bounces(systems.ball(height=0.01), 5, method="DOP853")
    assert len(rows) == 6
    np.testing.assert_allclose(rows[:, 1], rows[0, 1], rtol=1e-4)


def test_a_turning_body_turns_as_mujoco_turns_it():
    motion = ContinuousSystem(systems.dumbbell(height=1.0))
    motion.data.qvel[:] = 0.1, 0.2, 0.3, 3.0, -2.0, 4.0
    y = motion.state
    position, h = y[:7].copy(), 1e-7
    mujoco.mj_integratePos(motion.model, position, y[7:].copy(), h)
    np.testing.assert_allclose(motion.rate(0.0, y)[:7], (position - y[:7]) / h, atol=1e-5)


def test_the_force_on_a_tumbling_dumbbell_is_conservative():
    """How the vertical force changes with a turn is how the moment changes with height: both are
    ∂²U/∂z∂θ."""
    motion = ContinuousSystem(systems.ball())
    rng = np.random.default_rng(1)

    def wrench(z: float, R: Rotation) -> np.ndarray:
        motion.place(np.array([0.02, 0.01, z, *R.as_quat(scalar_first=True), 0, 0, 0, 0, 0, 0]))
        acceleration = motion.rate(0.0, motion.state)[7:]
        assert motion.faces > 0
        moment_B = 0.4 * systems.BALL_MASS * systems.BALL_RADIUS**2 * acceleration[3:]
        return np.concatenate([systems.BALL_MASS * acceleration[:3], R.as_matrix() @ moment_B])

    h = 1e-6
    for _ in range(30):
        z, R = systems.BALL_RADIUS - rng.uniform(0.004, 0.008), Rotation.random(random_state=rng)
        for axis in range(2):
            turn = np.zeros(3)
            turn[axis] = h
            dF = (
                wrench(z, Rotation.from_rotvec(turn) * R)[2] - wrench(z, Rotation.from_rotvec(-turn) * R)[2]
            ) / (2 * h)
            dM = (wrench(z + h, R)[3 + axis] - wrench(z - h, R)[3 + axis]) / (2 * h)
            assert dF == pytest.approx(dM, rel=1e-3, abs=1e-2)


@pytest.mark.parametrize(("method", "order"), [("euler", 1), ("midpoint", 2), ("rk4", 4)])
def test_fixed_steps_have_their_order(method, order):
    """A free flight with spin about all axes: smooth, and not integrated exactly."""

    def end(dt: float) -> np.ndarray:
        motion = ContinuousSystem(systems.dumbbell(height=0.5))
        motion.data.qvel[:] = 0.3, 0, 0, 6, 4, 5
        for _, y in motion.run_fixed(0.1, dt, method=method):
            last = y
        return last[3:]

    exact = end(2.5e-4) if method == "rk4" else end(2e-5) if method == "midpoint" else end(1e-5)
    steps = np.array([1e-2, 5e-3] if method == "rk4" else [2e-3, 1e-3])
    errors = [np.linalg.norm(end(dt) - exact) for dt in steps]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.35)


def test_unknown_methods_and_joint_stops_are_refused():
    motion = ContinuousSystem(systems.ball())
    with pytest.raises(ConfigError, match="unknown method 'heun'"):
        next(motion.run(1.0, method="heun"))
    with pytest.raises(ConfigError, match="unknown method 'heun'"):
        next(motion.run_fixed(1.0, 1e-3, method="heun"))


def test_a_joint_leaves_its_stop_as_fast_as_it_came_and_slower_where_that_dissipates():
    """A slide on its own is a harmonic oscillator while it is past its stop: as deep as v T, and
    back after π T."""
    xml = "<mujoco><option gravity='0 0 0'/><worldbody><body><joint type='slide' limited='true' range='-1 0.01'/>"
    model = mujoco.MjModel.from_xml_string(xml + "<geom size='0.1' mass='2'/></body></worldbody></mujoco>")
    ends = []
    for dissipation in (0.0, 1.0):
        motion = ContinuousSystem(HydroelasticSystem(contactless(model), []), stop_dissipation=dissipation)
        motion.data.qvel[:] = 1.0
        passed = np.array([y for _, y in motion.run(0.01 + (np.pi + 1.0) * STOP_TIME, max_step=1e-5)])
        ends.append(passed[-1, 1])
        if dissipation == 0.0:
            assert passed[:, 0].max() == pytest.approx(0.01 + STOP_TIME, rel=1e-3)
    assert ends[0] == pytest.approx(-1.0, rel=1e-6)
    assert -0.6 < ends[1] < -0.1


def test_a_hand_with_its_stops_and_a_cube_runs_continuously():
    model = robot_scene(load_hand("right"), load_object("cube")).compile()
    model.dof_frictionloss[:] = 0.0  # too stiff for explicit steps
    motion = ContinuousSystem(HydroelasticScene(model).system, stop_dissipation=1.0)
    motion.data.qpos[:16] = model.jnt_range[:16].mean(axis=1)
    motion.data.qpos[2], motion.data.qpos[18] = model.jnt_range[2, 1], motion.data.qpos[18] + 0.2
    motion.data.qfrc_applied[2] = 0.3
    end = [y for _, y in motion.run_fixed(0.005, 1e-5)][-1]
    given_way = end[2] - model.jnt_range[2, 1]
    assert 0.2 < given_way / (0.3 * model.dof_invweight0[2] * STOP_TIME**2) < 1.5 and np.isfinite(end).all()
