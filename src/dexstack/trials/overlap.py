"""How far a plant lets bodies into each other: the same measure for every plant, by the collision detection of MuJoCo."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dexstack.tasks.base import Scene


class Overlap:
    """Of robot and object of a scene, with their true shapes, whatever a plant's contacts are made of."""

    def __init__(self, scene: Scene) -> None:
        from dexstack.engines.mujoco import MujocoPlant

        self._plant = MujocoPlant(scene.robot, scene.obj)

    def deepest(self, q: np.ndarray, pose_WO: np.ndarray) -> float:
        """The deepest overlap [m] among configurations: joints (n, N) [rad or m], object poses (n, 7) [m, wxyz]; 0 where nothing does."""
        deepest = 0.0
        for joints, pose in zip(q, pose_WO, strict=True):
            self._plant.reset(joints, pose)
            deepest = max(deepest, -float(np.min(self._plant.data.contact.dist, initial=0.0)))
        return deepest
