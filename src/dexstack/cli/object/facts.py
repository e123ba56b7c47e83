"""Properties of an object in the output of commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dexstack.cli.output import table

if TYPE_CHECKING:
    from dexstack.geometry.symmetry import Symmetry
    from dexstack.model.objects import ObjectModel
    from dexstack.onboarding.add_object import Report


def facts(obj: ObjectModel, report: Report) -> dict[str, Any]:
    """Return the properties of an object for JSON."""
    return {
        "name": obj.name,
        "size_m": obj.size,
        "mass_kg": obj.mass,
        "volume_m3": obj.mesh.volume,
        "inertia_kg_m2": obj.inertia,
        "parts": {"count": len(obj.parts), "limit": obj.max_parts, "hausdorff_m": report.part_error},
        "rests": [
            {"probability": r.probability, "height_m": r.height, "down": r.down_B, "kind": r.kind}
            for r in report.rests
        ],
        "rest_kinds": _kinds(report),
        "symmetry": {"of_shape": _axes(report.symmetry), "used": _axes(obj.symmetry)},
        "cannot_turn": report.obstacle or None,
        "start": {t: {"pose_WO": s.pose_WO, "hand_pose": s.hand_pose} for t, s in obj.starts.items()},
    }


def views(obj: ObjectModel, report: Report) -> list[Any]:
    """Return tables of an object's properties."""
    size = " x ".join(f"{1e3 * x:.4g}" for x in obj.size)
    moments = " ".join(f"{1e6 * x:.3g}" for x in np.linalg.eigvalsh(obj.inertia))
    rows = [
        ("size", f"{size} mm"),
        ("mass", f"{1e3 * obj.mass:.4g} g, {obj.mass / obj.mesh.volume:.4g} kg/m³"),
        ("moments of inertia", f"{moments} g m² · 10⁻³"),
        (
            "convex parts",
            f"{len(obj.parts)}, within {1e3 * report.part_error:.2f} mm of the mesh (Hausdorff)",
        ),
        ("symmetry of the shape", "; ".join(map(str, report.symmetry.axes)) or "none"),
        ("symmetry used by goals", "; ".join(map(str, obj.symmetry.axes)) or "none"),
    ]
    for task, start in obj.starts.items():
        place = ", ".join(f"{1e3 * x:.1f}" for x in start.pose_WO[:3])
        rows.append((f"start '{task}'", f"({place}) mm, hand pose '{start.hand_pose}'"))
    rows.append(("turning", report.obstacle or "nothing known against it; trials tell"))
    kinds = [(k["kind"], 100 * k["probability"], k["poses"], 1e3 * k["height_m"]) for k in _kinds(report)]
    columns = ("kind", "probability [%]", "poses that look alike", "height of the centre of mass [mm]")
    return [table(obj.name, ("property", "value"), rows), table("resting poses", columns, kinds)]


def _axes(symmetry: Symmetry) -> list[dict[str, Any]]:
    return [{"axis": axis.ahat_B, "order": axis.order} for axis in symmetry.axes]


def _kinds(report: Report) -> list[dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for rest in report.rests:
        kind = found.setdefault(
            rest.kind, {"kind": rest.kind, "probability": 0.0, "poses": 0, "height_m": rest.height}
        )
        kind["probability"] += rest.probability
        kind["poses"] += 1
    return list(found.values())
