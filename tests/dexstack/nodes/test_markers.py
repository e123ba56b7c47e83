"""Markers of contact patches, and the simulator's topic for plants with patches."""

from __future__ import annotations

import numpy as np
import pytest
from harness import wait_until
from visualization_msgs.msg import Marker, MarkerArray

from dexstack.nodes.markers import patch_markers, read_patches
from dexstack.nodes.simulator import SimulatorNode
from dexstack.nodes.wire import COMMAND, WORLD, BadMessage
from dexstack.plants.base import Patch
from dexstack.plants.mujoco import MujocoPlant

SQUARE = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
PATCH = Patch(
    "tip",
    "cube",
    np.concatenate([SQUARE, SQUARE[:3] + np.array([0, 0, 1.0])]),
    np.array([0, 4, 7]),
    np.array([2e4, 1e4]),
    np.array([0.1, 0.2, 0.3]),
    np.array([0.0, 0.0, 3.0]),
    np.zeros(3),
)


def test_the_page_reads_the_markers_of_rviz():
    read = read_patches(patch_markers(0.0, [PATCH, PATCH]))
    (_, surface, arrow, *_) = patch_markers(0.0, [PATCH]).markers
    assert read.corners_W.shape == read.colours.shape == (18, 3) and read.arrows_W.shape == (2, 2, 3)
    np.testing.assert_allclose(read.corners_W[:9], [(p.x, p.y, p.z) for p in surface.points])
    np.testing.assert_allclose(read.colours[9:], [(c.r, c.g, c.b) for c in surface.colors])
    np.testing.assert_allclose(read.arrows_W[1], [(p.x, p.y, p.z) for p in arrow.points])
    empty = read_patches(patch_markers(0.0, []))
    assert empty.corners_W.shape == (0, 3) and empty.arrows_W.shape == (0, 2, 3)
    surface.colors.pop()
    with pytest.raises(BadMessage, match="three coloured corners"):
        read_patches(MarkerArray(markers=[surface]))
    arrow.header.frame_id = "map"
    with pytest.raises(BadMessage, match="frame 'map'"):
        read_patches(MarkerArray(markers=[arrow]))


def test_a_patch_becomes_coloured_triangles_and_an_arrow_along_its_force():
    clear, surface, arrow = patch_markers(1.5, [PATCH]).markers
    assert clear.action == Marker.DELETEALL
    assert len(surface.points) == len(surface.colors) == 3 * (2 + 1)
    first, last = surface.colors[0], surface.colors[-1]
    assert first.r > last.r and first.g > last.g, "the greater pressure is brighter"
    tail, tip = ([p.x, p.y, p.z] for p in arrow.points)
    np.testing.assert_allclose(tail, PATCH.point_W)
    np.testing.assert_allclose(np.subtract(tip, tail), (0, 0, 0.06))
    assert {m.header.frame_id for m in (surface, arrow)} == {WORLD}
    assert surface.header.stamp.nanosec == 500_000_000


@pytest.mark.parametrize("pressure", ([], [0.0, 0.0]))
def test_patches_without_pressure_are_drawn(pressure):
    patch = PATCH._replace(
        pressure=np.array(pressure), start=PATCH.start[: len(pressure) + 1], force_W=np.zeros(3)
    )
    assert len(patch_markers(0.0, [patch]).markers) == 3
    assert len(patch_markers(0.0, []).markers) == 1, "earlier markers are deleted"


def test_the_simulator_publishes_the_patches_of_its_plant(pair, monkeypatch):
    monkeypatch.setattr(MujocoPlant, "patches", lambda _: [PATCH], raising=False)
    seen: list[MarkerArray] = []
    simulator = pair(SimulatorNode)
    simulator.peer.create_subscription(MarkerArray, "contact_patch", seen.append, COMMAND)
    simulator.activate()
    wait_until(lambda: len(seen) > 2, 10, "three messages")
    assert [m.ns for m in seen[-1].markers] == ["", "pressure", "force"]
