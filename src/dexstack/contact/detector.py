"""Contact detection: query points on the robot against the C-SDF of the object, with a fixed number
of slots."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from dexstack.contact.contact import Contacts, empty_contacts
from dexstack.contact.csdf import union_distance_and_normal
from dexstack.contact.params import DetectorParams
from dexstack.contact.query_points import robot_query_points
from dexstack.contact.support import SUPPORT_SLOTS, make_support
from dexstack.geometry.decomposition import plane_sets
from dexstack.model.kinematics import quaternion_matrix
from dexstack.process.compilation import KeptFunction

if TYPE_CHECKING:
    from dexstack.model.objects import ObjectModel
    from dexstack.model.robot import Robot

PER_LINK = 2
"""Largest number of contacts of one link."""


class ContactDetector:
    """Finds the contact set of one object and one robot by a jitted function of object pose and joint
    positions.

    The first slots belong to the base (palm or floor): its nearest contact, then near ones with a small
    preference for those apart from the ones chosen before. The other slots hold the nearest query
    points, at most two of each link. Slots farther than the margin are inactive.
    """

    def __init__(self, robot: Robot, obj: ObjectModel, params: DetectorParams = DetectorParams()) -> None:
        self.params = params
        self.planes = plane_sets(obj.parts, params.num_planes)
        self._tree = robot.kinematics()
        query = robot_query_points(robot, params.spacing, params.outer_links)
        links = [np.flatnonzero(query.body == b) for b in range(1, len(robot.bodies))]
        most = max(len(i) for i in links)
        # One row of queries per link makes "the nearest two of each link" a dense reduction; rows are
        # padded with an index beyond the last query.
        self._of_link = np.array(
            [np.pad(i, (0, most - len(i)), constant_values=len(query.body)) for i in links]
        )
        self._query = query
        self._per_link = min(PER_LINK, most)
        self._support = make_support(robot, obj)
        self._compiled = KeptFunction(self.trace, robot, self.planes, params, self._support)

    def detect(self, pose_WO: np.ndarray, q: np.ndarray) -> Contacts:
        """Return the contacts at object pose (7,) [m, wxyz] and joint positions (N,) [rad, m], as NumPy
        arrays."""
        contacts = self._compiled(np.asarray(pose_WO, np.float32), np.asarray(q, np.float32))
        return Contacts(*(np.asarray(a) for a in contacts))

    def trace(self, pose_WO: jax.Array, q: jax.Array) -> Contacts:
        """Return the same as traced arrays, for use inside a compiled function."""
        const = functools.partial(jnp.asarray, dtype=q.dtype)
        poses = self._tree.poses(q)
        R_WO = quaternion_matrix(pose_WO[3:])
        p_WO = pose_WO[:3]
        planes = (const(self.planes.nhat_B), const(self.planes.offset), self.params.sigma)

        def query(p_WQ: jax.Array) -> tuple[jax.Array, jax.Array]:
            distance, nhat_O = union_distance_and_normal((p_WQ - p_WO[None]) @ R_WO, *planes)
            return distance, nhat_O @ R_WO.T

        # Fingers: the nearest queries of every link by their largest plane distance; only these get
        # the smooth distance.
        body, radius = self._query.body, const(self._query.radius)
        p_WQ = poses.p_WB[body] + jnp.einsum("qij,qj->qi", poses.R_WB[body], const(self._query.p_BQ))
        p_OQ = (p_WQ - p_WO[None]) @ R_WO
        rank = (
            jnp.min(jax.vmap(lambda n, b: jnp.max(p_OQ @ n.T + b[None], axis=-1))(*planes[:2]), axis=0)
            - radius
        )
        rank = jnp.append(rank, 1.0)[self._of_link]
        rows, picks = jnp.arange(rank.shape[0]), []
        for _ in range(self._per_link):
            picks.append(jnp.argmin(rank, axis=1))
            rank = rank.at[rows, picks[-1]].set(2.0)
        pick = jnp.asarray(self._of_link)[rows[:, None], jnp.stack(picks, axis=1)].reshape(-1)
        p_WQ = p_WQ.at[pick].get(mode="clip")
        distance, nhat = query(p_WQ)
        phi = jnp.where(pick < len(body), distance - radius.at[pick].get(mode="clip"), 1.0)
        _, nearest = jax.lax.top_k(-phi, min(self.params.capacity - SUPPORT_SLOTS, phi.size))
        finger = Contacts(
            p_W=(p_WQ - distance[:, None] * nhat)[nearest],
            nhat_W=nhat[nearest],
            phi=phi[nearest],
            link=(1 + nearest // self._per_link).astype(jnp.int32),
            active=phi[nearest] < self.params.margin,
        )
        support = self._support.contacts(
            poses, R_WO, p_WO, query, self.params.footprint_tilt, self.params.margin
        )
        # a robot of few links does not fill all slots
        missing = empty_contacts(self.params.capacity - support.phi.size - finger.phi.size)
        return Contacts(*(jnp.concatenate(three) for three in zip(support, finger, missing, strict=True)))
