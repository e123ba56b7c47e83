"""How far a planner's θ goes towards what the loss finds: trials on the plants that taught it say.

A θ that foretells a plant better may turn its object worse: it makes up for what the model lacks,
and the planner then counts on it. So three are tried, the models' own θ, the learned one and one
half way, on the same trials with seeds of their own; a trial that does not reach its goal takes all
the time there is. The models' θ stays unless another one surely saves time, by the 95 % interval of
what it saves trial by trial; of several that do, the one that takes the least.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from dexstack.graph.settings import Spec

OWN = 0.0
SHARES = (0.5, 1.0)
"""Of the way from the models' θ to the learned one, in the numbers that are learned."""
TRIALS = 48
"""Of each candidate, spread over the plants that taught it."""
SURE = 1.96
"""Standard errors on either side of a mean within its 95 % interval."""


class Candidate(NamedTuple):
    """One θ to be tried, in one trial."""

    source: str
    """Empty: the models'."""
    share: float
    plant: str
    k: int


class Judged(NamedTuple):
    """What the trials of a source say of one share."""

    share: float
    seconds: float
    """Mean time of a trial [s]."""
    saved: float
    """Mean of what a trial saves against the models' θ [s]."""
    error: float
    """Standard error of that [s]."""


def candidates(taught_by: Mapping[str, Sequence[str]]) -> list[Candidate]:
    """All trials that choose, plant by plant; the models' θ takes part in all that any other does.

    Args:
        taught_by: the plants of every source that has some.
    """
    result = [
        Candidate("", OWN, plant, k)
        for plant in dict.fromkeys(p for plants in taught_by.values() for p in plants)
        for k in range(TRIALS)
    ]
    for source, plants in taught_by.items():
        each = range(-(-TRIALS // len(plants)))
        result += [Candidate(source, share, plant, k) for share in SHARES for plant in plants for k in each]
    order = list(dict.fromkeys(c.plant for c in result))
    return sorted(result, key=lambda c: order.index(c.plant))


def judged(
    taken: Mapping[Candidate, float], taught_by: Mapping[str, Sequence[str]]
) -> dict[str, list[Judged]]:
    """Every share of every source, the models' first, each over the same trials as the others of
    its source.

    Args:
        taken: time that each trial took [s].
    """
    result = {}
    for source, plants in taught_by.items():
        where = [(plant, k) for plant in plants for k in range(-(-TRIALS // len(plants)))]
        own = np.array([taken[Candidate("", OWN, *at)] for at in where])
        result[source] = [Judged(OWN, float(own.mean()), 0.0, 0.0)]
        for share in SHARES:
            times = np.array([taken[Candidate(source, share, *at)] for at in where])
            saved = own - times
            error = float(saved.std(ddof=1) / np.sqrt(len(saved)))
            result[source].append(Judged(share, float(times.mean()), float(saved.mean()), error))
    return result


def stays(shares: Sequence[Judged]) -> float:
    """The share of one source that stays."""
    better = [j for j in shares if j.saved - SURE * j.error > 0.0]
    return min(better, key=lambda j: j.seconds).share if better else OWN


def time_taken(spec: Spec, theta: str, seconds: float, k: int, seed: int) -> float:
    """Of one trial [s]: until its goal is reached, or ``seconds``.

    Args:
        theta: file of the planner's θ; empty: the spec's own.
    """
    from dexstack.control.theta_file import load_theta
    from dexstack.trials.sweep import loop_of

    loop = loop_of(spec)
    before = loop.planner.theta
    try:
        if theta:
            loop.planner.theta = load_theta(theta, len(loop.scene.robot.joint_names)).theta
        trial = loop.run(k, seed, seconds, until_reached=True)
    finally:
        loop.planner.theta = before
    return trial.reached_at[0] if trial.succeeded and trial.reached_at else seconds
