"""Contact surfaces: any pose, thin bodies, closed patches; Drake's answers and the order of convergence are
in tests/experiments/hydroelastic/test_surfaces.py."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dexengines.hydroelastic import shapes
from dexengines.hydroelastic.fields import CompliantMesh
from dexengines.hydroelastic.surface import FULL, Workspace, query, stored_surface
from experiments.hydroelastic.forces import wrench
from experiments.hydroelastic.sinusoid import sinusoid_force
from tests.dexengines.hydroelastic.any_pose import check_poses

I3 = np.eye(3)


def at(*p: float) -> np.ndarray:
    return np.array(p, float)


@pytest.mark.slow
def test_surfaces_in_any_pose_are_finite_balanced_complete_and_continuous() -> None:
    checks = check_poses(1200, seed=3)
    assert checks["finite"].checked == 1200 and checks["complete"].checked >= 100
    assert {name: check.failed for name, check in checks.items()} == dict.fromkeys(checks, 0)


def test_a_ball_inside_a_ball_is_found_without_a_rim() -> None:
    small, large = shapes.sphere(0.02, 1e6, size=0.02), shapes.sphere(0.1, 1e5, size=0.05)
    out = Workspace()
    for a, b, sign in ((small, large, 1.0), (large, small, -1.0)):
        pose = (
            (I3, at(0.0, 0.0, 0.05), I3, at(0.0, 0.0, 0.0))
            if a is small
            else (I3, at(0.0, 0.0, 0.0), I3, at(0.0, 0.0, 0.05))
        )
        surface = query(a, b, *pose, out)
        assert surface.n > 0 and surface.overrun == (0, 0)
        assert sign * wrench(surface, np.zeros(3))[5] > 0


def test_a_thin_body_pressed_past_its_medial_axis_is_reported() -> None:
    sheet, ground = shapes.box((0.1, 0.1, 0.002), 1e4), shapes.half_space(1e6, depth=0.05)
    out = Workspace()
    assert query(sheet, ground, I3, at(0, 0, 0.0009), I3, at(0, 0, 0), out).overrun == (0, 0)
    deep = query(sheet, ground, I3, at(0, 0, -0.01), I3, at(0, 0, 0), out)
    assert deep.n == 0 and deep.overrun == (4, 0)  # the corners of its mid-plane
    assert query(ground, sheet, I3, at(0, 0, 0), I3, at(0, 0, -0.01), out).overrun == (0, 4)
    plate = shapes.rigid(shapes.box((0.2, 0.2, 0.2), 1.0))
    assert (
        query(sheet, plate, I3, at(0, 0, 0.1), I3, at(0, 0, 0), out).overrun[0]
        + query(sheet, plate, I3, at(0, 0, 0.05), I3, at(0, 0, 0), out).overrun[0]
        >= 1
    )


def test_ridges_at_the_edges_of_a_box_are_not_reported_as_its_medial_axis() -> None:
    """Faces there also turn away from the pressure gradient, but almost no load is lost."""
    link, cube = shapes.box((0.02, 0.028, 0.016), 1e7), shapes.rigid(shapes.box((0.06, 0.06, 0.06), 1.0))
    gradient, peaks = np.linalg.norm(link.gradient_B, axis=1), link.vertices_B[link.packed.seed[:, 0]]
    out, rng, quiet = Workspace(drop_angle=math.pi), np.random.default_rng(0), 0
    for _ in range(600):
        R = Rotation.random(random_state=rng).as_matrix()
        corner = rng.uniform(-0.03, 0.03, 3)
        corner[0] = 0.03  # a point of the cube's face just below one of the link's
        p = at(*rng.uniform(-0.01, 0.01, 2), 0.0075) - R @ corner
        if (np.abs((peaks - p) @ R) < 0.03).all(axis=1).any():
            continue  # that is past the medial axis
        s = query(link, cube, I3, at(0, 0, 0), R, p, out)
        turned = s.grad_a <= math.cos(5 * math.pi / 8) * gradient[s.tet_a]
        load = s.pressure * s.area
        if (
            turned.any()
            and load[turned].sum() < 0.04 * load.sum()
            and s.pressure[turned].max() < 0.2 * link.modulus
        ):
            quiet += 1
            assert s.overrun[0] == 0
    assert quiet > 8


def test_a_workspace_that_is_too_small_is_reported_and_grows() -> None:
    a, b = shapes.sphere(0.05, 1e5, size=0.02), shapes.sphere(0.05, 2e5, size=0.02)
    pose = (I3, at(0, 0, 0), I3, at(0, 0.001, 0.08))
    few = Workspace(4)
    assert stored_surface(a.stored.address, b.stored.address, *pose, few.address) == FULL
    assert (few.arrays.table == -1).all()
    small, large = query(a, b, *pose, Workspace(4)), query(a, b, *pose, Workspace(4096))
    assert small.n == large.n > 4 and (small.vertex_W == large.vertex_W).all()


def test_polygons_lie_on_equal_pressure_with_normals_from_b_into_a() -> None:
    a, b = shapes.sphere(0.05, 1e5, size=0.02), shapes.box((0.1, 0.1, 0.1), 3e5)
    surface = query(a, b, I3, at(0.01, 0.0, 0.09), I3, at(0, 0, 0), Workspace())
    assert (surface.nhat_W[:, 2] > 0).all() and (surface.grad_a > 0).all() and (surface.grad_b < 0).all()
    for i in range(surface.n):
        corners = surface.vertex_W[surface.start[i] : surface.start[i + 1]]
        assert np.abs((corners - surface.centroid_W[i]) @ surface.nhat_W[i]).max() < 1e-13
        p_a = (
            a.gradient_B[surface.tet_a[i]] @ (surface.centroid_W[i] - at(0.01, 0, 0.09))
            + a.offset[surface.tet_a[i]]
        )
        p_b = b.gradient_B[surface.elem_b[i]] @ surface.centroid_W[i] + b.offset[surface.elem_b[i]]
        assert surface.pressure[i] == pytest.approx(p_a, rel=1e-9) and p_b == pytest.approx(p_a, rel=1e-6)


def test_coinciding_fields_give_finite_results() -> None:
    m = shapes.box((0.1, 0.08, 0.06), 1e5)
    surface = query(m, m, I3, at(0, 0, 0), I3, at(0, 0, 0), Workspace())
    assert np.isfinite(wrench(surface, np.zeros(3))).all()


@pytest.mark.parametrize(("amplitude", "exact"), [(0.0, 1.0), (0.166, (0.4 - 0.166) / 0.4), (0.333, None)])
def test_sinusoids_in_a_layer(amplitude: float, exact: float | None) -> None:
    force, closed_form = sinusoid_force(amplitude)
    assert force == pytest.approx(closed_form, abs=5e-4)
    if exact is not None:
        assert closed_form == pytest.approx(exact, rel=1e-12)


def test_the_half_space_is_hydrostatic() -> None:
    block, ground = shapes.rigid(shapes.box((0.1, 0.1, 0.1), 1.0)), shapes.half_space(1e5, depth=0.05)
    surface = query(ground, block, I3, at(0, 0, 0), I3, at(0, 0, 0.04), Workspace(drop_angle=math.pi))
    assert wrench(surface, np.zeros(3))[5] == pytest.approx(-1e5 / 0.05 * 0.01 * 0.01, rel=1e-9)
    assert isinstance(ground, CompliantMesh)
