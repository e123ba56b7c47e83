"""Simulated pose sensors: delay, noise, a drifting clock, and outages; or pictures of a simulated
camera."""

from __future__ import annotations

import collections
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from dexstack.config import param
from dexstack.geometry.rotations import quaternion_product
from dexstack.perception.clock import DeviceClock
from dexstack.perception.se3 import Transform, between

JITTERS = 8.0
"""Largest jitter considered, in standard deviations."""
CLOCK_START = 1000.0
"""Reading of the camera's clock when a trial begins [s]."""
SOURCES = ("errors", "camera")
"""Sources of measured poses."""


class Measured(NamedTuple):
    """A measured object pose."""

    pose_WO: np.ndarray
    """(7,)"""
    deviation: tuple[float, float]
    """Claimed standard deviations of position [m] and rotation [rad]."""


Look = Callable[[float], tuple[np.ndarray, np.ndarray]]
"""True object pose (7,) and joint positions (N,) [rad, m] at a time relative to a picture [s]."""
Measure = Callable[[Look], Measured | None]
"""Measurement of a picture; None if no pose is found in it."""


@dataclass(frozen=True)
class PoseSensor:
    """Errors of the object pose that a controller gets."""

    pose_source: str = param(
        "errors",
        "measured poses: errors (the following), or camera (pictures, by the parameters of the nodes camera "
        "and pose_estimator)",
        choices=SOURCES,
    )
    pose_delay: float = param(
        0.0, "smallest age of object pose and joint angles when the controller gets them [s]", 0.0, 1.0
    )
    pose_jitter: float = param(
        0.0, "further age: standard deviation of the normal variable whose absolute value it is [s]", 0.0, 0.1
    )
    pose_drift: float = param(
        0.0, "rate error of the clock that stamps the poses, positive: fast [ppm]", -1000.0, 1000.0
    )
    pose_outage: float = param(0.0, "length of random outages; 0: none [s]", 0.0, 60.0)
    pose_outage_interval: float = param(
        4.0, "mean time from the end of an outage, or the start, to the next one [s]", 0.01, 1e6
    )
    pose_noise_position: float = param(
        0.0, "standard deviation of each coordinate of the object position [m]", 0.0, 0.1
    )
    pose_noise_rotation: float = param(
        0.0, "standard deviation of each component of the object's rotation vector [rad]", 0.0, 1.0
    )
    pose_noise_time: float = param(
        0.0,
        "time constant with which that noise is correlated; 0: independent in every picture [s]",
        0.0,
        60.0,
    )

    @property
    def deviation(self) -> tuple[float, float]:
        """The standard deviations that it claims: the true ones [m, rad]."""
        return self.pose_noise_position, self.pose_noise_rotation

    def begin(self, period: float, rng: np.random.Generator) -> Measure:
        """Return the measurement of one trial: noisy copies of poses; without noise exact ones, and
        nothing is drawn.

        The noise is a first-order autoregressive process of the stated spread, from its first value on.
        """
        kept = np.exp(-period / self.pose_noise_time) if self.pose_noise_time > 0.0 else 0.0
        errors: list[np.ndarray | None] = [None, None]

        def drawn(k: int) -> np.ndarray:
            error, last = rng.normal(0.0, self.deviation[k], 3), errors[k]
            errors[k] = error if last is None else kept * last + np.sqrt(1.0 - kept * kept) * error
            return errors[k]

        def measure(look: Look) -> Measured:
            measured = np.array(look(0.0)[0])
            if self.pose_noise_position > 0.0:
                measured[:3] += drawn(0)
            if self.pose_noise_rotation > 0.0:
                half = drawn(1) / 2
                angle = np.linalg.norm(half)
                measured[3:] = quaternion_product(
                    measured[3:], np.concatenate([[np.cos(angle)], np.sinc(angle / np.pi) * half])
                )
            return Measured(measured, self.deviation)

        return measure


@runtime_checkable
class Sensor(Protocol):
    """Interface of sensors; see :class:`PoseSensor`."""

    pose_delay: float
    pose_jitter: float
    pose_drift: float
    pose_outage: float
    pose_outage_interval: float

    def begin(self, period: float, rng: np.random.Generator) -> Measure:
        """Return the measurement of one trial.

        Args:
            period: time between two pictures [s].
            rng: source of all that it draws.
        """


