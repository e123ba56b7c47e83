"""Motions of the joints given as points in time, and following them.

Between two points each joint follows the cubic with the velocities of both, or a straight line
without velocities, as in the joint trajectory controller of ros2_control. A joint that is not named
keeps its position.
"""

from __future__ import annotations

import enum
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicHermiteSpline, interp1d

from dexstack.config import param
from dexstack.errors import ConfigError
from dexstack.files import whole
from dexstack.model.hand import HandModel

AT_LIMIT = 1e-2
"""Largest distance beyond a joint's limit at which a point is moved to the limit [rad]: joints at
their stops are measured this far beyond it."""
ROUNDING = 1e-6
"""Distance beyond a limit that is rounding [rad]."""
LONGEST, MOST_POINTS = 3600.0, 100_000
"""Largest duration [s] and number of points of a motion."""


@dataclass(frozen=True)
class FollowParams:
    """Tolerances of a motion."""

    path_tolerance: float = param(
        0.3,
        "largest distance of a joint from its target, beyond which the motion fails [rad]",
        1e-3,
        1e3,
    )
    goal_tolerance: float = param(
        0.05, "a motion is done with every joint this near its end [rad] …", 1e-4, 1e3
    )
    goal_time: float = param(1.0, "… within this time after its last point [s]", 0.0, 60.0)


@dataclass(frozen=True)
class Waypoints:
    """Points in time of a motion of the joints.

    Raises:
        ConfigError: inconsistent sizes, non-finite values, times that do not increase, or more than
            :data:`MOST_POINTS` or :data:`LONGEST`.
    """

    names: Sequence[str]
    times: np.ndarray
    """(K,) from the start [s]."""
    positions: np.ndarray
    """(K, J) [rad]"""
    velocities: np.ndarray | None = None
    """(K, J) [rad/s]; None: straight lines."""

    def __post_init__(self) -> None:
        k, j = len(self.times), len(self.names)
        if (
            not k
            or self.positions.shape != (k, j)
            or (self.velocities is not None and self.velocities.shape != (k, j))
        ):
            raise ConfigError(
                "every point of a trajectory needs a time and one position (and velocity) per joint, "
                f"here {j}"
            )
        arrays = [self.times, self.positions, *([] if self.velocities is None else [self.velocities])]
        if not all(np.isfinite(a).all() for a in arrays):
            raise ConfigError("a trajectory must be finite")
        if self.times[0] < 0.0 or (np.diff(self.times) <= 0.0).any():
            raise ConfigError("the times of a trajectory must begin at 0 or later and increase")
        if k > MOST_POINTS or self.times[-1] > LONGEST:
            raise ConfigError(
                f"a trajectory of {k} points and {self.times[-1]:g} s is too long; at most {MOST_POINTS} "
                f"points and {LONGEST:g} s are followed"
            )
        if len(set(self.names)) != j:
            raise ConfigError("a trajectory names a joint twice")


def write_waypoints(file: pathlib.Path, motion: Waypoints) -> None:
    """Write a motion as an archive of its arrays (.npz).

    Raises:
        ConfigError: it cannot be written.
    """
    velocities = {} if motion.velocities is None else {"velocities": motion.velocities}
    with whole(file) as out:
        np.savez_compressed(
            out,
            names=np.array(motion.names),
            times=motion.times,
            positions=motion.positions,
            **velocities,
        )


def read_waypoints(file: pathlib.Path) -> Waypoints:
    """Read a file of :func:`write_waypoints`.

    Raises:
        ConfigError: it cannot be read, or is no valid motion.
    """
    try:
        with np.load(file) as archive:
            velocities = archive["velocities"] if "velocities" in archive.files else None
            return Waypoints(
                [str(name) for name in archive["names"]], archive["times"], archive["positions"], velocities
            )
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"cannot read the motion {file}: {error}") from None


