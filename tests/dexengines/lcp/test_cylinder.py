"""Cylinders: exact distances and times of impact, contacts that hold, derivatives."""

import coal
import mujoco
import numpy as np
import pytest

from dexengines.errors import EngineError
from dexengines.lcp import gradient, record
from dexengines.lcp.shapes import REST, Geometry, box, capsule, cylinder, plane, sphere
from dexengines.lcp.system import LcpSystem
from experiments.lcp import systems as scenes
from experiments.lcp.check import SubstepCheck

RADIUS, HALF = 0.1, 0.15


def _pair(other: Geometry) -> LcpSystem:
    """A cylinder and another shape on free bodies ``c`` and ``o``, weightless."""
    model = scenes.free_bodies(
        {"c": (1.0, (3e-3, 4e-3, 2e-3)), "o": (2.0, (5e-3, 6e-3, 4e-3))}, dt=0.01, gravity=0.0
    )
    return LcpSystem(model, [cylinder("c", "c", RADIUS, HALF, friction=0.3, restitution=0.5), other])


OTHERS = {
    "box": box("o", "o", (0.1, 0.07, 0.12), friction=0.3),
    "sphere": sphere("o", "o", 0.08, friction=0.3),
    "capsule": capsule("o", "o", 0.05, 0.1, friction=0.3),
    "cylinder": cylinder("o", "o", 0.07, 0.12, friction=0.3),
    "rounded cylinder": Geometry("o", "o", np.array([[0, 0, -0.1], [0, 0, 0.1]]), 0.02, 0.06, friction=0.3),
}


@pytest.mark.parametrize("aside", (0.0, 0.05, 0.3))
@pytest.mark.parametrize("height", (1e-6, 1e-5, 0.02))
def test_distances_in_closed_form(aside, height):
    """Standing and lying over a box; end to end, side by side; a ball over the end, over the
    rim."""
    system = _pair(box("o", "o", (1.0, 1.0, 0.1)))
    system.q[:3] = aside, 0.0, 0.1 + HALF + height
    assert system.gaps()["c", "o"] == pytest.approx(height, abs=1e-12)
    system.q[:7] = aside, 0.0, 0.1 + RADIUS + height, np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0
    assert system.gaps()["c", "o"] == pytest.approx(height, abs=1e-12)
    system = _pair(cylinder("o", "o", 0.07, 0.12))
    system.q[7:10] = 0.0, min(aside, 0.1), HALF + 0.12 + height
    assert system.gaps()["c", "o"] == pytest.approx(height, abs=1e-12)
    system.q[7:10] = 0.0, 0.17 + height, aside
    beyond = max(aside - HALF - 0.12, 0.0)
    assert system.gaps()["c", "o"] == pytest.approx(np.hypot(height, beyond), abs=1e-10)
    system = _pair(sphere("o", "o", 0.08))
    system.q[7:10] = 0.0, 0.1 + aside, HALF + 0.08 + height
    exact = np.hypot(aside, 0.08 + height) - 0.08
    assert system.gaps()["c", "o"] == pytest.approx(exact, abs=1e-10)


@pytest.mark.parametrize("name", OTHERS)
def test_distances_equal_coals(name):
    rng, worst = np.random.default_rng(3), 0.0
    system = _pair(OTHERS[name])
    check = SubstepCheck(system)
    for _ in range(200):
        scenes.throw(system, rng)
        system.q[7:10] *= rng.uniform(0.5, 2.0)
        gap = system.gaps()["c", "o"]
        check.smallest = np.inf
        check.check(system.q)
        if check.smallest > 1e-3:
            worst = max(worst, abs(gap - check.smallest))
    assert worst < 1e-6  # coal's own tolerance for curved shapes


def test_a_turning_cylinder_stops_where_its_rim_meets_the_wall():
    """It turns about one end; the corner of its silhouette meets the wall after half of the
    step."""
    spec = mujoco.MjSpec()
    spec.option.timestep, spec.option.gravity = 0.01, (0, 0, 0)
    body = spec.worldbody.add_body(name="bar", mass=1.0, inertia=(0.1, 0.1, 0.1), explicitinertial=True)
    body.add_joint(name="hinge", axis=(0, 0, 1))
    along = np.array([[0.0, 0, 1], [0, 1, 0], [-1, 0, 0]])
    radius, hit = 0.01, 0.6
    wall = np.hypot(1.0, radius) * np.sin(hit + np.arctan2(radius, 1.0))
    system = LcpSystem(
        spec.compile(),
        [
            cylinder("bar", "bar", radius, 0.5, (0.5, 0, 0), along),
            box("wall", "world", (3.0, 0.5, 0.5), (0.0, wall + 0.5, 0.0)),
        ],
    )
    system.v[0] = 120.0
    system.step()
    assert hit - 4e-6 < system.q[0] < hit
    assert min(system.gaps().values()) > 0.0


@pytest.mark.parametrize("name", OTHERS)
def test_thrown_cylinders_bounce_off_without_meeting(name):
    rng, hits = np.random.default_rng(5), 0
    for _ in range(8):
        system = _pair(OTHERS[name])
        scenes.throw(system, rng)
        check, start = SubstepCheck(system), system.energy()
        momentum = system.v[:3] + 2.0 * system.v[6:9]
        for _ in range(8):
            system.step()
            check.after_step()
        assert check.smallest > 0.0 and system.energy() <= start * (1 + 1e-9)
        assert system.counts[record.UNSOLVED] == system.counts[record.OVERLAPS] == 0
        np.testing.assert_allclose(system.v[:3] + 2.0 * system.v[6:9], momentum, atol=1e-9)
        hits += system.counts[record.IMPACTS]
    assert hits >= 6


