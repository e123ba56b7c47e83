"""Overlap of object and robot in a trial, whichever plant moved them."""

import numpy as np
import pytest

from dexstack.graph.settings import Spec, make_task, read_settings
from dexstack.trials.overlap import Overlap


@pytest.fixture(scope="module")
def setup():
    spec = Spec()
    return make_task(spec, read_settings(spec)).setup()


@pytest.fixture(scope="module")
def overlap(setup):
    return Overlap(setup)


def sunk(setup, *depths: float) -> np.ndarray:
    """Poses of the object at its start, moved down by depths [m]."""
    return np.array([setup.start.pose_WO - [0, 0, d, 0, 0, 0, 0] for d in depths]).reshape(-1, 7)


def test_an_overlap_is_as_deep_as_the_object_is_sunk_into_the_palm(setup, overlap):
    def deepest(*depths: float) -> float:
        return overlap.depths(np.tile(setup.rest, (len(depths), 1)), sunk(setup, *depths)).max(initial=0.0)

    assert deepest(-0.2) == deepest() == 0.0 and deepest(0.0) < 1e-3
    assert deepest(0.004) - deepest(0.002) == pytest.approx(0.002, rel=0.01)
    assert deepest(0.002, 0.004, 0.0) == deepest(0.004)


def test_links_inside_each_other_do_not_count(setup, overlap):
    far, bent = sunk(setup, -0.5), setup.robot.upper
    overlap.plant.reset(bent, far[0])
    assert np.min(overlap.plant.scene.data.contact.dist) < -1e-3, "bent fingers reach into each other"
    assert overlap.depths(bent[None], far)[0] == 0.0


@pytest.mark.parametrize(("depths", "counts"), [((0.01, 0.005, 0.002), 0.002), ((0.01, 0.005), 0.005)])
def test_the_overlap_of_a_start_does_not_count_unless_the_trial_ends_before(depths, counts, setup, overlap):
    n = len(depths)
    q, t = np.tile(setup.rest, (n, 1)), np.array([0.0, 0.4, 0.6])[:n]
    recording = {"t": t, "q": q, "pose_WO": sunk(setup, *depths)}
    assert overlap.depths_of(recording).max() == overlap.depths(q[:1], sunk(setup, counts))[0]
