"""Contact detection: query points on the hand against the C-SDF of the object, a fixed number of slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from dexstack.config import param
from dexstack.contact.contact import Contacts
from dexstack.contact.csdf import distance_and_normal
from dexstack.contact.query_points import hand_query_points
from dexstack.geometry.support_planes import support_planes
from dexstack.model.kinematics import KinematicTree, quaternion_matrix

if TYPE_CHECKING:
    from dexstack.model.hand import HandModel
    from dexstack.model.objects import ObjectModel

PALM_SLOTS = 4
"""Slots kept for the palm, spread over the footprint, so that a resting object stays supported on all sides."""


@dataclass(frozen=True)
class DetectorParams:
    """Parameters of the contact detector."""

    capacity: int = param(12, "number of contact slots, 4 of them reserved for the palm", 6, 36)
    margin: float = param(0.02, "bodies farther apart than this are not in contact [m]", 0.0, 0.1)
    spacing: float = param(0.008, "distance between query points on flat links [m]", 0.001, 0.05)
    num_planes: int = param(96, "support planes of the object", 16, 1024)
    sigma: float = param(20000.0, "sharpness of the C-SDF's smooth maximum [1/m]", 100.0, 1e7)
    footprint_tilt: float = param(0.05, "metres of distance traded for a metre of spread between palm contacts", 0.0, 1.0)


class ContactDetector:
    """Finds the contact set of one object and one hand: a jitted function of (object pose, joint angles).

    Finger slots hold the nearest query points, at most two of each link; palm slots hold the nearest footprint point and then those that
    are near after a small credit for lying apart from the ones chosen before. Slots farther than the margin are inactive.
    """

    def __init__(self, hand: HandModel, obj: ObjectModel, params: DetectorParams = DetectorParams(), dtype: type = np.float32) -> None:
        self.params = params
        self.planes = support_planes(obj.mesh, params.num_planes)
        self._tree = KinematicTree(hand)
        self._dtype = dtype
        query = hand_query_points(hand, params.spacing)
        links = [np.flatnonzero(query.body == b) for b in range(1, len(hand.bodies))]
        most = max(len(i) for i in links)
        # One padded row of queries per link, so that "the nearest two of each link" is a dense reduction.
        padded = np.array([np.resize(i, most) if len(i) else np.zeros(most, int) for i in links])
        valid = np.array([np.arange(most) < len(i) for i in links])
        self._finger = (query.p_BQ[padded], np.where(valid, query.radius[padded], -1.0))
        self._palm_boxes = [shape for shape in hand.bodies[0].shapes if shape.kind == "box"]
        hull = np.asarray(obj.mesh.convex_hull.vertices, float)
        spread = hull[np.unique(np.argmax(_octant_directions() @ hull.T, axis=1))]
        self._footprint_B = 0.9 * np.vstack([spread, np.zeros(3)])
        self._jitted = jax.jit(self._detect)

    def detect(self, pose_WO: np.ndarray, q: np.ndarray) -> Contacts:
        """Contacts at object pose (7,) [m, wxyz] and joint angles (N,) [rad], as numpy arrays."""
        contacts = self._jitted(np.asarray(pose_WO, self._dtype), np.asarray(q, self._dtype))
        return Contacts(*(np.asarray(a) for a in contacts))

    def _detect(self, pose_WO: jax.Array, q: jax.Array) -> Contacts:
        const = lambda a: jnp.asarray(a, q.dtype)  # noqa: E731
        poses = self._tree.poses(q)
        R_WO = quaternion_matrix(pose_WO[3:])
        p_WO = pose_WO[:3]
        planes = (const(self.planes.nhat_B), const(self.planes.offset), self.params.sigma)

        def query(p_WQ: jax.Array) -> tuple[jax.Array, jax.Array]:
            distance, nhat_O = distance_and_normal((p_WQ - p_WO) @ R_WO, *planes)
            return distance, nhat_O @ R_WO.T

        # Fingers: the nearest two queries of every link, ranked by their largest plane distance; the smooth distance only of those.
        p_BQ, radius = const(self._finger[0]), const(self._finger[1])
        p_WQ = poses.p_WB[1:, None, :] + jnp.einsum("bij,bqj->bqi", poses.R_WB[1:], p_BQ)
        rank = jnp.max(((p_WQ - p_WO) @ R_WO) @ planes[0].T + planes[1], axis=-1) - radius
        rank = jnp.where(radius < 0, 1.0, rank)
        first = jnp.argmin(rank, axis=1)
        rows = jnp.arange(rank.shape[0])
        second = jnp.argmin(rank.at[rows, first].set(2.0), axis=1)
        pick = jnp.stack([first, second], axis=1)
        p_WQ = p_WQ[rows[:, None], pick].reshape(-1, 3)
        distance, nhat = query(p_WQ)
        picked_radius = radius[rows[:, None], pick].reshape(-1)
        phi = jnp.where(picked_radius < 0, 1.0, distance - picked_radius)
        _, nearest = jax.lax.top_k(-phi, self.params.capacity - PALM_SLOTS)
        finger = Contacts(
            p_W=(p_WQ - distance[:, None] * nhat)[nearest],
            nhat_W=nhat[nearest],
            phi=phi[nearest],
            link=(1 + nearest // 2).astype(jnp.int32),
            active=phi[nearest] < self.params.margin,
        )
        palm = self._palm(poses, R_WO, p_WO, query)
        return Contacts(*(jnp.concatenate(pair) for pair in zip(palm, finger, strict=True)))

    def _palm(self, poses: object, R_WO: jax.Array, p_WO: jax.Array, query: object) -> Contacts:
        """Palm contacts: the object's extreme points, drawn in by a tenth and brought to the palm's nearest upper face, are queried."""
        const = lambda a: jnp.asarray(a, p_WO.dtype)  # noqa: E731
        p_WF = p_WO + const(self._footprint_B) @ R_WO.T
        reached, moved = [], []
        for box in self._palm_boxes:
            R_WS = poses.R_WB[0] @ const(box.R)
            p_WS = poses.p_WB[0] + poses.R_WB[0] @ const(box.p)
            half = const(box.size)
            p_S = (p_WF - p_WS) @ R_WS
            up_S = R_WS[2]  # the box axis most nearly vertical carries the face that bears the object
            is_bearing = jnp.arange(3) == jnp.argmax(jnp.abs(up_S))
            inside_S = jnp.clip(p_S, -half, half)
            reached.append(p_WS + jnp.where(is_bearing, jnp.sign(up_S) * half, inside_S) @ R_WS.T)
            moved.append(jnp.sum(jnp.where(is_bearing, 0.0, p_S - inside_S) ** 2, axis=1))
        nearest_box = jnp.argmin(jnp.stack(moved), axis=0)
        p_WQ = jnp.take_along_axis(jnp.stack(reached), nearest_box[None, :, None], axis=0)[0]
        distance, nhat = query(p_WQ)
        slots, apart = [], jnp.full(distance.shape, jnp.inf)
        for _ in range(PALM_SLOTS):  # nearest first, then near *and* far from those chosen; a chosen one has apart = 0
            choice = jnp.argmin(distance - self.params.footprint_tilt * apart if slots else distance)
            slots.append(choice)
            apart = jnp.minimum(apart, jnp.linalg.norm(p_WQ - p_WQ[choice], axis=1))
        slot = jnp.stack(slots)
        earlier = np.tri(PALM_SLOTS, k=-1, dtype=bool)
        duplicate = jnp.any((slot[:, None] == slot[None, :]) & earlier, axis=1)
        return Contacts(
            p_W=(p_WQ - distance[:, None] * nhat)[slot],
            nhat_W=nhat[slot],
            phi=distance[slot],
            link=jnp.zeros(PALM_SLOTS, jnp.int32),
            active=(distance[slot] < self.params.margin) & ~duplicate,
        )


def _octant_directions() -> np.ndarray:
    """The 26 directions of a cube's faces, edges and corners."""
    grid = np.stack(np.meshgrid(*[[-1, 0, 1]] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    grid = grid[np.any(grid != 0, axis=1)]
    return grid / np.linalg.norm(grid, axis=1, keepdims=True)
