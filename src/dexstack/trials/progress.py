"""Progress of a batch while its trials run, in whichever processes: every running trial notes its
simulated time in a file, and a thread of the command reads them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dexstack.sim.trial import Trial

NOTED = 1.0
"""Shortest time between two notes of a trial [s]."""
SPOKEN = 10.0
"""Time without any other line after which a line of progress follows [s]."""


class Clock:
    """Notes the simulated time and the wall time of one running trial in a file."""

    def __init__(self, file: Path) -> None:
        self._file, self._begin, self._due = file, time.monotonic(), 0.0

    def note(self, t: float) -> None:
        """Note the simulated time ``t`` [s], if the last note is :data:`NOTED` old; no-op where the
        file cannot be written."""
        now = time.monotonic()
        if now >= self._due:
            self._due = now + NOTED
            with contextlib.suppress(OSError):
                self._file.write_text(f"{t:.9g} {now - self._begin:.9g}", encoding="utf-8")

    def end(self) -> None:
        """Remove the file."""
        with contextlib.suppress(OSError):
            self._file.unlink()


class Progress:
    """Trials that ended and that run, and the estimate of the time left."""

    def __init__(self, folder: Path, trials: int, seconds: float, processes: int) -> None:
        """
        Args:
            folder: with a file of :class:`Clock` for every running trial.
            trials: number of trials of the batch.
            seconds: time limit of a trial, simulated [s].
            processes: number of trials that run at the same time.
        """
        self.folder = folder
        self._trials, self._seconds, self._processes = trials, seconds, processes
        self._ended: list[tuple[float, float]] = []
        self._spoke = time.monotonic()

    def add(self, trial: Trial) -> int:
        """Count a trial that ended; return how many have."""
        self._ended.append((trial.seconds, trial.wall_s))
        self._spoke = time.monotonic()
        return len(self._ended)

    @property
    def silent_for(self) -> float:
        """Time since a trial ended, or since :meth:`line` [s]."""
        return time.monotonic() - self._spoke

    def line(self) -> str:
        """Return one line: trials done, simulated times of those that run, real-time factor of a
        process, and the time left if trials last as long as those that ended; trials that already run
        longer raise that mean. If none has ended, the time left is a bound, by the trials' limit."""
        self._spoke = time.monotonic()
        running = sorted(self._running(), reverse=True)
        text = f"{len(self._ended)} of {self._trials} trials done"
        if not running:
            return f"{text}; the next ones begin"
        times = ", ".join(f"{t:.1f}" for t, _ in running)
        text += f"; at {times} of {self._seconds:g} s"
        simulated, wall = (sum(x) for x in zip(*self._ended, *running, strict=True))
        if not simulated > 0.0:
            return text
        each = self._seconds
        if self._ended:
            mean = sum(t for t, _ in self._ended) / len(self._ended)
            overdue = sum(max(t - mean, 0.0) for t, _ in running)
            each = min(each, mean + overdue / len(self._ended))
        left = (self._trials - len(self._ended)) * each - sum(min(t, each) for t, _ in running)
        left *= wall / simulated / self._processes
        bound = "about" if self._ended else "at most"
        return f"{text}, real-time factor {simulated / wall:.2g}, {bound} {_in_words(left)} left"

    def _running(self) -> Iterator[tuple[float, float]]:
        for file in self.folder.iterdir():
            with contextlib.suppress(OSError, ValueError):  # removed, or being written
                t, wall = map(float, file.read_text(encoding="utf-8").split())
                yield t, wall


def _in_words(seconds: float) -> str:
    if seconds < 90.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 5400.0 else f"{seconds / 3600.0:.1f} h"


@contextlib.contextmanager
def progress(trials: int, seconds: float, processes: int, say: Callable[[str], None]) -> Iterator[Progress]:
    """Make a :class:`Progress`, and say its line whenever nothing ended for :data:`SPOKEN`."""
    stop = threading.Event()
    with TemporaryDirectory(prefix="dexstack-", ignore_cleanup_errors=True) as name:
        found = Progress(Path(name), trials, seconds, processes)

        def speak() -> None:
            while not stop.wait(1.0):
                if found.silent_for >= SPOKEN:
                    say(found.line())

        thread = threading.Thread(target=speak, daemon=True)
        thread.start()
        try:
            yield found
        finally:
            stop.set()
            thread.join()
