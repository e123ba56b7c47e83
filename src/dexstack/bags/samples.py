"""Samples of object pose, joint angles and joint command from a bag, for learning.

Messages are decoded by the definitions in the bag (mcap-ros2-support), without ROS.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mcap.records import Schema
from mcap_ros2.decoder import DecoderFactory

from dexstack.bags.file import ENCODING, SCHEMA, BagReader, Topic
from dexstack.errors import ConfigError
from dexstack.process.history import JointHistory, JointSample, is_limp

POSES, STATES, COMMANDS, ROLLOUTS = "object_pose", "joint_states", "joint_command", "rollout/state"
LATE = 1.0
"""Largest delay of a pose behind the joint angles of its stamp [s]."""


class _Pose(NamedTuple):
    """A pose with the command and rollout at its arrival."""

    t: float
    """[s]"""
    pose_WO: np.ndarray
    """(7,)"""
    command: JointSample
    rollout: int


class _Samples:
    """Matches poses with joint angles at their stamps, after the next joint state has arrived."""

    def __init__(self) -> None:
        self.angles, self.torques = JointHistory(LATE), JointHistory(LATE)
        self.waiting: list[_Pose] = []
        self.rows: list[tuple[Any, ...]] = []

    def add_joints(self, joints: JointSample) -> None:
        self.angles.add(joints)
        self.settle()

    def settle(self) -> None:
        for t, pose_WO, command, rollout in self.waiting:
            if (joints := self.angles.at(t)) is not None:
                followed = np.full_like(command.values, np.nan) if joints.limp else command.values
                torques = self.torques.at(t)
                torque = np.full_like(joints.values, np.nan) if torques is None else torques.values
                self.rows.append((t, pose_WO, joints.values, torque, followed, command.t, rollout))
        self.waiting.clear()


def read_samples(path: Path, joints: Sequence[str]) -> dict[str, np.ndarray]:
    """Read the recording (:data:`dexstack.learning.transitions.RECORDED`, and ``rollout``) of a bag.

    One sample per object pose, with the joint angles interpolated at its stamp, likewise the ``torque``
    [N m] if the bag has it, and the newest joint command with its stamp ``t_command``. Commands are NaN
    while the hand is limp (no torque). If the bag has ``rollout/state``, only samples of running rollouts
    are kept; ``rollout`` numbers them, so that no transition spans a reset.

    Args:
        path: MCAP file.
        joints: the hand's joint names, in the order of the arrays.

    Raises:
        ConfigError: the file cannot be read, a topic is missing or not unique (two hands in one
            bag), or the joints are of another hand.
    """
    bag = BagReader(path)
    topics = bag.topics()
    wanted = {short: _one(path, topics, short) for short in (POSES, STATES, COMMANDS)}
    rollouts = [name for name in topics if name.endswith("/" + ROLLOUTS)]
    decode = _Decoder()
    samples = _Samples()
    command: JointSample | None = None
    running, start, count, last = not rollouts, -np.inf, 0, None
    for entry in bag:
        name = entry.topic.name
        if name == wanted[STATES].name:
            message = decode(entry.topic, entry.data)
            samples.add_joints(
                JointSample(_stamp(message), _in_order(path, message, joints), is_limp(message.effort))
            )
            if len(message.effort):
                samples.torques.add(JointSample(_stamp(message), _in_order(path, message, joints, "effort")))
        elif name == wanted[COMMANDS].name:
            message = decode(entry.topic, entry.data)
            command = JointSample(_stamp(message), _in_order(path, message, joints))
        elif name in rollouts:
            state = json.loads(decode(entry.topic, entry.data).data)
            if (state["phase"], state["attempt"]) != last:
                last = state["phase"], state["attempt"]
                running, start, count = state["phase"] == "running", state["t"], count + 1
        elif name == wanted[POSES].name and running and samples.angles.samples and command is not None:
            message = decode(entry.topic, entry.data)
            t, pose = _stamp(message), message.pose.pose
            if t >= start:
                p, o = pose.position, pose.orientation
                samples.waiting.append(
                    _Pose(t, np.array([p.x, p.y, p.z, o.w, o.x, o.y, o.z]), command, count)
                )
    samples.settle()
    if not samples.rows:
        raise ConfigError(
            f"the bag {path} has no object pose with joint angles and a joint command during a rollout"
        )
    t, pose_WO, q, torque, commands, stamps, rollout = (
        np.array(column, float) for column in zip(*samples.rows, strict=True)
    )
    return {
        "t": t,
        "pose_WO": pose_WO,
        "q": q,
        **({"torque": torque} if np.isfinite(torque).all() else {}),
        "q_command": commands,
        "t_command": stamps,
        "rollout": rollout,
    }


def _one(path: Path, topics: dict[str, Topic], short: str) -> Topic:
    found = [topic for name, topic in topics.items() if name.endswith("/" + short)]
    if len(found) != 1:
        raise ConfigError(f"the bag {path} has {len(found)} topics named {short}, expected 1")
    return found[0]


def _stamp(message: Any) -> float:
    return message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec


def _in_order(path: Path, message: Any, joints: Sequence[str], field: str = "position") -> np.ndarray:
    """Return a field of a joint state (N,) in the hand's joint order."""
    place = dict(zip(message.name, getattr(message, field), strict=False))
    if other := sorted(set(place) ^ set(joints)):
        raise ConfigError(f"the joints in the bag {path} are not this hand's: {', '.join(other[:3])}, …")
    return np.array([place[name] for name in joints])


class _Decoder:
    """Decoder of messages by the definitions in the bag."""

    def __init__(self) -> None:
        self._factory = DecoderFactory()
        self._known: dict[str, Any] = {}

    def __call__(self, topic: Topic, data: bytes) -> Any:
        if topic.type_name not in self._known:
            number, text = len(self._known) + 1, topic.definition.encode()
            schema = Schema(id=number, name=topic.type_name, encoding=SCHEMA, data=text)
            self._known[topic.type_name] = self._factory.decoder_for(ENCODING, schema)
        return self._known[topic.type_name](data)
