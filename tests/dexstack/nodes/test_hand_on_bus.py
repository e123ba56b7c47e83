"""The hand node in front of emulated hands, on a CAN bus (Allegro) and on a pseudo-terminal (LEAP), and
whole runs of `dexstack up mock`."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from geometry_msgs.msg import PoseWithCovarianceStamped
from harness import HAND, PUSH, Pair, joint_state, put, wait_until
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger

from dexstack.hand.allegro.can_hand import CanHand
from dexstack.hand.commissioning import JointResult, save_commissioning
from dexstack.hand.driver import HandDriver
from dexstack.hand.params import BusParams, CanHandParams
from dexstack.hand.servo import ServoLaw, ServoParams
from dexstack.hand.states import HandState, StateFile
from dexstack.hand.watch import WatchParams
from dexstack.model.gravity import GravityCompensation
from dexstack.model.hand import load_hand
from dexstack.nodes import simulated_hand
from dexstack.nodes.common import ERROR, OK, WARN
from dexstack.nodes.hand import HandNode
from dexstack.nodes.simulator import SimulatorNode
from dexstack.nodes.wire import COMMAND, LATCHED, SENSOR, seconds
from dexstack.plants.mujoco import MujocoPlant
from tests.acceptance.probe import call
from tests.acceptance.programs import DEXSTACK

sys.path.insert(0, str(Path(__file__).parents[1] / "hand"))
from emulated import PATIENT, Emulator
from leap_process import Process

# in real time: another process may take the core for longer than a node waits
pytestmark = pytest.mark.flaky(reruns=3)

SUCCESS = TransitionCallbackReturn.SUCCESS
WATCH = {
    "frozen_ticks": 1_000_000,
    "tremble": 3.2,
    "runaway": 3.2,
    "doubtful_runaway": 3.2,
    "overspeed": 100.0,
    "following_error": 3.2,
}
SLOW = PATIENT | WATCH | {"command_timeout": 1.0, "bad_in_row": 20}
"""Parameters of a node for which a busy machine does not look like a broken hand: torques that come late
make joints swing."""
SLOW_MOTORS = SLOW | {"motor_timeout": 0.5, "bus_watchdog": 1.0}
LEAP = load_hand("leap_right")


class Family(NamedTuple):
    """An emulated hand, and one fault of it."""

    hand: str
    emulate: Callable[[BusParams], Any]
    target: np.ndarray
    serial: str
    warmest: tuple[str, int]
    """Entry of the diagnostics."""
    broken: dict[str, Any]
    cleared: dict[str, Any]
    fault: str
    said: tuple[str, str]
    """Parts of the reason and of the remedy."""


FAMILIES = {
    "allegro": Family(
        hand="right",
        emulate=lambda bus: Emulator(bus, "--encoder-noise", "0.0001"),
        target=PUSH,
        serial="EMU00001",
        warmest=("temperature_12", 43),
        broken={"over_temperature": True},
        cleared={"over_temperature": False},
        fault="over_temperature",
        said=("over-temperature", "cool down"),
    ),
    "leap": Family(
        hand="leap_right",
        emulate=lambda bus: Process(bus.channel),
        target=LEAP.home + np.where(LEAP.home < 0.5 * (LEAP.lower + LEAP.upper), 0.2, -0.2),
        serial="LEAP_leap",
        warmest=("temperature_15", 40),
        broken={"failing_motor": 9},
        cleared={"failing_motor": -1, "power_cycle": True},
        fault="motor",
        said=("motor 8 (rf_rot) reports: overload", "supply off and on"),
    ),
}


class Bench:
    """A hand node, its emulated hand, and a controller that commands 50 times a second while it has a
    target."""

    def __init__(self, pair: Pair, family: Family, emulated: Any) -> None:
        self.pair, self.node, self.family, self.emulated = pair, pair.node, family, emulated
        self.target: np.ndarray | None = None
        self.states: list[JointState] = []
        self.applied: list[JointState] = []
        self.joints = load_hand(family.hand).joint_names
        self._command = pair.peer.create_publisher(JointState, "joint_command", COMMAND)
        pair.peer.create_subscription(JointState, "joint_states", self.states.append, SENSOR)
        pair.peer.create_subscription(JointState, "hand/applied_command", self.applied.append, SENSOR)
        pair.peer.create_timer(0.02, self._run)

    def _run(self) -> None:
        if self.target is not None:
            self._command.publish(joint_state(time.time(), self.joints, position=self.target))

    def call(self, service: str) -> Trigger.Response:
        return self.pair.call(f"hand/{service}")

    def push(self) -> None:
        """Command the hand until it pushes."""
        self.target = self.family.target
        self.until(limp=False)

    def until(self, **expected: Any) -> None:
        """Wait for this state of the emulated hand."""
        wait_until(lambda: self.emulated.set().items() >= expected.items(), 10, f"a hand with {expected}")

    def stays_off(self, seconds: float) -> None:
        time.sleep(seconds)
        assert not self.emulated.set()["servo"]

    def reach(self, state: str, timeout: float = 10.0) -> None:
        """Wait for a state of the driver."""
        wait_until(lambda: self.node.status()[2]["state"] == state, timeout, f"the hand to be {state}")


@pytest.fixture
def family() -> str:
    return "allegro"


@pytest.fixture
def bus(domain, tmp_path, family) -> BusParams:
    if family == "leap":
        pytest.importorskip("dynamixel_sdk")
        return BusParams("pty", str(tmp_path / "leap"))
    return BusParams("udp_multicast", f"239.74.{domain}.{os.getpid() % 250 + 1}:6301")


@pytest.fixture
def bench(bus, pair, tmp_path, family) -> Iterator[Callable[..., Bench]]:
    """Make a node with an emulated hand; ``emulate`` replaces that of the family."""
    with contextlib.ExitStack() as stack:

        def make(emulate: Callable[[BusParams], Any] | None = None, **parameters: Any) -> Bench:
            of = FAMILIES[family]
            emulated = (emulate or of.emulate)(bus)
            if emulated is not None:
                stack.callback(emulated.close)
            own = {"hand": of.hand, "interface": bus.interface, "channel": bus.channel}
            patience = SLOW if family == "allegro" else SLOW_MOTORS
            made = Bench(
                pair(HandNode, **own, **patience, state_dir=str(tmp_path), **parameters), of, emulated
            )
            stack.callback(made.node.stop_worker)
            return made

        yield make


both = pytest.mark.parametrize("family", FAMILIES)


@both
def test_the_node_drives_stops_enables_and_reports(bench, family):
    b = bench()
    b.pair.activate()
    b.until(servo=True, limp=True)
    b.push()
    wait_until(
        lambda: b.states and b.applied and not np.isnan(b.applied[-1].position).any(), 5, "the node's topics"
    )
    assert abs(seconds(b.states[-1].header.stamp) - time.time()) < 60.0
    assert list(b.states[-1].name) == list(b.joints)
    wait_until(lambda: b.node.status()[:2] == (OK, "track"), 5, "a status")
    values, (key, celsius) = b.node.status()[2], b.family.warmest
    assert values["serial"] == b.node.hardware_id() == b.family.serial and values[key] == celsius

    assert b.call("stop").success
    b.until(limp=True, servo=False)
    b.stays_off(0.1)
    assert b.node.status()[:2] == (WARN, "stopped by service")
    assert b.call("enable").success
    b.until(limp=False)

    b.emulated.set(**b.family.broken)
    b.until(limp=True, servo=False)
    wait_until(lambda: b.node.lifecycle_state == "inactive", 5, "the node to leave ACTIVE")
    level, _, values = b.node.idle_status()
    assert (level, values["fault"], values["state"]) == (ERROR, b.family.fault, "fault")
    answer = b.call("enable")
    assert not answer.success and all(text in answer.message for text in b.family.said)
    b.emulated.set(**b.family.cleared)
    b.stays_off(0.3)
    assert b.call("enable").success and b.node.lifecycle_state == "active"
    b.until(limp=False)

    assert b.node.trigger_deactivate() == SUCCESS
    b.until(limp=True, servo=False)
    assert b.emulated.set()["over_limit"] == 0
    assert b.node.trigger_activate() == SUCCESS
    b.until(limp=False)


@both
def test_on_hardware_only_a_person_enables_a_commissioned_hand(bench, family, tmp_path, capfd):
    """READY after every start; enable is asked for again after a stop and a restart."""
    b = bench(consent="person", calibration_dir=str(tmp_path))
    assert not b.node.autostart() and b.node.exit_code == 2
    assert f"the hand {b.family.serial} was never commissioned" in capfd.readouterr().err
    results = [JointResult(0, 0.0, 0.0, 10.0, 0.0)] * 16
    hardware = "V4" if family == "allegro" else "-"
    save_commissioning(tmp_path, b.family.serial, results, measured="today", hardware=hardware)
    b.node.ended.clear()
    assert b.node.trigger_cleanup() == SUCCESS
    b.target = b.family.target
    b.pair.activate()

    def kept() -> str:
        return json.loads(next(tmp_path.glob(f"{b.family.serial}*.json")).read_text())["state"]

    wait_until(lambda: b.states, 5, "angles")
    b.stays_off(0.0)
    assert kept() == "ready" and "hand/enable switches it on" in b.node.status()[1]
    assert b.call("enable").success and kept() == "enabled"
    b.until(limp=False)
    assert b.call("stop").success and kept() == "ready"
    b.stays_off(0.2)  # commands do not undo a stop
    assert b.node.trigger_deactivate() == SUCCESS and kept() == "off"
    assert b.node.trigger_activate() == SUCCESS
    b.stays_off(0.3)
    assert kept() == "ready"


@pytest.mark.parametrize("kept", ["enabled", "fault"])
def test_after_a_crash_an_emulated_hand_too_waits_for_a_person(bench, bus, tmp_path, kept):
    # by a process of this run that is gone
    StateFile(str(tmp_path), f"EMU00001@{bus.where}").note(HandState(kept), "a test")
    b = bench()
    b.pair.activate()
    b.stays_off(0.3)
    b.reach("ready")
    assert b.call("enable").success and b.emulated.set()["servo"]


def test_stop_wins_while_enable_runs(bench):
    b = bench()
    b.pair.activate()
    b.push()
    assert b.call("stop").success
    b.emulated.set(refuses_servo=True)  # enable will try for half a second
    enable = b.pair.peer.create_client(Trigger, "hand/enable")
    assert enable.wait_for_service(5.0)
    enabling = enable.call_async(Trigger.Request())
    time.sleep(0.1)
    start = time.monotonic()
    assert b.call("stop").success
    b.emulated.set(refuses_servo=False)
    wait_until(enabling.done, 5, "an answer to enable")
    assert time.monotonic() - start < 3.0, "enable continues after a stop"
    b.stays_off(0.2)
    b.reach("ready", 0.1)


def test_success_ends_in_hold_and_hold_ends_announced(bench):
    b = bench(hold_time=1.0)
    to_state = b.pair.peer.create_publisher(String, "rollout/state", LATCHED)
    b.pair.activate()
    b.push()
    to_state.publish(String(data=json.dumps({"phase": "reached"})))
    b.reach("hold")
    b.target = None
    time.sleep(0.5)
    state = b.emulated.set()
    assert state["servo"] and not state["limp"], "what it holds would fall"
    largest = np.abs(state["counts"]) / 1200.0
    assert np.all(largest <= 0.5 * HAND.effort + 0.25), "reduced torque, and gravity's"
    assert "the goal is reached" in b.node.status()[1] and "limp in" in b.node.status()[1]
    b.reach("ready", 2.0)
    assert "hold_time is over" in b.node.status()[1] and b.emulated.set()["limp"]
    running = String(data=json.dumps({"phase": "running"}))
    to_state.publish(running)
    b.reach("enabled")  # the next rollout enables a hand that was at rest
    assert b.call("stop").success
    to_state.publish(running)
    b.stays_off(1.0)
    b.reach("ready", 0.1)


def test_the_node_is_active_only_with_a_hand_and_refuses_the_wrong_one(bench, bus):
    b = bench(lambda bus: None)
    assert b.node.trigger_configure() == SUCCESS
    assert b.node.trigger_activate() != SUCCESS and b.node.lifecycle_state == "inactive"
    level, text, _ = b.node.idle_status()
    assert level == WARN and "no hand on" in text
    with contextlib.closing(Emulator(bus, "--hand", "left")) as emulated:
        assert b.node.trigger_activate() != SUCCESS
        assert b.node.ended.is_set() and b.node.exit_code == 2 and "left hand" in b.node.idle_status()[1]
        b.node.stop_worker()
        assert not emulated.set()["servo"] and emulated.set()["largest"] == 0.0


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"interface": "udp_multicast", "hardware": "V9"}, "unknown hardware 'V9'"),
        ({"hand": "middle"}, "unknown hand 'middle'"),
        ({"hand": "leap_right", "interface": "socketcan"}, "'leap_right' is not reached by socketcan"),
        (
            {"hand": "leap_right", "interface": "serial", "consent": "mode"},
            "a hand on serial can injure: only a person may enable it",
        ),
    ],
)
def test_a_line_or_hand_that_cannot_be_used_is_one_sentence(pair, capfd, parameters, reason):
    pytest.importorskip("dynamixel_sdk")
    node = pair(HandNode, **parameters).node
    assert not node.autostart() and node.exit_code == 2 and reason in capfd.readouterr().err
    (result,) = node.set_parameters([Parameter("interface", value="carrier pigeon")])
    assert not result.successful and "unknown interface 'carrier pigeon'" in result.reason


def test_the_simulator_speaks_can(pair, bus):
    simulator = pair(SimulatorNode, interface=bus.interface, channel=bus.channel, emulator_priority=0)
    poses: list = []
    simulator.peer.create_subscription(PoseWithCovarianceStamped, "object_pose", poses.append, SENSOR)
    simulator.activate()
    link = CanHand("right", bus, CanHandParams(calibration_dir="/nonexistent", **PATIENT))
    turns: list = []
    watch = WatchParams(**WATCH)
    driver = HandDriver(link, ServoLaw(HAND, ServoParams(), GravityCompensation(HAND), watch=watch))
    driver.on_turn = turns.append

    def noticed(disturb: Callable[[], Any]) -> None:
        """Disturb, wait for the driver's fault, and enable it again."""
        disturb()
        wait_until(lambda: driver.fault, 2, "the driver's fault")
        driver.in_thread(driver.enable)

    with driver:
        wait_until(lambda: len(turns) > 5 and poses, 5, "angles and poses")
        assert abs(seconds(poses[-1].header.stamp) - turns[-1].feedback.stamp) < 0.2, "one clock"
        before = turns[-1].feedback.q
        for _ in range(100):
            driver.command(PUSH)
            time.sleep(0.02)
        assert driver.fault is None, driver.fault
        after = turns[-1].feedback.q
        assert np.linalg.norm(after - PUSH) < 0.7 * np.linalg.norm(before - PUSH), "the joints follow"
        noticed(lambda: simulator.call("simulator/reset"))  # the joints leap
        at_start = lambda: any(np.abs(t.feedback.q - HAND.home).max() < 0.02 for t in turns[-100:])  # noqa: E731
        wait_until(at_start, 2, "the start pose")
        noticed(lambda: simulator.call("simulator/power_cycle"))
        put(simulator.node, silent=True)
        wait_until(lambda: driver.fault, 2, "the driver's fault")
    assert simulator.node.status()[2]["over_limit"] == 0


