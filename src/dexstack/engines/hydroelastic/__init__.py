"""Pressure field contact ("hydroelastic"): meshes with a pressure field, their contact surface, and what acts on it."""

from __future__ import annotations

from pathlib import Path

from dexstack.engines.kernels import drop_stale_kernels

drop_stale_kernels(Path(__file__).parent)
