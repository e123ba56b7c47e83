"""Results folder of a run: recording, plot, page and film."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import mujoco
import numpy as np

from dexstack.errors import ConfigError
from dexstack.model.scene import JointLayout
from dexstack.report.film import write_film
from dexstack.report.plot import TOLERANCE, write_plot
from dexstack.report.run_page import write_page

REQUIRED = ("t", "q", "pose_WO", "goal_WO")


def write_run(
    results_dir: str | Path, recording: Mapping[str, np.ndarray], scene: mujoco.MjModel
) -> dict[str, Path]:
    """Write ``recording.npz``, ``run.png``, ``run.html`` and ``run.gif`` into ``results_dir``.

    Args:
        recording: arrays over K samples: ``t`` (K,) simulated time [s], ``q`` (K, n) joint angles
            [rad], ``pose_WO`` (K, 7) object pose, ``goal_WO`` (7,) or (K, 7); where known also
            ``solve_s`` (M,) [s] with its times ``solve_t`` (M,) (default: ``t``). Further arrays
            are only stored.
        scene: compiled ``build_scene`` of the hand and the object.

    Returns:
        The paths by kind: ``recording``, ``plot``, ``page``, ``film``; only the first if fewer than
        two samples are finite.

    Raises:
        ConfigError: an array is missing, or the folder cannot be written.
    """
    _check(recording)
    results_dir = Path(results_dir)
    try:
        results_dir.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(results_dir / "recording.npz", **recording)
    except OSError as error:
        raise ConfigError(f"cannot write the results folder {results_dir}: {error.strerror}") from None
    drawn = draw_run(recording, scene, results_dir / "run.png", results_dir / "run.gif")
    return {"recording": results_dir / "recording.npz", **drawn}


def draw_run(
    recording: Mapping[str, np.ndarray],
    scene: mujoco.MjModel,
    plot: Path,
    film: Path | None,
    tolerance: float = TOLERANCE,
) -> dict[str, Path]:
    """Draw a recording as for :func:`write_run`, without storing it.

    Args:
        plot: file of the plot (PNG); the page is in the same folder, with the suffix ``.html``.
        film: file of the film (GIF); None: no film.
        tolerance: orientation error that counts as reached [rad].

    Returns:
        The paths by kind: ``plot``, ``page``, ``film``; empty when fewer than two samples are
        finite.

    Raises:
        ConfigError: an array is missing, or a file cannot be written.
    """
    _check(recording)
    if len(recording["t"]) < 2 or len((shown := _finite_samples(recording))["t"]) < 2:
        return {}
    try:
        names = [scene.joint(i).name for i in JointLayout(scene).own]
        page = write_page(plot.with_suffix(".html"), shown, tolerance, names, plot.parent.name)
        drawn = {"plot": write_plot(plot, shown, tolerance), "page": page}
        return drawn if film is None else drawn | {"film": write_film(film, shown, scene)}
    except OSError as error:
        raise ConfigError(f"cannot write {error.filename}: {error.strerror}") from None


def _check(recording: Mapping[str, np.ndarray]) -> None:
    missing = [name for name in REQUIRED if name not in recording]
    if missing:
        raise ConfigError(f"the recording has no '{missing[0]}'; a run needs {', '.join(REQUIRED)}")


def _finite_samples(recording: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the finite samples; a plant that diverged leaves others."""
    per_sample = [
        *REQUIRED,
        *(name for name in ("q_command", "contacts") if len(recording.get(name, ())) == len(recording["t"])),
    ]
    arrays = {
        name: np.asarray(recording[name], float)
        for name in recording
        if name in (*per_sample, "solve_t", "solve_s")
    }
    arrays["goal_WO"] = np.broadcast_to(arrays["goal_WO"], (len(arrays["t"]), 7))
    if "solve_s" in arrays:
        arrays.setdefault("solve_t", arrays["t"])
    keep = np.isfinite(np.column_stack([arrays[name] for name in REQUIRED])).all(axis=1)
    return {name: array[keep] if name in per_sample else array for name, array in arrays.items()}
