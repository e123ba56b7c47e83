"""Cost of a monitor with a browser and of a recorder for the planner of a running graph.

Runs `dexstack up sim` repeatedly, every other time with `dexstack record` and a viewed `dexstack
monitor`, and compares the planner's solve times. Passes if p99 grows by at most 10 %, in processor
time and in wall time.
"""

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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dexstack.cli.arguments import natural, positive, positive_int
from dexstack.cli.monitor import HOST, PORT, page_parameters, page_url
from dexstack.cli.output import note, table
from dexstack.cli.supervisor import graph_environment
from dexstack.errors import ConfigError
from dexstack.report.statistics import times
from experiments.harness import Outcome, run

LIMIT = 0.1
"""Largest growth of p99."""


def monitor(args: argparse.Namespace) -> Outcome:
    """Run the pairs and compare."""
    found: dict[bool, list[Any]] = {False: [], True: []}
    received = 0
    with tempfile.TemporaryDirectory(prefix="dexstack-") as folder:
        for k in range(2 * args.pairs):
            watched = k % 2 == 1
            note(f"run {k + 1} of {2 * args.pairs}, {'with monitor and recorder' if watched else 'alone'}")
            solves, count = _solves(Path(folder) / str(k), watched, args.seconds, args.seed + k // 2)
            found[watched].append(solves)
            received += count
    if not received:
        raise ConfigError("the page sent no data; try `dexstack monitor` during `dexstack up sim`")
    results: dict[str, Any] = {"limit": LIMIT, "page_bytes": received}
    rows = []
    for name, column in (("solve_s", 0), ("solve_wall_s", 1)):
        pair = {
            key: times(np.concatenate(found[watched])[:, column])
            for key, watched in (("alone", False), ("watched", True))
        }
        growth = pair["watched"]["p99"] / pair["alone"]["p99"] - 1.0
        results[name] = {**pair, "p99_growth": growth}
        rows += [(name, key, 1e3 * t["p50"], 1e3 * t["p99"], t["n"]) for key, t in pair.items()]
        rows.append((name, "growth [%]", None, 100 * growth, None))
    results["passed"] = all(results[name]["p99_growth"] <= LIMIT for name in ("solve_s", "solve_wall_s"))
    lines = [table("solve times [ms]", ("time", "run", "p50", "p99", "n"), rows)]
    return Outcome(results, lines=lines, seed=args.seed)


def _solves(folder: Path, watched: bool, seconds: float, seed: int) -> tuple[Any, int]:
    """Return processor and wall time of every solve of one run, (n, 2) [s], and the number of bytes
    that the page sent."""
    dexstack = [sys.executable, "-m", "dexstack.cli.main"]
    with graph_environment() as environment, contextlib.ExitStack() as stack:
        options = {
            "env": {**os.environ, **environment},
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.DEVNULL,
        }
        options["stderr"] = stack.enter_context(tempfile.TemporaryFile())
        run_ = ["--goal-yaw", "180", "--seconds", str(seconds), "--seed", str(seed)]
        command = [*dexstack, "up", "sim", *run_, "--no-report", "--results", str(folder)]
        graph = subprocess.Popen(command, **options)
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
    """Browser on the page that receives and discards everything while the graph runs."""

    def __init__(self, url: str, graph: subprocess.Popen) -> None:
        super().__init__(daemon=True)
        self._url, self._graph = url, graph
        self.received = 0
        """Number of bytes."""
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
                time.sleep(0.5)  # the page is not up yet, or has gone


def _end(process: subprocess.Popen) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        process.wait()


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this rig."""
    add = parser.add_argument
    add("--pairs", type=positive_int, default=3, metavar="N", help="number of runs of each kind")
    add("--seconds", type=positive, default=15.0, metavar="S", help="simulated time of a run")
    add("--seed", type=natural, default=0, metavar="S", help="seed of the first pair")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rig; return the exit code."""
    return run("tests.acceptance.monitor", __doc__, monitor, argv, arguments=arguments)


if __name__ == "__main__":
    sys.exit(main())
