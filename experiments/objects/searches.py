"""Searches of the sampling planner in simulated time, with as many samples as real time leaves them."""

from __future__ import annotations

from typing import Any

SAMPLES, LEAST_SAMPLES, PART_COST = 32, 8, 0.15
"""Samples of a search with a single convex part, the least number, and the time of a sample for each
further part, relative to that of one part (measured with 16 parts: 2.3 to 3.3 times the time)."""


def samples_in_time(parts: int) -> int:
    """Return the number of samples that two threads finish in the default ``sampling_delay`` for an
    object of this many convex parts."""
    return max(LEAST_SAMPLES, round(SAMPLES / (1.0 + PART_COST * (parts - 1))))


def search_settings(parts: int) -> tuple[tuple[str, Any], ...]:
    """Return the overrides of a run with an object of this many convex parts. Simulated time does not
    depend on the number of threads."""
    return ("sampling_plans", samples_in_time(parts)), ("sampling_threads", 1)
