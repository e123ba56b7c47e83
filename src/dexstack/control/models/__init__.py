"""Time-stepping models behind :class:`dexstack.control.models.base.StepModel`, imported on demand."""

from __future__ import annotations

from dexstack.lazy import Registry

MODELS = Registry(
    "model",
    {
        "implicit": ("dexstack.control.models.implicit", "ImplicitModel", "PlannerParams"),
        "dsdf": ("dexstack.control.models.dsdf", "DsdfModel", "PlannerParams"),
        "dsdf-k": ("dexstack.control.models.dsdf", "UnrolledDsdfModel", "PlannerParams"),
    },
    ("dexstack.control.models.base", "StepModel"),
)
"""Module, class and parameter class of every model; the class takes its parameters and the chains of
the robot (joints of each). Own files set ``MODEL`` to a subclass of ``StepModel`` with ``Params``."""
