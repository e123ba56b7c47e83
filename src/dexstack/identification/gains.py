"""Gains of the servo with which a hand answers a policy as the simulator of its training did."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dexstack.control.policies.mapping import PolicyMapping
from dexstack.errors import ConfigError
from dexstack.tasks.base import World


class Gains(NamedTuple):
    """Gains of this hand's servo."""

    kp: float
    """[N·m/rad]"""
    kd: float
    """[N·m·s/rad]"""
    excess: float
    """Damping that is left over where the hand has more than the simulator, because ``kd`` is not
    negative; mean of the joints [N·m·s/rad]."""


def require_gains(mapping: PolicyMapping) -> None:
    """Check that a mapping has the gains of the policy's simulator.

    Raises:
        ConfigError: it has none.
    """
    if mapping.kp <= 0.0:
        raise ConfigError("the mapping does not have 'kp' and 'kd', the gains in the policy's simulator")


def matching_gains(mapping: PolicyMapping, damping: np.ndarray, world: World) -> Gains:
    """Return the gains that make a hand's joints move as those of a policy's simulator.

    With motors that apply the share f of a torque and joints of damping d, a joint obeys

        I q̈ + (d + f kd) q̇ + f kp q = f kp q_des + …,

    and there the same with f = 1 and that simulator's d, kp and kd. The inertia I is taken as the same;
    dry friction and delay have no counterpart in gains.

    Args:
        mapping: with the gains ``kp``, ``kd`` and ``joint_damping`` of that simulator.
        damping: of the joints in the model of this hand (N,) [N·m·s/rad].
        world: identified; its ``torque`` is f, its ``joint_damping`` a factor on ``damping``.

    Raises:
        ConfigError: the mapping has no gains.
    """
    require_gains(mapping)
    there = np.full_like(damping, mapping.joint_damping) if mapping.joint_damping else damping
    wanted = float(np.mean(mapping.kd + there - world.joint_damping * damping)) / world.torque
    return Gains(mapping.kp / world.torque, max(wanted, 0.0), max(-wanted * world.torque, 0.0))
