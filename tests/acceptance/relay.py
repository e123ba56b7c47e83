"""A graph whose messages pass a relay that can drop them, to emulate a bad network on a good one.

``python -m tests.acceptance.relay FOLDER PERCEPTION`` runs the nodes of ``dexstack up mock
--perception PERCEPTION`` and the relay, with logs in FOLDER. Subscribers of a relayed topic are
remapped to another name, under which the relay publishes it again.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from geometry_msgs.msg import PoseWithCovarianceStamped
from rclpy.publisher import Publisher
from sensor_msgs.msg import JointState, PointCloud2

from dexstack.cli.supervisor import NodeSupervisor
from dexstack.config import param
from dexstack.errors import unknown_name
from dexstack.graph.modes import MODES, NodeDescription
from dexstack.nodes.common import OK, PATIENCE, StackNode, run_node
from dexstack.nodes.wire import COMMAND, RECENT, SENSOR, STATE, Newest, WaitSet
from dexstack.process.threads import XLA_ONE_THREAD, prefer

RELAYED = {
    "joint_command": (JointState, COMMAND, ("hand",)),
    "joint_states": (JointState, STATE, ("contact_detector", "mpc")),
    "object_pose": (PoseWithCovarianceStamped, SENSOR, ("contact_detector", "mpc")),
    "contacts": (PointCloud2, SENSOR, ("mpc",)),
}
"""Type, quality of service and subscribers of each relayed topic."""
AWAY = "relayed/"


@dataclass(frozen=True)
class RelayParams:
    """Parameters of the relay."""

    lost: str = param("", "topics whose messages are dropped, separated by spaces")


class RelayNode(StackNode):
    """The relay; see the module's docstring."""

    LIVE = frozenset({"lost"})

    def __init__(self) -> None:
        super().__init__("relay", RelayParams)

    def configure(self) -> None:
        self._ways: list[tuple[Newest[Any], Publisher]] = []
        for topic, (kind, qos, _) in RELAYED.items():
            heard = self.newest(kind, topic, RECENT, lambda message: message)
            self._ways.append((heard, self.create_publisher(kind, AWAY + topic, qos)))
        self._wait = WaitSet(self, *(heard for heard, _ in self._ways))
        self._lost = 0

    def apply(self, block: Any) -> None:
        for topic in block.lost.split() if isinstance(block, RelayParams) else ():
            if topic not in RELAYED:
                raise unknown_name("topic of the relay", topic, RELAYED)

    def work(self) -> None:
        self._wait.wait(PATIENCE)
        lost = self.params(RelayParams).lost.split()
        for heard, away in self._ways:
            for message in heard.take_all():
                if heard.topic in lost:
                    self._lost += 1
                else:
                    away.publish(message)

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        return OK, "", {"lost": self._lost}


class _Relay(NodeDescription):
    module = "tests.acceptance.relay"  # type: ignore[assignment]


def run_graph(folder: Path, perception: str) -> int:
    """Run the nodes and the relay until a signal stops them.

    Returns:
        0 if they were stopped, 1 if one failed.
    """
    prefer(XLA_ONE_THREAD)
    nodes = MODES["mock"].describe(
        {"perception": perception, "goal_yaw": 175.0, "seconds": 900.0, "results": str(folder)}
    )
    for k, node in enumerate(nodes):
        topics = [t for t, (*_, readers) in RELAYED.items() if node.name in readers]
        nodes[k] = replace(node, remappings=tuple((t, AWAY + t) for t in topics))
    (folder / "log").mkdir(exist_ok=True)
    end = NodeSupervisor(
        [_Relay("relay"), *nodes], os.environ, folder / "log", view=sys.stderr, forked=True
    ).run()
    return 0 if end.stopped else 1


def main() -> int:
    """Run the relay alone, as a node of the graph."""
    return run_node(RelayNode)


if __name__ == "__main__":
    sys.exit(run_graph(Path(sys.argv[1]), sys.argv[2]))
