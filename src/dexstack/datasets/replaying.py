"""Recorded joint targets as a motion, and the joint positions that come of it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dexstack.hand.trajectory import Waypoints
from dexstack.model.hand import HandModel

APPROACH = 2.0
"""Time in which the joints move to the first target [s]."""
FASTEST = 0.95
"""Share of the joints' speed limits that a motion uses."""


def motion_of(recorded: Mapping[str, np.ndarray], hand: HandModel) -> tuple[Waypoints, float]:
    """Return the motion through the targets of a recording, which begins after :data:`APPROACH`, and
    the factor by which it is slower so that no joint is too fast.

    Args:
        recorded: ``t`` (K,) [s] from 0, increasing, ``q_command`` (K, N) [rad].
    """
    t, targets = recorded["t"], np.clip(recorded["q_command"], hand.lower, hand.upper)
    speed = np.abs(np.diff(targets, axis=0)) / np.diff(t)[:, None]
    slower = max(1.0, float((speed / (FASTEST * hand.velocity)).max()))
    return Waypoints(hand.joint_names, APPROACH + slower * t, targets), slower


def compared(
    recorded: Mapping[str, np.ndarray], replayed: Mapping[str, np.ndarray], motion: Waypoints, slower: float
) -> dict[str, float]:
    """Return the differences of joint positions between a recording and its replay [rad]: mean, max,
    and at the end the largest.

    The replay's clock is that at which its targets follow the motion best.

    Args:
        replayed: ``t``, ``q``, ``q_command``, ``t_command`` of the replay, see
            :func:`dexstack.bags.samples.read_samples`.
    """
    known = np.isfinite(replayed["q_command"]).all(axis=1)
    stamps, commands = replayed["t_command"][known], replayed["q_command"][known]

    def target(s: np.ndarray) -> np.ndarray:
        return _interpolated(s, motion.times, motion.positions)

    def misfit(begin: float) -> float:
        inside = stamps > begin + APPROACH
        return (
            float(np.abs(target(stamps[inside] - begin) - commands[inside]).mean())
            if inside.any()
            else np.inf
        )

    ends = stamps[-1] - motion.times[-1]
    begin = min(np.arange(ends - 2.0, ends + 0.01, 0.01), key=misfit)
    s = (replayed["t"] - begin - APPROACH) / slower
    during = (s >= 0.0) & (s <= recorded["t"][-1])
    away = np.abs(_interpolated(s[during], recorded["t"], recorded["q"]) - replayed["q"][during])
    return {"mean": float(away.mean()), "max": float(away.max()), "end": float(away[-1].max())}


def _interpolated(s: np.ndarray, times: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return values (K, N) at ``times`` (K,) interpolated at ``s`` (M,)."""
    return np.stack([np.interp(s, times, column) for column in values.T], axis=1)
