"""The palm task: goals, noise, judgement, and its cost against the published formulas."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
import trimesh
from scipy.spatial.transform import Rotation

from dexstack.config import share_dir
from dexstack.control.base import PlannedState
from dexstack.geometry.rotations import geodesic_angle, quaternion_product, wrap_angle, yaw_of, yaw_quaternion
from dexstack.graph.settings import Spec
from dexstack.hand.servo import ServoLaw, ServoParams
from dexstack.model.mount import inclined
from dexstack.model.objects import load_object, object_names
from dexstack.tasks.base import Outcome
from dexstack.tasks.continuous import Continuous
from dexstack.tasks.palm_turn import BENCHMARKS, PalmParams, PalmTurn, PalmWeights
from dexstack.trials.sweep import loop_of

TASK = PalmTurn()


def turned(pose, yaw):
    quat = (Rotation.from_rotvec([0, 0, yaw]) * Rotation.from_quat(pose[3:], scalar_first=True)).as_quat(
        scalar_first=True
    )
    return np.concatenate([pose[:3], quat])


def state(p, quat, tips):
    return PlannedState(*(jnp.asarray(a, jnp.float32) for a in (p, quat, np.zeros(16), tips)))


@pytest.mark.parametrize("name", object_names())
@pytest.mark.parametrize("yaw", [0.0, np.pi / 2, -np.pi / 3, np.pi])
def test_a_goal_is_the_start_turned_about_the_vertical(name, yaw):
    task = PalmTurn(obj=name)
    goal, start = task.at_yaw(yaw), task.start().pose_WO
    np.testing.assert_allclose(goal.pose_WO[:3], start[:3])
    assert task.orientation_error(turned(start, yaw), goal) == pytest.approx(0.0, abs=1e-7)
    assert task.orientation_error(start, goal) == pytest.approx(abs(yaw), abs=1e-7)
    assert goal.label == f"{np.degrees(yaw):+.0f}°"


def test_a_requested_pose_gives_its_orientation_at_the_objects_place():
    start, half = TASK.start().pose_WO, TASK.setup().obj.size[0] / 2
    tilt = Rotation.from_euler("x", 30, degrees=True).as_quat(scalar_first=True)
    goal = TASK.at_pose(np.array([1.0, 2.0, -3.0, *tilt]))
    np.testing.assert_allclose(goal.pose_WO[3:], tilt)
    np.testing.assert_allclose(goal.pose_WO[:2], start[:2])
    up = half * (np.cos(np.pi / 6) + np.sin(np.pi / 6) - 1)  # of the centre of a cube that stands on an edge
    assert goal.pose_WO[2] - start[2] == pytest.approx(up, abs=2e-3), "the mesh has rounded edges"
    assert goal.label.endswith("from the start")


def test_turns_of_a_symmetry_are_no_error(tmp_path):
    """A bar with a symmetry about its long axis x: a roll is no error, and the planner's goal rolls
    along."""
    trimesh.creation.box((0.06, 0.03, 0.03)).export(tmp_path / "bar.obj")
    start = "allegro: {position: [0.0, 0.0, 0.05], yaw: 0.0, noise_position: 0.0, noise_yaw: 0.0}"
    rest = "mass: 0.1\nfriction: {sliding: 0.5, torsional: 0.005, rolling: 0.0001}"
    file = tmp_path / "bar.yaml"
    file.write_text(
        f"name: bar\nmesh: bar.obj\n{rest}\nstart:\n  {start}\nsymmetry: [{{axis: [1, 0, 0], order: 0}}]\n"
    )
    task = PalmTurn(obj=str(file))
    roll = Rotation.from_rotvec([1.1, 0, 0]).as_quat(scalar_first=True)
    pose_WO = np.concatenate([[0.01, 0.0, 0.05], roll])
    goal = task.at_yaw(0.5)
    assert task.orientation_error(pose_WO, goal) == pytest.approx(0.5, abs=1e-9)
    shown = task.nearest(pose_WO, goal.pose_WO)
    np.testing.assert_allclose(shown[:3], goal.pose_WO[:3])
    assert abs(shown[3:] @ quaternion_product(yaw_quaternion(0.5), roll)) == pytest.approx(1.0)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_goals_are_the_papers_in_turn(name):
    task, goals = PalmTurn(obj=name), BENCHMARKS[name].goals_deg
    asked = [list(task.goals(k, 0)) for k in range(2 * len(goals))]
    assert all(len(some) == 1 for some in asked)
    assert [some[0].label for some in asked] == [f"{a:+.0f}°" for a in 2 * goals]
    assert task.seconds() == pytest.approx(0.1 * BENCHMARKS[name].steps)
    assert [row.orientation_rad for row in task.published()] == [BENCHMARKS[name].orientation_rad]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_an_object_given_by_its_path_has_its_own_benchmark(name):
    path = next(path for path in (share_dir() / "src").rglob(f"{name}.yaml") if "objects" in path.parts)
    by_name, by_path = PalmTurn(obj=name), PalmTurn(obj=str(path))
    assert by_path.seconds() == by_name.seconds() and by_path.published() == by_name.published()
    assert [next(by_path.goals(k, 0)).label for k in range(6)] == [
        next(by_name.goals(k, 0)).label for k in range(6)
    ]


def test_start_noise_is_seeded_and_has_the_spread_of_the_object():
    start = TASK.start()
    starts = np.array([TASK.start_pose(start, np.random.default_rng(k)) for k in range(2000)])
    np.testing.assert_array_equal(starts[7], TASK.start_pose(start, np.random.default_rng(7)))
    np.testing.assert_allclose(np.std(starts[:, :2], axis=0), start.noise_position, rtol=0.1)
    yaw = np.array([wrap_angle(yaw_of(pose[3:]) - yaw_of(start.pose_WO[3:])) for pose in starts])
    assert np.abs(yaw).max() <= start.noise_yaw and np.abs(yaw).max() > 0.95 * start.noise_yaw
    np.testing.assert_array_equal(starts[:, 2], start.pose_WO[2])


def test_orientation_errors_count_every_axis():
    """3-D: a stick with the right yaw that has rolled is wrong."""
    task = PalmTurn(obj="stick")
    start = task.start().pose_WO
    rolled = Rotation.from_quat(start[3:], scalar_first=True) * Rotation.from_rotvec([0.5, 0, 0])
    assert task.orientation_error(
        np.concatenate([start[:3], rolled.as_quat(scalar_first=True)]), task.at_yaw(0.0)
    ) == pytest.approx(0.5)


def test_dropped_means_far_from_the_start_or_not_finite():
    start = TASK.start()
    away = lambda d: start.pose_WO + np.array([0, 0, -d, 0, 0, 0, 0])  # noqa: E731
    assert not TASK.dropped(away(0.079), start) and TASK.dropped(away(0.081), start)
    assert TASK.dropped(np.full(7, np.nan), start)
    assert TASK.position_error(away(0.01), TASK.at_yaw(1.0)) == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("off", "dropped", "success"), [(0.19, False, True), (0.21, False, False), (0.05, True, False)]
)
def test_a_turn_succeeds_if_it_ends_in_the_hand_with_the_goal_orientation(off, dropped, success):
    goal = TASK.at_yaw(1.0)
    pose = TASK.at_yaw(1.0 - off).pose_WO + np.array([0.03, 0, 0, 0, 0, 0, 0])  # anywhere on the palm
    assert TASK.succeeded(Outcome(pose, goal, (), 15.0, dropped)) is success


@pytest.mark.parametrize(
    ("turn", "shift", "inside"), [(0.05, 0.001, True), (0.15, 0.001, False), (0.05, 0.02, False)]
)
def test_inside_means_within_both_tolerances(turn, shift, inside):
    task = PalmTurn(PalmParams(tolerance=0.1, position_tolerance=0.01))
    pose = task.at_yaw(1.0 + turn).pose_WO + np.array([shift, 0, 0, 0, 0, 0, 0])
    assert task.inside(pose, task.at_yaw(1.0)) is inside


def test_the_stream_of_goals_is_infinite():
    task = Continuous()
    some = list(itertools.islice(task.goals(0, 0), 7))
    assert [goal.label for goal in some] == [f"{90 * k:+d}°" for k in range(1, 8)]
    for first, second in itertools.pairwise(some):
        assert geodesic_angle(first.pose_WO[3:], second.pose_WO[3:]) == pytest.approx(task.params.turn)


@pytest.mark.parametrize(
    ("reached", "dropped", "success"),
    [
        ((4.0, 9.0, 14.0, 30.0), False, True),
        ((4.0, 9.0, 16.0, 30.0), False, False),  # the third too late
        ((4.0, 9.0), False, False),  # too few
        ((4.0, 9.0, 14.0), True, False),
        ((4.0, 9.0, 14.0, 80.0), False, False),  # 66 s for one
    ],
)
def test_continuous_rotation_succeeds_if_it_starts_in_time_and_never_stands_still(reached, dropped, success):
    task = Continuous()
    assert task.succeeded(Outcome(task.start().pose_WO, task.at_yaw(0.0), reached, 90.0, dropped)) is success


def test_the_cost_is_the_published_one():
    """Σ squares of the residuals = ω_c Σ‖p_tip − p_o‖² + ω_r c_goal, and c_goal = ω_p (1 + d²/l²) d² +
    ω_q (1 − (q·q_g)²) [25, 26] with d = ‖p − p_g‖."""
    rng, task = np.random.default_rng(0), PalmTurn()
    w = PalmWeights(
        position_weight=3.0,
        orientation_weight=5.0,
        position_length=0.5,
        contact_weight=0.7,
        running_weight=0.2,
    )
    for _ in range(10):
        quat, goal_quat = (x / np.linalg.norm(x) for x in rng.normal(size=(2, 4)))
        p, goal, tips = (
            rng.normal(size=3),
            np.concatenate([rng.normal(size=3), goal_quat]),
            rng.normal(size=(4, 3)),
        )
        away = np.sum((p - goal[:3]) ** 2)
        c_goal = 3.0 * (1 + away / 0.25) * away + 5.0 * (1 - (quat @ goal_quat) ** 2)
        residuals = [f(state(p, quat, tips), jnp.asarray(goal), w) for f in (task.terminal, task.stage)]
        assert float(jnp.sum(residuals[0] ** 2)) == pytest.approx(c_goal, rel=1e-4)
        assert float(jnp.sum(residuals[1] ** 2)) == pytest.approx(
            0.7 * np.sum((tips - p) ** 2) + 0.2 * c_goal, rel=1e-4
        )


def test_fingertips_at_the_same_share_of_its_radius_cost_as_much_around_all_large_objects():
    cube, stick = PalmTurn(), PalmTurn(obj="stick")
    r = [np.linalg.norm(np.asarray(load_object(t.object).hull_vertices), axis=1).max() for t in (cube, stick)]
    w = PalmWeights(contact_weight=0.7, running_weight=0.0, contact_radius=0.05)
    p, quat, tips = np.zeros(3), np.array([1.0, 0, 0, 0]), np.random.default_rng(0).normal(size=(4, 3))
    goal = jnp.asarray([0.0, 0, 0, 1, 0, 0, 0])
    cost = [float(jnp.sum(t.stage(state(p, quat, tips), goal, w) ** 2)) for t in (cube, stick)]
    assert r[0] < 0.05 < r[1]
    assert cost[0] == pytest.approx(0.7 * np.sum(tips**2), rel=1e-4)
    assert cost[1] == pytest.approx(0.7 * np.sum((0.05 / r[1] * tips) ** 2), rel=1e-4)


@pytest.mark.parametrize("angle", [0.0, 1e-8, 1e-4, 0.5, 3.0, np.pi])
def test_geodesic_angle_is_exact_for_small_and_for_large_turns(angle):
    a = Rotation.random(rng=np.random.default_rng(1))
    b = a * Rotation.from_rotvec(angle * np.array([0.6, 0, 0.8]))
    quats = [r.as_quat(scalar_first=True) for r in (a, b)]
    assert geodesic_angle(*quats) == pytest.approx(angle, abs=3e-8)
    assert geodesic_angle(-quats[0], 2 * quats[1]) == pytest.approx(angle, abs=3e-8)


def test_rotation_helpers_agree_with_scipy():
    rng = np.random.default_rng(2)
    for a, b in rng.normal(size=(10, 2, 4)):
        product = Rotation.from_quat(a, scalar_first=True) * Rotation.from_quat(b, scalar_first=True)
        ours = quaternion_product(a, b)
        assert abs(ours @ product.as_quat(scalar_first=True)) == pytest.approx(np.linalg.norm(ours))
    for yaw in (-3.0, 0.0, 2.5):
        tilted = quaternion_product(
            yaw_quaternion(yaw), Rotation.from_rotvec([0.3, 0, 0]).as_quat(scalar_first=True)
        )
        assert yaw_of(tilted) == pytest.approx(yaw)
    assert [wrap_angle(x) for x in (0.0, np.pi, -np.pi, 3 * np.pi, 7.0)] == pytest.approx(
        [0, np.pi, np.pi, np.pi, 7 - 2 * np.pi]
    )


def test_the_servo_of_a_trial_does_not_take_a_blocked_joint_for_a_dead_encoder():
    """Half a second in which the torque changes and no angle does; a real hand's watch would trip."""
    task = PalmTurn(PalmParams())
    hand = task.robot()
    rest, period = np.array(hand.home), ServoParams().period
    trips = {}
    for name, law in (("trial", task.servo(hand, ServoParams())), ("hand", ServoLaw(hand, ServoParams()))):
        law.enable()
        for k in range(160):
            law.set_command(rest + 0.1 * np.sin(0.2 * k), k * period)
            law.step(rest, k * period)
        trips[name] = law.trip
    assert trips["trial"] is None and "frozen encoder" in str(trips["hand"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        (("gravity", inclined(20.0)),),
        (("pose_noise_position", 0.005), ("pose_noise_rotation", 0.0873), ("pose_delay", 0.06)),
    ],
    ids=["a palm inclined by 20°", "a pose known to 5 mm and 5°"],
)
def test_the_cube_is_turned_and_stays_in_the_hand(overrides):
    """By 45° and by −60°, of which little is left at the best moment."""
    loop = loop_of(Spec(overrides=overrides))
    for k in (0, 3):
        trial = loop.run(k, 81000, 8.0)
        error, q_command = trial.recording["error"], trial.recording["q_command"]
        assert np.isfinite(q_command).all() and not trial.dropped
        assert error.min() < 0.3 * error[0]
