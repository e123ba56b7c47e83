"""Faults of a graph as a whole: nodes that do not find each other, and two graphs in one domain."""

import pytest

from dexstack.nodes.silence import DISCOVERY, doubled, undiscovered


@pytest.mark.parametrize(
    ("seconds", "heard", "said"),
    [(DISCOVERY - 0.1, False, False), (DISCOVERY, False, True), (60.0, True, False)],
)
def test_nodes_that_find_no_other_say_what_to_check(seconds, heard, said):
    sentence = undiscovered(seconds, heard, {"ROS_DOMAIN_ID": "62"})
    assert bool(sentence) == said
    if said:
        assert "found in 10 s" in sentence and "ROS_DOMAIN_ID=62" in sentence
        assert "RMW_IMPLEMENTATION=(unset)" in sentence and "dexstack doctor" in sentence


def test_nodes_of_a_second_graph_are_named():
    one = [("mpc", "/"), ("task", "/"), ("mpc", "/left"), ("_daemon", "/"), ("_daemon", "/")]
    assert doubled(one, "/", "62") == ""
    sentence = doubled([*one, ("task", "/"), ("mpc", "/")], "/", "62")
    assert "domain 62" in sentence and "(mpc, task twice)" in sentence and "--namespace" in sentence
    assert doubled([*one, ("task", "/")], "/left", "62") == ""
