"""A ring of oriented points has a hole."""

import numpy as np
import pytest
from scipy.spatial import cKDTree

from experiments.soft import annulus, ring


def test_the_rings_points_lie_on_its_surface_evenly_with_normals_away_from_it():
    points, normals = annulus.ring_cloud(ring.SPACING)
    radius = np.hypot(points[:, 0], points[:, 1])
    outward = np.einsum("ij,ij->i", points[:, :2], normals[:, :2]) / radius
    on_hole = np.isclose(radius, annulus.INNER)
    np.testing.assert_allclose(outward[on_hole], -1.0)
    np.testing.assert_allclose(outward[np.isclose(radius, annulus.OUTER)], 1.0)
    ends = np.abs(normals[:, 2]) > 0.5
    np.testing.assert_allclose(points[ends, 2], normals[ends, 2] * annulus.HALF)
    assert cKDTree(points).query(points, 2)[0][:, 1].max() < 1.2 * ring.SPACING


@pytest.mark.slow
def test_a_ring_that_meets_a_peg_gains_no_energy_and_does_not_enter_it():
    model = annulus.ring_spec(ring.DT).compile()
    found = ring.judged(model, *ring.fallen(model, 0.1))
    assert found["gained"] <= ring.GAINED and 0.0 < found["overlap_peg_m"] < ring.OVERLAP
