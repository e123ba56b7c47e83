"""Recording and replay: the same bytes, topics and order."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from diagnostic_msgs.msg import DiagnosticArray
from harness import joint_state, wait_until
from rclpy.serialization import serialize_message
from std_msgs.msg import String

from dexstack.bags.definitions import full_definition
from dexstack.bags.file import BagReader, BagWriter, Topic
from dexstack.nodes.recorder import qos_yaml
from dexstack.nodes.wire import LATCHED, SENSOR
from tests.acceptance.programs import DEXSTACK, Program

COUNT = 300


def on_the_wire(message: Any) -> bytes:
    """Return a message as DDS carries it, padded to whole words."""
    data = serialize_message(message)
    return data + bytes(-len(data) % 4)


def bag_of(path: Path) -> dict[str, list[bytes]]:
    """Write a bag with a sensor topic at 333 Hz and a latched one; return the messages by topic."""
    topics = {
        "/hand/feedback": ("sensor_msgs/msg/JointState", SENSOR),
        "/goal": ("std_msgs/msg/String", LATCHED),
    }
    bag, written = BagWriter(path), {name: [] for name in topics}
    for name, (kind, qos) in topics.items():
        bag.add_topic(Topic(name, kind, qos_yaml([qos]), full_definition(kind)))
    rows = [(k, "/hand/feedback", joint_state(0.0, ["a"], position=[0.1 * k])) for k in range(COUNT)]
    rows.insert(11, (10, "/goal", String(data="there")))
    for k, name, message in rows:
        written[name].append(on_the_wire(message))
        bag.add(name, 3_000_000 * k, 3_000_000 * k, written[name][-1])
    bag.close()
    return written


@pytest.mark.slow
def test_the_recording_of_a_replay_equals_the_bag(domain, tmp_path):
    written = bag_of(tmp_path / "a.mcap")
    with Program([*DEXSTACK, "record", str(tmp_path / "b.mcap")], tmp_path / "recorder") as recorder:
        wait_until((tmp_path / "b.mcap").exists, 30, "the recorder")
        replay = [*DEXSTACK, "replay", str(tmp_path / "a.mcap"), "--delay", "30", "--json", "-"]
        done = subprocess.run(replay, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["results"]["topics"] == {n: len(rows) for n, rows in written.items()}
        assert recorder.interrupt() == 0
    entries = list(BagReader(tmp_path / "b.mcap"))
    for name, rows in written.items():
        assert [e.data for e in entries if e.topic.name == name] == rows, name
    feedback = [e for e in entries if e.topic.name == "/hand/feedback"]
    assert feedback[0].topic.definition == full_definition("sensor_msgs/msg/JointState")
    assert "best_effort" in feedback[0].topic.qos and "transient_local" in next(
        e.topic.qos for e in entries if e.topic.name == "/goal"
    )
    assert 0.8 < 1e-9 * (feedback[-1].t - feedback[0].t) / (0.003 * (COUNT - 1)) < 1.5, "the timing"
    assert any(e.topic.type_name.endswith(DiagnosticArray.__name__) for e in entries), "all topics"


def test_a_bag_is_never_overwritten(tmp_path):
    (tmp_path / "a.mcap").write_text("precious")
    done = subprocess.run(
        [*DEXSTACK, "record", str(tmp_path / "a.mcap")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "already exists" in done.stderr
    assert (tmp_path / "a.mcap").read_text() == "precious"


@pytest.mark.slow
@pytest.mark.flaky(reruns=2)  # in real time
def test_a_dataset_moves_an_emulated_hand_as_recorded(tmp_path):
    """Its joints reach the angles at which those of the simulated trial ended."""
    for argv in (
        ("eval", "palm_turn", "--trials", "1", "--seconds", "2", "--record", "trials", "--require", "0"),
        ("dataset", "trials", "--out", "set", "--fps", "20"),
        ("replay", "set", "--on", "mock", "--results", "again", "--json", "found.json"),
    ):
        subprocess.run([*DEXSTACK, *argv], cwd=tmp_path, check=True, capture_output=True, timeout=300)
    found = json.loads((tmp_path / "found.json").read_text())["results"]["joint_error_rad"]
    assert found["mean"] < 0.03 and found["end"] < 0.08
