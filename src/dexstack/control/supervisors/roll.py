"""Gait for goals in any orientation: the object rolls towards a goal a little ahead of it, and is let go on its nearest face.

A local planner that is shown a goal half a turn away gains nothing from most of what it can do. Here it is shown one ``goal_ahead`` of
where the object is, on the shortest way to the goal, anew at every plan, and as high as the object then just touches its support. Before
the robot lets go, the object is laid on the face that already looks down most. Between two goals the robot keeps its hold.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import ConvexHull

from dexstack.control.base import Observation
from dexstack.control.params import GaitParams
from dexstack.control.supervisors.base import Guarded
from dexstack.control.supervisors.gait import GaitSupervisor
from dexstack.geometry.rotations import quaternion_product, reach_below, rotate, shortest_turn, turned_towards

DOWN = np.array([0.0, 0.0, -1.0])


class RollSupervisor(GaitSupervisor):
    """See the module's docstring."""

    def __init__(self, guarded: Guarded, params: GaitParams) -> None:
        self._corners_O = np.asarray(guarded.scene.obj.hull_vertices, float)
        self._nhat_O = ConvexHull(self._corners_O).equations[:, :3]
        super().__init__(guarded, params)

    def _follow(self, t: float) -> None:
        self._begin(np.inf, t)

    def _for_now(self, observation: Observation, error: float, goal_WO: np.ndarray) -> np.ndarray:
        aim_WO = super()._for_now(observation, error, goal_WO)
        quat = turned_towards(observation.pose_WO[3:], aim_WO[3:], self.params.goal_ahead)
        return np.concatenate([aim_WO[:2], [self._height(quat, goal_WO)], quat])

    def _laid_down(self, pose_WO: np.ndarray, goal_WO: np.ndarray) -> np.ndarray:
        nhat_W = rotate(pose_WO[3:], self._nhat_O)
        quat = quaternion_product(shortest_turn(nhat_W[np.argmin(nhat_W[:, 2])], DOWN), pose_WO[3:])
        return np.concatenate([pose_WO[:2], [self._height(quat, goal_WO)], quat])

    def _height(self, quat: np.ndarray, goal_WO: np.ndarray) -> float:
        """z [m] at which the object, so turned, touches the support that it touches at the goal."""
        return float(goal_WO[2] + reach_below(self._corners_O, quat) - reach_below(self._corners_O, goal_WO[3:]))
