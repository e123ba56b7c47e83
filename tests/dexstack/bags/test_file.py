"""Bags: written messages are read back bit for bit, also from truncated files."""

import json
from pathlib import Path

import numpy as np
import pytest
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory

from dexstack.bags.definitions import full_definition
from dexstack.bags.file import BagReader, BagWriter, Topic, is_bag
from dexstack.bags.recordings import read_recording, read_run, recording_file, recording_files
from dexstack.bags.samples import read_samples
from dexstack.errors import ConfigError

pytest.importorskip("rclpy", reason="message definitions come with ROS 2 or the extra 'ros'")
from geometry_msgs.msg import PoseWithCovarianceStamped
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import String

QOS = "- history: keep_last\n  depth: 1\n  reliability: best_effort\n  durability: volatile"
JOINTS = ("a", "b")


def write(path: Path, rows) -> list[tuple[str, int, bytes]]:
    """Write a bag of (topic, time [s], message); return (topic, time [ns], data)."""
    bag, known, written = BagWriter(path), set(), []
    for name, t, message in rows:
        type_name = f"{type(message).__module__.split('.')[0]}/msg/{type(message).__name__}"
        if name not in known:
            known.add(name)
            bag.add_topic(Topic(name, type_name, QOS, full_definition(type_name)))
        data = serialize_message(message)
        bag.add(name, round(1e9 * t) + 5, round(1e9 * t), data)
        written.append((name, round(1e9 * t) + 5, data))
    bag.close()
    return written


def stamped(message, t: float):
    message.header.stamp.sec, message.header.stamp.nanosec = int(t), round(1e9 * (t % 1))
    return message


def pose(t: float, x: float = 0.0):
    message = stamped(PoseWithCovarianceStamped(), t)
    message.header.frame_id = "world"
    message.pose.pose.position.x, message.pose.pose.orientation.w = x, 1.0
    return message


def joints(t: float, *position: float, name=JOINTS):
    return stamped(JointState(name=list(name), position=list(position)), t)


def state(t: float, phase: str, attempt: int = 1):
    return String(data=json.dumps({"phase": phase, "attempt": attempt, "t": t}))


def test_messages_are_read_back_bit_for_bit(tmp_path):
    written = write(
        tmp_path / "a.mcap", [(f"/topic{k % 3}", 0.01 * k, joints(k, np.pi * k, -k)) for k in range(1000)]
    )
    bag = BagReader(tmp_path / "a.mcap")
    assert [(e.topic.name, e.t, e.data) for e in bag] == written and not bag.cut
    assert all(e.published == e.t - 5 and e.topic.qos == QOS for e in bag)


def test_message_definitions_are_in_the_file(tmp_path):
    """A reader that knows only the types in the bag, as Foxglove, can decode it."""
    write(
        tmp_path / "a.mcap",
        [("/object_pose", 0.5, pose(0.5, 7.0)), ("/joint_states", 0.6, joints(0.6, 1.0, 2.0))],
    )
    with (tmp_path / "a.mcap").open("rb") as file:
        reader = make_reader(file, decoder_factories=[DecoderFactory()])
        assert reader.get_header().profile == "ros2" and reader.get_summary().statistics.message_count == 2
        found = {channel.topic: message for _, channel, _, message in reader.iter_decoded_messages()}
    assert (
        found["/object_pose"].pose.pose.position.x == 7.0 and found["/object_pose"].header.frame_id == "world"
    )
    assert list(found["/joint_states"].position) == [1.0, 2.0] and list(found["/joint_states"].name) == list(
        JOINTS
    )


def test_a_truncated_bag_is_read_up_to_its_end(tmp_path):
    path = tmp_path / "a.mcap"
    rng = np.random.default_rng(0)  # noise, which does not compress: many chunks
    written = write(path, [("/joint_states", 0.01 * k, joints(k, *rng.random(2))) for k in range(6000)])
    whole = path.read_bytes()
    for share in (0.03, 0.3, 0.7, 0.999):
        path.write_bytes(whole[: int(share * len(whole))])
        bag = BagReader(path)
        read = [(e.topic.name, e.t, e.data) for e in bag]
        assert bag.cut and read == written[: len(read)]
        assert len(read) >= share * len(written) - 1000, "no more than a chunk is lost"


