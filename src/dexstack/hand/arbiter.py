"""Arbitration between several publishers of joint commands."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

REMEMBERED = 1.0
"""Time for which a refused publisher is reported [s]."""


def rank(name: str, owners: Sequence[str]) -> int:
    """Return the rank of a publisher's node among ``owners`` in descending priority; 0 for all others."""
    return len(owners) - list(owners).index(name) if name in owners else 0


class Arbiter:
    """Accepts the commands of one publisher at a time, the owner.

    The owner keeps the joints until it sends no command for ``lease``, or until a publisher of a
    higher rank sends one. Commands of all others are refused.

    Args:
        lease: how long a publisher owns the joints after its newest command [s].
    """

    def __init__(self, lease: float) -> None:
        self.lease = lease
        self.owner: Hashable | None = None
        """The publisher whose command was accepted last."""
        self._rank, self._t = 0, -math.inf
        self._refused: dict[Hashable, float] = {}

    def accept(self, publisher: Hashable, rank: int, t: float) -> bool:
        """Return True if the command of a publisher at time ``t`` [s] is to be taken."""
        expired = not abs(t - self._t) <= self.lease  # also where the clock was reset
        if publisher == self.owner or self.owner is None or expired or rank > self._rank:
            self.owner, self._rank, self._t = publisher, rank, t
            self._refused.pop(publisher, None)
            return True
        self._refused[publisher] = t
        return False

    def refused(self, t: float) -> list[Hashable]:
        """Return the publishers whose commands were refused recently, at time ``t`` [s]."""
        self._refused = {p: at for p, at in self._refused.items() if abs(t - at) <= REMEMBERED}
        return list(self._refused)
