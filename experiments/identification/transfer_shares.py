"""How much of a learned θ a planner should use, judged by trials on the plants that it was learned
on.

A θ that predicts a plant better may turn its object worse: it compensates what the model lacks, and
the planner then relies on it. Three θ are compared on the same trials, with seeds of their own: the
models' θ, the learned one and one half way between; a trial that misses its goal takes the whole
time. The models' θ is kept unless another one saves time by the 95 % interval of the paired
differences; of several that do, the fastest is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dexstack.control.theta_file import load_theta
from dexstack.graph.settings import Spec
from dexstack.trials.sweep import loop_of

OWN = 0.0
SHARES = (0.5, 1.0)
"""Shares of the way from the models' θ to the learned one, in the learner's free numbers."""
TRIALS = 48
"""Trials of each candidate, spread over the plants that it was learned on."""
SURE = 1.96
"""Standard errors on either side of a mean within its 95 % interval."""


class Candidate(NamedTuple):
    """One θ in one trial."""

    source: str
    """Empty: the models'."""
    share: float
    plant: str
    k: int


class ShareResult(NamedTuple):
    """Trials of one share of a source's θ."""

    share: float
    seconds: float
    """Mean time of a trial [s]."""
    saved: float
    """Mean of the time that a trial saves against the models' θ [s]."""
    error: float
    """Standard error of that [s]."""


def candidates(taught_by: Mapping[str, Sequence[str]]) -> list[Candidate]:
    """Return all trials to run, plant by plant; the models' θ takes part in all that any other does.

    Args:
        taught_by: plants of every source that learns from some.
    """
    plants = list(dict.fromkeys(p for plants in taught_by.values() for p in plants))
    result = [Candidate("", OWN, plant, k) for plant in plants for k in range(TRIALS)]
    for source, own in taught_by.items():
        each = range(-(-TRIALS // len(own)))
        result += [Candidate(source, share, plant, k) for share in SHARES for plant in own for k in each]
    return sorted(result, key=lambda c: plants.index(c.plant))


def compare_shares(
    taken: Mapping[Candidate, float], taught_by: Mapping[str, Sequence[str]]
) -> dict[str, list[ShareResult]]:
    """Compare every share of every source, the models' first, each on the same trials as the others
    of its source.

    Args:
        taken: time of each trial [s].
    """
    result = {}
    for source, plants in taught_by.items():
        trials = [(plant, k) for plant in plants for k in range(-(-TRIALS // len(plants)))]
        own = np.array([taken[Candidate("", OWN, *at)] for at in trials])
        result[source] = [ShareResult(OWN, float(own.mean()), 0.0, 0.0)]
        for share in SHARES:
            times = np.array([taken[Candidate(source, share, *at)] for at in trials])
            saved = own - times
            error = float(saved.std(ddof=1) / np.sqrt(len(saved)))
            result[source].append(ShareResult(share, float(times.mean()), float(saved.mean()), error))
    return result


def best_share(shares: Sequence[ShareResult]) -> float:
    """Return the share of one source to use."""
    better = [j for j in shares if j.saved - SURE * j.error > 0.0]
    return min(better, key=lambda j: j.seconds).share if better else OWN


def time_taken(spec: Spec, theta: str, seconds: float, k: int, seed: int) -> float:
    """Run one trial; return the time until its goal is reached, or ``seconds`` [s].

    Args:
        theta: file of the planner's θ; empty: the spec's own.
    """
    loop = loop_of(spec)
    before = loop.planner.theta
    try:
        if theta:
            loop.planner.theta = load_theta(theta, len(loop.setup.robot.joint_names)).theta
        trial = loop.run(k, seed, seconds, until_reached=True)
    finally:
        loop.planner.theta = before
    return trial.reached_at[0] if trial.succeeded and trial.reached_at else seconds
