"""Detours: when they start, where they lead, and when they end."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dexstack.contact.contact import empty_contacts
from dexstack.contact.detector import ContactDetector
from dexstack.control.base import Observation
from dexstack.control.params import DetourParams
from dexstack.control.supervisors.base import PlanningContext
from dexstack.control.supervisors.detour import DetourSupervisor
from dexstack.geometry.rotations import geodesic_angle, reach_below
from dexstack.tasks.base import Goal
from dexstack.tasks.reorient import Reorient
from tests.dexstack.control.planning import SAMPLING, make

TASK = Reorient()


@pytest.fixture(scope="module")
def planner(resting):
    return make(resting, planner="sampling", horizon=1, **SAMPLING)


@pytest.fixture
def supervisor(planner, monkeypatch):
    """Around a planner that keeps its goals, under ``shown``."""
    scene, plan, shown = TASK.setup(), planner.plan, []
    monkeypatch.setattr(
        planner, "plan", lambda observation, goal_WO: (shown.append(goal_WO), plan(observation, goal_WO))[1]
    )
    monkeypatch.setattr(planner, "shown", shown, raising=False)
    context = PlanningContext(
        planner,
        ContactDetector(scene.robot, scene.obj),
        scene.robot,
        scene.obj,
        scene.rest,
        lambda pose_WO, goal_WO: TASK.orientation_error(pose_WO, Goal(goal_WO, "")),
        TASK.nearest,
        TASK.released,
    )
    return DetourSupervisor(context, DetourParams(detour_after=2.0, detour_time=1.0))


def turned(angle, axis=0):
    return TASK.at(Rotation.from_rotvec(angle * np.eye(3)[axis]).as_quat(scalar_first=True)).pose_WO


def run(supervisor, times, pose_WO, goal_WO):
    """Return the goals (n, 7) that the planner gets at each time."""
    supervisor.planner.shown.clear()
    for t in times:
        supervisor.plan(Observation(t, pose_WO, TASK.setup().rest, empty_contacts(0)), goal_WO)
    return np.array(supervisor.planner.shown)


def test_without_progress_a_detour_starts_and_ends(supervisor):
    pose, goal = turned(0.0), turned(2.0)
    times = np.arange(0.0, 4.99, 0.05)
    shown = run(supervisor, times, pose, goal)
    away = np.array([not np.allclose(s, goal) for s in shown])
    np.testing.assert_allclose(times[away][[0, -1]], [2.0, 2.95], atol=0.051)
    assert supervisor.stalls == 1 and np.diff(np.flatnonzero(away)).max() == 1
    there = shown[np.flatnonzero(away)[0]]
    assert geodesic_angle(there[3:], pose[3:]) == pytest.approx(supervisor.params.detour_turn)
    corners = np.asarray(TASK.setup().obj.hull_vertices)
    assert there[2] - reach_below(corners, there[3:]) == pytest.approx(
        goal[2] - reach_below(corners, goal[3:])
    )


def test_no_detour_with_progress_a_new_goal_or_an_object_at_its_goal(supervisor):
    for k, t in enumerate(np.arange(0.0, 6.0, 0.5)):
        assert np.allclose(run(supervisor, [t], turned(0.1 * k), turned(2.0))[0], turned(2.0))
    for t in np.arange(6.0, 20.0, 0.5):
        goal = turned(1.0 + 0.001 * t, axis=1)
        assert np.allclose(run(supervisor, [t], turned(0.0), goal)[0], goal)
    supervisor.reset()
    assert np.allclose(run(supervisor, np.arange(0.0, 9.0, 0.1), turned(1.05), turned(1.0)), turned(1.0))
    assert supervisor.stalls == 0
    run(supervisor, np.arange(0.0, 2.5, 0.1), turned(0.0), turned(2.0))
    assert supervisor.stalls == 1
    assert np.allclose(run(supervisor, [2.6], turned(0.0), turned(-2.0))[0], turned(-2.0)), (
        "another goal ends it"
    )
