"""Gravity torques of the hand, for the servo law that compensates them."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from dexstack.model.hand import HandModel
from dexstack.model.scene import JointLayout, build_scene


class GravityCompensation:
    """Joint torques tau_g(q) that hold the hand still against gravity, with the palm as mounted.

    The result of a call is valid until the next call, since the servo loop allocates nothing.

    Args:
        hand: the hand.
        acceleration: gravity (3,) in the hand's world [m/s²]; None: the hand's.
    """

    def __init__(self, hand: HandModel, acceleration: Sequence[float] | np.ndarray | None = None) -> None:
        self._model = build_scene(hand, None, camera=False).compile()
        self._data = mujoco.MjData(self._model)
        self._layout = JointLayout(self._model)
        self._tau = np.zeros(self._model.nv)
        if acceleration is not None:
            self.acceleration = acceleration

    @property
    def acceleration(self) -> np.ndarray:
        """Gravity (3,) in the hand's world, in which the palm is fixed [m/s²]; may be set at any time."""
        return self._model.opt.gravity.copy()

    @acceleration.setter
    def acceleration(self, value: Sequence[float] | np.ndarray) -> None:
        self._model.opt.gravity[:] = value

    def __call__(self, q: np.ndarray) -> np.ndarray:
        """Return tau_g (N,) [N m] at the joint angles ``q`` (N,) [rad].

        Velocity and acceleration are zero, so that the inverse dynamics is the gravity term alone.
        """
        self._data.qpos[:] = self._layout.coordinates(q)
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_comPos(self._model, self._data)
        mujoco.mj_rne(self._model, self._data, 0, self._tau)
        return self._layout.forces(self._tau)
