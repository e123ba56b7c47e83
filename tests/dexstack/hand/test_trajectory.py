"""Motions that others planned: what they may be, where they are, and when they have failed."""

import numpy as np
import pytest

from dexstack.errors import ConfigError
from dexstack.hand.trajectory import Follower, FollowParams, Path, Phase, Waypoints
from dexstack.model.hand import load_hand

HAND = load_hand("right")
NAMES = HAND.joint_names[1:3]
HOME = HAND.home[1:3]


def motion(times, offsets, velocities=None, names=NAMES):
    return Waypoints(
        names,
        np.array(times, float),
        HOME + np.array(offsets, float),
        None if velocities is None else np.array(velocities, float),
    )


def test_straight_lines_and_joints_that_are_not_named():
    path = Path(HAND, motion([1.0, 2.0], [[0.2, 0.0], [0.2, -0.1]]), HAND.home)
    np.testing.assert_allclose(path(0.0), HAND.home)
    for t, a, b in ((0.5, 0.1, 0.0), (1.0, 0.2, 0.0), (1.5, 0.2, -0.05), (2.0, 0.2, -0.1), (9.0, 0.2, -0.1)):
        expected = HAND.home.copy()
        expected[1:3] += a, b
        np.testing.assert_allclose(path(t), expected, atol=1e-12)


def test_a_cubic_has_the_velocities_of_its_points():
    path = Path(HAND, motion([1.0], [[0.3, -0.3]], [[0.0, 0.0]]), HAND.home)
    t = np.linspace(0.0, 1.0, 11)
    shape = 3 * t**2 - 2 * t**3  # from rest to rest
    np.testing.assert_allclose([path(s)[1] - HAND.home[1] for s in t], 0.3 * shape, atol=1e-12)
    moving = Path(HAND, motion([0.0, 1.0], [[0.0, 0.0], [0.2, 0.0]], [[0.5, 0.0], [-0.3, 0.0]]), HAND.home)
    slope = lambda s: (moving(s + 1e-6)[1] - moving(s - 1e-6)[1]) / 2e-6  # noqa: E731
    assert slope(1e-6) == pytest.approx(0.5, abs=1e-4) and slope(1.0 - 1e-6) == pytest.approx(-0.3, abs=1e-4)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: motion([], np.zeros((0, 2))), "every point of a trajectory"),
        (lambda: motion([1.0], [[0.1, 0.1]], names=NAMES[:1]), "every point of a trajectory"),
        (lambda: motion([1.0, 1.0], np.zeros((2, 2))), "must begin at 0 or later and increase"),
        (lambda: motion([-1.0], np.zeros((1, 2))), "must begin at 0 or later and increase"),
        (lambda: motion([1.0], [[np.nan, 0.0]]), "must be finite"),
        (lambda: motion([1.0], np.zeros((1, 2)), names=(NAMES[0], NAMES[0])), "names a joint twice"),
        (
            lambda: Path(HAND, motion([1.0], np.zeros((1, 2)), names=("elbow", NAMES[0])), HAND.home),
            "unknown joint 'elbow'",
        ),
        (
            lambda: Path(HAND, motion([1.0], [[9.0, 0.0]]), HAND.home),
            f"point 0 of a trajectory has {NAMES[0]} at",
        ),
        (lambda: motion([5000.0], [[0.1, 0.0]]), "1 points and 5000 s is too long"),
        (lambda: motion(np.arange(100_001) / 100.0, np.zeros((100_001, 2))), "100001 points and 1000 s"),
        (
            # from rest to rest a cubic is fastest half-way, at 3/2 of its mean speed
            lambda: Path(HAND, motion([0.05], [[0.4, 0.0]], [[0.0, 0.0]]), HAND.home),
            f"moves {NAMES[0]} at 12.0 rad/s after 0.00 s",
        ),
        (lambda: Path(HAND, motion([0.01], [[0.5, 0.0]]), HAND.home), f"moves {NAMES[0]} at 50"),
    ],
)
def test_what_no_hand_can_follow_is_refused_in_a_sentence(make, sentence):
    with pytest.raises(ConfigError, match=sentence.replace("[", r"\[")):
        make()


