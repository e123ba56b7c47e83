"""A driver in front of an emulated Allegro hand in simulated time."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dexstack.hand.allegro.can_hand import CanHand
from dexstack.hand.emulated.allegro import EmulatedHand
from dexstack.hand.emulated.lockstep import LockstepComputer
from dexstack.hand.emulated.plant import HandPlant
from dexstack.hand.params import BusParams, CanHandParams, EmulatedHandParams, FaultParams
from dexstack.hand.servo import ServoLaw, ServoParams
from dexstack.hand.watch import WatchParams
from dexstack.model.gravity import GravityCompensation
from dexstack.model.hand import load_hand
from tests.dexstack.hand.emulated import BACK, HAND, PUSH, SERVO
from tests.dexstack.hand.stepped import IN_SIMULATED_TIME, PERIOD, REAL, Stepped

WITHIN = 0.1
"""How soon a hand with a fault must be limp [s]."""


def computer(
    side: str = "right", plant: Any = None, emulated: dict[str, Any] | None = None, **faults: Any
) -> LockstepComputer:
    """A computer with an emulated hand of which ``faults`` are wrong."""
    hand, model = EmulatedHand(side, EmulatedHandParams(**(emulated or {}))), load_hand(side)
    hand.faults = FaultParams(**faults)
    return LockstepComputer(hand, plant or HandPlant(model, REAL))


class Driven(Stepped):
    """A driver of a computer with an emulated hand; it knows where its targets were."""

    target = PUSH
    back = BACK

    def __init__(
        self,
        on: LockstepComputer,
        servo: ServoParams = SERVO,
        watch: WatchParams | None = None,
        gravity: Any = None,
        side: str = "",
        **params: Any,
    ) -> None:
        side = side or ("left" if on.hand.left else "right")
        settings = CanHandParams(**{**IN_SIMULATED_TIME, **params})
        link = CanHand(side, BusParams("virtual", "wired"), settings, on)
        model = load_hand(side)
        gravity = gravity or GravityCompensation(model)
        super().__init__(on, link, ServoLaw(model, servo, gravity, watch))
        self.low = self.high = on.plant.joint_position.copy()

    def follow(self, targets: Callable[[float], np.ndarray], seconds: float) -> bool:
        """Command ``targets(t)`` (16,) [rad] at every turn; True as soon as there is a fault."""
        end = self.on.t + seconds
        while self.on.t < end - 1e-9 and self.fault is None:
            target = np.clip(targets(self.on.t), HAND.lower, HAND.upper)
            self.low, self.high = np.minimum(self.low, target), np.maximum(self.high, target)
            self.command(target)
            self.run(PERIOD)
        return self.fault is not None

    @property
    def excursion(self) -> float:
        """How far any joint left the span of its start and its targets [rad]."""
        q = np.array(self.travelled)
        return float(max((self.low - q.min(axis=0)).max(), (q.max(axis=0) - self.high).max()))

    def limp_within(self, start: float, seconds: float = WITHIN) -> None:
        """The motors must lose their torque at most ``seconds`` after ``start``."""
        self.run(start + 2.0 - self.on.t, lambda: self.on.set()["limp"])
        state = self.on.set()
        assert state["limp"] and state["limp_since"] - start <= seconds, (
            f"limp after {state['limp_since'] or np.inf - start:.3f} s"
        )
