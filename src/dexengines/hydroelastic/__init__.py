"""Pressure field contact ("hydroelastic"): meshes with a pressure field, their contact surface and
its forces."""

from __future__ import annotations

from dexengines.kernels import keep_kernels

keep_kernels(__name__)
