"""The recorder node: writes every message of the graph into one bag, as the bytes it came in.

Messages wait in the middleware (:mod:`.taps`); twenty times a second the worker takes what is
there, with the time at which each arrived, and the graph hardly feels that it is recorded. Topics
are looked for all the time.

It listens only, and lowers its own priority: messages can wait, the hand cannot. It ends on SIGINT,
on SIGTERM, or after ``seconds``.
"""

from __future__ import annotations

import bisect
import itertools
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rclpy.qos import HistoryPolicy, LivelinessPolicy, QoSProfile

from dexstack.bags.file import BagWriter, Topic
from dexstack.config import param
from dexstack.errors import ConfigError
from dexstack.nodes.common import OK, WARN, StackNode, run_node, yield_to_others
from dexstack.nodes.taps import Tap, offers

TURN = 0.05
"""Time between two visits to the middleware [s]."""
LOOK = 0.25
"""Time between two looks for new topics [s]."""
SETTLING = 5_000_000
"""A message may take this long from its arrival to where it can be taken [ns]."""
FOREVER = 9223372036, 854775807
"""Seconds and nanoseconds by which ROS says "no deadline"."""


@dataclass(frozen=True)
class RecorderParams:
    """Parameters of the recorder node."""

    file: str = param(
        "recording.mcap", "the bag; one that is there already is kept, and the new one gets a number"
    )
    seconds: float = param(
        0.0, "wall time after which recording ends [s]; 0: not before it is told to", 0.0, 1e7
    )


class RecorderNode(StackNode):
    """See the module's docstring."""

    def __init__(self) -> None:
        super().__init__("recorder", RecorderParams)

    def configure(self) -> None:
        """Everything is made when recording begins, and again when it begins again."""

    def begin(self) -> None:
        self._path = _unused(Path(self.params(RecorderParams).file))
        self._bag = BagWriter(self._path)
        self._taps: dict[str, Tap | None] = {}
        self._held: list[tuple[int, int, str, bytes]] = []
        self._last = 0
        self._count = 0
        self._began = time.monotonic()
        self._looked = self._reported = 0.0

    def work(self) -> None:
        self._stop.wait(TURN)
        now = time.monotonic()
        if now - self._looked > LOOK:
            self._looked = now
            self._find_topics()
        self._drain()
        seconds = self.params(RecorderParams).seconds
        if seconds and now - self._began > seconds:
            self.end(0)

    def finish(self) -> None:
        self._drain(last=True)
        self._bag.close()
        taps = [tap for tap in self._taps.values() if tap is not None]
        print(f"{self._count} messages on {len(taps)} topics in {self._path}", flush=True)
        for tap in taps:
            tap.close()

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        rate, self._reported = self._count - self._reported, self._count
        values = {"messages": self._count, "topics": len(self._taps), "file": str(self._path)}
        return (OK if rate else WARN), f"{rate:.0f} messages in the last second", values

    def _find_topics(self) -> None:
        for offer in offers(self):
            if offer.name in self._taps:
                continue
            try:
                tap = self._taps[offer.name] = Tap(self, offer)
                self._bag.add_topic(Topic(offer.name, offer.type_name, _qos_yaml(offer.qos), tap.definition))
            except (ImportError, AttributeError, ConfigError) as error:
                self._taps[offer.name] = None
                self.get_logger().warning(f"{offer.name} is not recorded: {error}")

    def _drain(self, *, last: bool = False) -> None:
        """Everything that waits, in the order in which it arrived; what arrives meanwhile is for
        the next visit."""
        now = time.time_ns()
        arrived = self._held
        for name, tap in self._taps.items():
            if tap is not None:
                arrived += [(message.received, message.sent, name, message.data) for message in tap.take()]
        arrived.sort(key=lambda row: row[0])
        count = len(arrived) if last else bisect.bisect(arrived, now - SETTLING, key=lambda row: row[0])
        for received, sent, name, data in arrived[:count]:
            self._last = max(
                self._last, received
            )  # a starved process is handed messages later than others that came after them
            self._bag.add(name, self._last, sent, data)
        self._held = arrived[count:]
        self._bag.flush()
        self._count += count


def _unused(path: Path) -> Path:
    """The path, or with a number where there is a file already: a recorder that comes back must not
    destroy what it has."""
    names = (path.with_stem(f"{path.stem}_{k}") if k else path for k in itertools.count())
    return next(name for name in names if not name.exists())


def _qos_yaml(offers: list[QoSProfile]) -> str:
    """The publishers' quality of service, in the words of `ros2 bag`."""
    forever = f"{{sec: {FOREVER[0]}, nsec: {FOREVER[1]}}}"
    lines = []
    for offer in offers:
        history = (
            HistoryPolicy.KEEP_LAST if offer.history == HistoryPolicy.UNKNOWN else offer.history
        )  # not announced over the wire
        liveliness = (
            LivelinessPolicy.AUTOMATIC if offer.liveliness == LivelinessPolicy.UNKNOWN else offer.liveliness
        )
        lines += [
            f"- history: {history.name.lower()}",
            f"  depth: {max(offer.depth, 1)}",
            f"  reliability: {offer.reliability.name.lower()}",
            f"  durability: {offer.durability.name.lower()}",
            f"  deadline: {forever}",
            f"  lifespan: {forever}",
            f"  liveliness: {liveliness.name.lower()}",
            f"  liveliness_lease_duration: {forever}",
            "  avoid_ros_namespace_conventions: false",
        ]
    return "\n".join(lines)


def main() -> int:
    yield_to_others()
    return run_node(RecorderNode)


if __name__ == "__main__":
    sys.exit(main())
