"""The hand node in front of emulated LEAP motors on a pseudo-terminal, and a whole run of `dexstack
up mock` with them."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from harness import wait_until
from rclpy.lifecycle import TransitionCallbackReturn
from test_hand_on_bus import SLOW, Controller, state_of

from dexstack.graph.modes import MODES
from dexstack.hand.commissioning import JointResult, save_commissioning
from dexstack.nodes.common import ERROR, OK
from dexstack.nodes.hand import HandNode

sys.path.insert(0, str(Path(__file__).parents[1] / "hand"))
pytest.importorskip("dynamixel_sdk")
from leap_process import Process
from motors import TARGET

pytestmark = pytest.mark.flaky(
    reruns=3
)  # in real time: another process may take the core for longer than a node waits
PATIENT = SLOW | {"motor_timeout": 0.5, "bus_watchdog": 1.0}


@pytest.fixture
def motors(tmp_path):
    one = Process(str(tmp_path / "leap"))
    yield one
    one.close()


def settings(motors: Process, tmp_path, **more) -> dict:
    return (
        {"hand": "leap_right", "interface": "pty", "channel": motors.path, "state_dir": str(tmp_path)}
        | PATIENT
        | more
    )


def test_the_node_drives_stops_enables_and_reports(pair, motors, tmp_path):
    node = pair(HandNode, **settings(motors, tmp_path))
    controller = Controller(node, "leap_right")
    node.activate()
    motors.wait(lambda s: s["servo"])
    assert motors.set()["limp"], "no command yet"
    controller.target = TARGET
    motors.wait(lambda s: not s["limp"])
    motors.wait(lambda s: np.abs(np.array(s["q"]) - TARGET).max() < 0.05)
    wait_until(lambda: node.node.status()[:2] == (OK, "track"), 5, "a status")
    values = node.node.status()[2]
    assert values["serial"] == node.node.hardware_id() == "LEAP_leap" and values["temperature_15"] == 40

    assert node.call("hand/stop").success
    motors.wait(lambda s: not s["servo"])
    assert node.call("hand/enable").success
    motors.wait(lambda s: not s["limp"])

    motors.set(failing_motor=9)
    motors.wait(lambda s: not s["servo"])
    wait_until(lambda: state_of(node) == "inactive", 5, "the node to leave ACTIVE")
    level, text, values = node.node.idle_status()
    assert level == ERROR and values["fault"] == "motor" and "motor 8 (rf_rot) reports: overload" in text
    answer = node.call("hand/enable")
    assert not answer.success and "overload" in answer.message and "supply off and on" in answer.message
    motors.set(failing_motor=-1, power_cycle=True)
    assert node.call("hand/enable").success and state_of(node) == "active"
    motors.wait(lambda s: not s["limp"])
    assert node.node.trigger_deactivate() == TransitionCallbackReturn.SUCCESS
    assert not motors.set()["servo"]
    node.node.stop_worker()
    assert motors.set()["over_limit"] == 0


def test_only_a_person_enables_it_and_only_when_it_was_commissioned(pair, motors, tmp_path, capfd):
    node = pair(HandNode, **settings(motors, tmp_path, consent="person", calibration_dir=str(tmp_path)))
    assert not node.node.autostart() and node.node.exit_code == 2
    assert "the hand LEAP_leap was never commissioned" in capfd.readouterr().err
    save_commissioning(
        tmp_path, "LEAP_leap", [JointResult(0, 0.0, 0.0, 10.0, 0.0)] * 16, measured="today", hardware="-"
    )
    node.node.ended.clear()
    assert node.node.trigger_cleanup() == TransitionCallbackReturn.SUCCESS
    node.activate()
    time.sleep(0.5)
    assert not motors.set()["servo"]
    assert node.call("hand/enable").success and motors.set()["servo"]
    node.node.stop_worker()
    assert not motors.set()["servo"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"interface": "socketcan"}, "'leap_right' is not reached by socketcan"),
        (
            {"interface": "serial", "consent": "mode"},
            "a hand on serial can injure: only a person may enable it",
        ),
    ],
)
def test_a_line_of_another_family_and_a_real_line_without_a_person_are_refused(pair, capfd, line, reason):
    node = pair(HandNode, hand="leap_right", **line)
    assert node.node.trigger_configure() != TransitionCallbackReturn.SUCCESS
    assert reason in capfd.readouterr().err


def test_the_modes_wire_both_ends_alike():
    nodes = {
        n.name: n.parameters for n in MODES["mock"].describe({"hand": "leap_left", "channel": "/tmp/here"})
    }
    assert {(nodes[n]["interface"], nodes[n]["channel"]) for n in ("hand", "simulator")} == {
        ("pty", "/tmp/here")
    }


@pytest.mark.slow
def test_the_goal_is_reached_on_emulated_motors(start, tmp_path):
    (tmp_path / "patience.yaml").write_text(json.dumps({"/**": {"ros__parameters": PATIENT}}))
    run = start(
        "--hand", "leap_right", "--json", "-", "--params", str(tmp_path / "patience.yaml"), mode="mock"
    )
    assert run.process.wait(240) == 0, run.err
    results = json.loads(run.out)["results"]
    assert results["reached"] and results["restarts"] == {}