class Path:
    """A motion of one hand from the present position of its joints; called with the time since its
    start [s], returns targets (N,) [rad].

    Args:
        start: targets (N,) at time 0 [rad].

    Raises:
        ConfigError: an unknown joint, a point beyond a joint's limits, or a speed beyond a joint's.
    """

    def __init__(self, hand: HandModel, motion: Waypoints, start: np.ndarray) -> None:
        known = list(hand.joint_names)
        for name in motion.names:
            if name not in known:
                raise ConfigError(f"unknown joint '{name[:40]}' in a trajectory")
        index = [known.index(name) for name in motion.names]
        times, velocities = motion.times, motion.velocities
        positions, self.clamped = self._within_limits(hand, motion, index)
        """Sentence on the points that were moved to a limit; empty without any."""
        if times[0] > 0.0:
            times, positions = np.append(0.0, times), np.vstack([start[index], positions])
            velocities = None if velocities is None else np.vstack([np.zeros(len(index)), velocities])
        self.seconds = float(times[-1])
        self._start, self._index = np.array(start, float), index
        if len(times) == 1:
            self._curve = lambda t: positions[0]
        elif velocities is None:
            self._curve = interp1d(times, positions, axis=0)
            self._check_speed(hand, times, np.diff(positions, axis=0) / np.diff(times)[:, None])
        else:
            self._curve = CubicHermiteSpline(times, positions, velocities)
            self._check_speed(hand, times, _fastest(self._curve))

    @staticmethod
    def _within_limits(hand: HandModel, motion: Waypoints, index: list[int]) -> tuple[np.ndarray, str]:
        """Return the positions (K, J) [rad] within the limits, and which joint was moved to its own."""
        low, high = hand.lower[index], hand.upper[index]
        within = np.clip(motion.positions, low, high)
        beyond = np.abs(motion.positions - within)
        k, j = np.unravel_index(np.argmax(beyond), beyond.shape)
        limits = f"[{low[j]:.3f}, {high[j]:.3f}]"
        position = f"{motion.names[j]} at {motion.positions[k, j]:.3f} rad"
        if beyond[k, j] > AT_LIMIT:
            raise ConfigError(f"point {k} of a trajectory has {position}, beyond its limits {limits}")
        return within, f"{position} was moved to its limits {limits}" if beyond[k, j] > ROUNDING else ""

    def _check_speed(self, hand: HandModel, times: np.ndarray, speed: np.ndarray) -> None:
        """Reject a motion whose fastest speeds (K - 1, J) [rad/s] between points exceed a joint's."""
        limits = hand.velocity[self._index]
        k, j = np.unravel_index(np.argmax(np.abs(speed) / limits), speed.shape)
        if abs(speed[k, j]) > 1.001 * limits[j]:
            name = hand.joint_names[self._index[j]]
            motion = f"{name} at {abs(speed[k, j]):.1f} rad/s after {times[k]:.2f} s"
            raise ConfigError(f"a trajectory moves {motion}, faster than its {limits[j]:.1f}")

    def __call__(self, t: float) -> np.ndarray:
        target = self._start.copy()
        target[self._index] = self._curve(min(max(t, 0.0), self.seconds))
        return target


def _fastest(curve: CubicHermiteSpline) -> np.ndarray:
    """Return the velocity of largest magnitude (K - 1, J) in each interval of a cubic: at one of its
    ends, or at the vertex of the parabola between them."""
    a, b, c = curve.derivative().c
    h = np.diff(curve.x)[:, None]
    vertex = np.clip(-b / np.where(a == 0.0, np.inf, 2.0 * a), 0.0, h)
    found = np.array([c, (a * h + b) * h + c, (a * vertex + b) * vertex + c])
    return np.take_along_axis(found, np.abs(found).argmax(axis=0)[None], axis=0)[0]


class Phase(enum.Enum):
    """Phase of a motion."""

    IDLE = "idle"
    FOLLOWING = "following"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Follower:
    """Follows one motion at a time; a new one continues from the target of the old one. After a
    motion the joints are held: at its last point, or at the position where it failed or was
    cancelled."""

    def __init__(self, hand: HandModel, params: FollowParams) -> None:
        self.params = params
        self._hand = hand
        self.release()
        self.error = 0.0
        """Largest distance of a joint from its target [rad]."""
        self.left = 0.0
        """Time until the last point [s]."""

    def release(self) -> None:
        """Forget motion and target."""
        self.phase, self.why = Phase.IDLE, ""
        self._path: Path | None = None
        self._begin = 0.0
        self._target: np.ndarray | None = None

    def take(self, motion: Waypoints, t: float, q: np.ndarray) -> None:
        """Begin a motion at time ``t`` [s] with the joints at ``q`` (N,) [rad]; an invalid motion
        changes nothing.

        Raises:
            ConfigError: see :class:`Path`.
        """
        start = np.array(q, float) if self._target is None else self._target
        self._path = Path(self._hand, motion, start)
        self._begin, self.phase, self.why, self._target = t, Phase.FOLLOWING, self._path.clamped, start

    def cancel(self, q: np.ndarray) -> None:
        """Stop the motion with the joints at ``q`` (N,) [rad]."""
        if self.phase is Phase.FOLLOWING:
            self._end(Phase.CANCELLED, "cancelled", q)

    def target(self, t: float, q: np.ndarray) -> np.ndarray | None:
        """Return the targets (N,) [rad] at time ``t`` [s] with the joints measured at ``q`` (N,)
        [rad]; None without a motion so far."""
        if self._path is None or self._target is None:
            return self._target
        p, since = self.params, t - self._begin
        self.left = max(0.0, self._path.seconds - since)
        away = np.abs(self._target - q)
        worst = int(np.argmax(away))
        self.error = float(away[worst])
        self._target = self._path(since)
        if self.error > p.path_tolerance:
            self._end(
                Phase.FAILED,
                f"{self._hand.joint_names[worst]} is {self.error:.2f} rad from where it should be",
                q,
            )
        elif since >= self._path.seconds and self.error <= p.goal_tolerance:
            self._end(Phase.DONE, "", self._target)
        elif since > self._path.seconds + p.goal_time:
            self._end(Phase.FAILED, f"{self._hand.joint_names[worst]} ends {self.error:.2f} rad off", q)
        return self._target

    def _end(self, phase: Phase, why: str, at: np.ndarray) -> None:
        self.phase, self.why, self.left = phase, why, 0.0
        self._path, self._target = None, np.array(at, float)
