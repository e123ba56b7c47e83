"""Largest mass that a hand can turn on its palm.

An object on a level palm rubs with its weight m g, in the worst case at its rim, so that turning it
about the vertical takes the moment μ m g R. Two fingers apply F₁ R + F₂ R. Hence m ≤ (F₁ + F₂)/(μ g),
for any size. At another angle the palm bears only g_n, the part of gravity that presses on it, and the
fingers bear the rest while they turn: m ≤ (F₁ + F₂)/(μ g_n + |g − g_n|).
"""

from __future__ import annotations

import numpy as np

from dexstack.errors import ConfigError
from dexstack.model.hand import HandModel
from dexstack.model.objects import ObjectModel


def finger_forces(hand: HandModel) -> np.ndarray:
    """Return the force (fingers,) of each fingertip across the stretched finger [N]: the least of
    all joints' torque limits over their levers.

    A joint that others follow bends the finger in several places: its lever is the sum of theirs,
    each times its ratio.
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
    """Return the largest mass of an object with this one's friction that the hand turns [kg]."""
    friction = max(hand.friction_palm, float(obj.friction[0]))
    pressed = max(-hand.gravity[2], 0.0)
    held = float(np.linalg.norm(np.add(hand.gravity, (0.0, 0.0, pressed))))
    load = max(friction, 1e-6) * pressed + held
    return float(np.sort(finger_forces(hand))[-2:].sum() / load) if load else np.inf


def check_weight(hand: HandModel, obj: ObjectModel) -> None:
    """Reject an object that the hand cannot turn.

    Raises:
        ConfigError: the object is too heavy.
    """
    limit = heaviest(hand, obj)
    if obj.mass > limit:
        raise ConfigError(
            f"the object '{obj.name}' is too heavy for the hand '{hand.name}': {obj.mass:.3g} kg, "
            f"and its fingers turn {limit:.2g} kg at most"
        )
