"""What was measured in the last moment, in the order of its stamps, and the joint angles at a time
in between."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np


@runtime_checkable
class Stamped(Protocol):
    """A sample with a time."""

    @property
    def t(self) -> float: ...


NEAR = 0.05
"""Joint angles farther than this from a pose in time belong to another [s]."""

S = TypeVar("S", bound=Stamped)


class JointSample(NamedTuple):
    """A value for each joint, in the hand's joint order."""

    t: float
    """Stamp [s]."""
    values: np.ndarray
    """(N,)"""
    limp: bool = False
    """Whether it is said that no joint has any torque: such a hand follows no command."""


def is_limp(effort: Sequence[float]) -> bool:
    """Whether the efforts (N,) of a joint state say that no joint has any torque; none said says
    nothing."""
    return len(effort) > 0 and not any(effort)


class History(Generic[S]):
    """Samples of the last moment, in the order of their stamps.

    Args:
        seconds: older ones against the newest are forgotten [s].
    """

    def __init__(self, seconds: float = 0.5) -> None:
        self._seconds = seconds
        self.samples: deque[S] = deque()

    def add(self, sample: S) -> None:
        """Also forgets what, after a restart, is from the future."""
        samples = self.samples
        while samples and samples[-1].t >= sample.t:
            samples.pop()
        samples.append(sample)
        while samples[0].t < sample.t - self._seconds:
            samples.popleft()

    def around(self, t: float) -> tuple[S, S, float]:
        """The samples before and after ``t`` [s], and where between them it lies; outside, the
        first or the last one twice."""
        samples = self.samples
        after = next((i for i, x in enumerate(samples) if x.t >= t), len(samples))
        if after in (0, len(samples)):
            edge = samples[min(after, len(samples) - 1)]
            return edge, edge, 0.0
        a, b = samples[after - 1], samples[after]
        return a, b, (t - a.t) / (b.t - a.t)


class JointHistory(History[JointSample]):
    """Joint angles of the last moment."""

    def at(self, t: float, timeout: float = NEAR) -> JointSample | None:
        """The joints at ``t`` [s], the angles interpolated; None where the nearest sample is
        farther than ``timeout`` [s]."""
        if not self.samples:
            return None
        a, b, s = self.around(t)
        near = a if s < 0.5 else b
        if abs(near.t - t) > timeout:
            return None
        return JointSample(t, a.values + s * (b.values - a.values), near.limp)
