"""The gate changes θ between goals and returns to the earlier θ if the hand gets slower."""

import pytest

from dexstack.learning.gate import MOST, Approach, ThetaGate


def through(gate, paces):
    """End goals with these paces; return the versions in use after them."""
    return [(gate.next_goal(pace) and gate.version) or gate.version for pace in paces]


def test_a_proposal_waits_for_the_pace_without_it():
    gate = ThetaGate("first", 3)
    gate.propose("second", 1)
    assert through(gate, [1.0, 1.0]) == [0, 0]
    gate.propose("third", 2)
    assert through(gate, [1.0]) == [2] and gate.theta == "third"


def test_a_theta_that_slows_the_hand_is_undone_with_what_it_proposed():
    gate = ThetaGate("first", 2)
    gate.propose("second", 1)
    assert through(gate, [1.0, 1.2, 0.9]) == [0, 1, 1]
    gate.propose("third", 2)
    assert through(gate, [0.3]) == [0] and (gate.theta, gate.undone) == ("first", 1)
    gate.propose("fourth", 3)
    assert through(gate, [1.0]) == [3], "the pace before the undone change still counts"


def test_a_theta_that_keeps_the_pace_stays_and_is_the_next_reference():
    gate = ThetaGate("first", 2)
    gate.propose("second", 1)
    assert through(gate, [1.0, 1.0, 2.0, 2.0]) == [0, 1, 1, 1]
    gate.propose("third", 2)
    assert through(gate, [2.0, 1.0, 1.0]) == [2, 2, 1], "1 rad/s is slow after 2 rad/s"


def test_slower_thetas_do_not_add_up():
    """0.8 of the first pace stays, 0.8 of that does not."""
    gate = ThetaGate("first", 2)
    gate.propose("second", 1)
    assert through(gate, [1.0, 1.0, 0.8, 0.8]) == [0, 1, 1, 1]
    gate.propose("third", 2)
    assert through(gate, [0.8, 0.64, 0.64]) == [2, 2, 1]


def test_a_theta_with_which_a_goal_never_ends_is_undone():
    """Once the running goal is so slow that two others at the pace before do not make up for it."""
    gate = ThetaGate("first", 3)
    assert not gate.during_goal(0.0), "nothing to undo"
    gate.propose("second", 1)
    assert through(gate, [1.0, 1.0, 1.0]) == [0, 0, 1]
    approach, t = Approach(0.0, 1.5), 0.0
    while not gate.during_goal(approach.pace(t, 0.0)):
        t += 0.1
        assert t < 60.0
    assert t == pytest.approx(MOST * 1.5 / 0.1, rel=0.02)
    assert (gate.theta, gate.version, gate.undone) == ("first", 0, 1)


def test_a_dropped_object_counts_as_no_pace():
    gate = ThetaGate("first", 1)
    gate.propose("second", 1)
    assert through(gate, [0.5, 0.0]) == [1, 0]


def test_the_pace_of_a_goal_is_that_of_the_rotation_and_not_of_the_wait_after_it():
    """1.5 rad at 0.5 rad/s, then a rest of a minute."""
    approach = Approach(10.0, 1.5)
    for k in range(3150):
        approach.see(10.0 + 0.02 * k, max(1.5 - 0.01 * k, 0.0))
    assert approach.pace(73.0, 0.0) == pytest.approx(0.5, rel=0.02)
    assert approach.pace(73.0, 1.5) == 0.0, "dropped"
    assert approach.pace(73.0, 2.0) == pytest.approx(-0.5 / 63.0), "farther away than at the beginning"
    assert Approach(0.0, 1.0).pace(4.0, 0.2) == pytest.approx(MOST * 0.8 / 4.0), "unseen between"
