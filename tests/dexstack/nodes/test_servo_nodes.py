"""The hand node and the simulator node, each alone with a counterpart."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from dataclasses import fields

import numpy as np
import pytest
import rclpy
from geometry_msgs.msg import PoseWithCovarianceStamped
from harness import HAND, PUSH, Pair, joint_state, put, put_from, wait_until
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.parameter import Parameter
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState

from dexstack.errors import ConfigError
from dexstack.nodes.hand import HandNode
from dexstack.nodes.simulated_hand import RESET_GAP
from dexstack.nodes.simulator import SimulatorNode
from dexstack.nodes.wire import COMMAND, SENSOR, SERVO, read_pose, seconds
from dexstack.plants import PLANTS, plant_params

pytestmark = pytest.mark.flaky(
    reruns=3
)  # in real time: another process may take the core for longer than a node waits

# --- hand


class Bench:
    """Plays a hand that stands still, and the controller."""

    def __init__(self, pair: Pair) -> None:
        self.feedback = pair.peer.create_publisher(JointState, "hand/feedback", SERVO)
        self.command = pair.peer.create_publisher(JointState, "joint_command", COMMAND)
        self.torques: list[JointState] = []
        pair.peer.create_subscription(JointState, "hand/torque", self.torques.append, SERVO)
        wait_until(
            lambda: self.feedback.get_subscription_count() and self.command.get_subscription_count(),
            5,
            "the hand node",
        )
        self.t = 1.0

    def tick(self) -> JointState:
        """One feedback and the torque that answers it."""
        self.t += 0.003
        noise = 1e-4 * np.random.default_rng(round(1e3 * self.t)).standard_normal(
            HAND.home.size
        )  # an encoder without any is dead
        self.feedback.publish(joint_state(self.t, position=HAND.home + noise))
        wait_until(
            lambda: self.torques and abs(seconds(self.torques[-1].header.stamp) - self.t) < 1e-6,
            2,
            "a torque",
        )
        return self.torques[-1]

    def largest(self) -> float:
        """Return the largest torque that answers a feedback."""
        return np.abs(self.tick().effort).max()

    def push(self) -> None:
        """Command the hand until it pushes."""
        self.command.publish(joint_state(self.t, position=PUSH))
        wait_until(lambda: self.largest() > 0.05, 5, "the hand to push")


@pytest.fixture
def driven(pair):
    """An active hand node, and its counterpart."""
    hand = pair(HandNode)
    hand.activate()
    return hand, Bench(hand)


@contextlib.contextmanager
def ticking(bench: Bench):
    """Feedback goes on in another thread."""
    end = threading.Event()

    def run() -> None:
        while not end.is_set():
            bench.tick()

    thread = threading.Thread(target=run)
    thread.start()
    yield
    end.set()
    thread.join()


def test_hand_is_limp_until_commanded_and_ends_with_zero_torque(driven):
    hand, bench = driven
    assert not bench.largest()
    bench.push()
    assert np.all(np.abs(bench.tick().effort) <= HAND.effort + 1e-12)
    bench.command.publish(joint_state(bench.t, position=PUSH[:15]))
    wait_until(lambda: bench.largest() and hand.node.dropped["joint_command"], 5, "it to be dropped")

    assert hand.node.trigger_deactivate() == TransitionCallbackReturn.SUCCESS
    wait_until(lambda: not any(bench.torques[-1].effort), 2, "zero torque after deactivation")
    assert hand.node.trigger_activate() == TransitionCallbackReturn.SUCCESS
    assert not bench.largest(), "a command from before the deactivation moved the hand"


def test_stop_service_is_immediate_and_enable_needs_a_new_command(driven):
    hand, bench = driven
    bench.push()
    assert hand.call("hand/stop").success
    wait_until(lambda: not any(bench.torques[-1].effort), 2, "zero torque without any further feedback")
    bench.command.publish(joint_state(bench.t, position=PUSH))
    assert not any(bench.largest() for _ in range(10))
    assert hand.call("hand/enable").success
    assert not bench.largest()
    bench.push()


def test_parameters_can_only_be_tightened_while_the_hand_is_driven_and_do_not_end_a_hold(driven):
    hand, bench = driven

    def given(name, value):
        return hand.node.set_parameters([Parameter(name, value=value)])[0]

    bench.push()
    assert "'kp' can only be tightened while the hand is enabled" in given("kp", 2.0).reason
    for name, value in (("kp", 2.0), ("runaway", 3.0), ("period", 0.004), ("obeyed", 0.01), ("kd", 0.1)):
        assert not given(name, value).successful
    bench.push()
    with ticking(bench):
        assert given("kp", 0.9).successful
        assert hand.call("hand/hold").success
        assert given("kp", 0.8).successful
    assert bench.largest() > 0.02 and hand.node.status()[2]["mode"] == "hold", "it dropped the object"
    assert hand.call("hand/stop").success
    assert given("kp", 2.0).successful, "not driven"
    assert not given("hand", "left").successful, "the hand cannot change while configured"


def test_joints_are_read_and_commanded_under_the_vendors_names_on_request(pair):
    hand = pair(HandNode, vendor_names=True)
    hand.activate()
    bench, states = Bench(hand), []
    hand.peer.create_subscription(JointState, "vendor/joint_states", states.append, SENSOR)
    thumb_first = [12, 13, 14, 15, *range(12)]
    names = [f"ah_joint{f}{j}" for f in range(4) for j in range(4)]

    def command() -> None:
        bench.command.publish(joint_state(bench.t, names, position=PUSH[thumb_first]))

    wait_until(lambda: command() or bench.largest() > 0.05, 5, "the hand to push")
    for _ in range(30):
        command()
        torque = np.array(bench.tick().effort)
    assert np.all(torque[HAND.home + 0.1 < PUSH] > 0.0), "the angles went to other joints"
    wait_until(lambda: bench.tick() and states, 5, "joint states")
    by_name = dict(zip(states[-1].name, states[-1].position, strict=True))
    np.testing.assert_allclose([by_name[name] for name in names], HAND.home[thumb_first], atol=2e-3)


def test_a_second_publisher_is_named_and_takes_nothing(driven):
    hand, bench = driven
    other = rclpy.create_node("forgotten")
    try:
        second = other.create_publisher(JointState, "joint_command", COMMAND)
        wait_until(lambda: second.get_subscription_count(), 5, "the hand node")
        for k in range(100):
            bench.command.publish(joint_state(bench.t, position=PUSH))
            bench.tick()
            if k > 5:
                second.publish(joint_state(0.0, position=HAND.home - 0.2))
            bench.tick()
        _, text, values = hand.node.status()
        assert values["command_owner"] == "peer" and "forgotten are refused" in text
        pushed = np.array(bench.tick().effort)[HAND.home + 0.1 < PUSH]
        assert np.all(pushed > 0.0), "only the owner moves the hand"
    finally:
        other.destroy_node()


def test_lifecycle_can_be_walked_again_and_again(pair):
    hand = pair(HandNode)
    for _ in range(3):
        assert hand.node.trigger_configure() == TransitionCallbackReturn.SUCCESS
        assert hand.node.trigger_activate() == TransitionCallbackReturn.SUCCESS
        bench = Bench(hand)
        assert not bench.largest()
        assert hand.peer.count_publishers("hand/torque") == hand.peer.count_subscribers("joint_command") == 1
        assert hand.node.trigger_deactivate() == TransitionCallbackReturn.SUCCESS
        assert hand.node.trigger_cleanup() == TransitionCallbackReturn.SUCCESS
        wait_until(lambda: not hand.peer.count_publishers("hand/torque"), 5, "the torque topic to go")
        put(hand.node, kp=1.5)


def test_wrong_configuration_is_refused_in_one_sentence(pair, capfd):
    hand = pair(HandNode, hand="middle")
    assert not hand.node.autostart() and hand.node.exit_code == 2
    assert "unknown hand 'middle'" in capfd.readouterr().err


# --- simulator


class Puppeteer:
    """Plays the hand node: answers every feedback with ``torque`` after ``delay`` [s], or not at
    all when ``torque`` is None."""

    def __init__(self, pair: Pair) -> None:
        self.torque: list[float] | None = None
        self.delay = 0.0
        self.feedback: list[tuple[float, JointState]] = []
        self.clock: list[float] = []
        self.poses: list[PoseWithCovarianceStamped] = []
        self._answer = pair.peer.create_publisher(JointState, "hand/torque", SERVO)
        pair.peer.create_subscription(
            JointState, "hand/feedback", self._on_feedback, SENSOR
        )  # the newest only
        pair.peer.create_subscription(Clock, "/clock", lambda m: self.clock.append(seconds(m.clock)), SENSOR)
        pair.peer.create_subscription(PoseWithCovarianceStamped, "object_pose", self.poses.append, SENSOR)

    def _on_feedback(self, message: JointState) -> None:
        self.feedback.append((time.monotonic(), message))
        torque = self.torque
        if torque is not None:
            time.sleep(self.delay)
            self._answer.publish(joint_state(seconds(message.header.stamp), effort=torque))

    def speed(self, wall: float) -> float:
        """Simulated time per wall time over the coming ``wall`` [s]."""
        before = len(self.feedback)
        wait_until(lambda: len(self.feedback) > before + 1, 5, "feedback")
        first = self.feedback[-1]
        wait_until(lambda: self.feedback[-1][0] > first[0] + wall, wall + 5, "feedback")
        last = self.feedback[-1]
        return (seconds(last[1].header.stamp) - seconds(first[1].header.stamp)) / (last[0] - first[0])


def test_simulator_runs_without_a_hand_and_waits_for_a_slow_one(pair):
    simulator = pair(SimulatorNode)
    hand = Puppeteer(simulator)
    simulator.activate()
    assert 0.7 < hand.speed(1.0) < 1.1, "without an answer it does not wait"
    wait_until(lambda: hand.clock and hand.poses, 2, "clock and pose")

    hand.delay, hand.torque = 0.012, [0.0] * 16
    hand.speed(0.3)
    assert hand.speed(1.0) < 0.5, "12 ms for each 3 ms period: the clock must slow down"

    def timeouts() -> int:
        return simulator.node.status()[2]["torque_timeouts"]

    assert timeouts() == 0

    hand.delay, before = 0.0, np.array(hand.feedback[-1][1].position)
    hand.torque = [0.0] * 12 + [0.0, 0.0, 0.3, 0.0]
    wait_until(
        lambda: np.array(hand.feedback[-1][1].position)[14] > before[14] + 0.05,
        5,
        "the thumb to give way to its torque",
    )
    begin = len(hand.feedback)
    wait_until(lambda: len(hand.feedback) > begin + 300, 10, "feedback")
    stamps = np.array([seconds(m.header.stamp) for _, m in hand.feedback[begin:]])
    assert np.mean(np.diff(stamps)) == pytest.approx(0.003, rel=0.02), "the rate of the feedback"

    hand.torque = None
    wait_until(
        lambda: simulator.node.status()[2]["torque_timeouts"] == 1, 2, "the simulator to miss the hand"
    )
    assert 0.7 < hand.speed(1.0) < 1.1
    assert simulator.node.status()[2]["torque_timeouts"] == 1


@pytest.mark.flaky(reruns=3)  # in real time: another process may take the core for longer than a hand waits
def test_reset_leaps_in_time_and_repeats_the_start(pair):
    simulator = pair(SimulatorNode, seed=5)
    hand = Puppeteer(simulator)
    simulator.activate()
    wait_until(lambda: len(hand.poses) > 20, 10, "poses")
    first = read_pose(hand.poses[0])
    last = seconds(hand.feedback[-1][1].header.stamp)
    assert simulator.call("simulator/reset").success
    wait_until(lambda: seconds(hand.feedback[-1][1].header.stamp) > last + RESET_GAP, 5, "the leap")
    leap = next(m for _, m in hand.feedback if seconds(m.header.stamp) > last + RESET_GAP)
    np.testing.assert_array_equal(leap.position, HAND.home)
    stamps = [seconds(m.header.stamp) for _, m in hand.feedback]
    assert np.all(np.diff(stamps) > 0) and np.max(np.diff(stamps)) > RESET_GAP
    again = wait_until(
        lambda: next((s for s in map(read_pose, hand.poses) if s.t > last + RESET_GAP), None), 5, "a pose"
    )
    np.testing.assert_allclose(again.pose, first.pose, atol=1e-3)


def set_parameter(pair: Pair, name: str, value) -> tuple[bool, str]:
    """Set a parameter as `ros2 param set` does, while the simulation goes on."""
    result = put_from(pair.peer, pair.node.get_name(), name, value)
    return result.successful, result.reason


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in PLANTS if n not in ("mujoco", "soft")])
def test_another_plant_starts_anew(pair, name):
    pytest.importorskip("numba")
    simulator = pair(SimulatorNode)
    hand = Puppeteer(simulator)
    simulator.activate()
    wait_until(lambda: hand.poses, 10, "a pose")
    node, first = simulator.node, read_pose(hand.poses[0])
    mujoco = [f.name for f in fields(plant_params("mujoco"))]
    assert all(node.has_parameter(p) for p in mujoco)
    assert set_parameter(simulator, "plant", name) == (True, "")
    assert node.status()[2]["plant"] == name
    assert all(node.has_parameter(f.name) for f in fields(plant_params(name)))
    assert not any(node.has_parameter(p) for p in set(mujoco) - {f.name for f in fields(plant_params(name))})
    last = hand.feedback[-1]

    def after_the_leap():
        poses = [read_pose(m) for m in list(hand.poses)]
        return next((b for a, b in itertools.pairwise(poses) if b.t - a.t > 0.9 * RESET_GAP), None)

    again = wait_until(after_the_leap, 10, "the start")
    assert np.abs(again.pose - first.pose).max() < 0.08, (
        "at the start, or, where this process was too busy to see it, soon after"
    )
    wait_until(lambda: hand.feedback[-1][0] > last[0] + 0.5, 10, "the new one to go on")
    stamps = [seconds(m.header.stamp) for _, m in hand.feedback]
    assert np.all(np.diff(stamps) > 0), "time goes on"
    assert set_parameter(simulator, "plant", "mujoco") == (True, "")
    assert all(node.has_parameter(p) for p in mujoco)


def test_a_plant_that_cannot_be_made_changes_nothing(pair, monkeypatch):
    simulator = pair(SimulatorNode)
    hand = Puppeteer(simulator)
    simulator.activate()
    node = simulator.node
    ok, reason = set_parameter(simulator, "plant", "teapot")
    assert not ok and "unknown plant 'teapot'" in reason

    def refuse(*_):
        raise ConfigError("not this object")

    monkeypatch.setattr("dexstack.nodes.simulator.make_plant", refuse)
    before = {f.name: node.get_parameter(f.name).value for f in fields(plant_params("mujoco"))}
    assert set_parameter(simulator, "plant", "lcp") == (False, "not this object")
    assert {name: node.get_parameter(name).value for name in before} == before
    assert node.get_parameter("plant").value == node.status()[2]["plant"] == "mujoco"
    count = len(hand.feedback)
    wait_until(lambda: len(hand.feedback) > count + 20, 10, "the old one to go on")
