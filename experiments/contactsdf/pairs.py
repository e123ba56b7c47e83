"""Contacts between any two bodies of the setup, including two fingers, by MuJoCo's collision of solid
shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np
from jax import Array
from jaxtyping import Float, Int

from dexstack.contact.contact import GROUND, Contacts
from dexstack.model.objects import ObjectModel
from dexstack.model.scene import OBJECT_BODY, robot_scene

if TYPE_CHECKING:
    from dexstack.model.robot import Robot

OBJECT = -2
"""Link index of the object; the others are those of :class:`~dexstack.contact.contact.Contacts`."""


class PairContacts(NamedTuple):
    """Contacts between two links each, at fixed capacity F: d(phi)/dt = nhat_W · (v_to − v_from) at
    ``p_W``; unused slots are 1 m apart."""

    p_W: Float[Array | np.ndarray, "*K F 3"]
    nhat_W: Float[Array | np.ndarray, "*K F 3"]
    """Unit normal from ``from_link`` to ``to_link``."""
    phi: Float[Array | np.ndarray, "*K F"]
    from_link: Int[Array | np.ndarray, "*K F"]
    to_link: Int[Array | np.ndarray, "*K F"]


def empty_pairs(capacity: int) -> PairContacts:
    """Return a set without contacts: both links are the ground, which does not move."""
    ground = np.full(capacity, GROUND, np.int32)
    nhat = np.tile(np.array([0.0, 0.0, 1.0], np.float32), (capacity, 1))
    return PairContacts(
        np.zeros((capacity, 3), np.float32), nhat, np.ones(capacity, np.float32), ground, ground.copy()
    )


def object_pairs(contacts: Contacts, pairs: PairContacts) -> PairContacts:
    """Return the pairs with those of the object replaced by the contacts of a
    :class:`~dexstack.contact.detector.ContactDetector`."""
    mine = np.where(np.asarray(contacts.active), OBJECT, GROUND).astype(np.int32)
    theirs = np.where(np.asarray(contacts.active), contacts.link, GROUND).astype(np.int32)
    hand = pairs.from_link != OBJECT
    rest = PairContacts(
        pairs.p_W,
        pairs.nhat_W,
        np.where(hand, pairs.phi, np.float32(1)),
        np.where(hand, pairs.from_link, np.int32(GROUND)),
        np.where(hand, pairs.to_link, np.int32(GROUND)),
    )
    first = PairContacts(
        contacts.p_W, contacts.nhat_W, np.where(contacts.active, contacts.phi, np.float32(1)), mine, theirs
    )
    return PairContacts(*(np.concatenate(both) for both in zip(first, rest, strict=True)))


class PairDetector:
    """Finds the nearest pairs of one robot and one object, represented by its convex parts, that are
    closer than ``margin`` [m].

    Without an object it finds pairs of the robot's bodies, except with the ground, which joint limits
    prevent.
    """

    def __init__(
        self, robot: Robot, obj: ObjectModel | None, capacity: int = 40, margin: float = 0.005
    ) -> None:
        self.capacity = capacity
        spec = robot_scene(robot, obj)
        for geom in spec.geoms:
            geom.margin = margin / 2  # MuJoCo adds both margins
        self._model = spec.compile()
        self._data = mujoco.MjData(self._model)
        names = {OBJECT_BODY: OBJECT} | {body.name: i for i, body in enumerate(robot.bodies)}
        self._link = np.array(
            [names.get(self._model.body(b).name, GROUND) for b in self._model.geom_bodyid], np.int32
        )
        if obj is None:
            for geom in np.flatnonzero(self._link == GROUND):
                self._model.geom_contype[geom] = self._model.geom_conaffinity[geom] = 0

    def detect(self, pose_WO: np.ndarray, q: np.ndarray) -> PairContacts:
        """Return the pairs at object pose (7,) and joint positions (N,) [rad, m], nearest first; the
        object is always the ``from_link``. Without an object the pose is ignored."""
        n = len(q)
        self._data.qpos[:n] = q
        self._data.qpos[n:] = pose_WO[: self._model.nq - n]
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_comPos(self._model, self._data)
        mujoco.mj_collision(self._model, self._data)
        found = self._data.contact
        order = np.argsort(found.dist, kind="stable")[: self.capacity]
        k = len(order)
        out = empty_pairs(self.capacity)
        links = self._link[found.geom[order]].reshape(k, 2)
        swapped = links[:, 1] == OBJECT
        links = np.where(swapped[:, None], links[:, ::-1], links)
        out.p_W[:k], out.phi[:k] = found.pos[order], found.dist[order]
        out.nhat_W[:k] = found.frame[order, :3] * np.where(swapped, -1.0, 1.0)[:, None]
        out.from_link[:k], out.to_link[:k] = links.T
        return out
