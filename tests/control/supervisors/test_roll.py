"""Rolling: the goal a little ahead, the nearest face down before the hand lets go."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dexstack.control.base import Observation
from dexstack.geometry.rotations import geodesic_angle, reach_below, rotation_matrix
from dexstack.graph.settings import Spec, make_task, read_settings
from dexstack.tasks.controller import Controller


@pytest.fixture(scope="module")
def rolling():
    spec = Spec("reorient", overrides=(("horizon", 2), ("iterations", 1)))
    settings = read_settings(spec)
    task = make_task(spec, settings)
    return task, Controller(task, task.scene(), settings).supervisor


def turned(*rotvec):
    return Rotation.from_rotvec(rotvec).as_quat(scalar_first=True)


def test_the_planner_is_shown_a_goal_ahead_and_as_high_as_it_then_lies(rolling):
    task, supervisor = rolling
    goal = task.at(turned(2.0, 0.3, -0.4)).pose_WO
    pose = task.start().pose_WO
    observation = Observation(0.0, pose, task.scene().rest, None)
    shown = supervisor._for_now(observation, 2.0, goal)
    assert geodesic_angle(pose[3:], shown[3:]) == pytest.approx(supervisor.params.goal_ahead)
    left = geodesic_angle(shown[3:], goal[3:])
    assert left == pytest.approx(geodesic_angle(pose[3:], goal[3:]) - supervisor.params.goal_ahead)
    corners = supervisor._corners_O
    assert shown[2] - reach_below(corners, shown[3:]) == pytest.approx(goal[2] - reach_below(corners, goal[3:]))
    np.testing.assert_allclose(supervisor._for_now(observation._replace(pose_WO=goal), 0.0, goal), goal)


def test_it_is_laid_on_the_face_that_looks_down_most(rolling):
    task, supervisor = rolling
    goal = task.at(turned(1.0, 1.0, 0.0)).pose_WO
    rng = np.random.default_rng(0)
    for _ in range(30):
        pose = np.concatenate([[0.03, 0.01, 0.06], rng.normal(size=4)])
        pose[3:] /= np.linalg.norm(pose[3:])
        laid = supervisor._laid_down(pose, goal)
        up = np.abs(rotation_matrix(laid[3:]).T[:, 2])
        assert np.sort(up) == pytest.approx([0.0, 0.0, 1.0], abs=1e-6), "a cube stands on a face"
        steepest = np.abs(rotation_matrix(pose[3:]).T[:, 2]).max()
        assert geodesic_angle(pose[3:], laid[3:]) == pytest.approx(np.arccos(steepest), abs=1e-6), "by the least turn"
        np.testing.assert_allclose(laid[:2], pose[:2])


def test_another_goal_does_not_make_it_let_go(rolling):
    _, supervisor = rolling
    supervisor._follow(3.0)
    assert supervisor._release_until == -np.inf