@pytest.mark.parametrize("friction", (0.5, 0.02))
def test_a_cylinder_rolls_or_slides_down_a_slope_as_in_closed_form(friction):
    """Contact is midway between the surfaces, half the kept gap away from the cylinder."""
    slope, length, dt = 0.1, 0.2, 0.01
    system = scenes.cylinders(1, RADIUS, length, dt=dt, friction=friction, slope=slope)
    normal, down = np.array([[np.sin(slope), 0.0, np.cos(slope)], [np.cos(slope), 0.0, -np.sin(slope)]])
    system.q[:3], system.q[3:7] = (RADIUS + REST) * normal, (np.sqrt(0.5), np.sqrt(0.5), 0.0, 0.0)
    check, speed, lever = SubstepCheck(system), [0.0], RADIUS + 0.5 * REST
    for _ in range(20):
        system.step()
        check.after_step()
        speed.append(system.v[:3] @ down)
    roll = 9.81 * np.sin(slope) / (1.0 + 0.5 * (RADIUS / lever) ** 2)
    slide = 9.81 * (np.sin(slope) - friction * np.cos(slope))
    np.testing.assert_allclose(np.diff(speed) / dt, max(roll, slide), atol=1e-9)
    assert check.smallest > 0.0
    if roll >= slide:
        assert lever * abs(system.v[5]) == pytest.approx(speed[-1], abs=1e-9)


def test_a_cylinder_stands_on_a_box_and_on_a_cylinder():
    for other in (
        box("o", "o", (0.12, 0.12, 0.1), friction=0.5),
        cylinder("o", "o", 0.08, 0.1, friction=0.5),
    ):
        model = scenes.free_bodies({"c": (1.0, (1e-2,) * 3), "o": (1.0, (1e-2,) * 3)}, dt=0.01)
        system = LcpSystem(model, [plane("floor"), other, cylinder("c", "c", RADIUS, HALF)])
        system.q[9], system.q[2] = 0.1 + 1e-5, 0.2 + HALF + 2e-5
        system.q[0] = 0.03
        q = system.q.copy()
        for _ in range(100):
            system.step()
        np.testing.assert_allclose(system.q, q, atol=1e-9)
        assert system.counts[record.SUBSTEPS] <= 101


@pytest.mark.parametrize("lean", (0.4, 0.8))
def test_a_leaning_cylinder_falls_to_the_side_of_its_centre(lean):
    """Balance is at tan⁻¹(r / half) = 0.59 rad: below, it comes to stand, beyond, to lie."""
    system = scenes.cylinders(1, RADIUS, HALF, dt=0.005, friction=1.0)
    system.q[3:7] = np.cos(lean / 2), np.sin(lean / 2), 0, 0
    system.q[2] = HALF * np.cos(lean) + RADIUS * np.sin(lean) + 1e-5
    start, check = system.energy(), SubstepCheck(system)
    for _ in range(400):
        system.step()
        check.after_step()
        assert system.energy() <= start + 1e-9
    assert check.smallest > 0.0
    upright = 1.0 - 2.0 * (system.q[4] ** 2 + system.q[5] ** 2)
    assert abs(upright) == pytest.approx(1.0 if lean < 0.59 else 0.0, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_derivatives_through_an_impact(name, compare_derivatives):
    rng, compared = np.random.default_rng(7), 0
    system = _pair(OTHERS[name])
    hits = 0
    while hits < 2:
        scenes.throw(system, rng)
        start = system.q.copy(), system.v.copy()
        system.forget()
        gradient.rollout(system, np.zeros((8, 12)))
        if not 0 < system.counts[record.IMPACTS] < 3 or system.counts[record.INEXACT_TIMES]:
            continue
        hits += 1
        for what, size in (("q", 14), ("v", 12), ("mass", 3), ("friction", 2), ("restitution", 2)):
            system.q[:], system.v[:] = start
            ours, theirs, _ = compare_derivatives(
                system, np.zeros((8, 12)), {what: rng.uniform(-1.0, 1.0, size)}
            )
            if theirs is not None:
                np.testing.assert_allclose(
                    ours, theirs, rtol=1e-6, atol=1e-6 * max(1.0, np.abs(theirs).max())
                )
                compared += 1
    assert compared >= 6


def test_derivatives_of_rolling_and_sliding(check_derivatives):
    for friction in (0.5, 0.02):
        system = scenes.cylinders(1, RADIUS, 0.2, friction=friction, slope=0.1)
        system.q[:3] = (RADIUS + 1e-5) * np.array([np.sin(0.1), 0, np.cos(0.1)])
        system.q[3:7] = np.sqrt(0.5), np.sqrt(0.5), 0, 0
        for _ in range(5):
            system.step()
        start = system.q.copy(), system.v.copy()
        for what, direction in (
            ("v", np.array([1.0, 0, 0, 0, 0, 3.0])),
            ("friction", np.array([1.0, 0.0])),
            ("mass", np.array([0, 1.0])),
        ):
            system.q[:], system.v[:] = start
            check_derivatives(system, np.zeros((10, 6)), {what: direction})


def test_cylinders_need_two_ends():
    with pytest.raises(EngineError, match="two different ends"):
        LcpSystem(
            scenes.free_bodies({"o": (1.0, (1.0,) * 3)}, dt=0.01),
            [Geometry("c", "o", np.zeros((2, 3)), disc=0.1)],
        )


def test_coal_has_the_same_cylinder():
    """The independent check is about a cylinder, not about a polyhedron."""
    check = SubstepCheck(_pair(OTHERS["sphere"]))
    solid = check.solids[0][0]
    assert isinstance(solid, coal.Cylinder) and solid.radius == RADIUS and solid.halfLength == HALF
