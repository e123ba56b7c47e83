"""Planners behind :class:`dexstack.control.base.LocalPlanner`; nothing imported before it is asked
for."""

from __future__ import annotations

from dexstack.lazy import Registry

PLANNERS = Registry(
    "planner",
    {
        "gauss_newton": ("dexstack.control.factory", "gauss_newton", "MpcParams"),
        "sampling": ("dexstack.control.factory", "sampling", "SamplingParams"),
    },
)
"""Module, what makes it, and parameter class of every planner; the second takes the problem and all
parameter blocks by their class."""
