"""How far a plant lets bodies into each other: the same measure for every plant, by the collision
detection of MuJoCo."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dexstack.tasks.base import Scene


SETTLED = 0.5
"""A start may have the object in a fingertip, out of which a plant pushes it first [s]."""


class Overlap:
    """Of an object and its robot, with their true shapes, whatever a plant's contacts are made of;
    links in each other do not count."""

    def __init__(self, scene: Scene) -> None:
        from dexstack.model.scene import OBJECT_BODY
        from dexstack.plants.mujoco import MujocoPlant

        self._plant = MujocoPlant(scene.robot, scene.obj)
        model = self._plant.model
        self._of_object = model.geom_bodyid == model.body(OBJECT_BODY).id

    def deepest_of(self, recording: Mapping[str, np.ndarray]) -> float:
        """The deepest overlap of a trial [m], from :data:`SETTLED` on, or at its end where it is
        shorter."""
        after = min(int(np.searchsorted(recording["t"], SETTLED)), len(recording["t"]) - 1)
        return self.deepest(recording["q"][after:], recording["pose_WO"][after:])

    def deepest(self, q: np.ndarray, pose_WO: np.ndarray) -> float:
        """The deepest overlap [m] among configurations: joints (n, N) [rad or m], object poses (n,
        7) [m, wxyz]; 0 where nothing does."""
        deepest = 0.0
        for joints, pose in zip(q, pose_WO, strict=True):
            self._plant.reset(joints, pose)
            contact = self._plant.scene.data.contact
            of_object = self._of_object[contact.geom].any(axis=1)
            deepest = max(deepest, -float(np.min(contact.dist[of_object], initial=0.0)))
        return deepest
