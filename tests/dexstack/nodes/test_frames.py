"""Poses in frames that move: looked up at their stamps, or refused with a reason."""

from types import SimpleNamespace

import numpy as np
import pytest
from harness import pose_message, wait_until
from scipy.spatial.transform import Rotation
from test_servo_nodes import Bench

from dexstack.errors import ConfigError
from dexstack.model.frames import Frame
from dexstack.model.gravity import GravityCompensation
from dexstack.model.hand import load_hand
from dexstack.nodes import frames
from dexstack.nodes.frames import FrameBuffer
from dexstack.nodes.hand import HandNode
from dexstack.nodes.robot_state import RobotStateNode
from dexstack.nodes.tf import frames_message
from dexstack.nodes.wire import BadMessage
from dexstack.perception.se3 import Transform, difference

PIVOT = np.array([0.1, -0.2, 0.5])


def frame(parent: str, name: str, X: Transform) -> Frame:
    return Frame(parent, name, X.p, X.pose[3:])


def arm(t: float) -> Transform:
    """Pose of an arm's flange in its base: it turns at 1 rad/s about a slanted axis and moves."""
    axis = np.array([1.0, 2.0, -2.0]) / 3.0
    R = Rotation.from_rotvec(t * axis).as_matrix()
    return Transform(R, PIVOT + np.array([0.3 * t, 0.0, 0.1]))


CAMERA = Transform.look_at([0.6, 0.1, 0.9], [0.0, 0.0, 0.3])
"""Pose of a camera in the arm's base."""
HAND = Transform(Rotation.from_euler("xyz", [0.3, -0.2, 0.1]).as_matrix(), np.array([0.0, 0.02, 0.05]))
"""Pose of the hand's world on the flange."""


def tell(buffer: FrameBuffer, t: float) -> None:
    buffer.note(frames_message(SimpleNamespace, t, [frame("base", "flange", arm(t))]))


@pytest.fixture
def buffer() -> FrameBuffer:
    """An arm that has moved for a second, with poses at 10 Hz, a hand on it and a fixed camera."""
    made = FrameBuffer()
    fixed = [frame("base", "camera", CAMERA), frame("flange", "world", HAND)]
    made.note(frames_message(SimpleNamespace, 0.0, fixed), fixed=True)
    for k in range(11):
        tell(made, 10.0 + 0.1 * k)
    return made


@pytest.mark.parametrize("t", [10.0, 10.004, 10.5, 10.995, 11.0])
def test_a_pose_is_that_of_its_time(buffer, t):
    expected = arm(t).compose(HAND).inverse.compose(CAMERA)
    assert np.abs(difference(buffer.pose("world", "camera", t), expected)).max() < 2e-5


def test_time_zero_asks_for_the_newest_pose(buffer):
    expected = arm(11.0).compose(HAND).inverse.compose(CAMERA)
    assert np.abs(difference(buffer.pose("world", "camera", 0.0), expected)).max() < 1e-9


@pytest.mark.parametrize(
    ("of", "t", "why"),
    [
        ("camera", 11.01, "'flange' is needed 0.010 s after the newest on /tf"),
        ("camera", 9.9, "'flange' is needed 0.100 s before the oldest on /tf"),
        ("another", 10.5, "does not connect 'another' to 'world'"),
    ],
)
def test_what_is_not_known_is_refused_with_the_reason(buffer, of, t, why):
    with pytest.raises(ConfigError, match=why):
        buffer.pose("world", of, t)


def test_old_repeated_and_reset_poses(buffer):
    tell(buffer, 10.5)
    assert buffer.pose("world", "camera", 10.995) is not None, "a late message forgets nothing"
    tell(buffer, 3.0)
    with pytest.raises(ConfigError, match="after the newest"):
        buffer.pose("world", "camera", 10.995)
    buffer.pose("world", "camera", 3.0)
    loop = [frame("world", "base", HAND)]
    buffer.note(frames_message(SimpleNamespace, 0.0, loop), fixed=True)
    with pytest.raises(ConfigError, match="a loop"):
        buffer.pose("world", "camera", 3.0)
    assert FrameBuffer().root("camera")[0] == "camera"


class Told(FrameBuffer):
    """A listener whose messages come from the test, since TFMessage is not on PyPI."""

    def __init__(self, node: object) -> None:
        super().__init__()
        fixed = [frame("base", "camera", CAMERA), frame("flange", "world", HAND)]
        self.note(frames_message(SimpleNamespace, 0.0, fixed), fixed=True)
        for k in range(11):
            tell(self, 10.0 + 0.1 * k)


def test_nodes_take_object_poses_in_any_frame_at_their_time(pair, monkeypatch):
    monkeypatch.setattr("dexstack.nodes.common.FrameListener", Told)
    node = pair(RobotStateNode).node
    pose = np.array([0.02, 0.03, 0.6, 0.5, -0.5, 0.5, 0.5])
    for t in (10.3, 10.7):
        sample = node.read_pose(pose_message(pose, t, "camera"))
        expected = arm(t).compose(HAND).inverse.compose(CAMERA).compose(Transform.of_pose(pose))
        assert np.abs(difference(Transform.of_pose(sample.pose), expected)).max() < 2e-5 and sample.t == t
    np.testing.assert_allclose(node.read_pose(pose_message(pose, 10.3)).pose, pose)
    with pytest.raises(BadMessage, match="frame 'camera', 'world' expected: the pose of 'flange' is needed"):
        node.read_pose(pose_message(pose, 12.0, "camera"))


@pytest.mark.skipif(frames.tf_message() is not None, reason="tf2_msgs is installed")
def test_without_tf2_msgs_a_pose_in_another_frame_is_refused_with_the_reason(pair):
    node = pair(RobotStateNode).node
    with pytest.raises(BadMessage, match="frame 'camera', 'world' expected: tf2_msgs is not installed"):
        node.read_pose(pose_message([0, 0, 0.1, 1, 0, 0, 0], 10.0, "camera"))


class Tilted(FrameBuffer):
    """A listener that knows how an arm's base stands in the hand's world."""

    def __init__(self, node: object) -> None:
        super().__init__()
        self.note(frames_message(SimpleNamespace, 0.0, [frame("world", "base", HAND)]), fixed=True)


@pytest.mark.parametrize(
    ("of", "trouble"), [("base", ""), ("nowhere", "does not connect 'nowhere' to 'world'")]
)
def test_the_hand_compensates_gravity_in_the_direction_that_tf_gives(pair, monkeypatch, of, trouble):
    monkeypatch.setattr("dexstack.nodes.common.FrameListener", Tilted)
    node, hand = pair(HandNode, gravity_frame=of, kp=0.0), load_hand("right")
    node.activate()
    bench = Bench(node)
    upright = GravityCompensation(hand)(hand.home).copy()
    tilted = GravityCompensation(hand, -9.81 * HAND.R[:, 2])(hand.home)
    expected = upright if trouble else tilted

    def compensated() -> bool:
        bench.command(hand.home)
        return np.allclose(bench.effort(), expected, atol=2e-4)

    wait_until(compensated, 10, "its torques")
    assert not np.allclose(upright, tilted, atol=5e-3)
    if trouble:  # the torques are right before the direction is asked for
        wait_until(lambda: trouble in node.node.status()[1], 10, "the reason")
    assert ("last known direction" in node.node.status()[1]) == bool(trouble)
