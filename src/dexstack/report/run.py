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
SHAPES = {
    "t": ("K",),
    "q": ("K", "N"),
    "pose_WO": ("K", 7),
    "goal_WO": ("K", 7),
    "solve_s": ("M",),
    "solve_t": ("M",),
}
"""Shapes of the arrays that are drawn; the letters stand for any size, the same in all of them."""


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
    if missing := [name for name in REQUIRED if name not in recording]:
        raise ConfigError(f"the recording has no '{missing[0]}'; a run needs {', '.join(REQUIRED)}")
    if np.shape(recording["t"]) == (0,):
        return
    sizes: dict[str, int] = {}
    for name, expected in SHAPES.items():
        timed = "solve_s" in recording
        array = np.asarray(recording.get(name, recording["t"]))
        if (name.startswith("solve") and not timed) or (name == "goal_WO" and array.shape == (7,)):
            continue
        fits = len(array.shape) == len(expected) and all(
            n == (size if isinstance(size, int) else sizes.setdefault(size, n))
            for n, size in zip(array.shape, expected, strict=True)
        )
        if not fits or array.dtype.kind not in "fiu":
            wanted = ", ".join(str(sizes.get(size, size)) for size in expected)
            raise ConfigError(
                f"'{name}' of the recording must be numbers of shape ({wanted}), got {array.dtype} of shape "
                f"{array.shape}"
            )


def _finite_samples(recording: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the finite samples; a plant that diverged leaves others."""
    per_sample = [
        *REQUIRED,
        *(
            name
            for name, like in (("q_command", "q"), ("contacts", "t"))
            if name in recording
            and np.shape(recording[name]) == np.shape(recording[like])
            and np.asarray(recording[name]).dtype.kind in "fiu"
        ),
    ]
    arrays = {
        name: np.asarray(recording[name], float)
        for name in recording
        if name in (*per_sample, "solve_t", "solve_s")
    }
    arrays["goal_WO"] = np.broadcast_to(arrays["goal_WO"], (len(arrays["t"]), 7))
    if "solve_s" in arrays:
        timed = np.column_stack([arrays.get("solve_t", arrays["t"]), arrays["solve_s"]])
        arrays["solve_t"], arrays["solve_s"] = timed[np.isfinite(timed).all(axis=1)].T
    keep = np.isfinite(np.column_stack([arrays[name] for name in REQUIRED])).all(axis=1)
    return {name: array[keep] if name in per_sample else array for name, array in arrays.items()}
