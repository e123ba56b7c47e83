"""Run a generator function in another process with a time limit, where a library may hang or crash.

The limit holds for wall time and for processor time: on a machine that is busy with other programs the
function gets the same work done, later. A process that uses no processor time hangs.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dexstack.errors import ConfigError
from dexstack.process.orphans import die_with_parent

IDLE, POLL = 10.0, 0.5
"""Time without processor time after which a process hangs, and time between two checks [s]."""


class Ended(NamedTuple):
    """Result of :func:`bounded`."""

    results: list[dict[str, np.ndarray]]
    """Yielded dictionaries, in order."""
    late: bool
    """True if the time was up before the function returned."""
    fault: str
    """Last line of the process's output if it crashed, otherwise empty."""
    hung: bool = False
    """True if it was late without using the processor."""


def bounded(target: str, arrays: Mapping[str, np.ndarray], seconds: float) -> Ended:
    """Run a generator function of arrays that yields dictionaries of arrays.

    Args:
        target: ``package.module:function``, called with ``arrays``.
        arrays: argument of the function.
        seconds: wall time and processor time of the process [s] after both of which it is killed;
            earlier results are kept.

    Raises:
        ConfigError: raised by the function.
    """
    command = [sys.executable, "-P", "-m", "dexstack.process.bounded", target]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    given: bytes | None = pickle.dumps(dict(arrays))
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    late, ended = False, False
    with subprocess.Popen(command, env=environment, **pipes) as process:
        work = _Work(process.pid)
        try:
            while not ended:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    made, said = process.communicate(given, timeout=POLL)
                    ended = True
                given = None  # it is sent in the background
                if not ended and work.is_over(seconds):
                    late = True
                    process.kill()
        except BaseException:
            process.kill()
            raise
    code = 0 if late else process.returncode
    results = list(_unpickled(made))
    if results and isinstance(results[-1], ConfigError):
        raise results[-1]
    lines = said.decode(errors="replace").strip().splitlines() or [f"exit code {code}"]
    return Ended(results, late, lines[-1] if code else "", late and work.hangs)


class _Work:
    """Wall time and processor time of a process from now on."""

    def __init__(self, pid: int) -> None:
        self._stat = Path(f"/proc/{pid}/stat")
        self._begin = self._active = time.monotonic()
        self._used = 0.0
        self.hangs = False
        """Whether it used no processor time for IDLE at the last look."""

    def is_over(self, seconds: float) -> bool:
        """Return whether both exceed ``seconds`` [s], or the first does and the process hangs."""
        now = time.monotonic()
        try:
            fields = self._stat.read_text(errors="replace").rpartition(")")[2].split()
            used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, IndexError, ValueError):  # another system
            used = np.inf
        if used > self._used:
            self._used, self._active = used, now
        self.hangs = now - self._active > IDLE
        return now - self._begin > seconds and (used > seconds or self.hangs)


def _unpickled(content: bytes) -> Iterator[Any]:
    """Yield the objects of a stream that may be cut short."""
    stream = io.BytesIO(content)
    with contextlib.suppress(EOFError, pickle.UnpicklingError):
        while True:
            yield pickle.load(stream)


def _main(target: str) -> None:
    die_with_parent()
    (module, function), given = target.split(":"), pickle.load(sys.stdin.buffer)
    with os.fdopen(os.dup(1), "wb") as results:
        os.dup2(2, 1)  # what libraries print is not part of the results
        try:
            for arrays in getattr(importlib.import_module(module), function)(given):
                pickle.dump(dict(arrays), results)
                results.flush()
        except ConfigError as error:
            pickle.dump(error, results)


if __name__ == "__main__":
    _main(sys.argv[1])
