"""An invalid message on every topic of a running graph is dropped and counted, and the graph continues;
test_wire.py has every kind of invalid message."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from harness import NODES, joint_state, pose_message, wait_until
from std_msgs.msg import Float64MultiArray, String

from dexstack.nodes.wire import COMMAND, LATCHED, REPORTS, SENSOR, SERVO, contacts_message
from tests.acceptance.programs import alive

POSES = (PoseStamped, PoseWithCovarianceStamped)

BAD_JOINTS = {field: joint_state(0.0, **{field: [0.1] * 15}) for field in ("effort", "position")}
BAD_CONTACTS = contacts_message(0.0, np.full((1, 3), np.nan), np.zeros((1, 3)), np.zeros(1), np.zeros(1, int))
LOST = {kind: pose_message([0, 0, 0.1, 1, 0, 0, 0], frame="nowhere", kind=kind) for kind in POSES}

INVALID = {
    "hand/torque": (BAD_JOINTS["effort"], SERVO, ("simulator",)),
    "hand/feedback": (BAD_JOINTS["position"], SERVO, ("hand",)),
    "joint_command": (BAD_JOINTS["position"], COMMAND, ("console",)),
    "joint_states": (BAD_JOINTS["position"], SENSOR, ("contact_detector", "mpc", "console")),
    "object_pose": (LOST[PoseWithCovarianceStamped], SENSOR, ("contact_detector", "mpc", "task", "console")),
    "task/goal": (LOST[PoseStamped], LATCHED, ("mpc", "console")),
    "goal_pose": (LOST[PoseStamped], COMMAND, ("task",)),
    "contacts": (BAD_CONTACTS, SENSOR, ("mpc", "console")),
    "rollout/state": (String(data="{"), LATCHED, ("console",)),
    "mpc/solve_times": (Float64MultiArray(data=[1.0, 2.0]), REPORTS, ("console",)),
}
"""Topic: message, quality of service, and the nodes that read it (the task reads joint_command only
until the first, the hand that of its owner only; test_servo_nodes.py sends an invalid one to it)."""


@pytest.mark.slow
def test_invalid_messages_are_dropped_and_counted_and_no_node_ends(start, probe):
    # slow, so that it does not end
    run = start("--goal-yaw", "180", "--seconds", "600", "--real-time-factor", "0.2", "--json", "-")
    wait_until(lambda: probe.phase() == "running", 60, "the rollout")
    wait_until(lambda: set(probe.reports) >= set(NODES), 5, "diagnostics of every node")
    pids = {name: probe.pid(name) for name in NODES}

    def dropped(name: str, topic: str) -> int:
        return int(probe.values(name).get(f"dropped {topic}", 0))

    for topic, (message, qos, readers) in INVALID.items():
        publisher = probe.node.create_publisher(type(message), topic, qos)
        before = {name: dropped(name, topic) for name in readers}

        def all_counted(topic=topic, message=message, publisher=publisher, before=before) -> bool:
            publisher.publish(message)  # repeatedly: only the newest message of a topic is read
            time.sleep(0.002)
            return all(dropped(name, topic) > count for name, count in before.items())

        wait_until(all_counted, 25, f"{', '.join(readers)} to count it on {topic}; counts before: {before}")
        probe.node.destroy_publisher(publisher)

    assert {name: probe.pid(name) for name in NODES} == pids and all(alive(pid) for pid in pids.values())
    t = probe.states[-1]["t"]
    wait_until(lambda: probe.states[-1]["t"] > t + 0.5, 10, "time to go on")
    assert probe.phase() in ("running", "dropped")

    assert run.interrupt() == 0, run.err
    assert not any(alive(pid) for pid in pids.values()), "a node outlived the run"
    document = json.loads(run.out)
    assert (
        document["command"] == "up sim"
        and document["results"]["stopped"]
        and not document["results"]["reached"]
    )
    assert document["results"]["restarts"] == {}
