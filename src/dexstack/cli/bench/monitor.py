"""``dexstack bench monitor``: what a monitor with a browser on it and a recorder cost the planner
of a running graph."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from dexstack.cli import arguments
from dexstack.cli.monitor import HOST, PORT, page_parameters, page_url
from dexstack.cli.output import add_json_argument, note, publish, table
from dexstack.errors import ConfigError
from dexstack.report.statistics import times

LIMIT = 0.1
"""By this share p99 may grow."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``monitor``."""
    p = subparsers.add_parser(
        "monitor",
        help="what monitor and recorder cost the planner",
        description="Run `dexstack up sim` again and again, every other time with `dexstack record` and a `dexstack monitor` "
        "that somebody looks at, and compare the planner's solve times. Exit code 0 only if p99 grows by at most 10 %, in processor time "
        "and on the wall clock.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    p.add_argument(
        "--pairs", type=arguments.positive_int, default=3, metavar="N", help="runs with and runs without"
    )
    p.add_argument(
        "--seconds", type=arguments.positive, default=15.0, metavar="S", help="simulated time of a run"
    )
    p.add_argument("--seed", type=arguments.natural, default=0, metavar="S")
    add_json_argument(p)


def run(args: argparse.Namespace) -> int:
    """Measure.

    Returns:
        0 when p99 grew by at most :data:`LIMIT`, otherwise 1.
    """
    import numpy as np

    found: dict[bool, list[Any]] = {False: [], True: []}
    received = 0
    with tempfile.TemporaryDirectory(prefix="dexstack-") as folder:
        for k in range(2 * args.pairs):
            watched = k % 2 == 1
            note(f"run {k + 1} of {2 * args.pairs}, {'with monitor and recorder' if watched else 'alone'}")
            solves, count = _solves(Path(folder) / str(k), watched, args.seconds, args.seed + k // 2)
            found[watched].append(solves)
            received += count
    alone, watched_ = (np.concatenate(found[key]) for key in (False, True))
    results: dict[str, Any] = {"limit": LIMIT, "page_bytes": received}
    rows = []
    for name, column in (("solve_s", 0), ("solve_wall_s", 1)):
        pair = {"alone": times(alone[:, column]), "watched": times(watched_[:, column])}
        growth = pair["watched"]["p99"] / pair["alone"]["p99"] - 1.0
        results[name] = {**pair, "p99_growth": growth}
        rows += [(name, key, 1e3 * t["p50"], 1e3 * t["p99"], t["n"]) for key, t in pair.items()]
        rows.append((name, "growth [%]", None, 100 * growth, None))
    if not received:
        raise ConfigError("nobody could look at the page; try `dexstack monitor` beside `dexstack up sim`")
    passed = all(results[name]["p99_growth"] <= LIMIT for name in ("solve_s", "solve_wall_s"))
    verdict = f"p99 of the solve {'grows by at most' if passed else 'grows by more than'} {100 * LIMIT:.0f} % in processor and wall time"
    publish(
        args,
        "bench monitor",
        results,
        table("solve times [ms]", ("time", "run", "p50", "p99", "n"), rows),
        verdict,
        seed=args.seed,
    )
    return 0 if passed else 1


def _solves(folder: Path, watched: bool, seconds: float, seed: int) -> tuple[Any, int]:
    """Processor and wall time of every solve of one run, (n, 2) [s], and the bytes that a visitor
    of the page received."""
    import numpy as np

    from dexstack.cli.supervisor import graph_environment

    dexstack = [sys.executable, "-m", "dexstack.cli.main"]
    with graph_environment() as environment, contextlib.ExitStack() as stack:
        options = {
            "env": {**os.environ, **environment},
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.DEVNULL,
        }
        options["stderr"] = stack.enter_context(tempfile.TemporaryFile())
        arguments_ = [
            "--goal-yaw",
            "180",
            "--seconds",
            str(seconds),
            "--seed",
            str(seed),
            "--no-report",
            "--results",
            str(folder),
        ]
        graph = subprocess.Popen([*dexstack, "up", "sim", *arguments_], **options)
        stack.callback(_end, graph)
        visitor: _Visitor | None = None
        if watched:
            page = page_parameters(HOST, PORT)
            monitor = ["monitor", "--no-open", "--port", str(page["port"]), "--token", str(page["token"])]
            for command in (["record", str(folder.with_suffix(".mcap"))], monitor):
                stack.callback(_end, subprocess.Popen([*dexstack, *command], **options))
            visitor = _Visitor(page_url(page).replace("http", "ws"), graph)
        graph.wait()
    recording = folder / "recording.npz"
    if not recording.is_file():
        raise ConfigError(f"a run with seed {seed} left no recording; try `dexstack up sim`")
    with np.load(recording) as data:
        return np.stack([data["solve_s"], data["solve_wall_s"]], axis=1), visitor.received if visitor else 0


class _Visitor(threading.Thread):
    """Somebody who looks at the page, as long as the graph runs: takes every picture and throws it
    away."""

    def __init__(self, url: str, graph: subprocess.Popen) -> None:
        super().__init__(daemon=True)
        self._url, self._graph = url, graph
        self.received = 0
        """Bytes."""
        self.start()

    def run(self) -> None:
        import msgspec
        import viser
        from websockets.exceptions import WebSocketException
        from websockets.sync.client import connect

        look = {
            "wxyz": (1, 0, 0, 0),
            "position": (0.3, 0, 0.3),
            "look_at": (0, 0, 0),
            "up_direction": (0, 0, 1),
        }
        lens = {"fov": 1.0, "near": 0.01, "far": 10.0, "image_height": 600, "image_width": 900}
        while self._graph.poll() is None:
            try:
                with connect(
                    self._url, subprotocols=[f"viser-v{viser.__version__}"], max_size=None
                ) as socket:
                    socket.send(msgspec.msgpack.encode({"type": "ViewerCameraMessage", **look, **lens}))
                    while self._graph.poll() is None:
                        with contextlib.suppress(TimeoutError):
                            self.received += len(socket.recv(timeout=0.5))
            except (OSError, EOFError, WebSocketException):
                time.sleep(0.5)  # the page is not there yet, or not any more


def _end(process: subprocess.Popen) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        process.wait()
