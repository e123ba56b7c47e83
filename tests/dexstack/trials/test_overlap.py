"""How far bodies are in each other, whichever plant moved them."""

from __future__ import annotations

import numpy as np
import pytest

from dexstack.graph.settings import Spec, make_task, read_settings
from dexstack.trials.overlap import Overlap


@pytest.fixture(scope="module")
def scene():
    spec = Spec()
    return make_task(spec, read_settings(spec)).scene()


def test_an_overlap_is_as_deep_as_the_object_is_sunk_into_the_palm(scene):
    overlap, start = Overlap(scene), scene.start.pose_WO

    def sunk(*depths: float) -> float:
        return overlap.deepest(
            np.tile(scene.rest, (len(depths), 1)), np.array([start - [0, 0, d, 0, 0, 0, 0] for d in depths])
        )

    assert sunk(-0.2) == sunk() == 0.0
    touching = sunk(0.0)
    assert touching < 1e-3
    assert sunk(0.004) - sunk(0.002) == pytest.approx(0.002, rel=0.01)
    assert sunk(0.002, 0.004, 0.0) == sunk(0.004)


def test_links_in_each_other_do_not_count_and_neither_does_what_a_start_overlaps_by(scene):
    overlap, start = Overlap(scene), scene.start.pose_WO
    far, bent = start + np.array([0, 0, 0.5, 0, 0, 0, 0]), scene.robot.upper
    overlap._plant.reset(bent, far)
    assert np.min(overlap._plant.scene.data.contact.dist) < -1e-3, "bent fingers reach into each other"
    assert overlap.deepest(bent[None], far[None]) == 0.0
    t, q = np.array([0.0, 0.4, 0.6]), np.tile(scene.rest, (3, 1))

    def depth(*depths: float) -> float:
        n = len(depths)
        return overlap.deepest_of(
            {"t": t[:n], "q": q[:n], "pose_WO": np.array([start - [0, 0, d, 0, 0, 0, 0] for d in depths])}
        )

    assert depth(0.01, 0.005, 0.002) == overlap.deepest(q[:1], start[None] - [0, 0, 0.002, 0, 0, 0, 0])
    assert depth(0.01, 0.005) == overlap.deepest(q[:1], start[None] - [0, 0, 0.005, 0, 0, 0, 0]), (
        "a trial that was over before"
    )
