"""Ambiguous pictures: one face that may be mirrored, tags partly covered by a finger, a displaced
object."""

from dataclasses import replace

import cv2
import numpy as np
import pytest

from dexstack.perception import estimator as module
from dexstack.perception.camera_params import EstimatorParams
from dexstack.perception.estimator import PoseEstimator, Sight
from dexstack.perception.se3 import Transform, difference, exp
from tests.dexstack.perception.studio import FRONTAL, TILTED

STILL = Transform(np.eye(3), np.zeros(3))


def follow(studio) -> PoseEstimator:
    return PoseEstimator(studio.bundle, studio.camera, STILL, EstimatorParams())


def beyond(X: Transform, truth: Transform) -> bool:
    way = difference(X, truth)
    return bool(np.linalg.norm(way[:3]) > 0.005 or np.linalg.norm(way[3:]) > np.radians(5.0))


def test_a_single_face_must_be_confirmed_by_a_second_picture(studio, monkeypatch):
    """A mirrored pose in a single picture is never reported."""
    grey, solve = studio.grey(FRONTAL), module.solve_bundle
    mirrored = Transform(FRONTAL.R @ exp(np.array([-0.8, 0.0, 0.0])), FRONTAL.p + np.array([0.0, 0.02, 0.0]))
    pictures = iter([True, False, False, False])

    def confused(*args):
        seen = replace(solve(*args), other=None, sure=False)  # noise may reveal a second face
        return replace(seen, X_CO=mirrored) if next(pictures) else seen

    monkeypatch.setattr(module, "solve_bundle", confused)
    e = follow(studio)
    outcomes = [e.process(k / 30, grey) for k in range(4)]
    assert [o.sight for o in outcomes] == [Sight.AMBIGUOUS, Sight.AMBIGUOUS, Sight.SEEN, Sight.SEEN]
    assert not any(beyond(o.estimate.X_WO, FRONTAL) for o in outcomes if o.estimate)


def test_a_frozen_camera_is_used_no_longer_than_one_without_tags(studio):
    e, coast = follow(studio), EstimatorParams.coast
    grey = [studio.grey(TILTED) for _ in range(2)]
    seen = [(t, e.process(t, grey[0].copy())) for t in np.arange(0.0, 1.0, 1 / 30)]
    assert not [t for t, o in seen if o.estimate is not None and t > EstimatorParams.frozen_after + coast]
    assert seen[-1][1].sight is Sight.FROZEN
    spread = [np.trace(o.estimate.covariance) for _, o in seen if o.estimate is not None]
    assert spread[-1] > 10.0 * spread[2], "its uncertainty grows"
    assert e.process(1.0, grey[1]).sight is Sight.SEEN, "a picture with other noise"


@pytest.mark.parametrize("side", range(4))
def test_a_tag_with_a_covered_edge_gives_the_right_pose_or_none(studio, side):
    """A bar as bright as the card covers a part of one edge, as a finger does."""
    clean = studio.grey(FRONTAL)
    corners, *others = (d.corners for d in follow(studio).process(0.0, clean).detections)
    for other in others:  # the only tag that can be read
        cv2.fillConvexPoly(clean, np.round(other).astype(np.int32), 120)
    a, b, inward = corners[side], corners[(side + 1) % 4], corners.mean(axis=0)
    covered = 0
    for share in (0.3, 0.6, 1.0):
        for depth in (0.02, 0.05, 0.08, 0.12):
            end = a + share * (b - a)
            bar = np.array([a, end, end + 2 * depth * (inward - end), a + 2 * depth * (inward - a)])
            outward = 0.1 * ((a + b) / 2 - inward)
            bar[:2] += outward
            grey = clean.copy()
            cv2.fillConvexPoly(grey, np.round(16 * bar).astype(np.int32), 190, cv2.LINE_AA, 4)
            e = follow(studio)
            for k in range(3):
                outcome = e.process(k / 30, grey)
                covered += outcome.sight is Sight.COVERED
                assert outcome.estimate is None or not beyond(outcome.estimate.X_WO, FRONTAL), (
                    f"{share:g} of the edge, {depth:g} deep"
                )
    assert covered, "some of the bars are detected"


def test_a_displaced_object_is_found_when_two_faces_show_it(studio):
    """After one picture without it in the search window, the whole picture is searched."""
    e = follow(studio)
    for k in range(10):
        assert e.process(k / 30, studio.grey(TILTED)).sight is Sight.SEEN
    there = Transform(exp(np.array([0.0, 0.0, 0.5])) @ TILTED.R, TILTED.p + np.array([0.02, 0.0, 0.0]))
    e.process(10 / 30, studio.grey(there))
    outcome = e.process(11 / 30, studio.grey(there))
    assert outcome.sight is Sight.SEEN and not beyond(outcome.estimate.X_WO, there)
