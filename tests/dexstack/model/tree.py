"""Poses of a hand's bodies: by the definition of its tree, independently of the tested code, and by
MuJoCo."""

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from dexstack.model.hand import HandModel


def body_poses(hand: HandModel, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return R_PB (B, 3, 3) and p_PB (B, 3) [m] in the palm frame."""
    R, p = [np.eye(3)], [np.zeros(3)]
    for body in hand.bodies[1:]:
        turn = Rotation.from_rotvec(body.axis * q[body.joint]).as_matrix()
        p.append(p[body.parent] + R[body.parent] @ body.p_PB)
        R.append(R[body.parent] @ body.R_PB_at_zero @ turn)
    return np.array(R), np.array(p)


def random_angles(hand: HandModel, count: int = 20) -> np.ndarray:
    """Return joint angles (count, N) within the limits."""
    return np.random.default_rng(0).uniform(hand.lower, hand.upper, (count, len(hand.lower)))


def at(model: mujoco.MjModel, q: np.ndarray, pose_WO: np.ndarray | None = None) -> mujoco.MjData:
    """Return MuJoCo's state with joints at ``q`` and the object at a pose."""
    data = mujoco.MjData(model)
    data.qpos[: len(q)] = q
    if pose_WO is not None:
        data.qpos[len(q) :] = pose_WO
    mujoco.mj_forward(model, data)
    return data
