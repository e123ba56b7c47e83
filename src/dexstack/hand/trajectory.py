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
from dexstack.errors import ConfigError, writing
from dexstack.model.hand import HandModel

AT_LIMIT = 1e-6
"""Tolerance of joint limits for rounding [rad]."""


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
class Motion:
    """Points in time.

    Raises:
        ConfigError: inconsistent sizes, non-finite values or times that do not increase.
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
        if len(set(self.names)) != j:
            raise ConfigError("a trajectory names a joint twice")


def write_motion(file: pathlib.Path, motion: Motion) -> None:
    """Write a motion as an archive of its arrays (.npz).

    Raises:
        ConfigError: it cannot be written.
    """
    velocities = {} if motion.velocities is None else {"velocities": motion.velocities}
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(
            file, names=np.array(motion.names), times=motion.times, positions=motion.positions, **velocities
        )


def read_motion(file: pathlib.Path) -> Motion:
    """Read a file of :func:`write_motion`.

    Raises:
        ConfigError: it cannot be read, or is no valid motion.
    """
    try:
        with np.load(file) as archive:
            velocities = archive["velocities"] if "velocities" in archive.files else None
            return Motion(
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

    def __init__(self, hand: HandModel, motion: Motion, start: np.ndarray) -> None:
        known = list(hand.joint_names)
        for name in motion.names:
            if name not in known:
                raise ConfigError(f"unknown joint '{name[:40]}' in a trajectory")
        index = [known.index(name) for name in motion.names]
        self._check(hand, motion, index)
        times, positions, velocities = motion.times, motion.positions, motion.velocities
        if times[0] > 0.0:
            times, positions = np.append(0.0, times), np.vstack([start[index], positions])
            velocities = None if velocities is None else np.vstack([np.zeros(len(index)), velocities])
        self.seconds = float(times[-1])
        self._start, self._index = np.array(start, float), index
        if len(times) == 1:
            self._curve = lambda t: positions[0]
        else:
            self._curve = (
                interp1d(times, positions, axis=0)
                if velocities is None
                else CubicHermiteSpline(times, positions, velocities)
            )
        self._check_speed(hand)

    @staticmethod
    def _check(hand: HandModel, motion: Motion, index: list[int]) -> None:
        low, high = hand.lower[index] - AT_LIMIT, hand.upper[index] + AT_LIMIT
        beyond = np.argwhere((motion.positions < low) | (motion.positions > high))
        if len(beyond):
            k, j = beyond[0]
            limits = f"[{low[j]:.3f}, {high[j]:.3f}]"
            position = f"{motion.names[j]} at {motion.positions[k, j]:.3f} rad"
            raise ConfigError(f"point {k} of a trajectory has {position}, beyond its limits {limits}")

    def _check_speed(self, hand: HandModel) -> None:
        t = np.linspace(0.0, self.seconds, max(2, int(self.seconds / 0.002)))
        way = np.broadcast_to(self._curve(t), (len(t), len(self._index)))
        speed, limits = np.abs(np.diff(way, axis=0)) / max(t[1] - t[0], 1e-9), hand.velocity[self._index]
        k, j = np.unravel_index(np.argmax(speed / limits), speed.shape)
        if speed[k, j] > 1.001 * limits[j]:
            name = hand.joint_names[self._index[j]]
            motion = f"{name} at {speed[k, j]:.1f} rad/s after {t[k]:.2f} s"
            raise ConfigError(f"a trajectory moves {motion}, faster than its {limits[j]:.1f}")

    def __call__(self, t: float) -> np.ndarray:
        target = self._start.copy()
        target[self._index] = self._curve(min(max(t, 0.0), self.seconds))
        return target


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

    def take(self, motion: Motion, t: float, q: np.ndarray) -> None:
        """Begin a motion at time ``t`` [s] with the joints at ``q`` (N,) [rad]; an invalid motion
        changes nothing.

        Raises:
            ConfigError: see :class:`Path`.
        """
        start = np.array(q, float) if self._target is None else self._target
        self._path = Path(self._hand, motion, start)
        self._begin, self.phase, self.why, self._target = t, Phase.FOLLOWING, "", start

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