def test_a_joint_measured_at_its_stop_is_held_at_its_limit():
    beyond = HAND.home.copy()
    beyond[1:3] = HAND.upper[1:3]
    beyond[1] += 0.005
    path = Path(HAND, Waypoints(NAMES, np.array([1.0]), beyond[None, 1:3]), beyond)
    assert path(1.0)[1] == HAND.upper[1]
    assert path.clamped.startswith(f"{NAMES[0]} at {beyond[1]:.3f} rad was moved to its limits")
    assert not Path(HAND, motion([1.0], [[0.0, 0.0]]), HAND.home).clamped


def follow(follower, t0, t1, lag=0.0, stuck=False):
    """Joints that are ``lag`` [s] behind their target, or do not move at all."""
    q, targets = HAND.home.copy(), []
    for t in np.arange(t0, t1, 0.01):
        target = follower.target(t, q)
        targets.append(target)
        if not stuck and target is not None:
            q = target if lag == 0.0 else q + (target - q) * 0.01 / lag
    return targets


def test_it_is_followed_to_its_end_and_held_there():
    follower = Follower(HAND, FollowParams())
    assert follower.target(0.0, HAND.home) is None
    follower.take(motion([1.0], [[0.3, -0.2]]), 10.0, HAND.home)
    assert follower.phase is Phase.FOLLOWING
    targets = follow(follower, 10.0, 13.0, lag=0.05)
    assert follower.phase is Phase.DONE and follower.left == 0.0
    np.testing.assert_allclose(targets[-1][1:3] - HOME, [0.3, -0.2])
    follower.release()
    assert follower.target(14.0, HAND.home) is None


def test_joints_that_do_not_follow_end_it_where_they_are():
    follower = Follower(HAND, FollowParams(path_tolerance=0.1))
    follower.take(motion([1.0], [[0.3, 0.0]]), 0.0, HAND.home)
    targets = follow(follower, 0.0, 1.0, stuck=True)
    assert (
        follower.phase is Phase.FAILED and follower.why == f"{NAMES[0]} is 0.10 rad from where it should be"
    )
    np.testing.assert_allclose(targets[-1], HAND.home)


def test_joints_that_stop_short_of_the_end_fail_after_a_while():
    follower = Follower(HAND, FollowParams(goal_time=0.5))
    follower.take(motion([1.0], [[0.1, 0.0]]), 0.0, HAND.home)
    follow(follower, 0.0, 1.4, stuck=True)
    assert follower.phase is Phase.FOLLOWING
    follow(follower, 1.4, 1.6, stuck=True)
    assert follower.phase is Phase.FAILED and follower.why == f"{NAMES[0]} ends 0.10 rad off"


def test_a_later_motion_takes_over_without_a_jump_and_a_wrong_one_changes_nothing():
    follower = Follower(HAND, FollowParams())
    follower.take(motion([1.0], [[0.3, 0.0]]), 0.0, HAND.home)
    before = follow(follower, 0.0, 0.5)[-1]
    with pytest.raises(ConfigError):
        follower.take(motion([1.0], [[9.0, 0.0]]), 0.5, before)
    assert follower.phase is Phase.FOLLOWING and follower.target(0.5, before)[1] == pytest.approx(
        HOME[0] + 0.15, abs=1e-3
    )
    follower.take(motion([1.0], [[0.0, 0.0]]), 0.5, before)
    first = follower.target(0.5, before)
    assert np.abs(first - before).max() < 0.01
    follow(follower, 0.5, 2.0)
    assert follower.phase is Phase.DONE


def test_a_cancelled_motion_holds_the_joints_where_they_are():
    follower = Follower(HAND, FollowParams())
    follower.take(motion([1.0], [[0.3, 0.0]]), 0.0, HAND.home)
    q = follow(follower, 0.0, 0.5)[-1]
    follower.cancel(q)
    assert follower.phase is Phase.CANCELLED
    np.testing.assert_allclose(follow(follower, 0.5, 1.0, stuck=True)[-1], q)
