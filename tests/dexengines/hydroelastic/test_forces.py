"""Quadrature of the static force, and the energy whose gradient it is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dexengines.hydroelastic import shapes
from dexengines.hydroelastic.surface import Workspace, query
from experiments.hydroelastic.forces import polygon_wrench, wrench
from tests.dexengines.hydroelastic.overlap_energy import energy

pytestmark = pytest.mark.slow

I3, ZERO = np.eye(3), np.zeros(3)


def test_fan_and_polygon_agree_on_the_force_and_to_second_order_on_the_moment() -> None:
    ground = shapes.rigid_half_space()
    differences = []
    for size in (0.02, 0.01, 0.005):
        ball = shapes.sphere(0.05, 1e5, size=size)
        s = query(ball, ground, I3, np.array([0, 0, 0.04]), I3, ZERO, Workspace())
        about = np.array([0.1, 0.0, 0.0])
        fan, polygon = wrench(s, about), polygon_wrench(s, about)
        assert fan[3:] == pytest.approx(polygon[3:], rel=1e-9, abs=1e-9 * fan[5])
        differences.append(abs(fan[1] - polygon[1]) / abs(fan[1]))
    assert differences[2] <= differences[0] / 8 or differences[0] < 1e-12


@pytest.mark.parametrize(
    "b",
    [shapes.box((0.2, 0.2, 0.1), 1e5), shapes.rigid(shapes.box((0.2, 0.2, 0.1), 1e5))],
    ids=["compliant", "rigid"],
)
def test_the_static_force_is_the_gradient_of_the_energy(b) -> None:
    ball, h = shapes.sphere(0.05, 2e5, size=0.04), 1e-6
    out = Workspace(drop_angle=math.pi)
    for p in ([0.01, 0.02, 0.09], [0.09, 0.0, 0.08]):
        p = np.array(p)
        w = wrench(query(ball, b, I3, p, I3, ZERO, out), ZERO)
        for axis in range(3):
            d = h * I3[axis]
            slope = (energy(ball, b, I3, p + d, I3, ZERO) - energy(ball, b, I3, p - d, I3, ZERO)) / (2 * h)
            assert w[3 + axis] == pytest.approx(-slope, rel=1e-4, abs=1e-4 * np.abs(w[3:]).max())
