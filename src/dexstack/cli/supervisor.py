"""Supervision of a set of node processes: start, restart after a crash, stop.

Each node leads its own session, so that a Ctrl-C in the terminal reaches only the supervisor, which
then stops the nodes (SIGINT, and SIGKILL for nodes that do not end). If the supervisor is killed,
the kernel sends its nodes SIGTERM.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import yaml

from dexstack.cli.output import note
from dexstack.errors import ConfigError
from dexstack.graph.modes import NodeDescription
from dexstack.process.forked import Forked
from dexstack.process.orphans import die_with_parent
from dexstack.process.shared_memory import clear_abandoned

POLL = 0.05
"""Time between two polls of the processes [s]."""
PATIENCE = 8.0
"""Time that a node has to stop after SIGINT [s]."""
YOUNG = 15.0
"""A node that ends before this age has failed to start [s]."""
ATTEMPTS = 3
"""Number of failed starts in a row after which the supervisor gives up."""
LONGEST_DELAY = 5.0
"""Longest delay before a restart [s]."""
EXIT_CONFIG = 2
DOMAINS = range(1, 102)
"""ROS domains whose ports are below Linux' ephemeral range."""
LAST_DOMAIN = 232
CLAIM = "dexstack-ros-domain-"
"""Prefix of the abstract socket by which a graph claims a free domain."""
RUNNING = "dexstack-graph-"
"""Prefix of the abstract socket by which `dexstack up` marks a running graph."""


@contextlib.contextmanager
def graph_environment(*, whole: bool = True) -> Iterator[dict[str, str]]:
    """Yield the environment of one graph; variables that the user has set are kept.

    A whole graph stays on this machine and gets a free ROS domain, claimed by an abstract socket,
    which the kernel removes with the process. A part of a graph finds the other parts in the local
    network, in ROS 2's default domain.
    """
    environment = _environment()
    environment.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST" if whole else "SUBNET")
    if not whole:
        environment.setdefault("ROS_DOMAIN_ID", "0")
    with contextlib.ExitStack() as stack:
        if "ROS_DOMAIN_ID" not in environment:
            environment["ROS_DOMAIN_ID"] = str(_claim_domain(stack))
        yield environment


def attached_environment() -> dict[str, str]:
    """Return the environment of a command that joins a graph.

    The ROS domain is the user's, otherwise that of the graph started on this machine by `dexstack
    up`, otherwise ROS 2's default.

    Raises:
        ConfigError: several such graphs are running.
    """
    environment = _environment()
    if "ROS_DOMAIN_ID" not in environment and (running := _running_domains()):
        if len(running) > 1:
            raise ConfigError(f"graphs run in ROS domains {', '.join(running)}; choose with ROS_DOMAIN_ID=…")
        environment["ROS_DOMAIN_ID"] = running[0]
        environment.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    return environment


def _environment() -> dict[str, str]:
    domain = os.environ.get("ROS_DOMAIN_ID", "0")
    if not (domain.isdecimal() and int(domain) <= LAST_DOMAIN):
        raise ConfigError(f"ROS_DOMAIN_ID must be a number from 0 to {LAST_DOMAIN}, got '{domain}'")
    # sockets instead of shared memory: as cheap at these message sizes, and valid between machines
    return {"FASTDDS_BUILTIN_TRANSPORTS": "UDPv4", **os.environ, "PYTHONUNBUFFERED": "1"}


def _running_domains() -> list[str]:
    try:
        names = Path("/proc/net/unix").read_text()
    except OSError:
        return []
    return sorted(set(re.findall(rf"@{CLAIM}(\d+)$", names, re.MULTILINE)), key=int)


def _claim_domain(stack: contextlib.ExitStack) -> int:
    for domain in DOMAINS:
        with contextlib.ExitStack() as attempt, contextlib.suppress(OSError):
            claim = attempt.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            claim.bind(f"\0{CLAIM}{domain}")
            for participant in range(120):  # a port in use belongs to another node of this domain
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as port:
                    port.bind(("", 7410 + 250 * domain + 2 * participant))
            stack.push(attempt.pop_all())
            return domain
    raise ConfigError("all ROS domains of this machine are in use; set ROS_DOMAIN_ID")


