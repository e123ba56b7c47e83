"""Query points on the robot at which the C-SDF of the object is evaluated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from dexstack.model.robot import Robot
    from dexstack.model.urdf import Shape


class QueryPoints(NamedTuple):
    """Query spheres fixed to the bodies of a robot: a sphere of radius r with its centre at distance d
    is d − r away from the object.

    Spheres along the axis cover rounded links (capsules, spheres) exactly; points (r = 0) on the faces
    cover flat ones.
    """

    p_BQ: np.ndarray
    """(Q, 3) centres in the body frame [m]."""
    radius: np.ndarray
    """(Q,) [m]."""
    body: np.ndarray
    """(Q,) body index, at least 1; 0 is the base."""


def _axis_points(half_length: float, spacing: float) -> np.ndarray:
    n = max(2, int(np.ceil(2 * half_length / spacing)) + 1)
    z = np.linspace(-half_length, half_length, n)
    return np.column_stack([np.zeros((n, 2)), z])


def _box_points(half: np.ndarray, spacing: float) -> np.ndarray:
    axes = [np.linspace(-h, h, max(2, int(np.ceil(2 * h / spacing)) + 1)) for h in half]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    return grid[np.any(np.isclose(np.abs(grid), half), axis=1)]


def _cylinder_points(radius: float, half_length: float, spacing: float) -> np.ndarray:
    n = max(8, int(np.ceil(2 * np.pi * radius / spacing)))
    angle = 2 * np.pi * np.arange(n) / n
    z = _axis_points(half_length, spacing)[:, 2]
    return np.array([[radius * np.cos(a), radius * np.sin(a), h] for h in z for a in angle])


_POINTS: Mapping[str, Callable[[np.ndarray, float], tuple[np.ndarray, float]]] = {
    "sphere": lambda size, spacing: (np.zeros((1, 3)), size[0]),
    "capsule": lambda size, spacing: (_axis_points(size[1], spacing), size[0]),
    "box": lambda size, spacing: (_box_points(np.asarray(size, float), spacing), 0.0),
    "cylinder": lambda size, spacing: (_cylinder_points(*size, spacing), 0.0),
    "plane": lambda size, spacing: (np.zeros((0, 3)), 0.0),  # only bears, see dexstack.contact.support
}
"""Query points (n, 3) in a shape's own frame and their radius [m], by its kind."""


def shape_points(shape: Shape, spacing: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the query spheres of a collision shape in its body's frame: centres (n, 3) and radii (n,)
    [m]."""
    points, radius = _POINTS[shape.kind](shape.size, spacing)
    return points @ np.asarray(shape.R).T + np.asarray(shape.p), np.full(len(points), radius)


def robot_query_points(robot: Robot, spacing: float, outer_links: int = 0) -> QueryPoints:
    """Return query points on every collision shape of the moving bodies, ``spacing`` [m] apart.

    Args:
        outer_links: leave out bodies that carry a chain of this many or more others; 0: leave out none.
    """
    carried = _carried(robot)
    centres, radii, bodies = [], [], []
    for index, body in enumerate(robot.bodies):
        if index == 0 or 0 < outer_links <= carried[index]:
            continue  # the base, see dexstack.contact.support, or an inner link
        for shape in body.shapes:
            points, radius = shape_points(shape, spacing)
            centres.append(points)
            radii.append(radius)
            bodies.append(np.full(len(points), index))
    return QueryPoints(
        np.concatenate(centres), np.concatenate(radii), np.concatenate(bodies).astype(np.int32)
    )


def _carried(robot: Robot) -> np.ndarray:
    """Return for each body (B,) the number of bodies in the longest chain that it carries."""
    carried = np.zeros(len(robot.bodies), int)
    for index in range(len(robot.bodies) - 1, 0, -1):  # parents come before their children
        parent = robot.bodies[index].parent
        carried[parent] = max(carried[parent], carried[index] + 1)
    return carried
