"""Searches of the sampling planner in simulated time, with as many samples as real time leaves them."""

from __future__ import annotations

from typing import Any

from dexstack.control.params import SamplingParams
from dexstack.control.planners.sampling import LEAST_PLANS

PART_COST = 0.15
"""Time of a sample for each further convex part, relative to that of one part (measured with 16 parts:
2.3 to 3.3 times the time)."""


def samples_in_time(parts: int) -> int:
    """Return the number of samples that two threads finish in the default ``sampling_delay`` for an
    object of this many convex parts, on a machine that finishes the default number with one part."""
    return max(LEAST_PLANS, round(SamplingParams().sampling_plans / (1.0 + PART_COST * (parts - 1))))


def search_settings(parts: int) -> tuple[tuple[str, Any], ...]:
    """Return the overrides of a run with an object of this many convex parts. Simulated time does not
    depend on the number of threads."""
    return ("sampling_plans", samples_in_time(parts)), ("sampling_threads", 1)
