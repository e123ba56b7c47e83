"""Recorded targets as a motion, and its comparison with the recording."""

import numpy as np
import pytest

from dexstack.datasets.replaying import APPROACH, FASTEST, compared, motion_of
from dexstack.model.hand import load_hand

HAND = load_hand("right")


def recording(speed: float, lag: float = 0.1):
    """Joints that follow a sine of this largest speed [rad/s], ``lag`` [s] late."""
    t = 0.05 * np.arange(60)
    swings = [np.sin(2.0 * s)[:, None] * np.eye(16)[0] * speed / 2.0 for s in (t, t - lag)]
    return {"t": t, "q_command": HAND.home + swings[0], "q": HAND.home + swings[1]}


@pytest.mark.parametrize("speed", [0.3, 0.6])
def test_a_motion_within_the_limits_keeps_its_time(speed):
    recorded = recording(speed)
    motion, slower = motion_of(recorded, HAND)
    assert slower == 1.0 and tuple(motion.names) == HAND.joint_names
    np.testing.assert_allclose(motion.times, APPROACH + recorded["t"])
    np.testing.assert_allclose(motion.positions, recorded["q_command"])


def test_a_motion_that_is_too_fast_is_slower_by_the_excess():
    recorded = recording(0.3)
    recorded["t"] = recorded["t"] / 100.0
    motion, slower = motion_of(recorded, HAND)
    speed = np.abs(np.diff(motion.positions, axis=0)) / np.diff(motion.times)[:, None] / HAND.velocity
    assert slower > 1.0 and speed.max() == pytest.approx(FASTEST)


def test_a_replay_on_another_clock_is_compared_at_the_times_of_the_recording():
    """It follows the targets 0.1 s late as well, with one joint 0.02 rad off."""
    recorded = recording(0.6)
    motion, slower = motion_of(recorded, HAND)
    t = np.arange(0.0, motion.times[-1], 0.02)
    command, q = (
        np.stack([np.interp(t - APPROACH, recorded["t"], c) for c in recorded[name].T], axis=1)
        for name in ("q_command", "q")
    )
    q[:, 5] += 0.02
    replayed = {"t": 7.3 + t, "t_command": 7.3 + t, "q": q, "q_command": command}
    away = compared(recorded, replayed, motion, slower)
    assert away["mean"] == pytest.approx(0.02 / 16, abs=3e-4)
    assert away["max"] == pytest.approx(0.02, abs=2e-3) and away["end"] == pytest.approx(0.02, abs=2e-3)
