"""A week of use in one bring-up: 500 rollouts, a node killed in every tenth.

Passes if no process grows by more than 5 % after its first 50 rollouts, no process and no shared
memory outlives the graph, every killed node comes back, the last rollout without a kill reaches the
goal, and the success rate of the second half is at most 0.1 below that of the first. Shared memory
means the segments of Fast DDS; its port files, which a killed node leaves for the next one in the
domain, are counted separately. With ``--kept`` an interrupted run continues, in a new bring-up.
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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from dexstack.cli.output import note
from dexstack.errors import ConfigError
from experiments.harness import Findings, run
from tests.acceptance.programs import alive, own_domain, until, up

EVERY = 10
"""A node is killed in every n-th rollout."""
VICTIMS = ("mpc", "contact_detector", "hand", "simulator", "task")
"""Nodes that are killed, in turns."""
GROWTH = 0.05
"""Largest growth of a process once it has settled."""
WORSE = 0.1
"""Largest drop of the success rate from the first half to the second."""
INTO = 0.5
"""Time from a rollout's start to the kill [s]."""
START_TIMEOUT, ROLLOUT_TIMEOUT, BACK_TIMEOUT = 180.0, 180.0, 60.0
"""[s]"""
SEGMENT = re.compile(r"/dev/shm/(?:sem\.)?fastdds_\S+")
"""Shared memory of Fast DDS."""
ENDED = ("reached", "timeout", "dropped", "lost")


