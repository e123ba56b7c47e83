"""A policy that fails while it moves an emulated hand through the graph."""

import pytest

from tests.acceptance.policy_faults import FAULTS, policy_graph

# in real time: a node may wait too short on a busy machine
pytestmark = [pytest.mark.slow, pytest.mark.flaky(reruns=2)]


@pytest.fixture(scope="module")
def graph():
    with policy_graph() as running:
        yield running


@pytest.mark.parametrize("name", FAULTS)
def test_the_hand_is_safe_within_a_tenth_of_a_second(graph, name):
    """After the first wrong action, or after the last good command has expired."""
    outcome = graph.row(name)
    assert outcome.passed, outcome
