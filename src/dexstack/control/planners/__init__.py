"""Planners behind :class:`dexstack.control.base.LocalPlanner`, imported on demand."""

from __future__ import annotations

from dexstack.lazy import Registry

PLANNERS = Registry(
    "planner",
    {
        "gauss_newton": ("dexstack.control.factory", "gauss_newton", "MpcParams"),
        "sampling": ("dexstack.control.planners.sampling", "SamplingPlanner", "SamplingParams"),
    },
    ("dexstack.control.base", "LocalPlanner"),
    {".onnx": ("dexstack.control.policies.planner", "OnnxPolicy", "NoParams")},
)
"""Module, class or factory, and parameter class of every planner; the first takes the problem and all
parameter blocks by their class."""