class BringUp:
    """One graph that stays up, in the ROS domain ``domain``, which is also that of this process."""

    def __init__(self, folder: Path, yaw: float, domain: int) -> None:
        from tests.acceptance.probe import Probe

        self.up = up("sim", folder, "--stay", "--robot-state", "yes", "--goal-yaw", f"{yaw:g}")
        self.probe = Probe(domain)
        self._seen = {self.up.pid}
        self._mapped: set[str] = set()

    def rollout(self, victim: str) -> dict[str, Any]:
        """Run one rollout; return its end and the memory of every process.

        Args:
            victim: node to kill in it; empty: none.
        """
        states = self.probe.states
        del states[:-1]
        before = states[-1]["attempt"] if states else 0
        if before and not self._until(self._ask_again, START_TIMEOUT):
            return self._row("not started", victim, None)
        timeout = ROLLOUT_TIMEOUT if before else START_TIMEOUT
        begun = lambda: states[-1]["attempt"] != before and states[-1]["phase"] in ("running", *ENDED)  # noqa: E731
        if not self._until(lambda: states and begun(), timeout):
            return self._row("not started", victim, None)
        back = True
        if victim:
            self._until(lambda: self.probe.phase() in ENDED or states[-1]["elapsed"] > INTO, START_TIMEOUT)
            pid = self.probe.pid(victim)
            os.kill(pid, signal.SIGKILL)
            back = self._until(lambda: self.probe.pid(victim) not in (0, pid), BACK_TIMEOUT)
        ended = self._until(lambda: self.probe.phase() in ENDED, ROLLOUT_TIMEOUT)
        return self._row(self.probe.phase() if ended else "no end", victim, back)

    def close(self) -> dict[str, Any]:
        """End the graph; return what it left behind."""
        self.up.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.up.wait(60.0)
        self.probe.close()
        orphans = [pid for pid in self._seen if alive(pid)]
        left = [path for path in self._mapped if os.path.exists(path)]
        ports = [path for path in left if "_port" in path]
        return {
            "exit_code": self.up.interrupt(),
            "orphans": len(orphans),
            "shared_memory_left": len(left) - len(ports),
            "ports_left": len(ports),
        }

    def _row(self, phase: str, victim: str, back: bool | None) -> dict[str, Any]:
        # a node reports once a second, and a rollout can be shorter
        self._until(lambda: all(self.probe.pid(name) for name in VICTIMS), BACK_TIMEOUT)
        pids = {name: self.probe.pid(name) for name in self.probe.reports} | {"up": self.up.pid}
        self._seen |= {pid for pid in pids.values() if pid}
        memory = {}
        for name, pid in pids.items():
            with contextlib.suppress(psutil.NoSuchProcess, OSError):
                self._mapped |= set(SEGMENT.findall(Path(f"/proc/{pid}/maps").read_text()))
                memory[name] = [pid, psutil.Process(pid).memory_info().rss // 1024]
        seconds = self.probe.states[-1]["elapsed"] if self.probe.states else None
        return {"phase": phase, "killed": victim, "came_back": back, "seconds": seconds, "memory_kib": memory}

    def _ask_again(self) -> bool:
        from tests.acceptance.probe import call

        with contextlib.suppress(TimeoutError):
            return call(self.probe.node, "task/restart", timeout=5.0).success
        return False

    def _until(self, condition: Callable[[], Any], timeout: float) -> bool:
        """Wait for a condition while the graph is up."""
        return until(lambda: condition() or self._ended(), timeout)

    def _ended(self) -> bool:
        if self.up.poll() is not None:
            raise ConfigError(f"the graph ended with exit code {self.up.returncode}")
        return False


@contextlib.contextmanager
def bring_up(yaw: float) -> Iterator[BringUp]:
    """Run a graph in a domain of its own, and end it in any case."""
    with tempfile.TemporaryDirectory() as folder, own_domain() as domain:
        graph = BringUp(Path(folder), yaw, domain)
        with graph.up:
            yield graph


def growth(rows: Sequence[dict[str, Any]], settled: int) -> list[dict[str, Any]]:
    """Return the relative growth of every process that lived beyond ``settled`` rollouts, since
    then."""
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
    """Return the results; ``passed`` as the module's docstring says."""
    plain = [row["phase"] == "reached" for row in rows if not row["killed"]]
    killed = [row for row in rows if row["killed"]]
    halves = plain[: len(plain) // 2], plain[len(plain) // 2 :]
    first, second = (sum(half) / max(1, len(half)) for half in halves)
    grown = sorted(growth(rows, settled), key=lambda g: -g["growth"])
    results = {
        "rollouts": len(rows),
        "bring_ups": len({row["bring_up"] for row in rows}),
        "undisturbed": len(plain),
        "reached": sum(plain),
        "first_half_reached": sum(halves[0]),
        "first_half": len(halves[0]),
        "second_half_reached": sum(halves[1]),
        "second_half": len(halves[1]),
        "last_reached": bool(plain and plain[-1]),
        "killed": len(killed),
        "killed_came_back": sum(bool(row["came_back"]) for row in killed),
        "killed_reached": sum(row["phase"] == "reached" for row in killed),
        "settled": settled,
        "processes_measured": len(grown),
        "worst_growth": grown[0]["growth"] if grown else None,
        "growth": grown,
    }
    results |= {k: sum(end[k] for end in left) for k in ("orphans", "shared_memory_left", "ports_left")}
    results["passed"] = bool(
        grown
        and results["worst_growth"] <= GROWTH
        and results["orphans"] == results["shared_memory_left"] == 0
        and results["killed_came_back"] == len(killed)
        and results["last_reached"]
        and second >= first - WORSE
    )
    return results


def week(args: argparse.Namespace) -> Findings:
    """Run the remaining rollouts."""
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
            while (k := len(rows) + 1) <= args.rollouts:
                victim = VICTIMS[(k // EVERY - 1) % len(VICTIMS)] if k % EVERY == 0 else ""
                row = graph.rollout(victim) | {"bring_up": number}
                rows.append(row)
                keep(row)
                memory = sum(kib for _, kib in row["memory_kib"].values()) / 1024
                kill = f", {victim} killed" if victim else ""
                note(f"{k} of {args.rollouts}: {row['phase']}{kill}; {memory:.0f} MiB")
            end = graph.close()
        ends.append(end)
        keep(end)
    results = judged(rows, ends, args.settled)
    worst = "not measured" if results["worst_growth"] is None else f"{100 * results['worst_growth']:+.1f} %"
    lines = [
        "{reached} of {undisturbed} undisturbed rollouts reached the goal, "
        "{killed_reached} of {killed} with a killed node".format(**results),
        f"largest growth of a process after {args.settled} rollouts: {worst}",
    ]
    return Findings(results, lines=lines)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this rig."""
    add = parser.add_argument
    add("--rollouts", type=int, default=500, metavar="N", help="number of rollouts")
    add("--settled", type=int, default=50, metavar="N", help="rollouts after which no process may grow")
    add("--goal-yaw", type=float, default=90.0, metavar="DEG", help="yaw that each rollout turns to")
    add("--kept", type=Path, metavar="FILE", help="file of finished rollouts, JSON lines, to continue from")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rig; return the exit code."""
    return run("tests.acceptance.week", __doc__, week, argv, arguments=arguments)


if __name__ == "__main__":
    sys.exit(main())
