"""Commands on ``joint_command``, of one publisher at a time (:mod:`dexstack.hand.arbiter`).

A message belongs to the publisher that the middleware reports. Releases of ROS 2 that report none
(Jazzy) leave it to the message: where several nodes publish, its ``header.frame_id`` must be the
name of one of them, as the planner and the trajectory node set it; all other messages are refused.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from sensor_msgs.msg import JointState

from dexstack.hand.arbiter import REMEMBERED, Arbiter, rank
from dexstack.nodes.common import StackNode
from dexstack.nodes.wire import STATE, BadMessage, JointReader
from dexstack.process.history import JointSample

TOPIC = "joint_command"
LOOK_UP = 0.2
"""Time between two searches for the names of publishers [s]."""


class JointCommands:
    """The newest command of the publisher that owns the joints.

    Args:
        node: reports refused commands.
        names: the hand's joint names.
        owners: node names in descending priority; all others have the lowest.
        lease: see :class:`Arbiter`.
        aliases: other names of joints that commands may use, with the hand's.
    """

    def __init__(
        self,
        node: StackNode,
        names: Sequence[str],
        owners: Sequence[str],
        lease: float,
        aliases: Mapping[str, str],
    ) -> None:
        self._node = node
        self._owners = list(owners)
        self._read = JointReader(names, "position", finite=False, aliases=aliases)
        # deep enough that two publishers do not overwrite each other's messages between two turns
        self._messages = node.newest(JointState, TOPIC, STATE, self._read)
        self.arbiter = Arbiter(lease)
        self._names: dict[bytes, str] = {}
        self._publishing: list[str] = []
        """Names of the nodes that publish, at the last search."""
        self._looked_up = 0.0
        self._doubted = -math.inf
        """Time at which commands of unknown publishers were refused last [s]."""

    def take(self, t: float) -> JointSample | None:
        """Return the newest command since the last call, at time ``t`` [s]; None without one."""
        newest = None
        for message, info in self._messages.take_raw():
            publisher = _gid(info) or self._signed(message)
            if publisher is None:
                self._doubted = t
                continue
            if not self.arbiter.accept(publisher, rank(self.name(publisher), self._owners), t):
                continue
            try:
                newest = self._read(message)
            except BadMessage as reason:
                self._node.drop(TOPIC, str(reason))
        return newest

    def conflict(self, t: float) -> str:
        """Return a message that names the owner and the refused publishers; empty without any."""
        if abs(t - self._doubted) <= REMEMBERED:
            names = ", ".join(sorted(self._publishing))
            return (
                f"{names} publish {TOPIC}, and this release of ROS 2 does not say whose a message is: "
                "only those with their node's name in header.frame_id are followed"
            )
        refused = self.arbiter.refused(t)
        if not refused:
            return ""
        names = ", ".join(sorted(self.name(p) for p in refused))
        return f"{TOPIC} belongs to {self.name(self.arbiter.owner)}; commands of {names} are refused"

    def name(self, publisher: Any) -> str:
        """Return the name of the node of a publisher."""
        if isinstance(publisher, str):
            return publisher or "an unknown node"
        if publisher not in self._names:
            self._look_up()
        return self._names.get(publisher, "an unknown node")

    def _signed(self, message: JointState) -> str | None:
        """Return the name of the node that a message gives as its sender; None if several nodes publish
        and it is not that of just one of them."""
        self._look_up()
        sender = message.header.frame_id
        if self._node.count_publishers(TOPIC) < 2:
            return self._publishing[0] if len(self._publishing) == 1 else sender
        return sender if self._publishing.count(sender) == 1 else None

    def _look_up(self) -> None:
        if time.monotonic() > self._looked_up + LOOK_UP:
            self._looked_up = time.monotonic()
            found = self._node.get_publishers_info_by_topic(TOPIC)
            self._publishing = [x.node_name for x in found]
            self._names |= {bytes(x.endpoint_gid)[:16]: x.node_name for x in found}


def _gid(info: dict[str, Any]) -> bytes:
    """Return the identifier of a message's publisher; empty where the middleware does not report it."""
    gid = info.get("publisher_gid", b"")
    return bytes(gid["data"] if isinstance(gid, dict) else gid)[:16]
