"""Plot of the numbers of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from dexstack.geometry.rotations import geodesic_angle, yaw_of
from dexstack.report.figure import save_figure

TOLERANCE = 0.1
LABELS = (
    "yaw [°]",
    "3-D orientation\nerror [rad]",
    "distance from the\ngoal position [mm]",
    "MPC solve [ms]",
)


def curves(recording: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the curves of a recording's K samples, each (K,): ``t`` [s], ``yaw`` and ``goal_yaw`` [rad],
    unwrapped so that they end on the same turn, ``error`` of the orientation [rad], ``distance`` from
    the goal position [m]."""
    pose, goal = (np.asarray(recording[name], float) for name in ("pose_WO", "goal_WO"))
    yaw, goal_yaw = (np.unwrap([yaw_of(p[3:]) for p in x]) for x in (pose, goal))
    yaw += 2 * np.pi * np.round((goal_yaw[-1] - yaw[-1]) / (2 * np.pi))
    error = np.array([geodesic_angle(p[3:], g[3:]) for p, g in zip(pose, goal, strict=True)])
    distance = np.linalg.norm(pose[:, :3] - goal[:, :3], axis=1)
    return {
        "t": np.asarray(recording["t"], float),
        "yaw": yaw,
        "goal_yaw": goal_yaw,
        "error": error,
        "distance": distance,
    }


def write_plot(path: Path, recording: Mapping[str, np.ndarray], tolerance: float = TOLERANCE) -> Path:
    """Draw yaw and goal, orientation error, position error and solve time against time as a PNG.

    Args:
        path: the file; its folder is created.
        recording: as for :func:`~dexstack.report.run.write_run`, with one goal per sample.
        tolerance: orientation error that counts as reached [rad].
    """
    found = curves(recording)
    t, yaw, goal_yaw = found["t"], found["yaw"], found["goal_yaw"]
    timed = len(recording.get("solve_s", ())) > 0
    figure = Figure(figsize=(8.0, 8.0 if timed else 6.2), layout="constrained")
    axes = figure.subplots(4 if timed else 3, 1, sharex=True)
    axes[0].plot(t, np.degrees(goal_yaw), "--", color="#d61e82", label="goal")
    axes[0].plot(t, np.degrees(yaw), color="#1f5fa8", label="object")
    axes[0].legend(loc="lower right")
    axes[1].plot(t, found["error"], color="#1f5fa8")
    axes[1].axhspan(0.0, tolerance, color="#3a9d5d", alpha=0.2, label=f"reached: below {tolerance:g} rad")
    axes[1].legend(loc="upper right")
    axes[2].plot(t, 1e3 * found["distance"], color="#1f5fa8")
    for ax, label in zip(axes, LABELS, strict=False):
        ax.set(ylabel=label, ylim=(None if ax is axes[0] else 0.0, None))
        ax.grid(alpha=0.3)
    if timed:
        solve_t, solve_s = (np.asarray(recording[name], float) for name in ("solve_t", "solve_s"))
        solve_ms = 1e3 * solve_s
        p50, p99 = np.percentile(solve_ms, [50, 99])
        rate = (len(solve_t) - 1) / (solve_t[-1] - solve_t[0]) if len(solve_t) > 1 else np.nan
        axes[3].plot(solve_t, solve_ms, ".", markersize=3, color="#1f5fa8")
        axes[3].set_ylim(0.0, 1.3 * max(p99, 1e-3))
        title = f"p50 {p50:.2f} ms, p99 {p99:.2f} ms, {rate:.0f} solves per second"
        axes[3].set_title(title, fontsize="small", loc="right")
    axes[-1].set_xlabel("time [s]")
    return save_figure(figure, path)
