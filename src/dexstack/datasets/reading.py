"""LeRobot datasets as recordings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dexstack.datasets.lerobot import ARRAYS, POSITION
from dexstack.errors import ConfigError

INFO = Path("meta") / "info.json"
OF_JOINTS = ("observation.state", "observation.velocity", "observation.effort", "action")
"""Features with one number for each joint."""


def is_dataset(path: Path) -> bool:
    """Return whether a path is the folder of a LeRobot dataset."""
    return (path / INFO).is_file()


def read_dataset(folder: Path, joints: Sequence[str]) -> dict[str, np.ndarray]:
    """Read all episodes of a dataset, one after another, as :func:`dexstack.bags.samples.read_samples`
    reads a bag; ``rollout`` is the index of the episode.

    Args:
        joints: the hand's joint names, in the order of the arrays.

    Raises:
        ConfigError: a file cannot be read, pyarrow is not installed, states or actions are missing, or
            the joints are of another hand.
    """
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise ConfigError("a dataset needs pyarrow: pip install 'dexstack[lerobot]'") from None
    try:
        info = json.loads((folder / INFO).read_text(encoding="utf-8"))
        features, fps = info["features"], float(info["fps"])
        known = [name for name in ARRAYS if name in features]
        table = parquet.read_table(folder / "data", columns=[*known, "index", "episode_index"])
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"cannot read the dataset {folder}: {error}") from None
    if missing := {"observation.state", "action"} - set(known):
        raise ConfigError(f"the dataset {folder} has no '{min(missing)}'")
    table = table.sort_by("index").to_pydict()
    arrays = {"t": np.array(table["index"], float) / fps, "rollout": np.array(table["episode_index"])}
    for name in known:
        column = np.array(table[name], float).reshape(len(arrays["t"]), -1)
        if name in OF_JOINTS:
            column = column[:, _order(folder, name, features[name].get("names"), joints)]
        arrays[ARRAYS[name]] = column
    return arrays


def _order(folder: Path, feature: str, names: Any, joints: Sequence[str]) -> list[int]:
    """Return the index of every joint among the names of a feature, a list or one in a mapping, with or
    without LeRobot's suffix."""
    names = list(next(iter(names.values())) if isinstance(names, dict) else names or ())
    names = [name.removesuffix(POSITION) for name in names]
    if other := sorted(set(names) ^ set(joints)):
        raise ConfigError(
            f"the joints of '{feature}' in {folder} are not this hand's: {', '.join(other[:3])}"
        )
    return [names.index(joint) for joint in joints]
