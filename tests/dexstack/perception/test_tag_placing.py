"""Placing of tags: on flat outer faces, as large as possible."""

import numpy as np
import pytest
import trimesh

from dexstack.perception.tag_placing import BORDER, FIRST, LARGEST, place_tags


def test_a_box_gets_one_on_each_side():
    size = np.array((0.06, 0.045, 0.03))
    bundle = place_tags("box", trimesh.creation.box(size))
    assert list(bundle.tags) == [FIRST + k for k in range(6)]
    for tag in bundle.tags.values():
        axis = int(np.argmax(np.abs(tag.normal)))
        assert abs(tag.normal[axis]) == pytest.approx(1.0) and tag.X_OT.p[axis] == pytest.approx(
            tag.normal[axis] * size[axis] / 2
        )
        room = np.delete(size, axis).min()
        assert room - 0.001 * BORDER < BORDER * tag.edge <= room + 1e-9 or tag.edge == LARGEST
        others = np.delete(np.arange(3), axis)
        reach = BORDER / 2 * (tag.corners - tag.X_OT.p)[:, others] * 2 + tag.X_OT.p[others]
        assert (np.abs(reach) <= size[others] / 2 + 1e-6).all()


def test_inner_faces_and_round_bodies_get_no_tags():
    ring = trimesh.creation.annulus(0.03, 0.035, 0.05, sections=64)
    assert place_tags("ring", ring) is None
    assert place_tags("ball", trimesh.creation.icosphere(subdivisions=3, radius=0.03)) is None
