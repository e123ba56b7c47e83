"""Turning an object on the palm on and on: each goal lies one turn further than the last, as on the hardware, where nobody resets."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dexstack.tasks.palm_turn import AllegroTask


@dataclass(frozen=True)
class ContinuousTask(AllegroTask):
    """One sub-goal of a continuous rotation; when it is reached the next one follows, and the fingers go back to their start first."""

    turn: float = 0.0
    """From one sub-goal to the next [rad]."""

    def following(self) -> ContinuousTask:
        """The next sub-goal."""
        return replace(self, goal_yaw=self.goal_yaw + self.turn)
