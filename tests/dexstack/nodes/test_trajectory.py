"""Trajectories over DDS: played by a real graph's hand, stopped, replaced, refused."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from harness import wait_until
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from dexstack.hand.trajectory import Motion, Path
from dexstack.model.hand import load_hand
from dexstack.nodes.trajectory import read_motion
from dexstack.nodes.wire import LATCHED, SENSOR, BadMessage, seconds, set_stamp

HAND = load_hand("right")
MOVED = np.array(
    [0, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1]
)  # not the middle finger, on which the cube lies
THERE = HAND.home + 0.15 * MOVED * np.sign((HAND.lower + HAND.upper) / 2 - HAND.home)


def message(times, positions, velocities=None, names=HAND.joint_names, start=0.0) -> JointTrajectory:
    made = JointTrajectory(joint_names=list(names))
    set_stamp(made.header.stamp, start)
    for k, t in enumerate(times):
        point = JointTrajectoryPoint(positions=list(map(float, positions[k])))
        set_stamp(point.time_from_start, t)
        if velocities is not None:
            point.velocities = list(map(float, velocities[k]))
        made.points.append(point)
    return made


def test_messages_are_read_as_the_controller_of_ros2_control_reads_them():
    start, motion = read_motion(message([0.5, 1.0], [HAND.home, THERE], np.zeros((2, 16)), start=3.5))
    assert start == 3.5 and motion.times.tolist() == [0.5, 1.0] and motion.velocities.shape == (2, 16)
    np.testing.assert_allclose(motion.positions[1], THERE)
    assert read_motion(message([1.0], [THERE]))[1].velocities is None
    assert read_motion(JointTrajectory()) == (0.0, None)
    mixed = message([0.5, 1.0], [HAND.home, THERE])
    mixed.points[0].velocities = [0.0] * 16
    with pytest.raises(BadMessage, match="points of different sizes"):
        read_motion(mixed)
    with pytest.raises(BadMessage, match="every point"):
        read_motion(message([1.0], [THERE[:15]]))


class Player:
    """Plays trajectories and records the joints."""

    def __init__(self, probe) -> None:
        self.states: list[tuple[str, str]] = []
        self.joints: list[tuple[float, np.ndarray]] = []
        probe.node.create_subscription(
            DiagnosticStatus,
            "joint_trajectory/state",
            lambda m: self.states.append((m.message, m.values[0].value)),
            LATCHED,
        )
        probe.node.create_subscription(
            JointState,
            "joint_states",
            lambda m: self.joints.append((seconds(m.header.stamp), np.array(m.position))),
            QoSProfile(depth=2000, reliability=SENSOR.reliability),
        )
        self._to = probe.node.create_publisher(JointTrajectory, "joint_trajectory", 10)
        wait_until(
            lambda: self._to.get_subscription_count() == 1 and self.joints and self.states,
            120,
            "the node and the hand",
        )

    def play(self, trajectory: JointTrajectory) -> None:
        """Publish until the node answers: it may discover this publisher, or the hand's, late."""
        self.states.clear()
        ticks = itertools.count()
        wait_until(
            lambda: (
                (next(ticks) % 50 == 0 and self._to.publish(trajectory))
                or any("no joint angles" not in why for _, why in self.states)
            ),
            50,
            "an answer",
        )

    def comes_to(self, phase: str) -> str:
        """Wait for a phase; return its reason."""
        return wait_until(
            lambda: [(p, why) for p, why in self.states if p == phase], 60, f"'{phase}', not {self.states}"
        )[0][1]


@pytest.mark.slow
@pytest.mark.flaky(reruns=2)  # in real time: another process may take the core for longer than the hand waits
def test_a_hand_plays_a_trajectory_and_stops_when_told(start, probe):
    start("--part", "robot", "--discovery", "localhost", "--trajectories")
    player = Player(probe)
    player.play(message([1.0], [THERE]))
    player.comes_to("done")
    recorded = message([2.0, 4.0], [HAND.home, THERE], np.zeros((2, 16)))
    before, begin = player.joints[-1][1], len(player.joints)
    player.play(recorded)
    player.comes_to("done")
    motion = Motion(HAND.joint_names, np.array([2.0, 4.0]), np.array([HAND.home, THERE]), np.zeros((2, 16)))
    t, q = (np.array(x) for x in zip(*player.joints[begin:], strict=True))
    path = Path(HAND, motion, THERE)
    wanted = np.array([path(s) for s in t - t[0]])
    # it begins when the message has come, and the servo is behind: along the way, not in time
    away = min(np.abs(q[k:] - wanted[: len(q) - k]).max() for k in range(0, 200))
    assert away < 0.02 and np.abs(before - THERE).max() < 0.05
    assert np.abs(q[-1] - THERE).max() < 0.02

    player.play(message([5.0], [HAND.home]))
    player.comes_to("following")
    time.sleep(0.5)
    player.play(JointTrajectory())
    assert player.comes_to("cancelled") == "cancelled"
    player.play(message([1.0], [HAND.home + 9.0]))
    assert (
        "beyond its limits"
        in wait_until(
            lambda: [why for _, why in player.states if why.startswith("refused")], 30, "the refusal"
        )[0]
    )
