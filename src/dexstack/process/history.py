"""Recent samples in the order of their stamps, and interpolation of joint angles between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np


@runtime_checkable
class Stamped(Protocol):
    """A sample with a time stamp [s]."""

    @property
    def t(self) -> float: ...


NEAR = 0.05
"""Largest time between a pose and the joint angles that belong to it [s]."""

S = TypeVar("S", bound=Stamped)


class JointSample(NamedTuple):
    """Values of all joints, in the hand's joint order."""

    t: float
    """Stamp [s]."""
    values: np.ndarray
    """(N,)"""
    limp: bool = False
    """True if no joint has torque, so that the hand follows no command."""


def is_limp(effort: Sequence[float]) -> bool:
    """Return whether the efforts (N,) of a joint state are all zero; False without efforts."""
    return len(effort) > 0 and not any(effort)


class History(Generic[S]):
    """Recent samples in the order of their stamps.

    Args:
        seconds: age, relative to the newest sample, beyond which samples are dropped [s].
    """

    def __init__(self, seconds: float = 0.5) -> None:
        self._seconds = seconds
        self.samples: deque[S] = deque()

    def add(self, sample: S) -> None:
        """Append a sample; drop old ones, and those with later stamps (from before a restart)."""
        samples = self.samples
        while samples and samples[-1].t >= sample.t:
            samples.pop()
        samples.append(sample)
        while samples[0].t < sample.t - self._seconds:
            samples.popleft()

    def around(self, t: float) -> tuple[S, S, float]:
        """Return the samples before and after ``t`` [s] and the fraction between them; outside the
        history, its first or last sample twice."""
        samples = self.samples
        after = next((i for i, x in enumerate(samples) if x.t >= t), len(samples))
        if after in (0, len(samples)):
            edge = samples[min(after, len(samples) - 1)]
            return edge, edge, 0.0
        a, b = samples[after - 1], samples[after]
        return a, b, (t - a.t) / (b.t - a.t)


class JointHistory(History[JointSample]):
    """Recent joint angles."""

    def at(self, t: float, timeout: float = NEAR) -> JointSample | None:
        """Interpolate the joints at ``t`` [s]; None if the nearest sample is more than ``timeout``
        [s] away."""
        if not self.samples:
            return None
        a, b, s = self.around(t)
        near = a if s < 0.5 else b
        if abs(near.t - t) > timeout:
            return None
        return JointSample(t, a.values + s * (b.values - a.values), near.limp)
