"""The search for a place: alternatives of a start, the best one, and the change of the object's
file."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trimesh

from dexstack.errors import ConfigError
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.model.placing import PlacingScene, place_on_palm
from dexstack.onboarding import place_search
from dexstack.onboarding.object_file import with_start
from dexstack.onboarding.place_search import Tried, best, move, other_places, try_places
from dexstack.trials.keep import BatchTrial

BOX = """\
name: box   # a thing
mesh: box.obj
mass: 0.1
friction: {sliding: 0.5, torsional: 0.005, rolling: 0.0001}
start:
  three_ball: {position: [0.0, 0.0, 0.02], yaw: 0.0, noise_position: 0.0, noise_yaw: 0.0}
  allegro: {position: [0.01, 0.0, 0.03], yaw: 1.5707963267948966, noise_position: 0.0, noise_yaw: 0.0}

symmetry:
  - {axis: [0, 0, 1], order: 2}
"""


@pytest.fixture
def box(tmp_path) -> Path:
    trimesh.creation.box((0.06, 0.05, 0.04)).export(tmp_path / "box.obj")
    (tmp_path / "box.yaml").write_text(BOX)
    return tmp_path / "box.yaml"


def outcome(succeeded, dropped=False, error=0.1):
    made = BatchTrial.__new__(BatchTrial)
    vars(made).update(succeeded=succeeded, dropped=dropped, orientation_error=error)
    return made


def test_other_places_are_distinct_and_the_object_lies_on_the_hand_there(box):
    hand, obj = load_hand("right"), load_object(box)
    first = place_on_palm(hand, obj)
    places = other_places(hand, obj, first)
    assert {place.hand_pose for place in places} == {"home", "flat"}
    keys = {(p.hand_pose, *np.round(p.pose_WO, 4)) for p in (first, *places)}
    assert len(keys) == len(places) + 1
    scene = PlacingScene(hand, obj)
    for place in places:
        yaw = 2.0 * np.arctan2(place.pose_WO[6], place.pose_WO[3])
        assert not scene.touches(place.hand_pose, place.pose_WO[:3], yaw)
        assert scene.touches(place.hand_pose, place.pose_WO[:3] - [0, 0, 3e-4], yaw)


def test_the_best_succeeds_most_then_drops_least_then_errs_least():
    start = load_object("cube").start("allegro")
    tried = [
        Tried(start, (outcome(True), outcome(False, error=0.3))),
        Tried(start, (outcome(True), outcome(False, True))),
        Tried(start, (outcome(True), outcome(False, error=0.2))),
        Tried(start, (outcome(False), outcome(False, error=0.01))),
    ]
    assert best(tried) is tried[2]
    assert best(tried[:2]) is tried[0]


def test_only_the_start_on_a_palm_is_changed(box):
    place = load_object("stick").start("allegro")
    move(box, place)
    changed = load_object(box)
    np.testing.assert_allclose(changed.start("allegro").pose_WO, place.pose_WO, atol=1e-4)
    assert changed.start("allegro").hand_pose == place.hand_pose and changed.start("allegro").planner == ""
    move(box, replace(place, planner="sampling"))
    assert load_object(box).start("allegro").planner == "sampling"
    move(box, place)
    assert (
        changed.start("three_ball").pose_WO[2] == 0.02
        and changed.symmetry.axes[0].order == 2
        and changed.mass == 0.1
    )
    assert box.read_text().startswith("name: box   # a thing\n")
    again = box.read_text()
    move(box, place)
    assert box.read_text() == again


def test_a_missing_start_on_a_palm_is_an_error():
    with pytest.raises(ConfigError, match="no start 'allegro'"):
        with_start("name: box\n", load_object("cube").start("allegro"))


def test_the_search_ends_at_the_first_place_from_which_all_trials_succeed(box, monkeypatch):
    asked = []

    def trials(cells, run, count, seed, *, jobs):
        for cell in cells:
            drafted = load_object(cell.spec.object)
            assert drafted.mesh_path == (box.parent / "box.obj").resolve()
            asked.append(drafted.start("allegro"))
            for k in range(count):
                yield outcome(len(asked) == 3 or k == 0)

    monkeypatch.setattr(place_search, "run_trials", trials)
    said = []
    tried = try_places(box, 2, 0, progress=said.append)
    assert [t.succeeded for t in tried] == [1, 1, 2] and len(said) == 3
    assert best(tried) is tried[2] and [t.start.planner for t in tried] == [
        "gauss_newton",
        "sampling",
        "gauss_newton",
    ]
    np.testing.assert_array_equal(tried[0].start.pose_WO, tried[1].start.pose_WO)
    np.testing.assert_allclose(asked[0].pose_WO, load_object(box).start("allegro").pose_WO, atol=1e-4)
    for t, draft in zip(tried, asked, strict=False):
        np.testing.assert_allclose(t.start.pose_WO, draft.pose_WO, atol=1e-4)


@pytest.mark.slow
def test_a_box_is_turned_from_one_of_its_places(box):
    tried = try_places(box, 2, 40000)
    assert best(tried).succeeded >= 1 and tried[0].start.hand_pose == "home"
