"""LeRobotDataset v3.0: parquet tables of frames and episodes, MP4 videos, and their metadata.

Layout (https://huggingface.co/docs/lerobot/lerobot-dataset-v3)::

    meta/info.json                              features, frame rate, totals, path templates
    meta/stats.json                             mean, std, min, max, quantiles of every feature
    meta/tasks.parquet                          task text → index
    meta/episodes/chunk-000/file-000.parquet    one row an episode
    data/chunk-000/file-000.parquet             one row a frame
    videos/KEY/chunk-000/file-000.mp4           the pictures of all episodes, one after another
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from dexstack.errors import ConfigError, writing

VERSION = "v3.0"
FILE = "chunk-{chunk_index:03d}/file-{file_index:03d}"
FIRST = FILE.format(chunk_index=0, file_index=0)
QUANTILES = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}
COUNTERS = {"timestamp": "float32", "frame_index": "int64", "episode_index": "int64", "index": "int64"}
"""Columns that every dataset has, with their types; and ``task_index``."""
CODEC, PIXELS = "libx264", "yuv420p"
ARRAYS = {
    "observation.state": "q",
    "observation.velocity": "qd",
    "observation.effort": "torque",
    "observation.environment_state": "pose_WO",
    "observation.goal": "goal_WO",
    "action": "q_command",
}
"""Feature → array of a recording, see :class:`dexstack.sim.trial.Recording`."""
POSITION = ".pos"
"""LeRobot's suffix of joint positions and targets in ``observation.state`` and ``action``."""
POSE = "x", "y", "z", "qw", "qx", "qy", "qz"
EACH_PICTURE = 10
"""Every n-th picture counts in the statistics."""


@dataclass(frozen=True)
class Feature:
    """A column of a dataset."""

    names: tuple[str, ...]
    """Names of its numbers; of a picture: height, width, channels."""
    shape: tuple[int, ...]
    dtype: str = "float32"
    """numpy's name, or "video"."""

    def described(self, fps: int) -> dict[str, Any]:
        """Return the entry of ``info.json``."""
        entry = {"dtype": self.dtype, "shape": list(self.shape), "names": list(self.names)}
        if self.dtype == "video":
            height, width, channels = self.shape
            entry["info"] = {
                "video.height": height,
                "video.width": width,
                "video.channels": channels,
                "video.codec": "h264",
                "video.pix_fmt": PIXELS,
                "video.is_depth_map": False,
                "video.fps": fps,
                "has_audio": False,
            }
        return entry


def statistics(values: np.ndarray) -> dict[str, list[Any]]:
    """Return the statistics of a column over its first axis, as the format lists them."""
    values = np.asarray(values, float)
    found = {
        "min": values.min(axis=0),
        "max": values.max(axis=0),
        "mean": values.mean(axis=0),
        "std": values.std(axis=0),
        **{name: np.quantile(values, q, axis=0) for name, q in QUANTILES.items()},
    }
    return {name: np.atleast_1d(value).tolist() for name, value in found.items()} | {"count": [len(values)]}


