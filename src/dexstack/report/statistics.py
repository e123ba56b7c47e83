"""Statistics of many samples in the format of every command's results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

Z95 = 1.959963984540054
"""Half the width of a 95 % interval in standard deviations of a normal distribution."""


def times(seconds: Iterable[float]) -> dict[str, float | int | None]:
    """Return durations [s] as ``{p50, p99, mean, n}`` of the finite samples; null without samples."""
    return _described(seconds, p50=np.median, p99=lambda x: np.percentile(x, 99), mean=np.mean)


def errors(values: Iterable[float]) -> dict[str, float | int | None]:
    """Return error magnitudes as ``{mean, std, median, max, n}`` of the finite samples; null without
    samples."""
    return _described(values, mean=np.mean, std=np.std, median=np.median, max=np.max)


def wilson(successes: int, n: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a rate from ``successes`` of ``n`` independent trials; (0, 1)
    without trials."""
    if n == 0:
        return 0.0, 1.0
    rate, z2 = successes / n, Z95**2
    centre, half = rate + z2 / (2 * n), Z95 * np.sqrt(rate * (1 - rate) / n + z2 / (4 * n**2))
    return max(0.0, float((centre - half) / (1 + z2 / n))), min(1.0, float((centre + half) / (1 + z2 / n)))


def _described(
    values: Iterable[float], **measures: Callable[[np.ndarray], Any]
) -> dict[str, float | int | None]:
    x = np.asarray(values if hasattr(values, "__len__") else list(values), float).ravel()
    x = x[np.isfinite(x)]
    return {name: float(of(x)) if x.size else None for name, of in measures.items()} | {"n": x.size}
