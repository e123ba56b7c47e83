"""Reorient: random, listed and file goals, their height, the end of a trial, and the statistics."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dexstack.control.base import PlannedState
from dexstack.errors import ConfigError
from dexstack.geometry.rotations import geodesic_angle, height_turned, reach_below, rotation_matrix
from dexstack.model import placing
from dexstack.model.hand import load_hand
from dexstack.model.mount import inclined
from dexstack.model.objects import load_object
from dexstack.tasks.base import Outcome
from dexstack.tasks.palm_turn import PalmTurn, PalmWeights
from dexstack.tasks.reorient import Reorient, ReorientParams, cube_turns


def drawn(n, k=0, seed=0, **params):
    return list(itertools.islice(Reorient(ReorientParams(**params)).goals(k, seed), n))


def quats(goals):
    return np.array([g.pose_WO[3:] for g in goals])


def outcome(reached_at, seconds, dropped=False):
    return Outcome(np.zeros(7), drawn(1)[0], tuple(reached_at), seconds, dropped)


def test_goals_are_uniform_and_a_quarter_turn_apart():
    found = quats(drawn(600))
    turns = [geodesic_angle(a, b) for a, b in itertools.pairwise(found)]
    assert min(turns) >= np.pi / 2
    # of all rotations (θ − sin θ)/π are within θ of one: half of those beyond 90° are beyond 135.5°
    half = 0.5 * ((np.pi / 2 - 1) + np.pi)
    angles = np.linspace(np.pi / 2, np.pi, 10001)
    median = angles[np.argmin(np.abs(angles - np.sin(angles) - half))]
    assert np.median(turns) == pytest.approx(median, abs=0.06)
    ups = np.array([rotation_matrix(q)[2] for q in found])
    assert np.abs(ups.mean(axis=0)).max() < 0.1, "every side is up equally often"


def test_goals_depend_on_seed_and_number():
    assert (quats(drawn(5, 2, 7)) == quats(drawn(5, 2, 7))).all()
    assert not np.allclose(quats(drawn(5, 2, 7)), quats(drawn(5, 3, 7)))


@pytest.mark.parametrize("obj", ["cube", "foambrick", "stick"])
def test_every_goal_touches_the_surface_that_bears_the_object_at_the_start(obj):
    task, corners = Reorient(obj=obj), load_object(obj).hull_vertices
    lowest = lambda pose: (corners @ rotation_matrix(pose[3:]).T + pose[:3])[:, 2].min()  # noqa: E731
    support = lowest(task.start().pose_WO)
    for goal in itertools.islice(task.goals(0, 1), 20):
        assert lowest(goal.pose_WO) == pytest.approx(support, abs=1e-9)


@pytest.mark.parametrize("hand", ["right", "left", "leap_right"])
@pytest.mark.parametrize("obj", ["cube", "foambrick"])
def test_goals_lie_over_the_first_links_or_at_most_forward_towards_them(obj, hand):
    def place(forward):
        task = Reorient(ReorientParams(forward=forward), obj=obj, hand=hand)
        start = task.start().pose_WO[:2]
        return next(task.goals(0, 1)).pose_WO[:2] - start, start[0]

    (away, x), middle = place(0.2), {"right": 0.0425, "left": 0.0425, "leap_right": 0.0591}[hand]
    np.testing.assert_allclose(away, [max(middle - x, 0.0), 0.0], atol=1e-4)
    np.testing.assert_allclose(place(0.01)[0], [min(0.01, away[0]), 0.0], atol=1e-9)


@pytest.mark.parametrize(("axis", "uphill"), [("y", (-1.0, 0.0)), ("x", None), ("-y", (1.0, 0.0))])
def test_goals_lie_uphill_on_an_inclined_palm(axis, uphill):
    gravity = inclined(28.0, axis)
    level, inclined_place = (
        next(Reorient(gravity=g).goals(0, 1)).pose_WO[:2] for g in (inclined(0.0, axis), gravity)
    )
    shift = inclined_place - level
    assert np.linalg.norm(shift) == pytest.approx(0.06 * np.sin(np.radians(28.0)))
    assert shift @ gravity[:2] == pytest.approx(-np.linalg.norm(shift) * np.linalg.norm(gravity[:2]))
    if uphill:
        np.testing.assert_allclose(shift / np.linalg.norm(shift), uphill, atol=1e-12)


def test_goals_of_an_object_narrower_than_the_knuckle_gap_lie_at_its_start():
    """45 mm in an Allegro hand; across, not along."""
    hand, cube = load_hand("right"), load_object("cube")
    for side, room in ((0.046, 0.0325), (0.044, 0.0)):
        scale = np.array([side, 0.056, 0.056]) / 0.056
        box = replace(cube, surface=cube.surface._replace(vertices=cube.surface.vertices * scale))
        assert placing.least_width(box.hull_vertices) == pytest.approx(side, abs=1e-9)
        assert placing.room_over_fingers(hand, box, 0.01) == pytest.approx(room, abs=1e-4)
    start = Reorient(obj="stick").start()
    assert next(Reorient(obj="stick").goals(0, 1)).pose_WO[0] == start.pose_WO[0]


def test_goals_of_an_object_that_starts_over_the_fingers_lie_at_its_start():
    class Ahead(Reorient):
        def start(self):
            start = super().start()
            return replace(start, pose_WO=start.pose_WO + np.array([0.04, 0, 0, 0, 0, 0, 0]))

    task = Ahead(obj="cube")
    assert next(task.goals(0, 1)).pose_WO[0] == task.start().pose_WO[0]


def test_the_rest_orientations_are_the_24_turns_of_a_cube():
    turns = cube_turns()
    matrices = {tuple(np.round(rotation_matrix(q)).astype(int).ravel()) for q in turns}
    group = {tuple(np.round(m).astype(int).ravel()) for m in Rotation.create_group("O").as_matrix()}
    assert len(turns) == 24 and matrices == group
    asked = quats(drawn(24, draw="rest"))
    assert {tuple(np.round(rotation_matrix(q)).astype(int).ravel()) for q in asked} == group


def test_goals_come_from_a_file_in_its_order_cyclically(tmp_path):
    path = tmp_path / "goals.txt"
    path.write_text("1 0 0 0\n0 0 0 2\n")
    np.testing.assert_allclose(quats(drawn(4, draw=str(path))), [[1, 0, 0, 0], [0, 0, 0, 1]] * 2)
    np.testing.assert_allclose(
        quats(drawn(3, k=3, draw=str(path))), [[0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 0, 1]], err_msg="trial 3"
    )
    for text in ("1 0 0\n", "0 0 0 0\n", "one\n"):
        path.write_text(text)
        with pytest.raises(ConfigError, match="goals"):
            drawn(1, draw=str(path))
    with pytest.raises(ConfigError, match="cannot be read"):
        drawn(1, draw=str(tmp_path / "none.txt"))


def test_a_trial_is_over_without_a_goal_in_time_or_at_the_cap():
    task = Reorient(ReorientParams(patience=10.0, cap=3))
    assert not task.over([], 9.9) and task.over([], 10.0)
    assert not task.over([9.0], 18.9) and task.over([9.0], 19.0)
    assert task.over([1.0, 2.0, 3.0], 3.0)


def test_an_object_too_low_or_too_far_is_dropped():
    task = Reorient()
    start = task.start()
    at = lambda *d: start.pose_WO + np.array([*d, 0, 0, 0, 0])  # noqa: E731
    place = task.params.forward
    assert not task.dropped(start.pose_WO, start) and not task.dropped(at(place + 0.09, 0, 0), start)
    assert task.dropped(at(place + 0.11, 0, 0), start) and task.dropped(at(place, 0, -0.05), start)


def test_the_orientation_weight_grows_with_a_smaller_tolerance():
    """Relative to 0.1 rad, for which the weights are tuned."""
    goal, state = (
        np.array([0.0, 0, 0.05, 1, 0, 0, 0]),
        PlannedState(np.array([0.01, 0, 0.05]), np.array([0.8, 0.6, 0, 0]), np.zeros(16), np.zeros((4, 3))),
    )
    parts = [
        np.asarray(Reorient(ReorientParams(tolerance=x)).terminal(state, goal, PalmWeights())) ** 2
        for x in (0.1, 0.4)
    ]
    np.testing.assert_allclose(
        parts[0], np.asarray(PalmTurn().terminal(state, goal, PalmWeights())) ** 2, rtol=1e-6
    )
    np.testing.assert_allclose(parts[0], parts[1] * np.array([1, 1, 1, 4, 4, 4]), rtol=1e-6)


def test_consecutive_goals_and_both_kinds_of_failures_are_counted():
    task = Reorient(ReorientParams(cap=3))
    figures = task.figures(
        [outcome([4.0, 10.0], 60.0, dropped=True), outcome([], 80.0), outcome([1.0, 2.0, 3.0], 3.0)]
    )
    assert figures["consecutive"]["mean"] == pytest.approx(5 / 3) and figures["consecutive"]["each"] == [
        2,
        0,
        3,
    ]
    assert figures["goals_per_minute"] == pytest.approx(5 / (143.0 / 60.0))
    assert figures["time_to_goal_s"]["n"] == 5 and figures["time_to_goal_s"]["max"] == 6.0
    assert figures["failures"] == {"drop": 1, "timeout": 1}
    assert figures["failure_rate"]["of_goals"] == pytest.approx(2 / 7)


def test_a_turned_body_touches_the_same_level():
    assert reach_below(np.array([[0.0, 0.0, -2.0], [1.0, 0.0, 0.0]]), np.array([1.0, 0, 0, 0])) == 2.0
    corners, half = 0.5 * np.array(list(itertools.product((-1.0, 1.0), repeat=3))), np.pi / 8
    upright, on_edge = (
        np.array([0.0, 0.0, 0.7, 1.0, 0.0, 0.0, 0.0]),
        np.array([np.cos(half), np.sin(half), 0.0, 0.0]),
    )
    assert height_turned(corners, upright, on_edge) == pytest.approx(0.2 + np.sqrt(0.5))
