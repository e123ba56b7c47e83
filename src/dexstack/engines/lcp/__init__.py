"""Rigid contact without intersection as a linear complementarity problem, differentiable through impacts."""

from __future__ import annotations

from pathlib import Path

from dexstack.engines.kernels import drop_stale_kernels

drop_stale_kernels(Path(__file__).parent)
