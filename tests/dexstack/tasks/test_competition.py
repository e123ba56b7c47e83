"""The in-hand tasks of the RGMC: goals, errors, and time limits."""

import itertools

import numpy as np
import pytest

from dexstack.geometry.rotations import geodesic_angle, quaternion_product, rotation_matrix, yaw_quaternion
from dexstack.tasks.competition import (
    KNOWN,
    NORMALS_O,
    FaceParams,
    Faces,
    PositionParams,
    Positions,
)
from dexstack.tasks.judge import Judge


def random_pose(rng):
    quat = rng.normal(size=4)
    return np.concatenate([rng.normal(size=3), quat / np.linalg.norm(quat)])


@pytest.mark.parametrize(("kind", "params"), [(Positions, PositionParams), (Faces, FaceParams)])
def test_known_sequences_are_alike_and_unknown_ones_differ(kind, params):
    known, unknown = kind(params(order=KNOWN)), kind()
    first, again = ([g.pose_WO for g in known.goals(k, seed)] for k, seed in ((0, 1), (5, 2)))
    np.testing.assert_array_equal(first, again)
    one, other = ([g.pose_WO for g in unknown.goals(k, 1)] for k in (0, 1))
    assert not np.array_equal(one, other)
    assert len(one) == {Positions: 5, Faces: 9}[kind]


def test_positions_lie_within_25_mm_of_the_start_along_each_axis():
    task = Positions(PositionParams(count=200, height=0.025))
    start = task.start().pose_WO
    offsets = np.array([goal.pose_WO - start for goal in task.goals(0, 0)])
    assert np.abs(offsets[:, :3]).max() == pytest.approx(0.025, rel=0.05) and offsets[:, 2].min() >= 0.0
    np.testing.assert_array_equal(offsets[:, 3:], 0.0)


def test_every_next_face_is_another_one():
    task = Faces(FaceParams(cap=60))
    names = [goal.label for goal in task.goals(0, 0)]
    assert all(a != b for a, b in itertools.pairwise(names)) and len(set(names)) == 6


@pytest.mark.parametrize("face", NORMALS_O)
def test_the_error_is_the_angle_of_the_face_and_the_nearest_goal_turns_by_it(face):
    """The turn about the vertical is free."""
    task, rng = Faces(), np.random.default_rng(1)
    goal = next(g for g in Faces(FaceParams(cap=200)).goals(0, 3) if g.label == f"face {face}")
    for pose_WO in (random_pose(rng) for _ in range(20)):
        normal = rotation_matrix(pose_WO[3:]) @ NORMALS_O[face]
        error = task.orientation_error(pose_WO, goal)
        assert error == pytest.approx(np.arccos(normal[2]), abs=1e-7)
        near = task.nearest(pose_WO, goal.pose_WO)
        np.testing.assert_allclose(rotation_matrix(near[3:]) @ NORMALS_O[face], [0.0, 0.0, 1.0], atol=1e-7)
        assert geodesic_angle(near[3:], pose_WO[3:]) == pytest.approx(error, abs=1e-6)
        turned = np.append(near[:3], quaternion_product(yaw_quaternion(0.8), near[3:]))
        assert task.orientation_error(turned, goal) == pytest.approx(0.0, abs=1e-6)


def test_a_face_that_looks_down_is_half_a_turn_away():
    task = Faces()
    start = task.start().pose_WO
    goal = next(g for g in Faces(FaceParams(cap=200)).goals(0, 3) if g.label == "face F")
    upright = np.append(start[:3], [1.0, 0.0, 0.0, 0.0])
    assert geodesic_angle(task.nearest(upright, goal.pose_WO)[3:], upright[3:]) == pytest.approx(np.pi)


def test_a_goal_that_is_not_reached_in_time_is_followed_by_the_next():
    """The first is missed, the second reached, the third missed: then the trial is over."""
    task = Positions(PositionParams(count=3, limit=2.0, hold=0.0))
    goals = list(task.goals(0, 0))
    judge, numbers, t = Judge(task, task.start(), iter(goals)), [], 0.0
    while not judge.over:
        pose_WO = task.start().pose_WO if judge.number != 1 or t < 2.5 else goals[1].pose_WO
        judge.look(t, pose_WO)
        numbers.append(judge.number)
        t += 0.1
    assert judge.reached_at == pytest.approx([2.5]) and t == pytest.approx(4.6, abs=0.15)
    assert [numbers.count(n) for n in range(3)] == pytest.approx([20, 5, 21], abs=1)
    assert not task.succeeded(judge.outcome(t, task.start().pose_WO))
