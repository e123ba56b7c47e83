"""Hand and planner on two machines: network namespaces linked by a wire with delay, loss and cuts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from harness import LOOK, wait_until

from dexstack.bags.file import BagReader
from tests.acceptance import network
from tests.acceptance.link import TwoMachines, missing

REASON = missing()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(REASON), reason=REASON or "-"),
]
DEXSTACK = [sys.executable, "-m", "dexstack.cli.main"]
COMMAND_TIMEOUT = 0.1
"""In config/palm_turn.yaml [s]."""


def environment() -> dict[str, str]:
    own = {k: v for k, v in os.environ.items() if not k.startswith(("ROS_", "FASTDDS"))}
    return own | {"ROS_DOMAIN_ID": "7", "ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"}


ECHO = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    s.bind(("10.213.77.2", 5000))
    print("ready", flush=True)
    while True:
        data, sender = s.recvfrom(2000)
        s.sendto(data, sender)
"""
ASK = """
import socket, time
times = []
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    s.settimeout(0.2)
    for k in range(40):
        start = time.monotonic()
        s.sendto(bytes([k]), ("10.213.77.2", 5000))
        try:
            while s.recv(2000) != bytes([k]):
                pass
            times.append(time.monotonic() - start)
        except TimeoutError:
            pass
print(len(times), min(times, default=0), sum(times) / max(len(times), 1))
"""


def test_the_wire_has_delay_loss_and_cuts():
    def ask(machines: TwoMachines) -> tuple[int, float, float]:
        """Return answers out of 40, shortest and mean time of a round trip [s]."""
        done = subprocess.run(
            machines.on(0, [sys.executable, "-c", ASK]), capture_output=True, text=True, check=True
        )
        count, shortest, mean = done.stdout.split()
        return int(count), float(shortest), float(mean)

    with TwoMachines(delay=0.02, jitter=0.005, seed=1) as machines:
        echo = subprocess.Popen(
            machines.on(1, [sys.executable, "-c", ECHO]), stdout=subprocess.PIPE, text=True
        )
        try:
            assert echo.stdout.readline() == "ready\n"
            count, shortest, mean = ask(machines)
            assert count >= 30 and 0.03 < shortest < 0.045 and mean > 0.036
            machines.cut()
            assert ask(machines)[0] == 0
            machines.join()
            assert ask(machines)[0] >= 30
        finally:
            echo.kill()
            echo.wait()
            echo.stdout.close()


def test_the_hand_is_safe_while_the_link_is_cut_and_resumes(tmp_path):
    up = [*DEXSTACK, "up", "sim", "--goal-yaw", "180", "--seconds", "600", "--no-report", "--part"]
    bag = tmp_path / "robot.mcap"
    processes: list[subprocess.Popen] = []
    with TwoMachines(delay=0.02, jitter=0.005, loss=0.01) as machines:

        def begin(machine: int, command: list[str]) -> None:
            with (tmp_path / f"{len(processes)}.txt").open("w") as out:
                options = {"stdout": out, "stderr": out, "stdin": subprocess.DEVNULL, "env": environment()}
                processes.append(subprocess.Popen(machines.on(machine, command), **options))

        def commands() -> list:
            time.sleep(1.0)
            begun = bag.exists() and bag.stat().st_size > 1000
            return [e for e in BagReader(bag) if e.topic.name == "/joint_command"] if begun else []

        try:
            begin(0, [*DEXSTACK, "record", str(bag)])
            begin(0, [*up, "robot", "--results", str(tmp_path / "robot")])
            begin(1, [*up, "planner", "--results", str(tmp_path / "planner")])
            wait_until(lambda: len(commands()) > 50, 120 * LOOK, "commands over the wire")
            machines.cut()
            cut = time.time_ns()
            time.sleep(3.0)
            machines.join()
            joined = time.time_ns()
            wait_until(lambda: sum(e.t > joined for e in commands()) > 30, 60 * LOOK, "commands to come back")
            time.sleep(1.0)
        finally:
            for process in reversed(processes):
                process.send_signal(signal.SIGINT)
            for process in processes:
                process.wait(30)
    sent = decoded(bag, "/joint_command")
    last = max(stamp for t, stamp, _ in sent if t < cut + 50_000_000)  # under way when the wire was cut
    applied = [
        (stamp, q) for t, stamp, q in decoded(bag, "/hand/applied_command") if t < joined and stamp > last
    ]
    held = np.array(
        [q for stamp, q in applied if last + COMMAND_TIMEOUT + 0.006 < stamp < last + COMMAND_TIMEOUT + 0.9]
    )
    assert len(held) > 50, "the hand's loop continues"
    assert np.ptp(held, axis=0).max() == 0.0, "the hand holds within 100 ms of the last command"
    torque = [
        tau
        for t, stamp, tau in decoded(bag, "/hand/torque", "effort")
        if t < joined and stamp > last + COMMAND_TIMEOUT + 1.1
    ]
    assert len(torque) > 100 and not np.any(torque), "then it is limp"
    after = np.array([q for t, _, q in decoded(bag, "/hand/applied_command") if t > joined])
    assert np.nanmax(np.ptp(after[np.isfinite(after).all(axis=1)], axis=0)) > 0.01, "it moves again"


def decoded(bag, topic: str, field: str = "position") -> list[tuple[int, float, np.ndarray]]:
    """Return (arrival [ns], stamp [s], values) of a topic of joints."""
    from rclpy.serialization import deserialize_message
    from sensor_msgs.msg import JointState

    rows = []
    for entry in BagReader(bag):
        if entry.topic.name == topic:
            message = deserialize_message(entry.data, JointState)
            stamp = message.header.stamp
            rows.append((entry.t, stamp.sec + 1e-9 * stamp.nanosec, np.array(getattr(message, field))))
    return rows


def test_the_task_succeeds_over_a_bad_link(tmp_path):
    out = tmp_path / "out.json"
    assert network.main(["--trials", "1", "--goal-yaw", "30", "--json", str(out)]) == 0
    results = json.loads(out.read_text())["results"]
    assert results["success_rate"] == 1.0 and results["link"]["delay_s"] == 0.02
    assert results["trials"][0]["reached"]
