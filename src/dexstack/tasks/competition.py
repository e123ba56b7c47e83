"""The in-hand tasks of the Robotic Grasping and Manipulation Competition (RGMC, 2024 and 2025): waypoints
of the object's position (task A) and faces of a cube (task B).

Published rules (https://hangkaiyu.github.io/RGMC_in_hand_manipulation_subtrack.html and the evaluator of
the competition): waypoints lie within 25 mm of the start along each axis, and 20 s are given for each; the
distance at the end of each is summed. A face counts if its normal is within 0.5 rad of the direction to the
camera when its 30 s end or the controller says so. Sequences are known beforehand (A1, B1) or not (A2, B2).

Own interpretation: the object begins at rest on the palm instead of in a grasp, so that waypoints lie in
the plane unless ``height`` is set; a goal ends early when the object was within the tolerance for ``hold``,
where the competition lets the controller decide; waypoints are within tolerance at 5 mm; the camera looks
down; sequences are drawn, the known ones always alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dexstack.config import param
from dexstack.geometry.rotations import quaternion_product, rotation_matrix
from dexstack.tasks.base import Goal, JudgeParams, Outcome
from dexstack.tasks.palm_turn import PalmTurn
from dexstack.tasks.reorient import Reorient, ReorientParams

KNOWN, UNKNOWN = "known", "unknown"
ORDERS = {KNOWN: "the same sequence in every trial", UNKNOWN: "another sequence in every trial"}
UP = np.array([0.0, 0.0, 1.0])
NORMALS_O = {
    name: sign * axis
    for name, axis, sign in zip("ABCDEF", np.tile(np.eye(3), (2, 1)), [1] * 3 + [-1] * 3, strict=True)
}
"""Outward normals of the cube's faces in its frame."""


@dataclass(frozen=True)
class PositionParams(JudgeParams):
    """Parameters of the task."""

    tolerance: float = param(
        3.2, "orientation error below which a waypoint counts as reached [rad]", 1e-3, 3.2
    )
    position_tolerance: float = param(
        0.005, "position error below which a waypoint counts as reached [m]", 1e-4, 1e6
    )
    order: str = param(UNKNOWN, "sequence of waypoints", choices=ORDERS)
    count: int = param(5, "number of waypoints", 1, 1000)
    limit: float = param(20.0, "time for each waypoint [s]", 0.1, 1e4)
    reach: float = param(
        0.025, "largest distance of the waypoints from the start along x and y [m]", 0.0, 0.1
    )
    height: float = param(0.0, "largest height of the waypoints above the start [m]", 0.0, 0.1)


class Positions(PalmTurn):
    """Move the object to one position after another, at its initial orientation: task A.

    The cost is that of :class:`~dexstack.tasks.palm_turn.PalmTurn`. A trial succeeds if every waypoint
    is reached in time.
    """

    name = "positions"
    Params = PositionParams
    opening_yaw = None
    required_rate = 0.0

    @property
    def goal_seconds(self) -> float:
        return self.params.limit

    def goals(self, k: int, seed: int) -> Iterator[Goal]:
        p = self.params
        rng = _generator(p.order, k, seed)
        start = self.start().pose_WO
        for number in range(1, p.count + 1):
            offset = rng.uniform([-p.reach, -p.reach, 0.0], [p.reach, p.reach, p.height])
            yield Goal(np.concatenate([start[:3] + offset, start[3:]]), f"waypoint {number}")

    def at_pose(self, pose_WO: np.ndarray) -> Goal:
        return Goal(np.array(pose_WO), "waypoint")

    def seconds(self) -> float:
        return self.params.count * self.params.limit

    def succeeded(self, outcome: Outcome) -> bool:
        return not outcome.dropped and len(outcome.reached_at) >= self.params.count


@dataclass(frozen=True)
class FaceParams(ReorientParams):
    """Parameters of the task."""

    tolerance: float = param(
        0.5, "angle of a face's normal to the vertical below which it counts [rad]", 1e-3, 3.2
    )
    hold: float = param(0.3, "time for which it must hold [s]", 0.0, 60.0)
    order: str = param(UNKNOWN, "sequence of faces", choices=ORDERS)
    cap: int = param(9, "number of faces", 1, 1000)
    patience: float = param(30.0, "time for each face [s]", 0.1, 1e4)


class Faces(Reorient):
    """Turn the faces of a cube up, one after another: task B.

    The cost is that of :class:`~dexstack.tasks.reorient.Reorient` towards the nearest orientation with the
    face up. A trial succeeds if every face is reached in time.
    """

    name = "faces"
    Params = FaceParams

    @property
    def goal_seconds(self) -> float:
        return self.params.patience

    def goals(self, k: int, seed: int) -> Iterator[Goal]:
        rng = _generator(self.params.order, k, seed)
        quat = self.start().pose_WO[3:]
        for _ in range(self.params.cap):
            up = max(NORMALS_O, key=lambda name, q=quat: float(rotation_matrix(q)[2] @ NORMALS_O[name]))
            name = rng.choice([face for face in NORMALS_O if face != up])
            quat = _with_up(quat, NORMALS_O[name])
            yield self.at(quat, f"face {name}")

    def nearest(self, pose_WO: np.ndarray, goal_WO: np.ndarray) -> np.ndarray:
        """Return the pose (7,) that requires the smallest turn among those with the goal's face up."""
        return np.concatenate([goal_WO[:3], _with_up(pose_WO[3:], _up_O(goal_WO))])

    def orientation_error(self, pose_WO: np.ndarray, goal: Goal) -> float:
        """Return the angle of the goal's face to the vertical [rad]."""
        return float(np.arccos(np.clip(rotation_matrix(pose_WO[3:])[2] @ _up_O(goal.pose_WO), -1.0, 1.0)))

    def over(self, reached_at: Sequence[float], t: float) -> bool:
        return False

    def figures(self, outcomes: Sequence[Outcome]) -> dict[str, Any]:
        """Return the mean number of faces reached."""
        return {"faces": float(np.mean([len(o.reached_at) for o in outcomes]))}


def _generator(order: str, k: int, seed: int) -> np.random.Generator:
    return np.random.default_rng(0 if order == KNOWN else (seed, k))


def _up_O(pose_WO: np.ndarray) -> np.ndarray:
    """Return the vertical (3,) in the object's frame."""
    return rotation_matrix(pose_WO[3:])[2]


def _with_up(quat: np.ndarray, normal_O: np.ndarray) -> np.ndarray:
    """Return the orientation (4,) nearest to ``quat`` (4,) with a direction of the object up."""
    n = rotation_matrix(quat) @ normal_O
    axis = np.cross(n, UP)
    if np.linalg.norm(axis) < 1e-9:  # a half turn about any horizontal axis, or none
        turn = np.array([1.0, 0.0, 0.0, 0.0]) if n[2] > 0.0 else np.array([0.0, 1.0, 0.0, 0.0])
    else:
        turn = np.array([1.0 + n[2], *axis])
    turned = quaternion_product(turn / np.linalg.norm(turn), quat)
    return turned / np.linalg.norm(turned)