class LeRobotWriter:
    """Writes a dataset, one episode after another; complete after the ``with`` block."""

    def __init__(self, folder: Path, fps: int, features: Mapping[str, Feature], robot: str) -> None:
        """
        Args:
            folder: missing or empty.
            fps: frames per second.
            features: columns by name, e.g. ``observation.state``, ``action``.
            robot: name of the robot's type.

        Raises:
            ConfigError: the folder is not empty or cannot be written, or a library is not installed.
        """
        try:
            import av
            import pandas  # noqa: F401  the format's tables of tasks have a pandas index
            import pyarrow.parquet as parquet
        except ImportError as error:
            raise ConfigError(f"a dataset needs {error.name}: pip install 'dexstack[lerobot]'") from None
        if folder.is_dir() and any(folder.iterdir()):
            raise ConfigError(f"{folder} is not empty; give another folder")
        self._folder, self._fps, self._features, self._robot = folder, fps, dict(features), robot
        self._av, self._parquet = av, parquet
        self._tasks: dict[str, int] = {}
        self._episodes: list[dict[str, Any]] = []
        self._seen: dict[str, list[np.ndarray]] = {}
        self._frames = 0
        self._writer: Any = None
        self._videos: dict[str, tuple[Any, Any]] = {}

    def __enter__(self) -> LeRobotWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for container, stream in self._videos.values():
            container.mux(stream.encode())
            container.close()
        if self._writer is not None:
            self._writer.close()
        if self._episodes:
            self._finish()

    def add(self, columns: Mapping[str, np.ndarray], task: str) -> None:
        """Add an episode of K frames.

        Args:
            columns: every feature's values (K, …); pictures (K, H, W, 3) uint8.
            task: what is done, in words.

        Raises:
            ConfigError: a column is missing or has another shape, or a file cannot be written.
        """
        import pyarrow as pa

        number, length = len(self._episodes), len(next(iter(columns.values())))
        for name, feature in self._features.items():
            expected = (length, *feature.shape)
            if name not in columns or np.shape(columns[name]) != expected:
                found = np.shape(columns[name]) if name in columns else "nothing"
                raise ConfigError(f"episode {number}: '{name}' must be {expected}, got {found}")
        frame = np.arange(length)
        table = {
            name: np.asarray(columns[name], feature.dtype)
            for name, feature in self._features.items()
            if feature.dtype != "video"
        }
        table |= {
            "timestamp": (frame / self._fps).astype(np.float32),
            "frame_index": frame,
            "episode_index": np.full(length, number),
            "index": self._frames + frame,
            "task_index": np.full(length, self._tasks.setdefault(task, len(self._tasks))),
        }
        arrow = pa.table({name: _arrow(column) for name, column in table.items()})
        path = self._folder / "data" / f"{FIRST}.parquet"
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            if self._writer is None:
                self._writer = self._parquet.ParquetWriter(path, arrow.schema)
            self._writer.write_table(arrow)
        row = {
            "episode_index": number,
            "tasks": [task],
            "length": length,
            "data/chunk_index": 0,
            "data/file_index": 0,
            "dataset_from_index": self._frames,
            "dataset_to_index": self._frames + length,
            "meta/episodes/chunk_index": 0,
            "meta/episodes/file_index": 0,
        }
        for name in self._pictures():
            row |= self._film(name, columns[name])
            table[name] = np.asarray(columns[name])[::EACH_PICTURE] / 255.0
        for name, column in table.items():
            self._seen.setdefault(name, []).append(column)
            row |= {f"stats/{name}/{k}": v for k, v in self._statistics(name, column).items()}
        self._episodes.append(row)
        self._frames += length

    def _pictures(self) -> list[str]:
        return [name for name, feature in self._features.items() if feature.dtype == "video"]

    def _statistics(self, name: str, values: np.ndarray) -> dict[str, Any]:
        """Return the statistics of a column; of pictures per channel, shaped (3, 1, 1)."""
        if name not in self._pictures():
            return statistics(values)
        found = statistics(values.reshape(-1, values.shape[-1]))
        shaped = {k: [[[x]] for x in v] for k, v in found.items() if k != "count"}
        return shaped | {"count": [len(values)]}

    def _film(self, name: str, pictures: np.ndarray) -> dict[str, Any]:
        """Append pictures (K, H, W, 3) to a video; return the episode's columns about it."""
        path = self._folder / "videos" / name / f"{FIRST}.mp4"
        if name not in self._videos:
            with writing(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                container = self._av.open(str(path), "w")
            stream = container.add_stream(CODEC, rate=self._fps, options={"g": "2", "crf": "18"})
            stream.height, stream.width = pictures.shape[1:3]
            stream.pix_fmt = PIXELS
            self._videos[name] = container, stream
        container, stream = self._videos[name]
        for picture in pictures:
            container.mux(stream.encode(self._av.VideoFrame.from_ndarray(picture, format="rgb24")))
        return {
            f"videos/{name}/chunk_index": 0,
            f"videos/{name}/file_index": 0,
            f"videos/{name}/from_timestamp": self._frames / self._fps,
            f"videos/{name}/to_timestamp": (self._frames + len(pictures)) / self._fps,
        }

    def _finish(self) -> None:
        """Write the metadata."""
        import pandas as pd

        counters = {**COUNTERS, "task_index": "int64"}
        described = {name: feature.described(self._fps) for name, feature in self._features.items()}
        described |= {n: {"dtype": d, "shape": [1], "names": None} for n, d in counters.items()}
        info = {
            "codebase_version": VERSION,
            "robot_type": self._robot,
            "total_episodes": len(self._episodes),
            "total_frames": self._frames,
            "total_tasks": len(self._tasks),
            "chunks_size": 1000,
            "data_files_size_in_mb": 100,
            "video_files_size_in_mb": 200,
            "fps": self._fps,
            "splits": {"train": f"0:{len(self._episodes)}"},
            "data_path": f"data/{FILE}.parquet",
            "video_path": f"videos/{{video_key}}/{FILE}.mp4" if self._pictures() else None,
            "features": described,
        }
        stats = {name: self._statistics(name, np.concatenate(rows)) for name, rows in self._seen.items()}
        tasks = pd.DataFrame({"task_index": list(self._tasks.values())}, index=list(self._tasks))
        meta = self._folder / "meta"
        with writing(meta):
            (meta / "episodes" / FIRST).parent.mkdir(parents=True, exist_ok=True)
            (meta / "info.json").write_text(json.dumps(info, indent=4), encoding="utf-8")
            (meta / "stats.json").write_text(json.dumps(stats, indent=4), encoding="utf-8")
            tasks.to_parquet(meta / "tasks.parquet")
            pd.DataFrame(self._episodes).to_parquet(meta / "episodes" / f"{FIRST}.parquet")


def _arrow(column: np.ndarray) -> Any:
    """Return a column (K,), or (K, D) as lists of fixed size; (K, 1) counts as (K,)."""
    import pyarrow as pa

    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim == 1:
        return pa.array(column)
    return pa.FixedSizeListArray.from_arrays(pa.array(column.ravel()), column.shape[1])


def resampled(t: np.ndarray, fps: int) -> np.ndarray:
    """Return for every frame at 1/``fps`` the index of the newest of samples at times ``t`` (K,)
    [s], increasing."""
    frames = np.arange(t[0], t[-1] + 1e-9, 1.0 / fps)
    return np.searchsorted(t, frames + 1e-9, side="right") - 1


def usable(commands: np.ndarray) -> slice:
    """Return the first run of rows (K, N) without a number that is not finite."""
    finite = np.isfinite(commands).all(axis=1)
    first = int(np.argmax(finite)) if finite.any() else len(finite)
    after = np.flatnonzero(~finite[first:])
    return slice(first, first + int(after[0]) if len(after) else len(finite))


def columns_of(
    arrays: Mapping[str, np.ndarray], joints: Sequence[str]
) -> dict[str, tuple[Feature, np.ndarray]]:
    """Return the features of a recording that it has, with their values (K, …).

    Args:
        arrays: see :class:`dexstack.sim.trial.Recording`.
        joints: names of the joints.
    """
    found = {}
    for name, key in ARRAYS.items():
        suffix = POSITION if name in ("observation.state", "action") else ""
        names = POSE if key.endswith("_WO") else tuple(f"{joint}{suffix}" for joint in joints)
        if key in arrays:
            found[name] = Feature(names, (len(names),)), np.asarray(arrays[key])
    return found
