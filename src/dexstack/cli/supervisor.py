"""Runs a set of node processes: starts them, restarts those that crash, and leaves none behind.

Each node is the leader of its own session, so that a Ctrl-C in the terminal reaches the supervisor
alone, which then stops the nodes in an orderly way (SIGINT, and SIGKILL for what does not listen).
Should the supervisor itself be killed, the kernel sends its nodes SIGTERM.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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
"""Time between two looks at the processes [s]."""
PATIENCE = 8.0
"""How long a node may take to stop after SIGINT [s]."""
YOUNG = 15.0
"""A node that lived shorter than this counts as having failed to start [s]."""
ATTEMPTS = 3
"""How often in a row a node may fail to start."""
LONGEST_DELAY = 5.0
EXIT_CONFIG = 2
DOMAINS = range(1, 102)
"""Domains whose ports lie below Linux' ephemeral range."""
CLAIM = "dexstack-ros-domain-"
"""Name in the kernel under which a graph holds its domain."""


@contextlib.contextmanager
def graph_environment(*, whole: bool = True) -> Iterator[dict[str, str]]:
    """The environment of one graph; what the user has set stays.

    A part of a graph (not ``whole``) finds the other parts on other machines in the local network,
    in ROS 2's default domain.

    Of a whole graph nothing leaves the machine, and it has a ROS domain to itself: that is claimed
    by a name in the kernel (an abstract socket), which vanishes with the process whatever ends it.
    """
    environment = dict(os.environ)
    environment.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST" if whole else "SUBNET")
    if not whole:
        environment.setdefault("ROS_DOMAIN_ID", "0")
    # Between machines, sockets instead of shared memory: as cheap at these message sizes. On one
    # machine rmw chooses both by itself.
    environment.setdefault("FASTDDS_BUILTIN_TRANSPORTS", "UDPv4")
    environment["PYTHONUNBUFFERED"] = "1"
    if "ROS_DOMAIN_ID" in environment:
        yield environment
        return
    with contextlib.ExitStack() as stack:
        environment["ROS_DOMAIN_ID"] = str(_claim_domain(stack))
        yield environment


def attached_environment() -> dict[str, str]:
    """The environment of a command that joins a graph: the domain that the user has set, else that
    of the graph which `dexstack up` started on this machine, else ROS 2's own choice.

    Raises:
        ConfigError: several such graphs are running.
    """
    environment = dict(os.environ)
    environment.setdefault("FASTDDS_BUILTIN_TRANSPORTS", "UDPv4")
    environment["PYTHONUNBUFFERED"] = "1"
    if "ROS_DOMAIN_ID" not in environment and (running := _running_domains()):
        if len(running) > 1:
            raise ConfigError(
                f"graphs are running in the ROS domains {', '.join(running)}; say which one with ROS_DOMAIN_ID=…"
            )
        environment["ROS_DOMAIN_ID"] = running[0]
        environment.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    return environment


def _running_domains() -> list[str]:
    try:
        names = Path("/proc/net/unix").read_text()
    except OSError:
        return []
    return sorted(set(re.findall(rf"@{CLAIM}(\d+)$", names, re.MULTILINE)), key=int)


def _claim_domain(stack: contextlib.ExitStack) -> int:
    for domain in DOMAINS:
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0{CLAIM}{domain}")
            for participant in range(120):
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as port:
                    port.bind(
                        ("", 7410 + 250 * domain + 2 * participant)
                    )  # taken: somebody else's node runs in this domain
        except OSError:
            claim.close()  # what is not used is not held: who looks for running graphs goes by these names
            continue
        stack.enter_context(claim)
        return domain
    raise ConfigError("all ROS domains of this machine are taken; set ROS_DOMAIN_ID")


Process = subprocess.Popen | Forked
Begin = Callable[[NodeDescription, Sequence[str], Mapping[str, str], TextIO, TextIO], Process]


@dataclass
class End:
    """How a run ended."""

    stopped: bool = False
    """By the user."""
    failure: str = ""
    """Why the supervisor gave up; empty when it did not."""
    exit_code: int = 0
    """Of the node that ended the run."""
    unusable: bool = False
    """It gave up because a node refused its parameters."""
    restarts: dict[str, int] = field(default_factory=dict)


@dataclass
class _Child:
    node: NodeDescription
    log: Path
    process: Process | None = None
    started: float = 0.0
    due: float = 0.0
    """When to start it (again)."""
    failures: int = 0
    """Short lives in a row."""


def execute(
    node: NodeDescription,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    stdout: TextIO,
    stderr: TextIO,
) -> Process:
    """Start a node's program anew."""
    return subprocess.Popen(
        [*node.command, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
        preexec_fn=die_with_parent,
    )


def fork(
    node: NodeDescription,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    stdout: TextIO,
    stderr: TextIO,
) -> Process:
    """Start a node as a copy of this process, with what is imported already; see
    :class:`~dexstack.process.forked.Forked`."""
    return Forked(node.module, arguments, environment, stdout, stderr)


class Supervisor:
    """One run of a set of nodes.

    Args:
        nodes: what to run.
        environment: of all nodes.
        logs: folder for one log and one parameter file per node.
        view: where the node that ends the run prints.
        begin: how a node is started.
    """

    def __init__(
        self,
        nodes: Sequence[NodeDescription],
        environment: Mapping[str, str],
        logs: Path,
        view: TextIO,
        begin: Begin = execute,
    ) -> None:
        self._environment, self._begin = dict(environment), begin
        self._view = view
        self._children = [_Child(node, logs / f"{node.name}.log") for node in nodes]
        self._end = End()
        self._signalled = False

    def run(self) -> End:
        """Start all, and return when the run has ended and every process is gone."""
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
        """Look at every process once; True when the run has ended."""
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
        parameters.write_text(yaml.safe_dump({"/**": {"ros__parameters": dict(node.parameters)}}))
        arguments = ["--ros-args", "--disable-external-lib-logs", "-r", f"__node:={node.name}"]
        if node.namespace:
            arguments += ["-r", f"__ns:={node.namespace}"]
        for a, b in node.remappings:
            arguments += ["-r", f"{a}:={b}"]
        for path in (*node.parameter_files, parameters):
            arguments += ["--params-file", str(path)]
        with child.log.open("a") as log:
            environment = {**node.environment, **self._environment}
            child.process = self._begin(
                node, arguments, environment, self._view if node.ends_run else log, log
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
            note(f"{child.node.name} {_how(code)}; starting it again")
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
    """Why a node is not running, in its own words."""
    lines = child.log.read_text(errors="replace").splitlines() if child.log.is_file() else []
    tail = "\n".join(f"    {line}" for line in lines[-12:]) or "    (nothing)"
    return f"the node '{child.node.name}' {_how(code)}; its last words, from {child.log}:\n{tail}"
