"""Recorder: writes every message of the graph into one bag, without deserialising it.

Messages wait in the middleware with their times of arrival; the worker takes them twenty times a
second. New topics are added while recording. A subscription requests the quality of service that all
publishers of the topic offer.

The process lowers its priority. It ends on SIGINT, on SIGTERM, or after ``seconds``.
"""

from __future__ import annotations

import bisect
import importlib
import itertools
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from rclpy.qos import DurabilityPolicy, HistoryPolicy, LivelinessPolicy, QoSProfile, ReliabilityPolicy
from rclpy.subscription import Subscription

from dexstack.bags.definitions import full_definition
from dexstack.bags.file import BagWriter, Topic
from dexstack.config import param
from dexstack.errors import ConfigError
from dexstack.nodes.common import OK, WARN, StackNode, run_node
from dexstack.nodes.wire import owned_subscription, take

TURN = 0.05
"""Time between two polls of the middleware [s]."""
LOOK = 0.25
"""Time between two searches for new topics [s]."""
DEPTH = 1000
"""Largest number of waiting messages of one topic."""
SETTLING = 5_000_000
"""Longest time from the arrival of a message until it can be taken [ns]."""
FOREVER = {"sec": 9223372036, "nsec": 854775807}
"""Duration that stands for "no deadline" in ROS."""


@dataclass(frozen=True)
class RecorderParams:
    """Parameters of the recorder node."""

    file: str = param("recording.mcap", "bag to write; a number is added to the name if it exists")
    seconds: float = param(0.0, "wall time after which recording ends [s]; 0: no limit", 0.0, 1e7)


class RecorderNode(StackNode):
    BACKGROUND = True

    def __init__(self) -> None:
        super().__init__("recorder", RecorderParams)

    def begin(self) -> None:
        self._path = _unused(Path(self.params(RecorderParams).file))
        self._bag = BagWriter(self._path)
        self._recorded: dict[str, Subscription | None] = {}
        """Subscription by topic; None: the topic cannot be recorded."""
        self._held: list[tuple[int, int, str, bytes]] = []
        """Messages not yet written: received and sent [ns since the epoch], topic, CDR."""
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
        subscriptions = [one for one in self._recorded.values() if one is not None]
        print(f"{self._count} messages on {len(subscriptions)} topics in {self._path}", flush=True)
        for one in subscriptions:
            self.destroy_subscription(one)

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        rate, self._reported = self._count - self._reported, self._count
        values = {"messages": self._count, "topics": len(self._recorded), "file": str(self._path)}
        return (OK if rate else WARN), f"{rate:.0f} messages in the last second", values

    def _find_topics(self) -> None:
        """Subscribe to new topics with a publisher and a single type, except hidden ones (``_…``)."""
        for name, types in self.get_topic_names_and_types():
            if "/_" in name or len(types) != 1 or name in self._recorded:
                continue
            offers = [info.qos_profile for info in self.get_publishers_info_by_topic(name)]
            if not offers:
                continue
            try:
                self._recorded[name] = self._subscribe(name, types[0], offers)
            except (ImportError, AttributeError, ConfigError) as error:
                self._recorded[name] = None
                self.get_logger().warning(f"{name} is not recorded: {error}")

    def _subscribe(self, name: str, type_name: str, offers: list[QoSProfile]) -> Subscription:
        """Add a topic to the bag.

        Raises:
            ImportError, AttributeError: the package of the type is not installed or lacks the type.
            ConfigError: there is no definition of the type.
        """
        package, _, kind = type_name.split("/")
        message = getattr(importlib.import_module(f"{package}.msg"), kind)
        self._bag.add_topic(Topic(name, type_name, qos_yaml(offers), full_definition(type_name)))
        reliable = all(one.reliability == ReliabilityPolicy.RELIABLE for one in offers)
        latched = all(one.durability == DurabilityPolicy.TRANSIENT_LOCAL for one in offers)
        qos = QoSProfile(
            depth=DEPTH,
            reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
            durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
        )
        return owned_subscription(self, message, name, qos, raw=True)

    def _drain(self, *, last: bool = False) -> None:
        """Write all waiting messages in the order of arrival.

        Args:
            last: also write messages so recent that earlier ones may still be under way.
        """
        now = time.time_ns()
        arrived = self._held
        for name, subscription in self._recorded.items():
            while subscription is not None and (taken := take(subscription)) is not None:
                data, info = taken
                arrived.append((info["received_timestamp"], info["source_timestamp"], name, data))
        arrived.sort(key=lambda row: row[0])
        count = len(arrived) if last else bisect.bisect(arrived, now - SETTLING, key=lambda row: row[0])
        for received, sent, name, data in arrived[:count]:
            self._last = max(self._last, received)  # a starved process receives messages out of order
            self._bag.add(name, self._last, sent, data)
        self._held = arrived[count:]
        self._bag.flush()
        self._count += count


def _unused(path: Path) -> Path:
    """Return the path, with a number if it exists: a restarted recorder must not overwrite its bag."""
    names = (path.with_stem(f"{path.stem}_{k}") if k else path for k in itertools.count())
    return next(name for name in names if not name.exists())


def qos_yaml(offers: list[QoSProfile]) -> str:
    """Return the publishers' qualities of service in the format of `ros2 bag`."""

    def word(value: Any, unknown: Any, default: Any) -> str:
        return (default if value == unknown else value).name.lower()  # discovery does not announce all

    profiles = [
        {
            "history": word(offer.history, HistoryPolicy.UNKNOWN, HistoryPolicy.KEEP_LAST),
            "depth": max(offer.depth, 1),
            "reliability": offer.reliability.name.lower(),
            "durability": offer.durability.name.lower(),
            "deadline": dict(FOREVER),
            "lifespan": dict(FOREVER),
            "liveliness": word(offer.liveliness, LivelinessPolicy.UNKNOWN, LivelinessPolicy.AUTOMATIC),
            "liveliness_lease_duration": dict(FOREVER),
            "avoid_ros_namespace_conventions": False,
        }
        for offer in offers
    ]
    return yaml.safe_dump(profiles, sort_keys=False)


main = partial(run_node, RecorderNode)
