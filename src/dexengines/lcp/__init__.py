"""Rigid contact without intersection as a linear complementarity problem, differentiable through
impacts."""

from __future__ import annotations

from dexengines.kernels import keep_kernels

keep_kernels(__name__)
