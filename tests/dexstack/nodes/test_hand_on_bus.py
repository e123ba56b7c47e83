"""The hand node in front of an emulated hand on a CAN bus, and whole runs of `dexstack up mock`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from geometry_msgs.msg import PoseWithCovarianceStamped
from harness import HAND, NODES, PUSH, alive, call, joint_state, put, wait_until
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger

from dexstack.hand.allegro.can_hand import CanHand
from dexstack.hand.allegro.protocol import Command, split_id
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

sys.path.insert(0, str(Path(__file__).parents[1] / "hand"))
from emulated import PATIENT, Emulator, Tap

pytestmark = pytest.mark.flaky(
    reruns=3
)  # in real time: another process may take the core for longer than a node waits

WATCH = {
    "frozen_ticks": 1_000_000,
    "tremble": 3.2,
    "runaway": 3.2,
    "doubtful_runaway": 0.6,
    "overspeed": 100.0,
    "following_error": 3.2,
}
SLOW = PATIENT | WATCH | {"command_timeout": 1.0, "bad_in_row": 20}
"""The same for the servo of a node: torques that come late make joints swing."""


@pytest.fixture
def bus(domain) -> BusParams:
    return BusParams("udp_multicast", f"239.74.{domain}.{os.getpid() % 250 + 1}:6301")


class Controller:
    """Commands the node at 50 Hz while it has a target, and remembers what the node says."""

    def __init__(self, pair, hand: str = "right") -> None:
        self._names = load_hand(hand).joint_names
        self.target: np.ndarray | None = None
        self.states: list[JointState] = []
        self.applied: list[JointState] = []
        self._command = pair.peer.create_publisher(JointState, "joint_command", COMMAND)
        pair.peer.create_subscription(JointState, "joint_states", self.states.append, SENSOR)
        pair.peer.create_subscription(JointState, "hand/applied_command", self.applied.append, SENSOR)
        pair.peer.create_timer(0.02, self._run)

    def _run(self) -> None:
        if self.target is not None:
            self._command.publish(joint_state(time.time(), self._names, position=self.target))


def settings(bus: BusParams, tmp_path, **more) -> dict:
    """Of a node for which a busy machine does not look like a hand that is broken."""
    return {"interface": bus.interface, "channel": bus.channel, "state_dir": str(tmp_path)} | SLOW | more


@pytest.fixture
def emulate(bus) -> Iterator[Callable[..., Emulator]]:
    """Start emulated hands, which end with the test."""
    with contextlib.ExitStack() as stack:

        def make(*arguments: str) -> Emulator:
            emulator = Emulator(bus, *arguments)
            stack.callback(emulator.close)
            return emulator

        yield make


@pytest.fixture
def hand(emulate, pair, bus, tmp_path) -> Iterator:
    """An emulated hand, the node, a controller."""
    emulator = emulate("--encoder-noise", "0.0001")
    node = pair(HandNode, **settings(bus, tmp_path))
    controller = Controller(node)
    yield emulator, node, controller
    node.node.stop_worker()
    assert emulator.set()["limp"] and not emulator.set()["servo"]


def test_the_node_drives_stops_enables_and_reports(hand):
    emulator, node, controller = hand
    node.activate()
    wait_until(lambda: emulator.set()["servo"], 5, "the servo to go on")
    assert emulator.set()["limp"], "no command yet"
    controller.target = PUSH
    wait_until(lambda: not emulator.set()["limp"], 5, "the hand to be pushed")
    wait_until(
        lambda: (
            controller.states and controller.applied and not np.isnan(controller.applied[-1].position).any()
        ),
        5,
        "its topics",
    )
    state = controller.states[-1]
    assert abs(seconds(state.header.stamp) - time.time()) < 60.0 and list(state.name) == list(
        HAND.joint_names
    )
    wait_until(lambda: node.node.status()[:2] == (OK, "track"), 5, "a status")
    values = node.node.status()[2]
    assert values["serial"] == node.node.hardware_id() == "EMU00001" and values["temperature_12"] == 43

    start = time.monotonic()
    assert node.call("hand/stop").success
    emulator.wait_limp(start)
    time.sleep(0.1)
    assert not emulator.set()["servo"] and node.node.status()[:2] == (WARN, "stopped by service")
    assert node.call("hand/enable").success
    wait_until(lambda: not emulator.set()["limp"], 10, "the hand to be pushed again")

    start = time.monotonic()
    emulator.set(over_temperature=True)
    emulator.wait_limp(start)
    wait_until(lambda: state_of(node) == "inactive", 2, "the node to leave ACTIVE")
    level, _, values = node.node.idle_status()
    assert level == ERROR and values["fault"] == "over_temperature" and values["state"] == "fault"
    answer = node.call("hand/enable")
    assert not answer.success and "over-temperature" in answer.message and "cool down" in answer.message
    emulator.set(over_temperature=False)
    time.sleep(0.3)
    assert not emulator.set()["servo"], "a fault that is over enabled the hand"
    assert node.call("hand/enable").success and state_of(node) == "active"
    wait_until(lambda: not emulator.set()["limp"], 10, "the hand to be pushed again")

    assert node.node.trigger_deactivate() == TransitionCallbackReturn.SUCCESS
    state = emulator.set()
    assert state["limp"] and not state["servo"] and state["periods"] == [0, 0, 0]
    assert node.node.trigger_activate() == TransitionCallbackReturn.SUCCESS
    wait_until(lambda: not emulator.set()["limp"], 5, "the hand to be pushed after activation")


def hand_state(node) -> str:
    """State of the hand."""
    return node.node.status()[2]["state"]


def state_of(node) -> str:
    return node.node.lifecycle_state


def test_on_hardware_only_a_person_enables_the_hand(emulate, pair, bus, tmp_path, capfd):
    """READY after every start; enable is asked for again after a stop, a fault and a crash."""
    emulator = emulate("--encoder-noise", "0.0001")
    node = pair(HandNode, **settings(bus, tmp_path, consent="person", calibration_dir=str(tmp_path)))
    assert not node.node.autostart() and node.node.exit_code == 2
    assert "the hand EMU00001 was never commissioned" in capfd.readouterr().err
    save_commissioning(
        tmp_path, "EMU00001", [JointResult(0, 0.0, 0.0, 10.0, 0.0)] * 16, measured="today", hardware="V4"
    )
    node.node.ended.clear()
    assert node.node.trigger_cleanup() == TransitionCallbackReturn.SUCCESS
    controller = Controller(node)
    controller.target = PUSH
    node.activate()
    kept = lambda: json.loads(next(tmp_path.glob("EMU00001*.json")).read_text())["state"]  # noqa: E731
    wait_until(lambda: controller.states, 5, "angles")
    assert not emulator.set()["servo"] and kept() == "ready", "angles, but no torque"
    assert "hand/enable switches it on" in node.node.status()[1]
    assert node.call("hand/enable").success and kept() == "enabled"
    wait_until(lambda: not emulator.set()["limp"], 10, "the hand to be pushed")
    assert node.call("hand/stop").success and kept() == "ready"
    time.sleep(0.2)
    assert not emulator.set()["servo"], "commands undo a stop"
    assert node.node.trigger_deactivate() == TransitionCallbackReturn.SUCCESS and kept() == "off"
    assert node.node.trigger_activate() == TransitionCallbackReturn.SUCCESS
    time.sleep(0.3)
    assert not emulator.set()["servo"] and kept() == "ready"


@pytest.mark.parametrize("kept", ["enabled", "ready", "hold", "fault"])
def test_after_a_crash_an_emulated_hand_too_waits_for_a_person(emulate, pair, bus, tmp_path, kept):
    StateFile(str(tmp_path), f"EMU00001@{bus.where}").note(
        HandState(kept), "a test"
    )  # by a process of this run that is gone
    emulator = emulate()
    node = pair(HandNode, **settings(bus, tmp_path))
    node.activate()
    time.sleep(0.5)
    assert not emulator.set()["servo"] and node.node.status()[2]["state"] == "ready"
    assert node.call("hand/enable").success and emulator.set()["servo"]


def test_stop_wins_while_enable_runs(hand):
    emulator, node, controller = hand
    node.activate()
    controller.target = PUSH
    wait_until(lambda: not emulator.set()["limp"], 5, "the hand to be pushed")
    assert node.call("hand/stop").success
    emulator.set(refuses_servo=True)  # enable will try for half a second
    enable, stop = (node.peer.create_client(Trigger, f"hand/{name}") for name in ("enable", "stop"))
    assert enable.wait_for_service(5.0) and stop.wait_for_service(5.0)
    enabling = enable.call_async(Trigger.Request())
    time.sleep(0.1)
    start = time.monotonic()
    stopping = stop.call_async(Trigger.Request())
    wait_until(stopping.done, 5, "an answer to stop")
    assert stopping.result().success
    emulator.set(refuses_servo=False)
    wait_until(enabling.done, 5, "an answer to enable")
    assert time.monotonic() - start < 3.0, "enable continues after a stop"
    time.sleep(0.2)
    assert not emulator.set()["servo"] and hand_state(node) == "ready"


def test_success_ends_in_hold_and_hold_ends_announced(hand):
    emulator, node, controller = hand
    put(node.node, hold_time=1.0)
    to_state = node.peer.create_publisher(String, "rollout/state", LATCHED)
    node.activate()
    controller.target = PUSH
    wait_until(lambda: not emulator.set()["limp"], 5, "the hand to be pushed")
    to_state.publish(String(data=json.dumps({"phase": "reached"})))
    wait_until(lambda: hand_state(node) == "hold", 10, "the hand to hold")
    controller.target = None
    time.sleep(0.5)
    state = emulator.set()
    assert state["servo"] and not state["limp"], "what it holds would fall"
    largest = np.abs(state["counts"]) / 1200.0
    assert np.all(largest <= 0.5 * HAND.effort + 0.25), (
        "with reduced torque, in addition to gravity compensation"
    )
    assert "the goal is reached" in node.node.status()[1] and "limp in" in node.node.status()[1]
    wait_until(lambda: hand_state(node) == "ready", 2, "the hold to end")
    assert "hold_time is over" in node.node.status()[1] and emulator.set()["limp"]
    to_state.publish(String(data=json.dumps({"phase": "running"})))
    wait_until(
        lambda: hand_state(node) == "enabled", 10, "the next rollout to enable a hand that was at rest"
    )
    assert node.call("hand/stop").success
    to_state.publish(String(data=json.dumps({"phase": "running"})))
    time.sleep(1.0)
    assert hand_state(node) == "ready", "it was stopped"


def test_the_node_is_active_only_with_a_hand_and_refuses_the_wrong_one(emulate, pair, bus, tmp_path):
    node = pair(HandNode, **settings(bus, tmp_path))
    assert node.node.trigger_configure() == TransitionCallbackReturn.SUCCESS
    assert node.node.trigger_activate() != TransitionCallbackReturn.SUCCESS and state_of(node) == "inactive"
    assert node.node.idle_status()[0] == WARN and "no hand on" in node.node.idle_status()[1]
    emulator = emulate("--hand", "left")
    assert node.node.trigger_activate() != TransitionCallbackReturn.SUCCESS
    assert node.node.ended.is_set() and node.node.exit_code == 2 and "left hand" in node.node.idle_status()[1]
    node.node.stop_worker()
    assert not emulator.set()["servo"] and emulator.set()["largest"] == 0.0


def test_an_unknown_interface_or_generation_is_refused(pair, capfd):
    node = pair(HandNode)
    result = node.node.set_parameters([Parameter("interface", value="carrier pigeon")])[0]
    assert not result.successful and "unknown interface 'carrier pigeon'" in result.reason
    put(node.node, interface="udp_multicast", hardware="V9")
    assert not node.node.autostart() and node.node.exit_code == 2
    assert "unknown hardware 'V9'" in capfd.readouterr().err


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
    with driver:
        wait_until(lambda: len(turns) > 5 and poses, 5, "angles and poses")
        assert abs(seconds(poses[-1].header.stamp) - turns[-1].feedback.stamp) < 0.2, (
            "poses and angles are on one clock"
        )
        before = turns[-1].feedback.q
        for _ in range(100):
            driver.command(PUSH)
            time.sleep(0.02)
        assert driver.fault is None, driver.fault
        assert np.linalg.norm(turns[-1].feedback.q - PUSH) < 0.7 * np.linalg.norm(before - PUSH), (
            "the joints follow"
        )
        assert simulator.call("simulator/reset").success
        wait_until(lambda: driver.fault, 2, "the driver to see joints that leap")
        driver.in_thread(driver.enable)
        wait_until(
            lambda: any(np.abs(t.feedback.q - HAND.home).max() < 0.02 for t in turns[-100:]),
            2,
            "the start pose",
        )
        assert simulator.call("simulator/power_cycle").success
        wait_until(lambda: driver.fault, 2, "the driver to notice")
        driver.in_thread(driver.enable)
        put(simulator.node, silent=True)
        wait_until(lambda: driver.fault, 2, "the driver to notice")
    assert simulator.node.status()[2]["over_limit"] == 0


def test_a_plant_that_is_too_slow_for_real_time_says_so_and_stays_on_the_clock(pair, bus, monkeypatch):
    monkeypatch.setattr(simulated_hand, "TOO_LATE", 3)
    simulator = pair(SimulatorNode, interface=bus.interface, channel=bus.channel, emulator_priority=0)
    step, begun = MujocoPlant.step, []
    monkeypatch.setattr(
        MujocoPlant, "step", lambda *a: (begun.append(simulator.node.time), time.sleep(0.1), step(*a))
    )
    simulator.activate()
    wait_until(
        lambda: simulator.node.status()[1] == "the plant does not keep up with real time",
        10,
        "the simulator to notice",
    )
    late = len(begun)
    wait_until(lambda: len(begun) > late + 5, 10, "more steps")
    assert begun[-1] - begun[late] > 0.3, "the clock goes on by what the steps take"


@pytest.mark.slow
def test_a_run_on_the_emulated_hand_survives_the_loss_of_its_hand_node(start, probe, domain, tmp_path):
    """The guard switches the servo off; the supervisor starts the node again; a person lets the run
    go on."""
    patience = tmp_path / "patience.yaml"
    patience.write_text(json.dumps({"/**": {"ros__parameters": SLOW}}))
    tap = Tap(BusParams("udp_multicast", f"239.74.163.2:{6100 + domain}"))
    try:
        # On a busy machine it takes long until the node is there again, and the run must not be
        # over by then.
        run = start(
            "--goal-yaw", "175", "--seconds", "40", "--json", "-", "--params", str(patience), mode="mock"
        )

        def running() -> bool:
            tap.listen()
            return probe.phase() == "running" and probe.states[-1]["elapsed"] > 0.4

        wait_until(running, 240, "the rollout")
        wait_until(lambda: set(probe.reports) >= set(NODES), 30, "diagnostics of every node")
        pids = {name: probe.pid(name) for name in NODES}
        killed = time.time()
        os.kill(pids["hand"], signal.SIGKILL)

        def said(command: Command) -> list[float]:
            return [t for t, frame in tap.listen() if split_id(frame.id)[0] == command and t > killed]

        wait_until(lambda: said(Command.SERVO_OFF), 5, "servo off")
        wait_until(
            lambda: (
                probe.pid("hand") not in (0, pids["hand"]) and probe.values("hand").get("state") == "ready"
            ),
            120,
            "a new node",
        )
        time.sleep(1.0)
        tap.listen()
        assert not said(Command.SERVO_ON), "the new hand node switched the servo on without consent"
        assert call(probe.node, "hand/enable").success, "a person"
        wait_until(lambda: tap.listen() and said(Command.SERVO_ON), 5, "the servo to go on")
        wait_until(lambda: tap.listen() and run.process.poll() is not None, 240, "the end of the run")
        results = json.loads(run.out)["results"]
        assert results["restarts"] == {"hand": 1} and results["phase"] in ("reached", "timeout", "dropped")
        survivors = {name: pid for name, pid in pids.items() if name != "hand"}
        assert not any(alive(pid) for pid in survivors.values())
        last = [split_id(frame.id)[0] for _, frame in tap.listen()]
        power = [c for c in last if c in (Command.SERVO_ON, Command.SERVO_OFF)]
        assert power[-1] == Command.SERVO_OFF, "the run ended with the servo on"
    finally:
        tap.close()
