"""What a learner needs of a bag: samples of object pose, joint angles and joint command, as ``dexstack up`` records them by itself.

Messages are decoded by the definitions inside the bag (mcap-ros2-support), so that learning needs no ROS.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dexstack.bags.file import ENCODING, SCHEMA, BagReader, Topic
from dexstack.errors import ConfigError

POSES, STATES, COMMANDS, ROLLOUTS = "object_pose", "joint_states", "joint_command", "rollout/state"
OLDEST = 0.05
"""Joint angles farther than this from the pose in time give no sample [s]."""
AROUND = 200
"""Joint states before a pose among which those of its time are looked for: poses come some time after the joints of their stamp."""


class _State(NamedTuple):
    t: float
    """[s]"""
    q: np.ndarray
    """(N,) [rad, m]"""
    limp: bool
    """Without any torque."""


def read_samples(path: Path, joints: Sequence[str]) -> dict[str, np.ndarray]:
    """The recording (:data:`dexstack.learning.transitions.RECORDED`, and ``rollout``) in a bag.

    One sample per object pose, with the joint angles at its stamp, interpolated, and the joint command then in force; ``t_command`` is that
    one's stamp. A hand without any torque is limp and follows no command: there the command is not a number. Where the bag
    has ``rollout/state`` only samples of running rollouts are kept; each rollout has a number of its own, so that nobody learns from the
    reset in between.

    Args:
        joints: the hand's joint names, in the order of the arrays.

    Raises:
        ConfigError: no such file, a topic is missing or is there twice (two hands in one bag), or joints of another hand.
    """
    bag = BagReader(path)
    topics = bag.topics()
    wanted = {short: _one(path, topics, short) for short in (POSES, STATES, COMMANDS)}
    rollouts = [name for name in topics if name.endswith("/" + ROLLOUTS)]
    decode = _Decoder()
    poses: list[tuple[float, np.ndarray, tuple[float, np.ndarray], int, int]] = []
    states: list[_State] = []
    command: tuple[float, np.ndarray] | None = None
    running, start, count, last = not rollouts, -np.inf, 0, None
    for entry in bag:
        name = entry.topic.name
        if name == wanted[STATES].name:
            message = decode(entry.topic, entry.data)
            limp = len(message.effort) > 0 and not np.any(message.effort)
            states.append(_State(_stamp(message), _in_order(path, message, joints), limp))
        elif name == wanted[COMMANDS].name:
            message = decode(entry.topic, entry.data)
            command = _stamp(message), _in_order(path, message, joints)
        elif name in rollouts:
            state = json.loads(decode(entry.topic, entry.data).data)
            if (state["phase"], state["attempt"]) != last:
                last = state["phase"], state["attempt"]
                running, start, count = state["phase"] == "running", state["t"], count + 1
        elif name == wanted[POSES].name and running and states and command is not None:
            message = decode(entry.topic, entry.data)
            t, pose = _stamp(message), message.pose.pose
            if t >= start:
                p, o = pose.position, pose.orientation
                poses.append((t, np.array([p.x, p.y, p.z, o.w, o.x, o.y, o.z]), command, count, len(states)))
    rows = []
    for t, pose_WO, (stamp, target), rollout, n in poses:
        at = _at(states[max(0, n - AROUND) : n + 1], t)
        if at is not None:
            rows.append((t, pose_WO, at.q, np.full_like(target, np.nan) if at.limp else target, stamp, rollout))
    if not rows:
        raise ConfigError(f"the bag {path} holds no object pose with joint angles and a joint command during a rollout")
    t, pose_WO, angles, commands, stamps, rollout = (np.array(column, float) for column in zip(*rows, strict=True))
    return {"t": t, "pose_WO": pose_WO, "q": angles, "q_command": commands, "t_command": stamps, "rollout": rollout}


def _at(states: Sequence[_State], t: float) -> _State | None:
    """The joints at a time, None where they were not seen about then; time may go back among them."""
    stamps = np.array([state.t for state in states])
    nearest = int(np.argmin(np.abs(stamps - t)))
    if abs(stamps[nearest] - t) > OLDEST:
        return None
    near, other = states[nearest], states[np.clip(nearest + (1 if t > stamps[nearest] else -1), 0, len(states) - 1)]
    gap = other.t - near.t
    share = (t - near.t) / gap if gap else 0.0
    return near._replace(q=near.q + np.clip(share, 0.0, 1.0) * (other.q - near.q))


def _one(path: Path, topics: dict[str, Topic], short: str) -> Topic:
    found = [topic for name, topic in topics.items() if name.endswith("/" + short)]
    if len(found) != 1:
        raise ConfigError(f"the bag {path} has {len(found)} topics named {short}, 1 expected")
    return found[0]


def _stamp(message: Any) -> float:
    return message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec


def _in_order(path: Path, message: Any, joints: Sequence[str]) -> np.ndarray:
    """Positions (N,) in the hand's own order."""
    place = dict(zip(message.name, message.position, strict=False))
    if set(place) != set(joints):
        raise ConfigError(f"the joints in the bag {path} are not this hand's: {', '.join(sorted(set(place) ^ set(joints))[:3])}, …")
    return np.array([place[name] for name in joints])


class _Decoder:
    """Bytes to messages, by the definition in the bag."""

    def __init__(self) -> None:
        from mcap_ros2.decoder import DecoderFactory

        self._factory = DecoderFactory()
        self._known: dict[str, Any] = {}

    def __call__(self, topic: Topic, data: bytes) -> Any:
        from mcap.records import Schema

        if topic.type_name not in self._known:
            schema = Schema(id=len(self._known) + 1, name=topic.type_name, encoding=SCHEMA, data=topic.definition.encode())
            self._known[topic.type_name] = self._factory.decoder_for(ENCODING, schema)
        return self._known[topic.type_name](data)
