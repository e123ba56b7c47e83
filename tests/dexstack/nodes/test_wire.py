"""Messages as numpy arrays and markers and back, and the rejection of invalid ones."""

from array import array

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from harness import joint_state as joints_message, pose_message, wait_until
from rclpy.serialization import serialize_message
from visualization_msgs.msg import Marker, MarkerArray

from dexstack.nodes import wire
from dexstack.nodes.markers import patch_markers, read_patches
from dexstack.nodes.simulator import SimulatorNode
from dexstack.nodes.wire import COMMAND, WORLD, BadMessage
from dexstack.plants.base import Patch
from dexstack.plants.mujoco import MujocoPlant

NAMES = [f"joint_{i}.0" for i in range(16)]


def joint_state(names=NAMES, **fields):
    return joints_message(3.5, names, **fields)


def test_joints_are_read_by_name():
    order = np.random.default_rng(0).permutation(16)
    read = wire.JointReader(NAMES, "position")
    for names, values in (
        (NAMES, np.arange(16.0)),
        ([NAMES[i] for i in order], order.astype(float)),
        (NAMES, np.arange(16.0)),
    ):
        sample = read(joint_state(names, position=values))
        assert sample.t == 3.5
        np.testing.assert_array_equal(sample.values, np.arange(16.0))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (joint_state(position=range(15)), "15 entries"),
        (joint_state(effort=range(16)), "0 entries in 'position'"),
        (joint_state([*NAMES[:15], "elbow"], position=range(16)), "unknown joint 'elbow'"),
        (joint_state(NAMES[:15], position=range(15)), "15 joint names"),
        (joint_state([*NAMES[:15], NAMES[0]], position=range(16)), "16 joint names"),
        (joint_state([*NAMES, NAMES[0]], position=range(17)), "17 joint names"),
        (joint_state([], position=range(16)), "0 joint names"),
        (joint_state(position=[*range(15), np.nan]), "non-finite"),
        (joint_state(position=[*range(15), np.inf]), "non-finite"),
    ],
)
def test_invalid_joint_states_are_rejected_and_the_next_is_read(message, reason):
    read = wire.JointReader(NAMES, "position")
    with pytest.raises(BadMessage, match=reason):
        read(message)
    np.testing.assert_array_equal(read(joint_state(position=range(16))).values, np.arange(16.0))


def test_joint_writer_shares_the_messages_memory():
    writer = wire.JointWriter(NAMES, "position", "effort")
    writer.position[:] = np.arange(16)
    writer.effort[3] = 0.5
    message = writer.at(1.25)
    assert (
        list(message.position) == list(range(16)) and message.effort[3] == 0.5 and list(message.name) == NAMES
    )
    assert (message.header.stamp.sec, message.header.stamp.nanosec) == (1, 250_000_000)
    np.testing.assert_array_equal(wire.JointReader(NAMES, "effort")(message).values, writer.effort)


@pytest.mark.parametrize("kind", [PoseStamped, PoseWithCovarianceStamped])
def test_pose_is_read_and_normalised(kind):
    sample = wire.read_pose(pose_message((1, 2, 3, 0.51, 0.5, 0.5, 0.5), kind=kind))
    np.testing.assert_allclose(sample.pose[:3], [1, 2, 3])
    assert abs(np.linalg.norm(sample.pose[3:]) - 1) < 1e-12 and sample.pose[3] > sample.pose[4]


def contacts(n=3):
    rng = np.random.default_rng(1)
    return rng.normal(size=(n, 3)), rng.normal(size=(n, 3)), rng.normal(size=n), rng.integers(-1, 17, n)