def test_reading_stops_at_a_damaged_chunk(tmp_path):
    path = tmp_path / "a.mcap"
    written = write(path, [("/joint_states", 0.01 * k, joints(k, 1.0, 2.0)) for k in range(5000)])
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 0xFF
    path.write_bytes(whole)
    read = [(e.topic.name, e.t, e.data) for e in BagReader(path)]
    assert read == written[: len(read)] and len(read) < len(written)


def test_the_folder_of_a_bag_is_read(tmp_path):
    folder = tmp_path / "bag"
    folder.mkdir()
    written = write(folder / "bag_0.mcap", [("/joint_states", 0.1, joints(0.1, 1.0, 2.0))])
    (folder / "metadata.yaml").write_text("rosbag2_bagfile_information: {}")
    assert is_bag(folder) and not is_bag(tmp_path)
    assert [e.data for e in BagReader(folder)] == [data for *_, data in written]
    (folder / "bag_0.mcap").rename(folder / "bag_0.db3")
    (folder / "bag_0.db3").write_bytes(b"SQLite format 3\0")
    for path in (folder, folder / "bag_0.db3"):
        with pytest.raises(ConfigError, match=r"bag_0\.db3 is not an MCAP file: convert it"):
            BagReader(path)
    with pytest.raises(ConfigError, match="holds 0 bags"):
        BagReader(tmp_path)


def test_a_recording_is_read_from_its_file_or_folder(tmp_path):
    folder = tmp_path / "trial"
    folder.mkdir()
    summary = json.dumps({"task": "palm_turn", "object": "cube", "hand": "right"})
    np.savez(folder / "recording.npz", t=np.arange(3.0), summary=summary)
    for path in (folder, folder / "recording.npz"):
        assert list(read_recording(path, JOINTS)) == ["t"]
        assert read_run(path).summary["hand"] == "right"
    assert recording_files(tmp_path) == [folder / "recording.npz"]
    bag = tmp_path / "bag"
    bag.mkdir()
    write(bag / "bag_0.mcap", [("/joint_states", 0.1, joints(0.1, 1.0, 2.0))])
    (bag / "metadata.yaml").write_text("rosbag2_bagfile_information: {}")
    assert recording_file(bag) == bag and recording_files(bag) == [bag]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (".", "there is no recording .*; recordings are in .*a … .*b"),
        ("empty", r"there is no recording .*empty/recording.npz or bag \(.mcap\) in .*empty"),
        ("none.npz", "cannot read the recording .*none.npz"),
        ("text.npz", "text.npz is neither a recording"),
        ("array.npy", "array.npy is neither a recording"),
        ("old.db3", r"old\.db3 is not an MCAP file: convert it"),
    ],
)
def test_what_is_no_recording_is_refused_in_one_sentence(name, sentence, tmp_path):
    for folder in ("a", "b", "empty"):
        (tmp_path / folder).mkdir()
    for folder in ("a", "b"):
        np.savez(tmp_path / folder / "recording.npz", t=np.arange(3.0))
    (tmp_path / "text.npz").write_text("text")
    np.save(tmp_path / "array.npy", np.zeros(3))
    (tmp_path / "old.db3").write_bytes(b"SQLite format 3\0")
    with pytest.raises(ConfigError, match=sentence):
        read_recording(tmp_path / name, JOINTS)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "text.mcap").write_text("hello, I am not a bag")
    for name, message in (("text.mcap", "is not an MCAP file"), ("none.mcap", "cannot read the bag")):
        with pytest.raises(ConfigError, match=message):
            BagReader(tmp_path / name)
    with pytest.raises(ConfigError, match="cannot write"):
        BagWriter(tmp_path / "no folder" / "a.mcap")