class Sample(NamedTuple):
    """One picture, as the controller gets it."""

    pose_WO: np.ndarray
    """(7,) measured pose when the picture was taken."""
    q: np.ndarray
    """(N,) joint positions at its stamp [rad, m]."""
    q_now: np.ndarray
    """(N,) joint positions now; ``q`` itself if the picture is of this moment."""
    exposed: tuple[np.ndarray, np.ndarray]
    """True pose (7,) and joint positions (N,) when the picture was taken, which no controller gets."""
    deviation: tuple[float, float] = (0.0, 0.0)
    """Claimed standard deviations of the pose's position [m] and rotation [rad]."""


class PoseStream:
    """The sensor's samples in one trial.

    A picture is stamped by the camera's clock; its time on the controller's clock is estimated from
    its delay, as for a real camera (see :class:`~dexstack.perception.clock.DeviceClock`). Joint
    positions are measured without delay on the controller's clock.
    """

    def __init__(self, sensor: Sensor, period: float, dt: float, rng: np.random.Generator) -> None:
        """
        Args:
            period: time between two pictures [s].
            dt: time between two calls of :meth:`note` [s].
        """
        self._sensor, self._period, self._dt, self._rng = sensor, period, dt, rng
        self._measure = sensor.begin(period, rng)
        self._clock = DeviceClock(lambda: self._now, lambda: self._now, sensor.pose_delay)
        kept = 2 + round((sensor.pose_delay + sensor.pose_jitter * JITTERS + 2.0 * period) / dt)
        self._noted: collections.deque[tuple[np.ndarray, np.ndarray]] = collections.deque(maxlen=kept)
        self._moment = -1
        self._pictures = 0
        self._out_from = self._next_outage(0.0)
        self._arrival = self._next_arrival()

    @property
    def _now(self) -> float:
        return self._moment * self._dt

    def _at(self, moment: int) -> tuple[np.ndarray, np.ndarray]:
        """Return pose and joint positions of a moment, or of the nearest one in memory."""
        return self._noted[min(max(moment - self._moment - 1, -len(self._noted)), -1)]

    def note(self, pose_WO: np.ndarray, q: np.ndarray) -> None:
        """Add the true state of the next moment."""
        self._noted.append((pose_WO, q))
        self._moment += 1

    def take(self) -> Sample | None:
        """Return the sample that arrives now, or None."""
        if self._now < self._arrival - 1e-9:
            return None
        taken = int(np.ceil(self._pictures * self._period / self._dt - 1e-6)) - round(
            self._sensor.pose_delay / self._dt
        )
        self._pictures += 1
        self._arrival = max(self._arrival, self._next_arrival())
        t = taken * self._dt
        if t > self._out_from + self._sensor.pose_outage:
            self._out_from = self._next_outage(t)
        if self._out_from <= t:
            return None
        stamp = self._clock.system_time(CLOCK_START + t * (1.0 + 1e-6 * self._sensor.pose_drift))
        found = self._measure(lambda later: self._state_at(t + later))
        if found is None:
            return None
        q_then = self._state_at(stamp)[1]
        return Sample(found.pose_WO, q_then, self._noted[-1][1], self._state_at(t), found.deviation)

    def _next_arrival(self) -> float:
        jitter = self._sensor.pose_jitter
        return self._pictures * self._period + (abs(self._rng.normal(0.0, jitter)) if jitter > 0.0 else 0.0)

    def _next_outage(self, t: float) -> float:
        s = self._sensor
        return t + self._rng.exponential(s.pose_outage_interval) if s.pose_outage > 0.0 else np.inf

    def _state_at(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the interpolated pose (7,) and joint positions (N,) at a time [s], clipped to the times
        known."""
        at = min(max(t / self._dt, 0.0), float(self._moment))
        first = int(at + 1e-6)
        share = at - first
        pose_WO, q = self._at(first)
        if abs(share) < 1e-6:
            return pose_WO, q
        next_WO, next_q = self._at(first + 1)
        X_WO = between(Transform.of_pose(pose_WO), Transform.of_pose(next_WO), share)
        return X_WO.pose, q + share * (next_q - q)
