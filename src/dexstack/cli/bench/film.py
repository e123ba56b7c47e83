"""Errors of poses as JSON and as tables."""

from __future__ import annotations

from typing import Any

from dexstack.cli.output import table
from dexstack.report.statistics import times

COLUMNS = ("", "n", "p50 [mm]", "p95 [mm]", "p50 [deg]", "p95 [deg]", "e²/σ²", "in 95 %")


def summary(e: Any) -> dict[str, Any]:
    """Percentiles of errors, and whether their covariances were right, for the JSON object."""
    import numpy as np

    from dexstack.bench.tracking import CHI2_95

    def percentiles(x: Any) -> dict[str, float | None]:
        if not len(x):
            return {"p50": None, "p95": None, "max": None, "n": 0}
        p50, p95 = np.percentile(x, [50, 95])
        return {"p50": float(p50), "p95": float(p95), "max": float(x.max()), "n": len(x)}

    n = len(e.nees)
    return {
        "position_error_m": percentiles(e.shift),
        "orientation_error_rad": percentiles(e.turn),
        "normalised_error": float(e.nees.mean()) if n else None,
        "within_bound": float((e.nees < CHI2_95).mean()) if n else None,
    }


def row(name: str, s: dict[str, Any]) -> list[Any]:
    """A line of the table with :data:`COLUMNS`."""
    import math

    p, o = s["position_error_m"], s["orientation_error_rad"]
    if not p["n"]:
        return [name, 0, *[None] * 6]
    shift, turn = (
        (f"{1e3 * p[k]:.3f}" for k in ("p50", "p95")),
        (f"{math.degrees(o[k]):.3f}" for k in ("p50", "p95")),
    )
    return [name, p["n"], *shift, *turn, f"{s['normalised_error']:.1f}", f"{100 * s['within_bound']:.1f} %"]


def film_table(f: dict[str, Any]) -> Any:
    """Errors while the object was seen and while it was hidden."""
    return table("Film at 640x480", COLUMNS, [row("seen", f["seen"]), row("hidden", f["predicted"])])


def film_results(t: Any) -> dict[str, Any]:
    """What a film showed, for the JSON object."""
    import numpy as np

    from dexstack.bench.tracking import CHI2_95

    nees = np.concatenate([t.seen.nees, t.predicted.nees])
    return {
        "frames": t.frames,
        "hidden": t.occluded,
        "without_pose": t.lost,
        "wrong_jumps": t.wrong_jumps,
        "seen": summary(t.seen),
        "predicted": summary(t.predicted),
        "within_bound": float((nees < CHI2_95).mean()) if len(nees) else 0.0,
        "pose_s": times(t.seconds),
    }