def test_samples_are_taken_from_running_rollouts(tmp_path):
    rows = [
        ("/n/rollout/state", 0.0, state(0.0, "waiting")),
        ("/n/joint_states", 0.0, joints(0.0, 2.0, 1.0, name=("b", "a"))),
        ("/n/object_pose", 0.01, pose(0.01)),
        ("/n/joint_command", 0.02, joints(0.02, 3.0, 4.0)),
        ("/n/object_pose", 0.03, pose(0.03)),
        ("/n/rollout/state", 0.03, state(0.03, "running")),
        ("/n/object_pose", 0.04, pose(0.04, 5.0)),
        ("/n/object_pose", 0.12, pose(0.12)),  # no joint angles near it
        ("/n/rollout/state", 0.2, state(0.2, "running", 2)),
        ("/n/joint_states", 0.2, joints(0.2, 7.0, 8.0)),
        ("/n/object_pose", 0.21, pose(0.21)),
        ("/n/rollout/state", 0.22, state(0.22, "reached", 2)),
        ("/n/object_pose", 0.23, pose(0.23)),
    ]
    write(tmp_path / "a.mcap", rows)
    samples = read_samples(tmp_path / "a.mcap", JOINTS)
    np.testing.assert_allclose(samples["t"], [0.04, 0.21])
    np.testing.assert_allclose(
        samples["q"], [[2.2, 3.2], [7.0, 8.0]], err_msg="between those of before and after the pose"
    )
    np.testing.assert_allclose(samples["q_command"], [[3.0, 4.0]] * 2)
    np.testing.assert_allclose(samples["t_command"], [0.02, 0.02])
    np.testing.assert_allclose(samples["pose_WO"][0], [5, 0, 0, 1, 0, 0, 0])
    assert samples["rollout"][0] != samples["rollout"][1]


def test_commands_are_nan_while_the_hand_is_limp(tmp_path):
    rows = [
        ("/n/rollout/state", 0.0, state(0.0, "running")),
        ("/n/joint_command", 0.0, joints(0.0, 3.0, 4.0)),
    ]
    for k, effort in enumerate(([], [0.0, 0.1], [0.0, 0.0], [-0.1, 0.1])):
        t = 0.1 * (1 + k)
        measured = joints(t, 1.0, 2.0)
        measured.effort = effort
        rows += [("/n/joint_states", t, measured), ("/n/object_pose", t, pose(t))]
    write(tmp_path / "a.mcap", rows)
    samples = read_samples(tmp_path / "a.mcap", JOINTS)
    np.testing.assert_array_equal(np.isfinite(samples["q_command"]).all(axis=1), [True, True, False, True])
    assert "torque" not in samples, "the first joint state has none"


def test_torques_belong_to_the_time_of_the_pose(tmp_path):
    rows = [("/joint_command", 0.0, joints(0.0, 3.0, 4.0))]
    for k in range(10):
        measured = joints(0.01 * k, 1.0, 2.0)
        measured.effort = [0.1 * k, -0.2 * k]
        rows.append(("/joint_states", 0.01 * k, measured))
    rows += [("/object_pose", 0.09, pose(0.045)), ("/joint_states", 0.1, joints(0.1, 1.0, 2.0))]
    write(tmp_path / "a.mcap", rows)
    samples = read_samples(tmp_path / "a.mcap", JOINTS)
    np.testing.assert_allclose(samples["torque"], [[0.45, -0.9]])


def test_bags_without_the_needed_topics_or_joints_are_refused(tmp_path):
    write(tmp_path / "a.mcap", [("/object_pose", 0.0, pose(0.0))])
    with pytest.raises(ConfigError, match="has 0 topics named joint_states"):
        read_samples(tmp_path / "a.mcap", JOINTS)
    rows = [
        ("/object_pose", 0.0, pose(0.0)),
        ("/joint_command", 0.0, joints(0.0, 1.0)),
        ("/joint_states", 0.0, joints(0.0, 1.0, name=("x",))),
    ]
    write(tmp_path / "b.mcap", rows)
    with pytest.raises(ConfigError, match="not this hand's"):
        read_samples(tmp_path / "b.mcap", JOINTS)
