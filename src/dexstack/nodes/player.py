"""Player: publishes the messages of a bag on their topics, with the recorded bytes, order and timing.

The quality of service of a topic is that of its first recorded publisher. ``/rosout`` and
``/parameter_events`` are not played. The node ends with the bag.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from dexstack.bags.file import BagReader, Entry, Topic
from dexstack.config import param
from dexstack.errors import ConfigError
from dexstack.nodes.common import OK, PATIENCE, StackNode, run_node

SILENT = ("/rosout", "/parameter_events")
DEPTH = 100


@dataclass(frozen=True)
class PlayerParams:
    """Parameters of the player node."""

    file: str = param("recording.mcap", "the bag to play")
    rate: float = param(1.0, "recorded seconds per second", 0.01, 100.0)
    start_delay: float = param(
        2.0,
        "longest wall time to wait for a subscriber on every topic before the first message [s]",
        0.0,
        1e4,
    )
    loop: bool = param(False, "restart at the end of the bag")


class PlayerNode(StackNode):
    LIVE = frozenset({"rate", "loop"})

    def __init__(self) -> None:
        super().__init__("player", PlayerParams)

    def configure(self) -> None:
        self._bag = BagReader(Path(self.params(PlayerParams).file))
        topics = self._bag.topics()
        if not topics:
            raise ConfigError(f"the bag {self._bag.path} holds no message")
        self._to: dict[str, Publisher] = {
            name: self._publisher(topic) for name, topic in topics.items() if name not in SILENT
        }

    def begin(self) -> None:
        self._count = 0
        self._entries = iter(self._bag)
        self._next: Entry | None = None
        self._started = False
        self._due = time.monotonic() + self.params(PlayerParams).start_delay

    def work(self) -> None:
        p = self.params(PlayerParams)
        if not self._started:
            self._started = time.monotonic() > self._due or all(
                to.get_subscription_count() for to in self._to.values()
            )
            self._due = time.monotonic() if self._started else self._due
            self._stop.wait(PATIENCE)
            return
        if self._next is None:
            self._next = next(self._to_play(), None)
        if self._next is None:
            if p.loop:
                self._entries = iter(self._bag)
                self._due = time.monotonic()
            else:
                cut = ", up to where the bag was cut" if self._bag.cut else ""
                print(f"{self._count} messages played{cut}", flush=True)
                time.sleep(PATIENCE)  # reliable readers may still request the last message
                self.end(0)
                self._stop.set()
            return
        early = self._due - time.monotonic()
        if early > 0.0:
            self._stop.wait(min(early, PATIENCE))
            if early > PATIENCE:
                return
        entry = self._next
        self._to[entry.topic.name].publish(entry.data)
        self._count += 1
        self._next = next(self._to_play(), None)
        if self._next is not None:
            self._due += max(self._next.t - entry.t, 0) * 1e-9 / p.rate

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        return OK, f"{self._count} messages", {"messages": self._count, "file": str(self._bag.path)}

    def _to_play(self) -> Iterator[Entry]:
        return (entry for entry in self._entries if entry.topic.name in self._to)

    def _publisher(self, topic: Topic) -> Publisher:
        package, _, kind = topic.type_name.split("/")
        try:
            message = getattr(importlib.import_module(f"{package}.msg"), kind)
        except (ImportError, AttributeError):
            raise ConfigError(
                f"{topic.name} of {self._bag.path} is a {topic.type_name}; install the package {package}"
            ) from None
        return self.create_publisher(message, topic.name, _qos(topic))


def _qos(topic: Topic) -> QoSProfile:
    """Return the quality of service of the first recorded publisher; reliable if unknown."""
    try:
        offer = (yaml.safe_load(topic.qos) or [{}])[0]
    except (yaml.YAMLError, AttributeError, KeyError, TypeError):
        offer = {}
    best_effort = str(offer.get("reliability")) in ("best_effort", "2")  # words since Jazzy, numbers before
    latched = str(offer.get("durability")) in ("transient_local", "1")
    return QoSProfile(
        depth=DEPTH,
        reliability=ReliabilityPolicy.BEST_EFFORT if best_effort else ReliabilityPolicy.RELIABLE,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
    )


main = partial(run_node, PlayerNode)
