"""Reading of recordings: bags, the archives of ``dexstack up``, ``eval --record`` and ``learn
--record``, each given as a file or as its folder, and LeRobot datasets."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dexstack.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np

RECORDING = "recording.npz"
"""Name of the archive in the folder of a run or a trial."""


class RecordedRun(NamedTuple):
    """Arrays and summary of an archive."""

    arrays: dict[str, np.ndarray]
    """As for :func:`dexstack.report.run.write_run`."""
    summary: dict[str, Any]
    """Result, and names of task, object and hand."""


def recording_file(path: Path) -> Path:
    """Return a bag (a file or its folder), a dataset (its folder) or an archive (a file) from its path
    or that of its folder.

    Raises:
        ConfigError: there is none, or the folder is one of several recordings.
    """
    from dexstack.bags.file import is_bag
    from dexstack.datasets.reading import is_dataset

    if not path.is_dir() or is_bag(path) or is_dataset(path):
        return path
    if (path / RECORDING).is_file():
        return path / RECORDING
    found = [p.parent if p.name == RECORDING else p for p in _below(path)]
    several = f"; recordings are in {found[0]} … {found[-1]}" if found else ""
    raise ConfigError(f"there is no recording {path / RECORDING} or bag (.mcap) in {path}{several}")


def recording_files(path: Path) -> list[Path]:
    """Return the recordings at a path: one, or all below a folder.

    Raises:
        ConfigError: there are none.
    """
    from dexstack.bags.file import is_bag

    found = _below(path) if path.is_dir() and not is_bag(path) else []
    return found or [recording_file(path)]


def _below(folder: Path) -> list[Path]:
    return sorted([*folder.rglob(RECORDING), *folder.rglob("*.mcap")])


def read_run(path: Path) -> RecordedRun:
    """Read the archive of a run of the graph or of a trial.

    Raises:
        ConfigError: the file cannot be read, or names no task, object or hand.
    """
    arrays = _arrays(path := recording_file(path))
    try:
        summary = json.loads(str(arrays.pop("summary")))
    except (ValueError, KeyError):
        raise ConfigError(f"{path} is not a recording of a run or a trial") from None
    if missing := [name for name in ("task", "object", "hand") if name not in summary]:
        raise ConfigError(f"the recording {path} does not name its {missing[0]}")
    return RecordedRun(arrays, summary)


def read_recording(path: Path, joints: Sequence[str]) -> dict[str, np.ndarray]:
    """Read the arrays of one recording, see :data:`dexstack.learning.transitions.RECORDED`.

    Args:
        joints: the robot's joint names, in the order of the arrays.

    Raises:
        ConfigError: the file cannot be read; see :func:`dexstack.bags.samples.read_samples` and
            :func:`dexstack.datasets.reading.read_dataset`.
    """
    from dexstack.bags.file import is_bag
    from dexstack.datasets.reading import is_dataset, read_dataset

    path = recording_file(path)
    if is_dataset(path):
        return read_dataset(path, joints)
    if is_bag(path):
        from dexstack.bags.samples import read_samples

        return read_samples(path, joints)
    return {name: array for name, array in _arrays(path).items() if name != "summary"}


def _arrays(path: Path) -> dict[str, np.ndarray]:
    import numpy as np

    try:
        with np.load(path) as archive:
            return dict(archive)
    except OSError as error:
        raise ConfigError(f"cannot read the recording {path}: {error.strerror or error}") from None
    except (ValueError, TypeError, EOFError, zipfile.BadZipFile):  # of NumPy: no archive, or a single array
        raise ConfigError(f"{path} is neither a recording (.npz) nor a bag (.mcap)") from None
