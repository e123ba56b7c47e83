"""Run a generator function in another process with a time limit, where a library may hang or crash."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dexstack.errors import ConfigError

_REFUSED, _POLL = "refused.txt", 0.05


class Ended(NamedTuple):
    """Result of :func:`bounded`."""

    results: list[dict[str, np.ndarray]]
    """Yielded dictionaries, in order."""
    late: bool
    """True if the time was up before the function returned."""
    fault: str
    """Last line of the process's output if it crashed, otherwise empty."""


def bounded(
    target: str,
    arrays: Mapping[str, np.ndarray],
    seconds: float,
    progress: Callable[[dict[str, np.ndarray]], None] | None = None,
) -> Ended:
    """Run a generator function of arrays that yields dictionaries of arrays.

    Args:
        target: ``package.module:function``, called with ``arrays``.
        arrays: argument of the function.
        seconds: time [s] after which the process is killed; earlier results are kept.
        progress: called with each result.

    Raises:
        ConfigError: raised by the function.
    """
    with tempfile.TemporaryDirectory(prefix="dexstack-") as name:
        folder = Path(name)
        np.savez(folder / "given.npz", **arrays)
        command = [sys.executable, "-P", "-m", "dexstack.process.bounded", target, name]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        with (folder / "output").open("wb") as output:
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        results: list[dict[str, np.ndarray]] = []
        end, late = time.monotonic() + seconds, False
        try:
            while (running := process.poll() is None) and not late:
                time.sleep(_POLL)
                late = time.monotonic() > end
                _collect(folder, results, progress)
        finally:
            if running or process.poll() is None:
                process.kill()
                process.wait()
        _collect(folder, results, progress)
        if (folder / _REFUSED).exists():
            raise ConfigError((folder / _REFUSED).read_text())
        fault = ""
        if not late and process.returncode != 0:
            lines = (folder / "output").read_text(errors="replace").strip().splitlines()
            fault = lines[-1] if lines else f"exit code {process.returncode}"
        return Ended(results, late, fault)


def _collect(
    folder: Path,
    results: list[dict[str, np.ndarray]],
    progress: Callable[[dict[str, np.ndarray]], None] | None,
) -> None:
    while (file := folder / f"{len(results)}.npz").exists():
        with np.load(file) as found:
            results.append(dict(found))
        if progress is not None:
            progress(results[-1])


def _main(target: str, name: str) -> None:
    import importlib

    from dexstack.process.orphans import die_with_parent

    die_with_parent()
    folder, (module, function) = Path(name), target.split(":")
    with np.load(folder / "given.npz") as found:
        given = dict(found)
    try:
        for k, arrays in enumerate(getattr(importlib.import_module(module), function)(given)):
            np.savez(folder / "partial.npz", **arrays)
            (folder / "partial.npz").rename(folder / f"{k}.npz")
    except ConfigError as error:
        (folder / "partial.txt").write_text(str(error))
        (folder / "partial.txt").rename(folder / _REFUSED)


if __name__ == "__main__":
    _main(*sys.argv[1:])
