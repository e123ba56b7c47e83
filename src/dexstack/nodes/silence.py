"""Why nothing comes on a topic: nobody publishes it, not so that this node could hear it, or
whoever does is silent."""

from __future__ import annotations

import time
from typing import Any

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSCompatibility, qos_check_compatible

from dexstack.nodes.wire import Newest

QUIET = 2.0
"""An input that has not been heard for so long is silent [s]; one whose publisher keeps the last
message, when it was never heard."""


def silence(node: Node, newest: Newest[Any]) -> str:
    """What is wrong with one input, in a sentence; empty where it was heard of late."""
    once = newest.asked[0].durability == DurabilityPolicy.TRANSIENT_LOCAL
    if time.monotonic() - newest.heard < QUIET or (once and newest.heard > 0.0):
        return ""
    offers = node.get_publishers_info_by_topic(newest.topic)
    if not offers:
        return f"nobody publishes {newest.topic}"
    kind = newest.type_name
    fitting = [offer for offer in offers if offer.topic_type == kind]
    if not fitting:
        return f"{offers[0].node_name} publishes {newest.topic} as {offers[0].topic_type}, and this node reads {kind}"
    reasons = {offer.node_name: _deaf(offer.qos_profile, newest) for offer in fitting}
    if all(reasons.values()):
        name, reason = next(iter(reasons.items()))
        return f"{name} publishes {newest.topic} so that this node cannot hear it: {reason}"
    return f"{next(name for name, reason in reasons.items() if not reason)} publishes {newest.topic}, and nothing comes"


def _deaf(offered: Any, newest: Newest[Any]) -> str:
    """Why nothing of an offer is heard; empty where it is."""
    answers = [qos_check_compatible(offered, asked) for asked in newest.asked]
    if any(compatible != QoSCompatibility.ERROR for compatible, _ in answers):
        return ""
    return answers[0][1].removeprefix("ERROR: ").strip().rstrip(";")
