"""Subscriptions to topics of any type that yield serialised messages.

Messages wait in the middleware until the owner takes them: nothing is deserialised and no executor
wakes. A subscription requests the quality of service that all publishers of the topic offer.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import NamedTuple

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from dexstack.bags.definitions import full_definition
from dexstack.nodes.wire import owned_subscription, take

DEPTH = 1000
"""Largest number of waiting messages of one topic."""


class Raw(NamedTuple):
    """One serialised message."""

    received: int
    """Time of arrival [ns since the epoch]."""
    sent: int
    """Time of sending on the sender's clock [ns since the epoch]."""
    data: bytes
    """CDR."""


class Offer(NamedTuple):
    """A published topic."""

    name: str
    type_name: str
    """``package/msg/Type``"""
    qos: list[QoSProfile]
    """Quality of service of each publisher."""


def offers(node: Node) -> Iterator[Offer]:
    """Yield every topic with a publisher and a single type, except hidden ones (``_…``)."""
    for name, types in node.get_topic_names_and_types():
        if "/_" in name or len(types) != 1:
            continue
        qos = [info.qos_profile for info in node.get_publishers_info_by_topic(name)]
        if qos:
            yield Offer(name, types[0], qos)


class Tap:
    """A subscription to one topic.

    Raises:
        ImportError, AttributeError: the package of the type is not installed or lacks the type.
        ConfigError: there is no definition of the type.
    """

    def __init__(self, node: Node, offer: Offer) -> None:
        package, _, kind = offer.type_name.split("/")
        message = getattr(importlib.import_module(f"{package}.msg"), kind)
        self.definition = full_definition(offer.type_name)
        """Full message definition, as a bag stores it."""
        reliable = all(one.reliability == ReliabilityPolicy.RELIABLE for one in offer.qos)
        latched = all(one.durability == DurabilityPolicy.TRANSIENT_LOCAL for one in offer.qos)
        qos = QoSProfile(
            depth=DEPTH,
            reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
            durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
        )
        self._node = node
        self._subscription = owned_subscription(node, message, offer.name, qos, raw=True)

    def take(self) -> Iterator[Raw]:
        """Yield all waiting messages."""
        while (taken := take(self._subscription)) is not None:
            data, info = taken
            yield Raw(info["received_timestamp"], info["source_timestamp"], data)

    def close(self) -> None:
        """Destroy the subscription."""
        self._node.destroy_subscription(self._subscription)
