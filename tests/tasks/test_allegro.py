"""The Allegro task: goals, noise, scores, and its cost written as squares, against the formulas they come from."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dexstack.geometry.rotations import geodesic_angle, quaternion_product, wrap_angle, yaw_of, yaw_quaternion
from dexstack.model.objects import load_object, object_names
from dexstack.tasks.palm_turn import AllegroCost, AllegroTask, AllegroWeights


def task(goal_yaw=np.pi / 2, name="cube", **kw):
    return AllegroTask(load_object(name).start("allegro"), goal_yaw, **kw)


def turned(pose, yaw):
    quat = (Rotation.from_rotvec([0, 0, yaw]) * Rotation.from_quat(pose[3:], scalar_first=True)).as_quat(scalar_first=True)
    return np.concatenate([pose[:3], quat])


@pytest.mark.parametrize("name", object_names())
@pytest.mark.parametrize("goal", [0.0, np.pi / 2, -np.pi / 3, np.pi])
def test_the_goal_is_the_start_turned_about_the_vertical(name, goal):
    t = task(goal, name)
    np.testing.assert_allclose(t.goal_WO[:3], t.start.pose_WO[:3])
    assert t.orientation_error(turned(t.start.pose_WO, goal)) == pytest.approx(0.0, abs=1e-7)
    assert t.orientation_error(t.start.pose_WO) == pytest.approx(abs(goal), abs=1e-7)
    assert t.yaw(turned(t.start.pose_WO, 0.7)) == pytest.approx(0.7)


def test_start_noise_is_seeded_and_as_large_as_the_object_says():
    t = task()
    starts = np.array([t.start_pose(np.random.default_rng(k)) for k in range(2000)])
    np.testing.assert_array_equal(starts[7], t.start_pose(np.random.default_rng(7)))
    np.testing.assert_allclose(np.std(starts[:, :2], axis=0), t.start.noise_position, rtol=0.1)
    yaw = np.array([t.yaw(pose) for pose in starts])
    assert np.abs(yaw).max() <= t.start.noise_yaw and np.abs(yaw).max() > 0.95 * t.start.noise_yaw
    np.testing.assert_array_equal(starts[:, 2], t.start.pose_WO[2])


def test_orientation_errors_count_every_axis():
    """3-D: a stick with the right yaw that has rolled is wrong."""
    t = task(0.0, "stick")
    rolled = Rotation.from_quat(t.start.pose_WO[3:], scalar_first=True) * Rotation.from_rotvec([0.5, 0, 0])
    pose = np.concatenate([t.start.pose_WO[:3], rolled.as_quat(scalar_first=True)])
    assert t.orientation_error(pose) == pytest.approx(0.5)


def test_dropped_means_far_from_the_start_or_no_number():
    t = task()
    away = lambda d: t.start.pose_WO + np.array([0, 0, -d, 0, 0, 0, 0])  # noqa: E731
    assert not t.dropped(away(0.079)) and t.dropped(away(0.081))
    assert t.dropped(np.full(7, np.nan))
    assert t.position_error(away(0.01)) == pytest.approx(0.01)


def test_the_cost_is_the_papers():
    """Σ squares of the residuals = ω_c Σ‖p_tip − p_o‖² + ω_r c_goal, and c_goal = ω_p ‖p − p_g‖² + ω_q (1 − (q·q_g)²) [25, 26]."""
    rng = np.random.default_rng(0)
    weights = AllegroWeights(position_weight=3.0, orientation_weight=5.0, position_length=1e6, contact_weight=0.7, running_weight=0.2)
    for _ in range(10):
        quat, goal_quat = (x / np.linalg.norm(x) for x in rng.normal(size=(2, 4)))
        p, goal = rng.normal(size=3), np.concatenate([rng.normal(size=3), goal_quat])
        tips = rng.normal(size=(4, 3))
        state = SimpleNamespace(p_WO=jnp.asarray(p), quat_WO=jnp.asarray(quat), q=jnp.zeros(16), p_WTip=jnp.asarray(tips))
        c_goal = 3.0 * np.sum((p - goal[:3]) ** 2) + 5.0 * (1 - (quat @ goal_quat) ** 2)
        cost = AllegroCost()
        w = weights.arrays()
        assert float(jnp.sum(cost.terminal(state, jnp.asarray(goal), w) ** 2)) == pytest.approx(c_goal, rel=1e-4)
        expected = 0.7 * np.sum((tips - p) ** 2) + 0.2 * c_goal
        assert float(jnp.sum(cost.stage(state, jnp.asarray(goal), w) ** 2)) == pytest.approx(expected, rel=1e-4)


def test_the_weight_of_the_position_error_may_grow_with_it():
    """At the length it has doubled, at three lengths it is ten times as much."""
    goal = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    w = AllegroWeights(position_weight=5.0, position_length=0.02).arrays()
    for lengths, growth in ((0.0, 1.0), (1.0, 2.0), (3.0, 10.0)):
        p = 0.02 * lengths * np.array([0.6, -0.8, 0.0])
        state = SimpleNamespace(p_WO=jnp.asarray(p), quat_WO=jnp.asarray(goal[3:]), q=jnp.zeros(16), p_WTip=jnp.zeros((4, 3)))
        cost = float(jnp.sum(AllegroCost().terminal(state, jnp.asarray(goal), w) ** 2))
        assert cost == pytest.approx(5.0 * growth * (0.02 * lengths) ** 2, rel=1e-5)


@pytest.mark.parametrize("angle", [0.0, 1e-8, 1e-4, 0.5, 3.0, np.pi])
def test_geodesic_angle_is_exact_for_small_and_for_large_turns(angle):
    a = Rotation.random(rng=np.random.default_rng(1))
    b = a * Rotation.from_rotvec(angle * np.array([0.6, 0, 0.8]))
    quats = [r.as_quat(scalar_first=True) for r in (a, b)]
    assert geodesic_angle(*quats) == pytest.approx(angle, abs=3e-8)
    assert geodesic_angle(-quats[0], 2 * quats[1]) == pytest.approx(angle, abs=3e-8)


def test_rotation_helpers_are_scipys():
    rng = np.random.default_rng(2)
    for a, b in rng.normal(size=(10, 2, 4)):
        product = Rotation.from_quat(a, scalar_first=True) * Rotation.from_quat(b, scalar_first=True)
        ours = quaternion_product(a, b)
        assert abs(ours @ product.as_quat(scalar_first=True)) == pytest.approx(np.linalg.norm(ours))
    for yaw in (-3.0, 0.0, 2.5):
        tilted = quaternion_product(yaw_quaternion(yaw), Rotation.from_rotvec([0.3, 0, 0]).as_quat(scalar_first=True))
        assert yaw_of(tilted) == pytest.approx(yaw)
    assert [wrap_angle(x) for x in (0.0, np.pi, -np.pi, 3 * np.pi, 7.0)] == pytest.approx([0, np.pi, np.pi, np.pi, 7 - 2 * np.pi])
