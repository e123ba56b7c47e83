"""Topics of any type, and their messages as the bytes they came in: for nodes that pass everything
on and look at nothing.

Messages wait in the middleware until the owner takes them, so that nothing is deserialised and no
executor wakes for a message. A subscription asks for what all of the topic's publishers offer.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import NamedTuple

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from dexstack.bags.definitions import full_definition
from dexstack.nodes.wire import TakenByOwner, unreachable

DEPTH = 1000
"""Messages of one topic that may wait for a visit."""


class Raw(NamedTuple):
    """One message."""

    received: int
    """When it arrived here [ns since the epoch]."""
    sent: int
    """When it was sent, on the sender's clock [ns since the epoch]."""
    data: bytes
    """CDR."""


class Offer(NamedTuple):
    """A topic that somebody publishes."""

    name: str
    type_name: str
    """``package/msg/Type``"""
    qos: list[QoSProfile]
    """Of each publisher."""


def offers(node: Node) -> Iterator[Offer]:
    """Every topic with a publisher and one type; hidden ones (``_…``) are left out."""
    for name, types in node.get_topic_names_and_types():
        if "/_" in name or len(types) != 1:
            continue
        qos = [info.qos_profile for info in node.get_publishers_info_by_topic(name)]
        if qos:  # else somebody listens only
            yield Offer(name, types[0], qos)


class Tap:
    """A subscription to one topic.

    Raises:
        ImportError, AttributeError: the package of its type is not installed, or does not know the
            type.
        ConfigError: there is no definition of the type.
    """

    def __init__(self, node: Node, offer: Offer) -> None:
        package, _, kind = offer.type_name.split("/")
        message = getattr(importlib.import_module(f"{package}.msg"), kind)
        self.definition = full_definition(offer.type_name)
        """What tells a reader of the bytes what they mean."""
        reliable = all(one.reliability == ReliabilityPolicy.RELIABLE for one in offer.qos)
        self.latched = all(one.durability == DurabilityPolicy.TRANSIENT_LOCAL for one in offer.qos)
        """Whether who comes later hears the last message."""
        qos = QoSProfile(
            depth=DEPTH,
            reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
            durability=DurabilityPolicy.TRANSIENT_LOCAL if self.latched else DurabilityPolicy.VOLATILE,
        )
        group = TakenByOwner()
        self._node = node
        self._subscription = node.create_subscription(
            message, offer.name, unreachable, qos, callback_group=group, raw=True
        )

    def take(self) -> Iterator[Raw]:
        """Whatever waits."""
        subscription = self._subscription
        while (taken := subscription.handle.take_message(subscription.msg_type, True)) is not None:
            data, info = taken
            yield Raw(info["received_timestamp"], info["source_timestamp"], data)

    def close(self) -> None:
        """Listen no more."""
        self._node.destroy_subscription(self._subscription)
