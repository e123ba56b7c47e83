"""Query points cover every collision shape: dense samples of the surface are near one, and no query
protrudes."""

import numpy as np
import pytest

from dexstack.contact.query_points import robot_query_points, shape_points
from dexstack.model import HANDS
from dexstack.model.hand import load_hand
from dexstack.model.urdf import Shape

SPACING = 0.008
TURN = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
SHAPES = {
    "sphere": Shape("sphere", np.array([0.012]), np.array([0.01, 0.0, 0.02]), TURN),
    "capsule": Shape("capsule", np.array([0.012, 0.02]), np.array([0.01, 0.0, 0.02]), TURN),
    "box": Shape("box", np.array([0.01, 0.014, 0.027]), np.array([0.0, 0.03, 0.0]), TURN),
    "cylinder": Shape("cylinder", np.array([0.015, 0.02]), np.array([0.0, 0.03, 0.0]), TURN),
}


def signed_distance(shape: Shape, points: np.ndarray) -> np.ndarray:
    """Return the closed-form distance of points to the shape's surface."""
    x = (points - shape.p) @ shape.R
    size = shape.size
    if shape.kind == "sphere":
        return np.linalg.norm(x, axis=1) - size[0]
    if shape.kind == "capsule":
        axis = np.column_stack([np.zeros((len(x), 2)), np.clip(x[:, 2], -size[1], size[1])])
        return np.linalg.norm(x - axis, axis=1) - size[0]
    if shape.kind == "box":
        d = np.abs(x) - size
    else:
        d = np.column_stack([np.linalg.norm(x[:, :2], axis=1) - size[0], np.abs(x[:, 2]) - size[1]])
    return np.linalg.norm(np.maximum(d, 0), axis=1) + np.minimum(d.max(axis=1), 0)


def surface(shape: Shape) -> np.ndarray:
    """Random points of the surface: bisection along random rays from the centre."""
    rays = np.random.default_rng(0).normal(size=(3000, 3))
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    low, high = np.zeros(len(rays)), np.ones(len(rays))
    for _ in range(40):
        middle = (low + high) / 2
        out = signed_distance(shape, shape.p + middle[:, None] * rays) > 0
        low, high = np.where(out, low, middle), np.where(out, middle, high)
    return shape.p + low[:, None] * rays


@pytest.mark.parametrize("kind", SHAPES)
def test_query_spheres_touch_the_surface_from_inside_and_cover_it(kind):
    shape = SHAPES[kind]
    centres, radii = shape_points(shape, SPACING)
    np.testing.assert_allclose(signed_distance(shape, centres), -radii, atol=1e-12)
    points = surface(shape)
    gap = np.min(np.linalg.norm(points[:, None] - centres[None], axis=2) - radii, axis=1)
    limit = {"sphere": 1e-9, "capsule": 1.5e-3}.get(kind, SPACING / np.sqrt(2) + 1e-9)
    if kind == "cylinder":  # its flat ends carry points on their rim only
        rim = np.abs((points - shape.p) @ shape.R)[:, 2] < shape.size[1] - 1e-6
        gap = gap[rim]
    assert gap.max() < limit


@pytest.mark.parametrize("side", HANDS)
def test_every_link_of_the_hand_has_query_points(side):
    hand = load_hand(side)
    query = robot_query_points(hand, SPACING)
    assert set(query.body) == set(
        range(1, 17)
    )  # the palm is asked the other way round, by the object's corners
    for index, body in list(enumerate(hand.bodies))[1:]:
        on = query.body == index
        nearest = np.min(
            [np.abs(signed_distance(s, query.p_BQ[on]) + query.radius[on]) for s in body.shapes], axis=0
        )
        np.testing.assert_allclose(nearest, 0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("hand", "links", "bodies"),
    [
        ("right", 2, {3, 4, 7, 8, 11, 12, 15, 16}),  # as in the published code
        ("right", 1, {4, 8, 12, 16}),
        ("right", 4, set(range(1, 17))),
        ("leap_right", 2, {3, 4, 7, 8, 11, 12, 15, 16}),
    ],
)
def test_only_the_outer_links_have_query_points_on_request(hand, links, bodies):
    assert set(robot_query_points(load_hand(hand), SPACING, links).body) == bodies
