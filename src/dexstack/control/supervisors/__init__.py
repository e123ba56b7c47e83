"""Supervisors, one file each, imported on demand."""

from __future__ import annotations

from dexstack.lazy import Registry

SUPERVISORS = Registry(
    "supervisor",
    {
        "none": ("dexstack.control.supervisors.none", "NoSupervisor", "NoParams"),
        "gait": ("dexstack.control.supervisors.gait", "GaitSupervisor", "GaitParams"),
        "detour": ("dexstack.control.supervisors.detour", "DetourSupervisor", "DetourParams"),
        "regrasp": ("dexstack.control.supervisors.regrasp", "RegraspSupervisor", "RegraspParams"),
    },
    ("dexstack.control.supervisors.base", "Supervisor"),
)
"""Module, class and parameter class of every supervisor; the class takes a
:class:`~dexstack.control.supervisors.base.PlanningContext` and its parameters."""
