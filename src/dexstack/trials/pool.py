"""Trials in separate processes, on this machine or on the machines of a Ray cluster."""

from __future__ import annotations

import collections
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

from dexstack.errors import ConfigError
from dexstack.process.orphans import die_with_parent
from dexstack.process.threads import XLA_ONE_THREAD, prefer

T = TypeVar("T")


def in_processes(function: Callable[..., T], jobs: int, *columns: Sequence[Any]) -> Iterator[T]:
    """Yield ``function`` of each row of ``columns``, in order, from ``jobs`` fresh processes, which
    do not inherit this one's state."""
    prefer(XLA_ONE_THREAD)  # a trial is one thread of work; several run concurrently
    spawn = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(min(jobs, len(columns[0])), spawn, initializer=_begin)
    waiting = collections.deque(pool.submit(function, *row) for row in zip(*columns, strict=True))
    try:
        while waiting:
            yield waiting.popleft().result()
    except BaseException:
        # Otherwise the interpreter waits for the running trials at exit. The rows that wait are not
        # cancelled: before Python 3.12 the pool fails on cancelled rows when its processes end.
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()
        raise
    finally:
        pool.shutdown(wait=False)


def _begin() -> None:
    """Make a worker end at once on Ctrl-C and when the command ends."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    die_with_parent()


def on_ray(function: Callable[..., T], jobs: int, *columns: Sequence[Any]) -> Iterator[T]:
    """Yield as :func:`in_processes` from Ray: the cluster of ``RAY_ADDRESS``, with one process per
    core there, otherwise ``jobs`` processes here.

    The machines of a cluster need this version of dexstack.

    Raises:
        ConfigError: Ray is not installed, or the cluster cannot be reached.
    """
    try:
        import ray
        from ray.util import ActorPool
    except ModuleNotFoundError:
        raise ConfigError("--ray needs ray: pip install 'dexstack[ray]'") from None
    here = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": jobs, "include_dashboard": False}
    try:
        ray.init(
            runtime_env={"env_vars": dict(XLA_ONE_THREAD)}, log_to_driver=False, logging_level="error", **here
        )
    except ConnectionError as error:
        raise ConfigError(f"no Ray cluster at RAY_ADDRESS={os.environ['RAY_ADDRESS']}: {error}") from None
    try:
        worker = ray.remote(num_cpus=1)(_Worker)
        processes = min(int(ray.cluster_resources()["CPU"]), len(columns[0]))
        pool = ActorPool([worker.remote(function) for _ in range(processes)])
        rows, done, following = enumerate(zip(*columns, strict=True)), {}, 0
        # an idle worker takes the next row: with ActorPool.map it would wait for the rows before
        for k, result in pool.map_unordered(lambda actor, row: actor.run.remote(*row), rows):
            done[k] = result
            while following in done:
                yield done.pop(following)
                following += 1
    finally:
        ray.shutdown()


class _Worker:
    """One process, which keeps a function's caches, such as a compiled planner, between calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def run(self, k: int, row: tuple[Any, ...]) -> tuple[int, Any]:
        return k, self._function(*row)
