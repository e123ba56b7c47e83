"""Trials in processes of their own, side by side if asked to."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

from dexstack.graph import XLA_ONE_THREAD

T = TypeVar("T")


def in_processes(function: Callable[..., T], jobs: int, *columns: Sequence[Any]) -> Iterator[T]:
    """``function`` of each row of ``columns``, in order, in ``jobs`` fresh processes: what this one has loaded or set does not matter."""
    for name, value in XLA_ONE_THREAD.items():  # a trial is one thread of work; several run side by side
        os.environ.setdefault(name, value)
    pool = ProcessPoolExecutor(
        min(jobs, len(columns[0])),
        multiprocessing.get_context("spawn"),
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        yield from pool.map(function, *columns)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