def test_a_plant_that_is_too_slow_for_real_time_says_so_and_stays_on_the_clock(pair, bus, monkeypatch):
    monkeypatch.setattr(simulated_hand, "TOO_LATE", 3)
    simulator = pair(SimulatorNode, interface=bus.interface, channel=bus.channel, emulator_priority=0)
    step, begun = MujocoPlant.step, []
    monkeypatch.setattr(
        MujocoPlant, "step", lambda *a: (begun.append(simulator.node.time), time.sleep(0.1), step(*a))
    )
    simulator.activate()
    said = "the plant does not keep up with real time"
    wait_until(lambda: simulator.node.status()[1] == said, 10, "the simulator to notice")
    late = len(begun)
    wait_until(lambda: len(begun) > late + 5, 10, "more steps")
    assert begun[-1] - begun[late] > 0.3, "the clock goes on by what the steps take"


@pytest.mark.slow
def test_hardware_needs_a_look_commissioning_and_a_person_and_nothing_else(
    bus, monkeypatch, start, probe, tmp_path
):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    here = ("--interface", bus.interface, "--channel", bus.channel)
    (tmp_path / "patience.yaml").write_text(json.dumps({"/**": {"ros__parameters": SLOW}}))
    with contextlib.closing(Emulator(bus)) as emulated:
        refused = start(*here, mode="hardware")
        assert refused.wait(120) == 2 and "was never commissioned" in refused.err, refused.err
        subprocess.run([*DEXSTACK, "capture", "hand", str(tmp_path / "hand.log"), *here], check=True)
        assert not emulated.set()["largest"], "a capture gives no torque"
        subprocess.run([*DEXSTACK, "diagnose", "hand", "--all", "--yes", *here], check=True)
        start(*here, "--params", str(tmp_path / "patience.yaml"), mode="hardware")
        state = lambda: probe.values("hand").get("state")  # noqa: E731
        wait_until(lambda: state() == "ready", 120, "the hand to be ready")
        assert not emulated.set()["servo"], "without a person"
        assert call(probe.node, "hand/enable").success and emulated.set()["servo"]
        wait_until(lambda: state() == "enabled", 10, "the hand to be enabled")


@pytest.mark.slow
def test_the_goal_is_reached_on_emulated_motors(start, tmp_path):
    pytest.importorskip("dynamixel_sdk")
    (tmp_path / "patience.yaml").write_text(json.dumps({"/**": {"ros__parameters": SLOW_MOTORS}}))
    patience = "--params", str(tmp_path / "patience.yaml")
    run = start("--hand", "leap_right", "--json", "-", *patience, mode="mock")
    assert run.wait(240) == 0, run.err
    results = json.loads(run.out)["results"]
    assert results["reached"] and results["restarts"] == {}
