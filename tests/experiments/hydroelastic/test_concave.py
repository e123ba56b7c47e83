"""Threads, and the grip that holds and lets turn, shortened."""

import math

import numpy as np
import pytest
import trimesh

from experiments.hydroelastic import nut, spatula, threads


def test_the_nut_and_the_bolt_are_closed_concave_and_apart():
    body, bolt = threads.bodies()
    outline = trimesh.Trimesh(body.vertices_B, body.boundary_triangles)
    outline.remove_unreferenced_vertices()
    assert outline.is_watertight and outline.volume < 0.7 * outline.convex_hull.volume
    wall = 0.25 * math.pi * (2 * threads.OUTER) ** 2 * threads.LEAD
    hole = math.pi * ((threads.MEAN + threads.CLEARANCE) ** 2 + 0.5 * threads.HEIGHT**2) * threads.LEAD
    assert outline.volume == pytest.approx(wall - hole, rel=0.01)
    assert (bolt.neighbours >= 0).all()
    x, y, z = bolt.vertices_B.T
    outer = np.hypot(x, y) > 0.6 * threads.MEAN
    np.testing.assert_allclose(np.hypot(x, y)[outer], threads.thread(np.arctan2(y, x), z)[outer])


@pytest.mark.slow
def test_friction_locks_the_nut_on_the_bolt():
    motion = nut.run(nut.FRICTION, lambda t, _: t >= 0.12)
    after = motion["t"] >= nut.SETTLED
    assert (
        np.ptp(motion["q"][after, 2]) < nut.SUNK and np.degrees(np.ptp(motion["angle"][after])) < nut.TURNED
    )
    assert motion["gap"] > -nut.OVERLAP and motion["unsolved"] == 0


@pytest.mark.slow
def test_a_tight_grip_of_pressure_fields_holds_what_point_contacts_let_turn():
    angles = {}
    for engine, size in (("hydroelastic", 0.01), ("mujoco", None)):
        motion = spatula.run(engine, 1.0, size)
        angles[engine] = np.ptp(spatula.pitch(motion["q"]))
    assert angles["hydroelastic"] < 1.0 and angles["mujoco"] > spatula.TURN
