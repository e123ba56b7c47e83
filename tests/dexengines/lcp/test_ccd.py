"""Times of impact under rotation: exact here, late where a library moves corners in straight
lines."""

import ipctk
import mujoco
import numpy as np
import pytest

from dexengines.lcp.shapes import box
from dexengines.lcp.system import LcpSystem

SPEED, STEP, HIT = 120.0, 0.01, 0.6
"""[rad/s], [s]: 1.2 rad per step; a corner meets a wall after 0.6 rad, half of the step."""
RADIUS, START = np.hypot(1.0, 0.01), np.arctan2(0.01, 1.0)
WALL = RADIUS * np.sin(HIT + START)


def _bar_and_wall() -> LcpSystem:
    """A bar of 1 m that turns about one end, and the face of a wall across its way."""
    spec = mujoco.MjSpec()
    spec.option.timestep, spec.option.gravity = STEP, (0, 0, 0)
    body = spec.worldbody.add_body(name="bar", mass=1.0, inertia=(0.1, 0.1, 0.1), explicitinertial=True)
    body.add_joint(name="hinge", axis=(0, 0, 1))
    bar = box("bar", "bar", (0.5, 0.01, 0.01), (0.5, 0, 0))
    return LcpSystem(spec.compile(), [bar, box("wall", "world", (3.0, 0.5, 0.5), (0.0, WALL + 0.5, 0.0))])


def test_a_turning_corner_stops_where_it_meets_the_wall():
    system = _bar_and_wall()
    system.v[0] = SPEED
    system.step()
    assert HIT - 4e-6 < system.q[0] < HIT
    assert min(system.gaps().values()) > 0.0


def test_straight_corner_paths_would_be_late():
    """Why the engine does not leave meshes to ipctk's tight inclusion, whose answer is
    conservative, but for straight paths."""
    corner = lambda turn: RADIUS * np.array([np.cos(START + turn), np.sin(START + turn), 0.0])  # noqa: E731
    face = np.array([[-9.0, WALL, -9.0], [9.0, WALL, -9.0], [0.0, WALL, 9.0]])
    hit, part = ipctk.TightInclusionCCD().point_triangle_ccd(corner(0.0), *face, corner(SPEED * STEP), *face)
    assert hit and part == pytest.approx(
        (WALL - 0.01) / (RADIUS * np.sin(SPEED * STEP + START) - 0.01), rel=1e-3
    )
    late = RADIUS * np.sin(START + part * SPEED * STEP) - WALL
    assert part > 0.6 and late > 0.1, "the corner would be 0.1 m within the wall"
