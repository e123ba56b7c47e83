"""Contacts between the object and the robot's base, spread over the footprint so that the object is
supported on all sides."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from dexstack.contact.contact import Contacts
from dexstack.errors import ConfigError
from dexstack.model.kinematics import BodyPoses

if TYPE_CHECKING:
    from dexstack.model.objects import ObjectModel
    from dexstack.model.robot import Robot
    from dexstack.model.urdf import Shape

SUPPORT_SLOTS = 4
"""Number of slots for the base."""

Query = Callable[[jax.Array], tuple[jax.Array, jax.Array]]
"""Points p_WQ (Q, 3) → distances (Q,) to the object and its outward normals (Q, 3) in the world."""


class Support(abc.ABC):
    """Detects contacts with the base; traced by JAX."""

    @abc.abstractmethod
    def contacts(
        self, poses: BodyPoses, R_WO: jax.Array, p_WO: jax.Array, query: Query, tilt: float, margin: float
    ) -> Contacts:
        """Return SUPPORT_SLOTS contacts.

        Args:
            poses: of the robot's bodies.
            R_WO: (3, 3) orientation of the object.
            p_WO: (3,) position of the object [m].
            query: distances and normals of the object.
            tilt: distance traded for spread [m/m].
            margin: contacts farther than this are inactive [m].
        """


def make_support(robot: Robot, obj: ObjectModel) -> Support:
    """Return the support by the shapes of the robot's base: a plane, or the faces of boxes.

    Raises:
        ConfigError: the base has neither.
    """
    shapes = robot.bodies[0].shapes
    if any(shape.kind == "plane" for shape in shapes):
        return PlaneSupport(next(shape for shape in shapes if shape.kind == "plane"), obj)
    boxes = [shape for shape in shapes if shape.kind == "box"]
    if not boxes:
        raise ConfigError("the base of the robot has no plane or box that could bear an object")
    return BoxSupport(boxes, obj)


class BoxSupport(Support):
    """Queries the object's extreme points, scaled by 0.9 and projected to the nearest upper face of the
    base's boxes."""

    def __init__(self, boxes: list[Shape], obj: ObjectModel) -> None:
        self._boxes = boxes
        hull = obj.hull_vertices
        spread = hull[np.unique(np.argmax(_octant_directions() @ hull.T, axis=1))]
        self._footprint_B = 0.9 * np.vstack([spread, np.zeros(3)])

    def contacts(
        self, poses: BodyPoses, R_WO: jax.Array, p_WO: jax.Array, query: Query, tilt: float, margin: float
    ) -> Contacts:
        const = functools.partial(jnp.asarray, dtype=p_WO.dtype)
        p_WF = p_WO[None] + const(self._footprint_B) @ R_WO.T
        reached, moved = [], []
        for box in self._boxes:
            R_WS = poses.R_WB[0] @ const(box.R)
            p_WS = poses.p_WB[0] + poses.R_WB[0] @ const(box.p)
            half = const(box.size)
            p_S = (p_WF - p_WS[None]) @ R_WS
            up_S = R_WS[2]  # the box axis nearest to the vertical has the bearing face
            is_bearing = jnp.arange(3) == jnp.argmax(jnp.abs(up_S))
            inside_S = jnp.clip(p_S, -half[None], half[None])
            reached.append(p_WS[None] + jnp.where(is_bearing, jnp.sign(up_S) * half, inside_S) @ R_WS.T)
            moved.append(jnp.sum(jnp.where(is_bearing, 0.0, p_S - inside_S) ** 2, axis=1))
        nearest_box = jnp.argmin(jnp.stack(moved), axis=0)
        p_WQ = jnp.take_along_axis(jnp.stack(reached), nearest_box[None, :, None], axis=0)[0]
        distance, nhat = query(p_WQ)
        slot, duplicate = _spread(distance, p_WQ, tilt)
        return Contacts(
            p_W=(p_WQ - distance[:, None] * nhat)[slot],
            nhat_W=nhat[slot],
            phi=distance[slot],
            link=jnp.zeros(SUPPORT_SLOTS, jnp.int32),
            active=(distance[slot] < margin) & ~duplicate,
        )


class PlaneSupport(Support):
    """Corners of the object's hull against a plane fixed in the world, which is exact."""

    def __init__(self, plane: Shape, obj: ObjectModel) -> None:
        self._corners_B = obj.hull_vertices
        self._nhat_W, self._offset = np.asarray(plane.R, float)[:, 2], float(plane.R[:, 2] @ plane.p)

    def contacts(
        self, poses: BodyPoses, R_WO: jax.Array, p_WO: jax.Array, query: Query, tilt: float, margin: float
    ) -> Contacts:
        nhat_W = jnp.asarray(self._nhat_W, p_WO.dtype)
        p_W = p_WO[None] + jnp.asarray(self._corners_B, p_WO.dtype) @ R_WO.T
        distance = p_W @ nhat_W - self._offset
        slot, duplicate = _spread(distance, p_W, tilt)
        return Contacts(
            p_W=p_W[slot],
            nhat_W=jnp.broadcast_to(-nhat_W, (SUPPORT_SLOTS, 3)),
            phi=distance[slot],
            link=jnp.zeros(SUPPORT_SLOTS, jnp.int32),
            active=(distance[slot] < margin) & ~duplicate,
        )


def _spread(distance: jax.Array, p_W: jax.Array, tilt: float) -> tuple[jax.Array, jax.Array]:
    """Return the indices (SUPPORT_SLOTS,) of the nearest point and of near points apart from those
    chosen before, and which of them are duplicates."""
    slots, apart = [], jnp.full(distance.shape, jnp.inf)
    for _ in range(SUPPORT_SLOTS):  # chosen points have apart = 0
        choice = jnp.argmin(distance - tilt * apart if slots else distance)
        slots.append(choice)
        apart = jnp.minimum(apart, jnp.linalg.norm(p_W - p_W[choice][None], axis=1))
    slot = jnp.stack(slots)
    earlier = np.tri(SUPPORT_SLOTS, k=-1, dtype=bool)
    return slot, jnp.any((slot[:, None] == slot[None, :]) & earlier, axis=1)


def _octant_directions() -> np.ndarray:
    """Return the 26 directions (26, 3) of a cube's faces, edges and corners."""
    grid = np.stack(np.meshgrid(*[[-1, 0, 1]] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    grid = grid[np.any(grid != 0, axis=1)]
    return grid / np.linalg.norm(grid, axis=1, keepdims=True)
