"""Whether a hand is strong enough to turn an object on its palm.

An object of weight m g rubs on the palm: at worst at its rim, so that a moment μ m g R turns it
about the vertical. Two fingers turn it with the forces F₁ R + F₂ R. So m is at most (F₁ + F₂)/(μ
g), whatever the size.
"""

from __future__ import annotations

import numpy as np

from dexstack.errors import ConfigError
from dexstack.model.hand import HandModel
from dexstack.model.objects import ObjectModel

GRAVITY = 9.81


def finger_forces(hand: HandModel) -> np.ndarray:
    """(fingers,) force with which each fingertip pushes across the stretched finger [N]: the
    weakest joint's torque over its lever.

    A joint that others follow bends the finger in several places: its levers add up, each times its
    ratio.
    """
    forces = []
    for tip in hand.fingertips:
        levers, lever, at = np.zeros(len(hand.effort)), float(np.linalg.norm(tip.p_BT)), tip.body
        while (body := hand.bodies[at]).joint is not None:
            levers[body.joint] += abs(body.ratio) * lever
            lever, at = lever + float(np.linalg.norm(body.p_PB)), body.parent
        used = levers > 0.0
        forces.append(float(np.min(hand.effort[used] / np.maximum(levers[used], 1e-6))))
    return np.array(forces)


def heaviest(hand: HandModel, obj: ObjectModel) -> float:
    """The largest mass of an object with this one's friction that the hand turns [kg]."""
    friction = max(hand.friction_palm, float(obj.friction[0]))
    return float(np.sort(finger_forces(hand))[-2:].sum() / (max(friction, 1e-6) * GRAVITY))


def check_weight(hand: HandModel, obj: ObjectModel) -> None:
    """Refuse what the hand cannot turn.

    Raises:
        ConfigError: the object is too heavy to be turned.
    """
    limit = heaviest(hand, obj)
    if obj.mass > limit:
        who = f"the object '{obj.name}' is too heavy for the hand '{hand.name}'"
        raise ConfigError(f"{who}: {obj.mass:.3g} kg, and its fingers turn {limit:.2g} kg at most")
