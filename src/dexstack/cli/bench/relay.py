"""A graph whose messages pass a relay that can lose them: what a bad network does to a graph on one
that is good.

``python -m dexstack.cli.bench.relay FOLDER`` runs the nodes of ``dexstack up mock --perception
camera`` and the relay, logs in FOLDER. Who reads a relayed topic is told another name of it, under
which the relay publishes what it hears.
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

from dexstack.cli.supervisor import Supervisor, fork
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
"""Type, quality of service and readers of each topic that passes the relay."""
AWAY = "relayed/"


@dataclass(frozen=True)
class RelayParams:
    """What is wrong with the network."""

    lost: str = param("", "topics whose messages are lost, with blanks between them")


class RelayNode(StackNode):
    """See the module's docstring."""

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
    module = "dexstack.cli.bench.relay"  # type: ignore[assignment]


def run_graph(folder: Path) -> int:
    """The nodes of the mode, told of the relay, and the relay, until a signal ends them.

    Returns:
        0 when they were stopped, 1 when one of them failed.
    """
    prefer(XLA_ONE_THREAD)
    nodes = MODES["mock"].describe(
        {"perception": "camera", "goal_yaw": 175.0, "seconds": 900.0, "results": str(folder)}
    )
    told = [
        replace(
            n, remappings=tuple((t, AWAY + t) for t, (*_, readers) in RELAYED.items() if n.name in readers)
        )
        for n in nodes
    ]
    (folder / "log").mkdir(exist_ok=True)
    end = Supervisor([_Relay("relay"), *told], os.environ, folder / "log", view=sys.stderr, begin=fork).run()
    return 0 if end.stopped else 1


def main() -> int:
    """The relay alone, as a node of that graph."""
    return run_node(RelayNode)


if __name__ == "__main__":
    sys.exit(run_graph(Path(sys.argv[1])))