@pytest.mark.parametrize("n", [0, 1, 12])
def test_contacts_survive_the_message(n):
    sent = contacts(n)
    message = wire.contacts_message(2.0, *sent)
    assert " ".join(f.name for f in message.fields) == "x y z nx ny nz distance link" and message.width == n
    got = wire.read_contacts(message)
    assert got.t == 2.0
    for a, b in zip(sent, got[1:], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def _without(name):
    return _with(lambda m: setattr(m, "fields", [f for f in m.fields if f.name != name]))


def _with(change):
    message = wire.contacts_message(0.0, *contacts())
    change(message)
    return message


def _nan(message):
    message.data[0:4] = array("B", np.float32(np.nan).tobytes())


@pytest.mark.parametrize(
    ("read", "message", "reason"),
    [
        (wire.read_pose, pose_message((np.nan, 0, 0, 1, 0, 0, 0)), "non-finite"),
        (wire.read_pose, pose_message((0, 0, 0, np.inf, 0, 0, 0)), "non-finite"),
        (wire.read_pose, pose_message((0, 0, 0, 0, 0, 0, 0)), "quaternion of length 0"),
        (wire.read_pose, pose_message((0, 0, 0, 2, 0, 0, 0)), "quaternion of length 2"),
        (
            wire.read_pose,
            pose_message((1, 2, 3, 1, 0, 0, 0), frame="camera_color_optical_frame"),
            "frame 'camera",
        ),
        (wire.read_contacts, _without("nx"), "no field 'nx'"),
        (wire.read_contacts, _without("link"), "no field 'link' of type INT32"),
        (wire.read_contacts, _with(lambda m: setattr(m, "data", m.data[:-1])), "bytes for 3 points"),
        (wire.read_contacts, _with(lambda m: setattr(m, "width", 4)), "bytes for 4 points"),
        (wire.read_contacts, _with(lambda m: setattr(m, "point_step", 16)), "points of 16 bytes"),
        (wire.read_contacts, _with(_nan), "non-finite"),
        (wire.read_contacts, _with(lambda m: setattr(m.header, "frame_id", "palm")), "frame 'palm'"),
    ],
)
def test_invalid_poses_and_contacts_are_rejected(read, message, reason):
    with pytest.raises(BadMessage, match=reason):
        read(message)


SQUARE = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
PATCH = Patch(
    "tip",
    "cube",
    np.concatenate([SQUARE, SQUARE[:3] + np.array([0, 0, 1.0])]),
    np.array([0, 4, 7]),
    np.array([2e4, 1e4]),
    np.array([0.1, 0.2, 0.3]),
    np.array([0.0, 0.0, 3.0]),
    np.zeros(3),
)


def test_the_page_reads_the_markers_of_rviz():
    read = read_patches(patch_markers(0.0, [PATCH, PATCH]))
    (_, surface, arrow, *_) = patch_markers(0.0, [PATCH]).markers
    assert read.corners_W.shape == read.colours.shape == (18, 3) and read.arrows_W.shape == (2, 2, 3)
    np.testing.assert_allclose(read.corners_W[:9], [(p.x, p.y, p.z) for p in surface.points])
    np.testing.assert_allclose(read.colours[9:], [(c.r, c.g, c.b) for c in surface.colors])
    np.testing.assert_allclose(read.arrows_W[1], [(p.x, p.y, p.z) for p in arrow.points])
    empty = read_patches(patch_markers(0.0, []))
    assert empty.corners_W.shape == (0, 3) and empty.arrows_W.shape == (0, 2, 3)
    surface.colors.pop()
    with pytest.raises(BadMessage, match="three coloured corners"):
        read_patches(MarkerArray(markers=[surface]))
    arrow.header.frame_id = "map"
    with pytest.raises(BadMessage, match="frame 'map'"):
        read_patches(MarkerArray(markers=[arrow]))


def test_a_patch_becomes_coloured_triangles_and_an_arrow_along_its_force():
    clear, surface, arrow = patch_markers(1.5, [PATCH]).markers
    assert clear.action == Marker.DELETEALL
    assert len(surface.points) == len(surface.colors) == 3 * (2 + 1)
    first, last = surface.colors[0], surface.colors[-1]
    assert first.r > last.r and first.g > last.g, "the greater pressure is brighter"
    tail, tip = ([p.x, p.y, p.z] for p in arrow.points)
    np.testing.assert_allclose(tail, PATCH.point_W)
    np.testing.assert_allclose(np.subtract(tip, tail), (0, 0, 0.06))
    assert {m.header.frame_id for m in (surface, arrow)} == {WORLD}
    assert surface.header.stamp.nanosec == 500_000_000


@pytest.mark.parametrize("pressure", ([], [0.0, 0.0]))
def test_patches_without_pressure_are_drawn(pressure):
    patch = PATCH._replace(
        pressure=np.array(pressure), start=PATCH.start[: len(pressure) + 1], force_W=np.zeros(3)
    )
    assert len(patch_markers(0.0, [patch]).markers) == 3
    assert len(patch_markers(0.0, []).markers) == 1, "earlier markers are deleted"


def test_the_simulator_publishes_the_patches_of_its_plant(pair, monkeypatch):
    monkeypatch.setattr(MujocoPlant, "patches", lambda _: [PATCH], raising=False)
    seen: list[MarkerArray] = []
    simulator = pair(SimulatorNode)
    simulator.peer.create_subscription(MarkerArray, "contact_patch", seen.append, COMMAND)
    simulator.activate()
    wait_until(lambda: len(seen) > 2, 10, "three messages")
    assert [m.ns for m in seen[-1].markers] == ["", "pressure", "force"]


def test_a_kept_message_has_its_stamp_and_is_decoded_on_request():
    message = PoseStamped()
    message.header.stamp.sec, message.header.stamp.nanosec = 1_700_000_000, 250_000_000
    message.pose.position.x = 0.25
    kept = wire.Kept.of(serialize_message(message))
    assert kept.t == 1_700_000_000.25 and kept.message(PoseStamped) == message
    with pytest.raises(BadMessage, match="header expected"):
        wire.Kept.of(b"\0\1\0\0\0\0")
