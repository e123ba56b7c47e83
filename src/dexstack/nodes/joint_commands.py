"""Commands on ``joint_command``, of one publisher at a time (:mod:`dexstack.hand.arbiter`)."""

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
"""Time between two searches for the name of an unknown publisher [s]."""


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
        self._looked_up = 0.0
        self._doubted = -math.inf
        """Time at which commands of unknown publishers were last refused [s]."""

    def take(self, t: float) -> JointSample | None:
        """Return the newest command since the last call, at time ``t`` [s]; None without one."""
        newest = None
        for message, info in self._messages.take_raw():
            publisher = _gid(info)
            if not publisher and self._node.count_publishers(TOPIC) > 1:
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
            names = ", ".join(sorted(x.node_name for x in self._node.get_publishers_info_by_topic(TOPIC)))
            return (
                f"{names} publish {TOPIC}, and this release of ROS 2 does not say whose a message is: "
                "none is followed"
            )
        refused = self.arbiter.refused(t)
        if not refused:
            return ""
        names = ", ".join(sorted(self.name(p) for p in refused))
        return f"{TOPIC} belongs to {self.name(self.arbiter.owner)}; commands of {names} are refused"

    def name(self, publisher: Any) -> str:
        """Return the name of the node of a publisher."""
        if publisher not in self._names and time.monotonic() > self._looked_up + LOOK_UP:
            self._looked_up = time.monotonic()
            for info in self._node.get_publishers_info_by_topic(TOPIC):
                self._names[bytes(info.endpoint_gid)[:16]] = info.node_name
        return self._names.get(publisher, "an unknown node")


def _gid(info: dict[str, Any]) -> bytes:
    """Return the identifier of a message's publisher; the same for all where the middleware does
    not report it."""
    gid = info.get("publisher_gid", b"")
    return bytes(gid["data"] if isinstance(gid, dict) else gid)[:16]
