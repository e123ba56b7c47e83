"""Frictional LCPs: every solution is valid or reported as unsolved, by all solvers."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dexengines.errors import EngineError
from experiments.lcp.random_problems import KINDS, independent_error, problem
from experiments.lcp.solvers import METHODS, Status, Way, solve

NORMAL = np.array([-1])


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(KINDS), st.integers(1, 24), st.integers(0, 2**32 - 1))
def test_lemke_solves_problems_of_contacts(kind, contacts, seed):
    p = problem(kind, contacts, np.random.default_rng(seed))
    s = solve(p.A, p.b, p.owner, p.mu)
    assert s.status == Status.SOLVED
    assert independent_error(p, s.f) <= 2e-9


@pytest.mark.parametrize("method", ["dantzig", "pgs"])
@settings(max_examples=60, deadline=None)
@given(kind=st.sampled_from(KINDS), contacts=st.integers(1, 5), seed=st.integers(0, 2**32 - 1))
def test_the_others_are_valid_where_they_report_it(method, kind, contacts, seed):
    p = problem(kind, contacts, np.random.default_rng(seed))
    s = solve(p.A, p.b, p.owner, p.mu, method)
    error = independent_error(p, s.f)  # the solvers' own limit is 1e-9
    assert error <= 2e-9 if s.status == Status.SOLVED else error > 0.5e-9


def test_dantzig_solves_small_problems():
    rng = np.random.default_rng(1)
    problems = [problem(KINDS[k % 6], 1 + k % 4, rng) for k in range(300)]
    solutions = [solve(p.A, p.b, p.owner, p.mu, "dantzig") for p in problems]
    assert sum(s.status == Status.SOLVED for s in solutions) >= 297
    assert any(s.way == Way.SEARCH and s.status == Status.SOLVED for s in solutions), (
        "no problem looped: the search was not tested"
    )


def test_a_bound_that_moves_with_its_normal_force():
    """A wedge: the friction row raises the normal force, so that the step (μ f_n − f)/Δf of a fixed
    bound would be wrong."""
    A, b = np.array([[2.0, -0.9], [-0.9, 1.0]]), np.array([-1.0, 1.5])
    owner, mu = np.array([-1, 0]), np.array([0.0, 0.5])
    f = 1.0 / (2.0 + 0.9 * 0.5)  # slides: f_t = −μ f_n
    for method in METHODS:
        s = solve(A, b, owner, mu, method)
        assert s.status == Status.SOLVED
        np.testing.assert_allclose(s.f, [f, -0.5 * f], atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_duplicated_contacts_share_the_load(method):
    p = problem("stacks", 4, np.random.default_rng(0))
    twice = np.r_[0:12, 0:12]
    owner = np.concatenate([p.owner, np.where(p.owner < 0, -1, p.owner + 12)])
    s = solve(p.A[np.ix_(twice, twice)], p.b[twice], owner, p.mu[twice], method)
    alone = solve(p.A, p.b, p.owner, p.mu, method)
    assert s.status == Status.SOLVED
    np.testing.assert_allclose(s.f[0:24:3].sum(), alone.f[0:12:3].sum(), rtol=1e-8)


def test_redundant_contacts_bear_equal_shares():
    """Four corners of a box on the ground, pushed aside, bear loads as slightly compliant bodies
    would."""
    p = problem("stacks", 4, np.random.default_rng(1))
    b = np.zeros(12)
    b[0::3] = -0.0981
    for warm in (None, solve(p.A, b, p.owner, p.mu).classes):
        s = solve(p.A, b, p.owner, p.mu, warm=warm)
        assert s.status == Status.SOLVED and s.residual <= 1e-11
        np.testing.assert_allclose(s.f[0::3], s.f[0::3].mean(), rtol=1e-4)


def test_a_warm_start_needs_no_pivots_and_a_wrong_one_is_harmless():
    p = problem("stacks", 12, np.random.default_rng(3))
    first = solve(p.A, p.b, p.owner, p.mu)
    again = solve(p.A, p.b * 1.01, p.owner, p.mu, warm=first.classes)
    assert again.way == Way.WARM and again.work == 0 and again.residual <= 1e-9
    wrong = np.where(p.owner < 0, 0, 3)
    other = solve(p.A, p.b, p.owner, p.mu, warm=wrong)
    assert other.way == Way.FIRST and other.residual <= 1e-9


def test_an_unsolvable_problem_is_reported():
    """Two opposite sides that both have to move inwards."""
    s = solve(np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([-1.0, -1.0]), np.array([-1, -1]), np.zeros(2))
    assert s.status == Status.UNSOLVED and s.residual > 1e-3


@pytest.mark.parametrize(
    ("A", "b", "owner", "mu", "words"),
    [
        (np.eye(2), np.zeros(3), NORMAL, np.zeros(1), "needs A"),
        (np.array([[np.nan]]), np.zeros(1), NORMAL, np.zeros(1), "finite"),
        (np.eye(1), np.zeros(1), NORMAL, -np.ones(1), "not negative"),
        (np.eye(1), np.zeros(1), np.array([0]), np.zeros(1), "before it"),
    ],
)
def test_bad_problems_are_refused(A, b, owner, mu, words):
    with pytest.raises(EngineError, match=words):
        solve(A, b, owner, mu)


def test_unknown_solvers_are_refused():
    with pytest.raises(EngineError, match="known: lemke, dantzig, pgs"):
        solve(np.eye(1), np.zeros(1), NORMAL, np.zeros(1), "magic")
