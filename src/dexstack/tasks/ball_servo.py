"""Position control of balls, the counterpart of a hand's joint servo: f = k_p (p_des − p) + m g.

The damping −d v acts in the plant, as the passive joint damping of a hand does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dexstack.config import param
from dexstack.model.balls import BallsModel


@dataclass(frozen=True)
class BallServoParams:
    """Parameters of the servo."""

    kp: float = param(50.0, "stiffness of a ball's position control [N/m]", 0.1, 1000.0)
    period: float = param(0.002, "time between two feedbacks [s]", 0.001, 0.1)


class BallServoOutput(NamedTuple):
    """Result of one feedback."""

    tau: np.ndarray
    """(N,) forces [N]."""


class BallServo:
    """Servo of a robot of balls; see :class:`dexstack.sim.simulation.Servo`."""

    trip = None
    settling = 0.0
    """Time after which it follows its target at full speed [s]."""

    def __init__(self, balls: BallsModel, params: BallServoParams | None = None) -> None:
        self.params = params or BallServoParams()
        self._weight = balls.weight
        self.reset()

    def reset(self) -> None:
        """Discard the target: the balls then float."""
        self._target: np.ndarray | None = None

    def enable(self) -> None:
        """No-op: balls are always on."""

    def set_command(self, q: np.ndarray, t: float) -> None:
        """Set the target (N,) [m]."""
        self._target = np.array(q, float)

    def step(self, q: np.ndarray, t: float) -> BallServoOutput:
        """Return the forces at the positions (N,) [m]."""
        pull = 0.0 if self._target is None else self.params.kp * (self._target - q)
        return BallServoOutput(self._weight + pull)
