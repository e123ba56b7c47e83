"""Comparisons of derivatives, shared by tests of the lcp engine."""

import numpy as np
import pytest

from dexengines.lcp import gradient, record
from experiments.lcp.check import decisions


def _state(system):
    return system.q.copy(), system.v.copy(), system.parameters


def _run(system, start, forces, **changed):
    q, v, par = start
    system.forget()
    system.q[:], system.v[:] = changed.get("q", q), changed.get("v", v)
    system.parameters = record.Parameters(
        *(changed.get(k, x) for k, x in zip(("mass", "friction", "restitution"), par, strict=True))
    )
    return gradient.rollout(system, changed.get("tau", forces))


def _derivatives(system, run, directions):
    """Return derivatives of the end along directions."""
    found = gradient.jacobian(system, run, tuple(directions))
    return sum(np.tensordot(found[k], d, d.ndim) for k, d in directions.items())


WORTH = 1e-7
"""Largest spread of differences of three lengths that count as a derivative, as a share of the
largest; two may agree by chance."""


def _compare(system, tau, directions, lengths=(1e-4, 5e-5, 2e-5, 1e-5, 5e-6, 2e-6, 1e-6)):
    """Directional derivatives of a rollout against differences of fourth order.

    Returns:
        The derivatives; differences of the first length that agree with those of the next two, the
        active set being the same all over, or None; whether the active set was the same at the last
        three lengths.
    """
    start = _state(system)
    values = {"q": start[0], "v": start[1], "tau": tau, **start[2]._asdict()}
    run = _run(system, start, tau)
    here = decisions(system.tape)
    ours = _derivatives(system, run, directions)
    found, kept = None, []
    for h in lengths:
        total, same = np.zeros(ours.size), True
        for c, weight in ((2.0, -1.0), (1.0, 8.0), (-1.0, -8.0), (-2.0, 1.0)):
            end = _run(system, start, tau, **{k: values[k] + c * h * d for k, d in directions.items()})
            total += weight * np.concatenate([end.q[-1], end.v[-1]])
            same = same and decisions(system.tape) == here
        kept = [*kept, total / (12.0 * h)][-3:] if same else []
        if len(kept) == 3 and np.ptp(kept, axis=0).max() <= WORTH * max(1.0, np.abs(kept[0]).max()):
            found = kept[0]
            break
    system.q[:], system.v[:], system.parameters = start
    return ours, found, len(kept) == 3


def _check(system, tau, directions, rtol=1e-6, h=1e-6):
    """Directional derivatives equal central differences."""
    start = _state(system)
    values = {"q": start[0], "v": start[1], "tau": tau, **start[2]._asdict()}
    run = _run(system, start, tau)
    ours = _derivatives(system, run, directions)
    ends = []
    for sign in (1.0, -1.0):
        end = _run(system, start, tau, **{k: values[k] + sign * h * d for k, d in directions.items()})
        ends.append(np.concatenate([end.q[-1], end.v[-1]]))
    theirs = (ends[0] - ends[1]) / (2 * h)
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * max(1.0, np.abs(theirs).max()))
    return ours


@pytest.fixture
def check_derivatives():
    """A function ``(system, tau, directions, rtol, h)`` that compares directional derivatives of a
    rollout with central differences."""
    return _check


@pytest.fixture
def compare_derivatives():
    """A function ``(system, tau, directions)`` that returns derivatives, differences or None,
    whether the active set was the same."""
    return _compare
