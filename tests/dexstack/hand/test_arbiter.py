"""One publisher of joint commands at a time."""

from dexstack.hand.arbiter import REMEMBERED, Arbiter


def test_a_second_publisher_is_refused_and_reported_while_the_lease_lasts():
    arbiter = Arbiter(0.15)
    taken = [0, 0]
    for k in range(200):
        taken[0] += arbiter.accept("planner", 0, 0.02 * k)
        taken[1] += arbiter.accept("forgotten", 0, 0.02 * k + 0.01)
    assert taken == [200, 0] and arbiter.owner == "planner" and arbiter.refused(4.0) == ["forgotten"]
    assert arbiter.refused(4.0 + REMEMBERED) == []
    assert arbiter.accept("forgotten", 0, 4.2), "the owner is silent"


def test_a_higher_rank_takes_over_at_once_and_a_lower_one_waits():
    arbiter = Arbiter(0.15)
    assert arbiter.accept("planner", 1, 0.0) and arbiter.accept("trajectory", 2, 0.01)
    assert not arbiter.accept("planner", 1, 0.1) and arbiter.accept("teleop", 3, 0.11)
    assert not arbiter.accept("trajectory", 2, 0.2) and arbiter.accept("planner", 1, 0.3)


def test_a_clock_that_is_reset_ends_the_lease():
    arbiter = Arbiter(0.15)
    assert arbiter.accept("planner", 0, 100.0) and arbiter.accept("other", 0, 0.0)
