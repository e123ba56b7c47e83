"""Quadrature of the static force, and its work."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dexengines.hydroelastic import shapes
from dexengines.hydroelastic.surface import Workspace, query
from experiments.hydroelastic.forces import polygon_wrench, wrench

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
def test_the_static_force_does_no_work_along_a_closed_path(b) -> None:
    """Through the box's face, around its edge, and back: a force with an energy, ∫ p0 dV over the overlap."""
    ball, out, n = shapes.sphere(0.05, 2e5, size=0.04), Workspace(drop_angle=math.pi), 400
    corners = np.array([[0.01, 0.02, 0.09], [0.09, 0.0, 0.08], [0.12, 0.03, 0.02], [0.02, 0.01, 0.07]])
    work, moved = 0.0, 0.0
    for start, end in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        for s in (np.arange(n) + 0.5) / n:
            w = wrench(query(ball, b, I3, start + s * (end - start), I3, ZERO, out), ZERO)
            step = w[3:] @ (end - start) / n
            work, moved = work + step, moved + abs(step)
    assert abs(work) < 1e-4 * moved and moved > 0.1
