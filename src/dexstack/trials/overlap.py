"""Overlap of object and robot in a recorded trial, measured alike for every plant by MuJoCo's
collision detection."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dexstack.model.scene import OBJECT_BODY
from dexstack.plants.mujoco import MujocoPlant
from dexstack.tasks.base import Setup

SETTLED = 0.5
"""Overlaps count from this time on [s]: at the start the object may be inside a fingertip, out of
which a plant pushes it first."""


class Overlap:
    """Overlap of an object with its robot, from their own collision shapes whatever a plant's
    contacts are made of; links inside each other do not count."""

    def __init__(self, setup: Setup) -> None:
        self.plant = MujocoPlant(setup.robot, setup.obj)
        model = self.plant.model
        self._of_object = model.geom_bodyid == model.body(OBJECT_BODY).id

    def depths_of(self, recording: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the overlap at every sample (K,) of a trial [m] from :data:`SETTLED` on, or at its
        end where it is shorter."""
        after = min(int(np.searchsorted(recording["t"], SETTLED)), len(recording["t"]) - 1)
        return self.depths(recording["q"][after:], recording["pose_WO"][after:])

    def depths(self, q: np.ndarray, pose_WO: np.ndarray) -> np.ndarray:
        """Return the overlap (n,) [m] of every configuration, 0 without any.

        Args:
            q: (n, N) joint positions [rad or m].
            pose_WO: (n, 7) object poses [m, wxyz].
        """
        found = np.zeros(len(q))
        for k, (joints, pose) in enumerate(zip(q, pose_WO, strict=True)):
            if np.isfinite(pose).all():
                self.plant.reset(joints, pose)
                contact = self.plant.scene.data.contact
                of_object = self._of_object[contact.geom].any(axis=1)
                found[k] = -float(np.min(contact.dist[of_object], initial=0.0))
        return found
