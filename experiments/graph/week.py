"""A week's use in one bring-up: rollout after rollout, a node killed in every tenth; memory, what
is left behind, success.

Asked for: no process grows by more than 5 % once it has lived for 50 rollouts, no process and no
shared memory outlives the graph, every killed node comes back, the last rollout without a kill
reaches the goal, and of those in the second half no fewer reach it than in the first, less a tenth.
Shared memory are the segments of Fast DDS; its files of ports, which a killed node leaves for the
next one in the same domain to use again, are counted beside them. ``--kept`` continues, with a new
bring-up, after the rollouts that a run which was ended left in a file.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dexstack.cli.output import note
from dexstack.cli.supervisor import graph_environment
from dexstack.errors import ConfigError
from experiments.harness import Outcome, run

EVERY = 10
"""In each so manieth rollout a node is killed."""
VICTIMS = ("mpc", "contact_detector", "hand", "simulator", "task")
"""Which, in turns."""
GROWTH = 0.05
"""Largest growth of a process once it has settled."""
WORSE = 0.1
"""So much of the share that reaches the goal may be lost from the first half to the second."""
INTO = 0.5
"""Time from a rollout's start to the kill [s]."""
START_TIMEOUT, ROLLOUT_TIMEOUT, BACK_TIMEOUT = 180.0, 180.0, 60.0
"""[s]"""
LOOK = 0.05
ENDED = ("reached", "timeout", "dropped", "lost")


class BringUp:
    """One graph that stays up, in a ROS domain of its own."""

    def __init__(self, folder: Path, yaw: float, domain: int) -> None:
        from std_srvs.srv import Trigger

        from dexstack.cli.bench.probe import Probe

        command = [
            sys.executable,
            "-m",
            "dexstack.cli.main",
            "up",
            "sim",
            "--stay",
            "--no-report",
            "--robot-state",
            "yes",
        ]
        with (folder / "up.txt").open("w") as out:
            command += ["--goal-yaw", f"{yaw:g}", "--results", str(folder / "up")]
            self.process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        self.probe = Probe(domain)
        self._restart = self.probe.node.create_client(Trigger, "task/restart")
        self._request = Trigger.Request
        self._seen = {self.process.pid}
        self._mapped: set[str] = set()
        self._first = True

    def rollout(self, victim: str) -> dict[str, Any]:
        """One rollout from the start pose to its end, and what every process holds then.

        Args:
            victim: node that is killed in it; empty: none.
        """
        states = self.probe.states
        del states[:-1]
        before = 0
        if not self._first:
            before = states[-1]["attempt"]
            if not self._until(self._ask_again, START_TIMEOUT):
                return self._row("not started", victim, None)
        timeout = START_TIMEOUT if self._first else ROLLOUT_TIMEOUT
        self._first = False
        if not self._until(
            lambda: states and states[-1]["attempt"] != before and states[-1]["phase"] in ("running", *ENDED),
            timeout,
        ):
            return self._row("not started", victim, None)
        back = True
        if victim:
            self._until(
                lambda: self.probe.phase() in ENDED or states[-1]["elapsed"] > INTO, START_TIMEOUT
            )  # some are there sooner
            pid = self.probe.pid(victim)
            os.kill(pid, signal.SIGKILL)
            back = self._until(lambda: self.probe.pid(victim) not in (0, pid), BACK_TIMEOUT)
        ended = self._until(lambda: self.probe.phase() in ENDED, ROLLOUT_TIMEOUT)
        return self._row(self.probe.phase() if ended else "no end", victim, back)

    def close(self) -> dict[str, Any]:
        """End the graph; what it left."""
        self.process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(60.0)
        self.probe.close()
        orphans = [pid for pid in self._seen if _alive(pid)]
        self.process.kill()
        self.process.wait()
        left = [path for path in self._mapped if os.path.exists(path)]
        ports = [path for path in left if "_port" in path]
        return {
            "exit_code": self.process.returncode,
            "orphans": len(orphans),
            "shared_memory_left": len(left) - len(ports),
            "ports_left": len(ports),
        }

    def _row(self, phase: str, victim: str, back: bool | None) -> dict[str, Any]:
        pids = {name: self.probe.pid(name) for name in self.probe.reports} | {"up": self.process.pid}
        self._seen |= {pid for pid in pids.values() if pid}
        memory = {name: [pid, held] for name, pid in pids.items() if pid and (held := _resident(pid))}
        for pid in self._seen:
            with contextlib.suppress(OSError):
                self._mapped |= set(
                    re.findall(r"/dev/shm/(?:sem\.)?fastdds_\S+", Path(f"/proc/{pid}/maps").read_text())
                )
        seconds = self.probe.states[-1]["elapsed"] if self.probe.states else None
        return {"phase": phase, "killed": victim, "came_back": back, "seconds": seconds, "memory_kib": memory}

    def _ask_again(self) -> bool:
        if not self._restart.service_is_ready():
            return False
        answer = self._restart.call_async(self._request())
        return self._until(answer.done, 5.0) and answer.result().success

    def _until(self, condition: Callable[[], Any], timeout: float) -> bool:
        """Whether it comes true in time, while the graph is up; time is counted in looks."""
        for _ in range(round(timeout / LOOK)):
            if condition():
                return True
            if self.process.poll() is not None:
                raise ConfigError(f"the graph ended by itself, with exit code {self.process.returncode}")
            time.sleep(LOOK)
        return False


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _resident(pid: int) -> int:
    """[KiB]; 0 where the process is gone."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    return 0


@contextlib.contextmanager
def bring_up(yaw: float) -> Iterator[BringUp]:
    """A graph, and an end of it whatever happens."""
    before = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder, graph_environment() as environment:
        os.environ.update(environment)
        graph = BringUp(Path(folder), yaw, int(environment["ROS_DOMAIN_ID"]))
        try:
            yield graph
        finally:
            if graph.process.poll() is None:
                graph.process.kill()  # its nodes end with it
                graph.process.wait()
            os.environ.clear()
            os.environ.update(before)


def growth(rows: Sequence[dict[str, Any]], settled: int) -> list[dict[str, Any]]:
    """Of every process that lived on for so many rollouts after it had settled: by what share it
    has grown since, and for how many.

    Args:
        settled: rollouts after which a process has what it needs.
    """
    lives: dict[tuple[int, str, int], list[int]] = {}
    for row in rows:
        for node, (pid, held) in row["memory_kib"].items():
            lives.setdefault((row["bring_up"], node, pid), []).append(held)
    return [
        {
            "node": node,
            "rollouts": len(held) - settled,
            "from_mib": held[settled] / 1024,
            "growth": held[-1] / held[settled] - 1.0,
        }
        for (_, node, _), held in lives.items()
        if len(held) > settled + 1
    ]


def judged(rows: Sequence[dict[str, Any]], left: Sequence[dict[str, Any]], settled: int) -> dict[str, Any]:
    """What the rollouts show; ``passed`` as the module's docstring asks."""
    plain = [row["phase"] == "reached" for row in rows if not row["killed"]]
    killed = [row for row in rows if row["killed"]]
    half = len(plain) // 2
    first, second = plain[:half], plain[half:]
    grown = growth(rows, settled)
    results = {
        "rollouts": len(rows),
        "bring_ups": len({row["bring_up"] for row in rows}),
        "undisturbed": len(plain),
        "reached": sum(plain),
        "first_half_reached": sum(first),
        "first_half": len(first),
        "second_half_reached": sum(second),
        "second_half": len(second),
        "last_reached": bool(plain and plain[-1]),
        "killed": len(killed),
        "killed_came_back": sum(bool(row["came_back"]) for row in killed),
        "killed_reached": sum(row["phase"] == "reached" for row in killed),
        "settled": settled,
        "processes_measured": len(grown),
        "worst_growth": max((g["growth"] for g in grown), default=None),
        "growth": sorted(grown, key=lambda g: -g["growth"]),
        "orphans": sum(end["orphans"] for end in left),
        "shared_memory_left": sum(end["shared_memory_left"] for end in left),
        "ports_left": sum(end["ports_left"] for end in left),
    }
    results["passed"] = bool(
        grown
        and results["worst_growth"] <= GROWTH
        and results["orphans"] == results["shared_memory_left"] == 0
        and results["killed_came_back"] == len(killed)
        and results["last_reached"]
        and sum(second) / max(1, len(second)) >= sum(first) / max(1, len(first)) - WORSE
    )
    return results


