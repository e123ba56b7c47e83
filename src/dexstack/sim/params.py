"""Timing of the closed loop, importable without JAX."""

from __future__ import annotations

from dataclasses import dataclass

from dexstack.config import param


@dataclass(frozen=True)
class LoopParams:
    """Timing of the loop."""

    pose_period: float = param(
        0.02, "time between two object poses, each answered by one plan [s]", 0.002, 1.0
    )
    latency: float = param(0.01, "time from a pose to the command that answers it [s]", 0.0, 1.0)
