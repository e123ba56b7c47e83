"""Diagnosis of a topic without messages: no publisher, an incompatible one, or a silent one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSCompatibility, qos_check_compatible

from dexstack.nodes.wire import Newest

QUIET = 2.0
"""Time without messages from which an input is silent [s]; a latched one is silent until its first
message."""
DISCOVERY = 10.0
"""Time in which the nodes of a graph find each other [s]."""


def undiscovered(seconds: float, heard: bool, environment: Mapping[str, str]) -> str:
    """Return what to check if a node has found no other node of its graph after ``seconds`` [s]; empty
    before :data:`DISCOVERY`, or if it has ``heard`` one."""
    if heard or seconds < DISCOVERY:
        return ""
    names = ("ROS_DOMAIN_ID", "ROS_AUTOMATIC_DISCOVERY_RANGE", "RMW_IMPLEMENTATION")
    own = ", ".join(f"{name}={environment.get(name, '(unset)')}" for name in names)
    return (
        f"no other node of the graph was found in {seconds:.0f} s; all its nodes need the same {own}, and a "
        "network that carries their messages (`dexstack doctor`)"
    )


def doubled(nodes: Iterable[tuple[str, str]], namespace: str, domain: str) -> str:
    """Return which nodes run twice in a namespace, so that two graphs mix; empty if none does.

    Args:
        nodes: name and namespace of every node in the ROS domain ``domain``.
    """
    twice = sorted(
        name
        for (name, space), count in Counter(nodes).items()
        if count > 1 and space == namespace and not name.startswith("_")
    )
    if not twice:
        return ""
    return (
        f"two graphs run in ROS domain {domain} in the namespace {namespace} ({', '.join(twice)} twice); "
        "stop one, or choose another ROS_DOMAIN_ID or --namespace"
    )


def silence(node: Node, newest: Newest[Any]) -> str:
    """Return why an input has no messages, in one sentence; empty if it had some recently."""
    once = newest.asked[0].durability == DurabilityPolicy.TRANSIENT_LOCAL
    if time.monotonic() - newest.heard < QUIET or (once and newest.heard > 0.0):
        return ""
    offers = node.get_publishers_info_by_topic(newest.topic)
    if not offers:
        return f"no node publishes {newest.topic}"
    kind = newest.type_name
    fitting = [offer for offer in offers if offer.topic_type == kind]
    if not fitting:
        first = offers[0]
        return f"{first.node_name} publishes {newest.topic} as {first.topic_type}, and this node reads {kind}"
    reasons = {offer.node_name: _incompatibility(offer.qos_profile, newest) for offer in fitting}
    name, reason = min(reasons.items(), key=lambda item: bool(item[1]))
    if reason:
        return f"{name} publishes {newest.topic} with an incompatible quality of service: {reason}"
    return f"{name} publishes {newest.topic}, but no message arrives"


def _incompatibility(offered: Any, newest: Newest[Any]) -> str:
    """Return why an offered quality of service is incompatible; empty if it is compatible."""
    answers = [qos_check_compatible(offered, asked) for asked in newest.asked]
    if any(compatible != QoSCompatibility.ERROR for compatible, _ in answers):
        return ""
    return answers[0][1].removeprefix("ERROR: ").strip().rstrip(";")
