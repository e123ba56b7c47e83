"""Bodies that start inside each other are pushed apart without energy."""

import numpy as np
import pytest

from dexengines.errors import EngineError
from dexengines.lcp import gradient
from experiments.lcp import systems as scenes
from experiments.lcp.overlaps import KINDS, End, draw, part


@pytest.mark.parametrize("depth", (1e-6, 1e-5, 1e-3, 5e-3))
def test_a_box_inside_the_floor_comes_out_and_stays(depth):
    system = scenes.boxes(1, dt=0.002)
    system.q[2] = 0.1 - depth
    for _ in range(round(depth / 0.1 / 0.002) + 2):
        system.step()
    assert 0.1 < system.q[2] <= 0.1 + 1.001e-5 and np.abs(system.v).max() < 1.1e-5


def test_a_stack_pressed_into_itself_comes_apart():
    system = scenes.stack(3)
    system.q[2::7] -= np.array([1e-3, 4e-3, 8e-3])
    for _ in range(30):
        system.step()
    np.testing.assert_allclose(system.q[2::7], (0.1 + 1e-5) * np.array([1.0, 3.0, 5.0]), atol=3e-5)
    assert np.abs(system.v).max() < 1e-9 and min(system.gaps().values()) > 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_random_overlaps_part_without_energy(kind):
    rng = np.random.default_rng(5)
    for _ in range(8):
        assert part(draw(kind, rng), seconds=0.3) is (End.REFUSED if kind == "jammed" else End.PARTED)


@pytest.mark.parametrize(
    ("kind", "scene"),
    [
        pytest.param("concave", (1, 2110), id="edges that meet nearly parallel"),
        pytest.param("concave", (1, 38902), id="a face with a corner 3 nm above it"),
        pytest.param("stack", (1, 3644), id="a contact that a push turns"),
        pytest.param("stack", (1, 69262), id="an edge's end on an edge"),
        pytest.param("stack", (0, 935), id="bodies pushed into others that fly"),
        pytest.param("cylinders", (1, 50), id="contacts that bend do no work"),
        pytest.param("hulls", (1, 33413), id="a contact that begins within a step"),
    ],
)
def test_a_scene_parts_without_energy(kind, scene):
    assert part(draw(kind, np.random.default_rng(scene)), seconds=0.3) is End.PARTED


def test_a_contact_opened_again_gets_no_velocity():
    system = scenes.boxes(1, dt=0.002)
    system.q[2] = 0.1 + 1e-7
    for _ in range(5):
        system.step()
        assert np.abs(system.v).max() < 1e-12
    assert system.q[2] - 0.1 == pytest.approx(1e-5, rel=1e-6)


def test_moves_with_curvature_and_push_have_the_derivative_of_both(compare_derivatives):
    system = draw("cylinders", np.random.default_rng([1, 225]))
    for _ in range(5):
        system.step()
    start = system.q.copy(), system.v.copy()
    gradient.rollout(system, np.zeros((1, system.v.size)))
    moves = system.tape.op[: system.tape.size[0]]
    assert ((moves[:, 8] == 1) & (moves[:, 10] > 1)).any(), "one of its moves does both"
    system.q[:], system.v[:] = start
    direction = {"v": np.random.default_rng(0).normal(size=system.v.size)}
    ours, theirs, _ = compare_derivatives(system, np.zeros((1, system.v.size)), direction)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * np.abs(theirs).max())


def test_bodies_that_cannot_be_parted_are_refused_by_name():
    system = draw("jammed", np.random.default_rng(0))
    with pytest.raises(
        EngineError,
        match=r"^'box0' and 'wall[01]' \(by [0-9.]+ mm\), 'box0' and 'wall[01]' .* overlap and "
        r"cannot be parted within 0.1 s",
    ):
        system.settle(0.1)


def test_a_body_thrown_into_an_overlap_goes_no_deeper():
    system = scenes.boxes(1)
    system.q[2], system.v[:] = 0.099, (0.5, 0.0, -2.0, 3.0, -2.0, 1.0)
    for _ in range(20):
        system.step()
        assert min(system.gaps().values()) > -1.2e-3
    assert min(system.gaps().values()) > 0.0


def test_a_rollout_out_of_an_overlap_has_the_derivative_of_its_push(check_derivatives):
    system = scenes.boxes(1)
    system.q[2], system.v[0] = 0.0985, 1.0
    check_derivatives(
        system,
        np.zeros((4, 6)),
        {"v": np.array([1.0, 0.5, 0.0, 0.0, 0.0, 0.0]), "friction": np.array([1.0, 0.0])},
    )
    system.q[2] = 0.0995
    run = gradient.rollout(system, np.zeros((1, 6)))
    assert abs(gradient.jacobian(system, run, ("q",))["q"][2, 2]) < 1e-12, (
        "it ends where a resting body is, from wherever it began"
    )
