"""Excitation: within all limits, smooth at both ends, and rejected if a rehearsal fails."""

import numpy as np
import pytest

from dexstack.errors import ConfigError
from dexstack.hand.trajectory import Path, Waypoints, read_waypoints, write_waypoints
from dexstack.identification import excitation as exciting
from dexstack.identification.excitation import Rehearsal, excitation, rehearse, swinging


def test_joints_stay_inside_their_limits_and_begin_and_end_at_rest(palm):
    scene = palm[0].setup()
    hand = scene.robot
    motion = swinging(hand, scene.rest, 0.5, 10.0)
    assert (motion.positions > hand.lower).all() and (motion.positions < hand.upper).all()
    assert (np.ptp(motion.positions, axis=0) > 0.3).all(), "every joint swings"
    path = Path(hand, motion, scene.rest)
    t = np.arange(0.0, path.seconds, 0.001)
    way = np.array([path(s) for s in t])
    speed = np.abs(np.diff(way, axis=0)) / 0.001
    assert (way >= hand.lower).all() and (way <= hand.upper).all() and (speed < hand.velocity).all()
    assert speed[:20].max() < 0.05 and speed[-20:].max() < 0.05
    same = swinging(hand, scene.rest, 0.5, 10.0)
    np.testing.assert_array_equal(same.positions, motion.positions)


def test_a_rehearsal_detects_an_unsafe_motion(palm):
    task, servo = palm
    scene = task.setup()
    gentle = rehearse(task, servo, swinging(scene.robot, scene.rest, 0.1, 3.0))
    assert not gentle.why_not and 0.0 < gentle.moved < 0.02 and 0.0 < gentle.torque < 0.6
    low, high = scene.robot.lower, scene.robot.upper
    slam = Waypoints(
        scene.robot.joint_names, np.array([0.3, 0.6]), np.stack([scene.rest, low + 0.4 * (high - low)])
    )
    assert rehearse(task, servo, slam).why_not


@pytest.mark.parametrize(
    ("rehearsal", "why"),
    [
        (Rehearsal(0.0, 0.1, 0.5, "", False), ""),
        (Rehearsal(0.0, 0.1, 0.5, "runaway", False), "the servo trips: runaway"),
        (Rehearsal(0.1, 0.1, 0.5, "", True), "the object falls"),
        (Rehearsal(0.0, 0.3, 0.5, "", False), "a joint stays 0.30 rad behind"),
        (Rehearsal(0.0, 0.1, 0.95, "", False), "a joint needs 95 % of its torque"),
    ],
)
def test_the_reason_to_reject_a_motion(rehearsal, why):
    assert rehearsal.why_not == why


def test_the_largest_swing_that_is_safe_in_every_world_is_used(palm, monkeypatch):
    widths, said = [], []

    def rehearsed(task, servo, motion, world):
        widths.append(np.ptp(motion.positions))
        return Rehearsal(0.0, 0.1, 0.5, "", world == exciting.WORLDS[-1] and len(widths) < 5)

    monkeypatch.setattr(exciting, "rehearse", rehearsed)
    motion = excitation(*palm, 5.0, said.append)
    assert len(widths) == 2 * len(exciting.WORLDS) and widths[-1] < widths[0]
    assert "by 0.3 rad: the object falls" in said[0] and "0.2 rad: the rehearsal passed" in said[1]
    assert motion.times[-1] == pytest.approx(7.0)
    monkeypatch.setattr(exciting, "rehearse", lambda *given: Rehearsal(0.1, 0.1, 0.5, "", True))
    with pytest.raises(
        ConfigError,
        match=r"no swing of the joints about the start of 'cube' is safe: with 0\.06 rad the object falls",
    ):
        excitation(*palm, 5.0)


def test_a_motion_is_read_back_from_its_file(palm, tmp_path):
    scene = palm[0].setup()
    motion = swinging(scene.robot, scene.rest, 0.1, 3.0)
    write_waypoints(tmp_path / "new" / "motion.npz", motion)
    back = read_waypoints(tmp_path / "new" / "motion.npz")
    assert back.names == list(motion.names)
    for name in ("times", "positions", "velocities"):
        np.testing.assert_array_equal(getattr(back, name), getattr(motion, name))
    (tmp_path / "text.npz").write_text("no archive")
    for name in ("text.npz", "none.npz"):
        with pytest.raises(ConfigError, match="cannot read the motion"):
            read_waypoints(tmp_path / name)
