"""Diagnosis of a topic without messages: no publisher, an incompatible one, or a silent one."""

from __future__ import annotations

import time
from typing import Any

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSCompatibility, qos_check_compatible

from dexstack.nodes.wire import Newest

QUIET = 2.0
"""Time without messages from which an input is silent [s]; a latched one is silent until its first
message."""


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
