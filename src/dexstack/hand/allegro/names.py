"""Joint names of the vendor's ROS 2 driver for the Allegro hand."""

from __future__ import annotations

from dexstack.errors import ConfigError
from dexstack.hand.allegro.protocol import FINGERS, JOINTS
from dexstack.model.hand import ALLEGRO, HandModel

PER_FINGER = JOINTS // FINGERS


def vendor_names(hand: HandModel) -> dict[str, str]:
    """Return the vendor's name of every joint by ours: ``ah_joint00`` … ``ah_joint33``, fingers thumb,
    index, middle, ring; ours come in the order index, middle, ring, thumb.

    Raises:
        ConfigError: not an Allegro hand.
    """
    if hand.family != ALLEGRO:
        raise ConfigError(f"the hand '{hand.name}' has no vendor's joint names; only Allegro hands have them")
    return {
        name: f"ah_joint{(j // PER_FINGER + 1) % FINGERS}{j % PER_FINGER}"
        for j, name in enumerate(hand.joint_names)
    }
