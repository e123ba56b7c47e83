"""Invalid messages on every topic of a running graph are dropped and counted, and the graph continues."""

from __future__ import annotations

import json
import time
from array import array

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from harness import NODES, alive, wait_until
from sensor_msgs.msg import JointState, PointCloud2
from std_msgs.msg import Float64MultiArray, String

from dexstack.model.hand import load_hand
from dexstack.nodes.wire import COMMAND, LATCHED, REPORTS, SENSOR, SERVO, contacts_message, fill_pose

JOINTS = list(load_hand("right").joint_names)
NAN = float("nan")

READERS = {
    "hand/torque": (JointState, SERVO, "effort", ("simulator",)),
    "hand/feedback": (JointState, SERVO, "position", ("hand",)),
    "joint_command": (JointState, COMMAND, "position", ("hand", "console")),
    "joint_states": (JointState, SENSOR, "position", ("contact_detector", "mpc", "console")),
    "object_pose": (PoseWithCovarianceStamped, SENSOR, None, ("contact_detector", "mpc", "task", "console")),
    "task/goal": (PoseStamped, LATCHED, None, ("mpc", "console")),
    "goal_pose": (PoseStamped, COMMAND, None, ("task",)),
    "contacts": (PointCloud2, SENSOR, None, ("mpc", "console")),
    "rollout/state": (String, LATCHED, None, ("console",)),
    "mpc/solve_times": (Float64MultiArray, REPORTS, None, ("console",)),
}
"""Topic: type, quality of service, JointState field, and the nodes that read it (the task reads
joint_command only until the first)."""


def joint_messages(field: str) -> dict[str, JointState]:
    """Return messages with a wrong size, a NaN, an unknown joint."""

    def message(names, values):
        result = JointState(name=names)
        setattr(result, field, array("d", values))
        return result

    return {
        "wrong size": message(JOINTS, [0.1] * 15),
        "not a number": message(JOINTS, [0.1] * 15 + [NAN]),
        "unknown joint": message([*JOINTS[:15], "elbow"], [0.1] * 16),
    }


def other_messages(topic: str) -> dict[str, object]:
    if topic == "contacts":
        wrong = contacts_message(0.0, np.zeros((2, 3)), np.zeros((2, 3)), np.zeros(2), np.zeros(2, int))
        wrong.width = 3
        return {
            "wrong size": wrong,
            "not a number": contacts_message(
                0.0, np.full((1, 3), NAN), np.zeros((1, 3)), np.zeros(1), np.zeros(1, int)
            ),
        }
    if topic == "rollout/state":
        return {"not JSON": String(data="{"), "wrong fields": String(data="{}")}
    if topic == "mpc/solve_times":
        return {"wrong size": Float64MultiArray(data=array("d", [1.0, 2.0]))}
    kind = READERS[topic][0]
    bad, lost = kind(), kind()
    for message, values in ((bad, [NAN] * 7), (lost, [0, 0, 0.1, 1, 0, 0, 0])):
        fill_pose(message.pose.pose if kind is PoseWithCovarianceStamped else message.pose, values)
    lost.header.frame_id = "nowhere"
    return {"not a number": bad, "unknown frame": lost}


@pytest.mark.slow
def test_invalid_messages_are_dropped_and_counted_and_no_node_ends(start, probe):
    # slow, so that it does not end
    run = start("--goal-yaw", "180", "--seconds", "600", "--real-time-factor", "0.2", "--json", "-")
    wait_until(lambda: probe.phase() == "running", 60, "the rollout")
    wait_until(lambda: set(probe.reports) >= set(NODES), 5, "diagnostics of every node")
    pids = {name: probe.pid(name) for name in NODES}

    for topic, (kind, qos, field, readers) in READERS.items():
        publisher = probe.node.create_publisher(kind, topic, qos)
        wait_until(
            lambda p=publisher, r=readers: p.get_subscription_count() >= len(r), 5, f"the readers of {topic}"
        )
        for what, message in (joint_messages(field) if field else other_messages(topic)).items():
            count = lambda name, t=topic: int(probe.values(name).get(f"dropped {t}", 0))  # noqa: E731
            before = {name: count(name) for name in readers}

            def all_counted(before=before, count=count, publisher=publisher, message=message) -> bool:
                publisher.publish(message)  # repeatedly: only the newest message of a topic is read
                time.sleep(0.002)
                return all(count(name) > before[name] for name in before)

            wait_until(
                all_counted, 20, f"{', '.join(readers)} to count '{what}' on {topic}; counts before: {before}"
            )
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