@contextlib.contextmanager
def only_graph(domain: str, part: str, namespace: str) -> Iterator[None]:
    """Mark a part of a graph as running in a ROS domain.

    Raises:
        ConfigError: the same part already runs there, in the same namespace.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mark:
        try:
            mark.bind(f"\0{RUNNING}{domain}-{part}-{namespace}"[:100])
        except OSError:
            raise ConfigError(
                f"a graph of `dexstack up` already runs in ROS domain {domain}; stop it, "
                "or choose another domain with ROS_DOMAIN_ID or another --namespace"
            ) from None
        yield


Process = subprocess.Popen | Forked


@dataclass
class End:
    """Outcome of a run."""

    stopped: bool = False
    """True if the user stopped it."""
    failure: str = ""
    """Why the supervisor gave up; empty if it did not."""
    exit_code: int = 0
    """Exit code of the node that ended the run."""
    unusable: bool = False
    """True if it gave up because a node rejected its parameters."""
    restarts: dict[str, int] = field(default_factory=dict)
    """Number of restarts by node."""


@dataclass
class _Child:
    node: NodeDescription
    log: Path
    process: Process | None = None
    started: float = 0.0
    due: float = 0.0
    """Time of the next start [s]."""
    failures: int = 0
    """Failed starts in a row."""


class NodeSupervisor:
    """One run of a set of nodes.

    Args:
        nodes: nodes to run.
        environment: environment of all nodes.
        logs: folder for one log and one parameter file per node.
        view: output of the node that ends the run.
        forked: start nodes as forks of this process (:class:`~dexstack.process.forked.Forked`).
    """

    def __init__(
        self,
        nodes: Sequence[NodeDescription],
        environment: Mapping[str, str],
        logs: Path,
        view: TextIO,
        *,
        forked: bool = False,
    ) -> None:
        self._environment, self._view, self._forked = dict(environment), view, forked
        self._children = [_Child(node, logs / f"{node.name}.log") for node in nodes]
        self._end = End()
        self._signalled = False

    def run(self) -> End:
        """Run all nodes; return when every process has ended."""
        before = {
            number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            for child in self._children:
                child.log.unlink(missing_ok=True)
            while not self._turn():
                time.sleep(POLL)
        finally:
            self._stop_all()
            clear_abandoned()
            for number, handler in before.items():
                signal.signal(number, handler)
        return self._end

    def _on_signal(self, number: int, frame: object) -> None:
        self._signalled = True

    def _turn(self) -> bool:
        """Poll every process; return whether the run has ended."""
        if self._signalled:
            self._end.stopped = True
            return True
        now = time.monotonic()
        for child in self._children:
            if child.process is None:
                if now >= child.due:
                    self._start(child, now)
                continue
            code = child.process.poll()
            if code is None:
                continue
            child.process = None
            if child.node.ends_run and code in (0, 1):
                self._end.exit_code = code
                return True
            if not self._may_restart(child, code, now):
                self._end.failure, self._end.unusable = _explain(child, code), code == EXIT_CONFIG
                return True
        return False

    def _start(self, child: _Child, now: float) -> None:
        node = child.node
        parameters = child.log.with_suffix(".yaml")
        parameters.write_text(
            yaml.safe_dump({"/**": {"ros__parameters": dict(node.parameters)}}), encoding="utf-8"
        )
        arguments = ["--ros-args", "--disable-external-lib-logs", "-r", f"__node:={node.name}"]
        if node.namespace:
            arguments += ["-r", f"__ns:={node.namespace}"]
        for a, b in node.remappings:
            arguments += ["-r", f"{a}:={b}"]
        for path in (*node.parameter_files, parameters):
            arguments += ["--params-file", str(path)]
        with child.log.open("a", encoding="utf-8") as log:
            environment = {**node.environment, **self._environment}
            stdout = self._view if node.ends_run else log
            if self._forked:
                child.process = Forked(node.module, arguments, environment, stdout, log)
            else:
                child.process = subprocess.Popen(
                    [*node.command, *arguments],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=log,
                    start_new_session=True,
                    preexec_fn=die_with_parent,
                )
        child.started = now

    def _may_restart(self, child: _Child, code: int, now: float) -> bool:
        if not child.node.respawn or code == EXIT_CONFIG:
            return False
        child.failures = child.failures + 1 if now - child.started < YOUNG else 0
        if child.failures >= ATTEMPTS:
            return False
        child.due = now + min(child.node.respawn_delay * 2**child.failures, LONGEST_DELAY)
        self._end.restarts[child.node.name] = self._end.restarts.get(child.node.name, 0) + 1
        clear_abandoned()
        if not self._view.isatty():
            note(f"{child.node.name} {_how(code)}; restarting it")
        return True

    def _stop_all(self) -> None:
        running = [c.process for c in self._children if c.process is not None]
        for process in running:
            _send(process, signal.SIGINT)
        deadline = time.monotonic() + PATIENCE
        for process in running:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                _send(process, signal.SIGKILL)
                process.wait()


def _send(process: Process, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _how(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def _explain(child: _Child, code: int) -> str:
    """Return why a node has ended, with the end of its log."""
    lines = (
        child.log.read_text(encoding="utf-8", errors="replace").splitlines() if child.log.is_file() else []
    )
    tail = "\n".join(f"    {line}" for line in lines[-12:]) or "    (empty)"
    return f"the node '{child.node.name}' {_how(code)}; the end of {child.log}:\n{tail}"