def week(args: argparse.Namespace) -> Outcome:
    """Do what is left of the rollouts."""
    rows: list[dict[str, Any]] = []
    ends: list[dict[str, Any]] = []
    if args.kept is not None and args.kept.exists():
        kept = [json.loads(line) for line in args.kept.read_text().splitlines()]
        rows, ends = [k for k in kept if "phase" in k], [k for k in kept if "orphans" in k]
    number = 1 + max((row["bring_up"] for row in rows), default=0)

    def keep(thing: dict[str, Any]) -> None:
        if args.kept is not None:
            with args.kept.open("a") as file:
                file.write(json.dumps(thing) + "\n")

    if len(rows) < args.rollouts:
        with bring_up(args.goal_yaw) as graph:
            while len(rows) < args.rollouts:
                k = len(rows) + 1
                row = graph.rollout(VICTIMS[(k // EVERY - 1) % len(VICTIMS)] if k % EVERY == 0 else "") | {
                    "bring_up": number
                }
                rows.append(row)
                keep(row)
                said = f", {row['killed']} was killed" if row["killed"] else ""
                note(
                    f"{k} of {args.rollouts}: {row['phase']}{said}; {sum(kib for _, kib in row['memory_kib'].values()) / 1024:.0f} MiB"
                )
            end = graph.close()
        ends.append(end)
        keep(end)
    results = judged(rows, ends, args.settled)
    line = "{reached} of {undisturbed} undisturbed rollouts reached the goal, {killed_reached} of {killed} with a killed node"
    worst = "not measured" if results["worst_growth"] is None else f"{100 * results['worst_growth']:+.1f} %"
    return Outcome(
        results,
        lines=[line.format(**results), f"largest growth of a process after {args.settled} rollouts: {worst}"],
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    """What this experiment takes."""
    parser.add_argument("--rollouts", type=int, default=500, metavar="N", help="how many")
    parser.add_argument(
        "--settled",
        type=int,
        default=50,
        metavar="N",
        help="rollouts after which a process must not grow any more",
    )
    parser.add_argument("--goal-yaw", type=float, default=90.0, metavar="DEG", help="turn that each asks for")
    parser.add_argument(
        "--kept",
        type=Path,
        metavar="FILE",
        help="rollouts as they end, one JSON a line; those that are there count",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; its exit code."""
    return run(__spec__.name, __doc__, week, argv, arguments=arguments)


if __name__ == "__main__":
    sys.exit(main())
