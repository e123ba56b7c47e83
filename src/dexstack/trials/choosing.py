"""How far a planner's θ goes towards what the loss finds: trials on the plants that taught it say.

A θ that foretells a plant better may turn its object worse: it makes up for what the model lacks, and the planner then counts on it. So
three are tried, the models' own θ, the learned one and one half way, on the same trials with seeds of their own, and the one that takes
the least time stays; a trial that does not reach its goal takes all the time there is. Where two take the same, the one nearer to the
models' stays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from dexstack.graph.settings import Spec

OWN = 0.0
SHARES = (0.5, 1.0)
"""Of the way from the models' θ to the learned one, in the numbers that are learned."""
TRIALS = 32
"""Of each candidate, spread over the plants that taught it."""


class Candidate(NamedTuple):
    """One θ to be tried, in one trial."""

    source: str
    """Empty: the models'."""
    share: float
    plant: str
    k: int


def candidates(taught_by: Mapping[str, Sequence[str]]) -> list[Candidate]:
    """All trials that choose, plant by plant; the models' θ takes part in all that any other does.

    Args:
        taught_by: the plants of every source that has some.
    """
    result = [
        Candidate("", OWN, plant, k) for plant in dict.fromkeys(p for plants in taught_by.values() for p in plants) for k in range(TRIALS)
    ]
    for source, plants in taught_by.items():
        each = range(-(-TRIALS // len(plants)))
        result += [Candidate(source, share, plant, k) for share in SHARES for plant in plants for k in each]
    order = list(dict.fromkeys(c.plant for c in result))
    return sorted(result, key=lambda c: order.index(c.plant))


def chosen(taken: Iterable[tuple[Candidate, float]], taught_by: Mapping[str, Sequence[str]]) -> dict[str, dict[float, float]]:
    """Mean time of every share of every source [s], over the same trials for all shares of one; the least is the one that stays.

    Args:
        taken: time that each trial took [s].
    """
    times = {candidate: seconds for candidate, seconds in taken}
    result: dict[str, dict[float, float]] = defaultdict(dict)
    for source, plants in taught_by.items():
        where = [(plant, k) for plant in plants for k in range(-(-TRIALS // len(plants)))]
        result[source][OWN] = float(np.mean([times[Candidate("", OWN, *at)] for at in where]))
        for share in SHARES:
            result[source][share] = float(np.mean([times[Candidate(source, share, *at)] for at in where]))
    return dict(result)


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
