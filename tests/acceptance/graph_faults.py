"""Faults of the fault matrix in a graph: nodes that die or hang, dropped messages, a camera that is
late, frozen or has a wrong clock, parameters that change while the hand moves.

One ``dexstack up mock``, with simulated pictures or exact poses, its messages passing a relay
(:mod:`tests.acceptance.relay`), serves all rows. Before each row every node runs, the hand is
enabled and its target moves. Torques are read from the bus, the target from
``hand/applied_command``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dexstack.hand.allegro import protocol
from dexstack.hand.allegro.bus import CanBus
from dexstack.hand.allegro.protocol import FINGERS, Command, split_id
from dexstack.hand.params import BusParams
from dexstack.nodes.wire import seconds
from tests.acceptance.hand_rig import AFTERWARDS, NOT_STARTED, FaultResult
from tests.acceptance.probe import Probe, call, put_from
from tests.acceptance.programs import Program, own_domain, until
from tests.acceptance.relay import RELAYED

NODES = ("relay", "simulator", "contact_detector", "mpc", "hand", "task")
OF_PICTURES = ("camera", "pose_estimator")
"""Further nodes of a graph with pictures."""
START_TIMEOUT = 120.0
BACK_TIMEOUT = 30.0
STILL = 0.4
"""A target unchanged for this time stands still; longer than any wait for the next command [s]."""
MOVED = 1.0
"""Time that the target must move before a fault [s]."""


class Tap:
    """Follows servo and torques on the hand's bus."""

    def __init__(self, bus: BusParams) -> None:
        self._bus = CanBus(bus)
        self._limit = protocol.hardware("V4").limit.reshape(FINGERS, -1)
        self._pushing = [False] * FINGERS
        self.servo = False
        self.limp_since = 0.0
        """System time at which the torques last became zero [s]; NaN while they are not."""
        self.over_limit = 0

    def listen(self) -> None:
        """Read the frames that have arrived until now; on a busy machine others follow without end."""
        arrival, now = 0.0, time.time()
        while arrival < now and (received := self._bus.receive(0.0)) is not None:
            frame, arrival = received
            command = split_id(frame.id)[0]
            if command in (Command.SERVO_ON, Command.SERVO_OFF):
                self.servo = command == Command.SERVO_ON
            elif Command.TORQUE <= command < Command.TORQUE + FINGERS:
                counts = np.array(protocol.read_four(frame.data))
                self._pushing[command - Command.TORQUE] = bool(counts.any())
                self.over_limit += int(np.any(np.abs(counts) > self._limit[command - Command.TORQUE]))
            pushes = self.servo and any(self._pushing)
            self.limp_since = np.nan if pushes else arrival if np.isnan(self.limp_since) else self.limp_since

    def close(self) -> None:
        self._bus.close()


class Graph:
    """One ``dexstack up mock``, restarted when it has ended.

    Args:
        domain: its ROS domain, which is also that of this process.
        folder: folder for its results.
        perception: ``camera`` for simulated pictures, which take two fast cores, or ``truth``.
    """

    def __init__(self, domain: int, folder: Path, perception: str = "camera") -> None:
        self._folder, self._program, self._perception = folder, None, perception
        self._nodes = _nodes(perception)
        self.probe = Probe(domain)
        self.tap = Tap(BusParams("udp_multicast", f"239.74.163.2:{6100 + domain}"))

    def close(self) -> None:
        self._end()
        self.probe.close()
        self.tap.close()

    def _end(self) -> None:
        if self._program is not None:
            self._program.interrupt()
        self._program = None

    def _start(self) -> None:
        self._end()
        self.probe.reports.clear()
        self.probe.states.clear()
        self._program = Program(
            [sys.executable, "-m", "tests.acceptance.relay", str(self._folder), self._perception],
            self._folder,
        )

    def wait(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Return whether ``condition`` became true within ``timeout`` [s], and follow the bus meanwhile."""
        return until(lambda: (self.tap.listen(), condition())[1], timeout)

    def sleep(self, seconds: float) -> None:
        self.wait(lambda: False, seconds)

    def moving(self) -> bool:
        """Return whether the hand follows a target that has not stood still lately."""
        since = time.time() - MOVED
        t, q = self.targets(since)
        whole = len(t) > 10 and t[0] - since < STILL and bool(np.isfinite(q).all())
        return whole and np.isnan(self.stands_since(since)) and self.state() == "enabled"

    def state(self) -> str:
        return self.probe.values("hand").get("state", "")

    def targets(self, since: float) -> tuple[np.ndarray, np.ndarray]:
        """Return stamps (n,) [s, system time] and targets (n, 16) [rad] after ``since`` [s]; a
        target is NaN while the hand is limp."""
        rows = [(seconds(m.header.stamp), m.position) for _, m in self.probe.applied[-2000:]]
        rows = [row for row in rows if row[0] > since]
        return np.array([t for t, _ in rows]), np.array([q for _, q in rows]).reshape(len(rows), 16)

    def stands_since(self, since: float) -> float:
        """Return the system time [s] from which the target stood still for STILL; NaN if it did
        not."""
        t, q = self.targets(since)
        k = 0
        for i in range(1, len(t)):
            if not np.array_equal(q[i], q[k]):
                k = i
            elif t[i] - t[k] >= STILL and np.isfinite(q[i]).all():
                return float(t[k])
        return float("nan")

    def moved_last(self, since: float) -> float:
        """Return the system time [s] of the target's last motion after ``since``; a limp hand has
        no target that moves."""
        t, q = self.targets(since)
        moved = np.flatnonzero(np.any(np.abs(np.diff(q, axis=0)) > 0.0, axis=1)) if len(t) else ()
        return float(t[moved[-1] + 1]) if len(moved) else since

    def call(self, service: str) -> None:
        """Call a Trigger service, if it is there."""
        with contextlib.suppress(TimeoutError):
            call(self.probe.node, service, timeout=10.0)

    def set(self, node: str, name: str, value: bool | float | str) -> bool:
        """Change a parameter; return whether it was accepted."""
        with contextlib.suppress(TimeoutError):
            return put_from(self.probe.node, node, name, value, timeout=5.0).successful
        return False

    def _there(self) -> bool:
        now = time.monotonic()
        return bool(self.state()) and all(
            now - self.probe.heard.get(name, -np.inf) < 2.5 for name in self._nodes
        )

    def ready(self) -> bool:
        """Bring everything up until the target moves, as a person would; return whether it does."""
        for _ in range(2):
            if self._program is None or self._program.poll() is not None:
                self._start()
            if self.wait(self._there, START_TIMEOUT):
                if self.state() in ("ready", "fault", "hold"):
                    self.call("hand/enable")
                for _ in range(2):
                    if self.wait(self.moving, BACK_TIMEOUT / 2):
                        return True
                    self.call("task/restart")
            self._end()
        return False


def _nodes(perception: str) -> tuple[str, ...]:
    return (*NODES, *OF_PICTURES) if perception == "camera" else NODES


@contextlib.contextmanager
def graph(perception: str = "camera") -> Iterator[Graph]:
    """Run a graph in a ROS domain of its own."""
    with contextlib.ExitStack() as stack:
        domain = stack.enter_context(own_domain())
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="dexstack-"))
        yield stack.enter_context(contextlib.closing(Graph(domain, Path(folder), perception)))


VICTIMS = {
    "mpc": ("hold", 0.25),
    "contact_detector": ("hold", 0.5),
    "pose_estimator": ("hold", 1.0),
    "camera": ("hold", 1.0),
    "hand": ("ready", 0.1),
    "simulator": ("fault", 0.1),
}
"""State in which the loss of a node must end, and its time limit [s]; the estimator coasts for a
while without pictures, the planner without poses. Without the simulator, which is the emulated hand as
well, the hand has vanished from the bus; the time is that of the driver's last command to it."""
SIGNALS = {"is killed": signal.SIGKILL, "hangs": signal.SIGSTOP, "is ended": signal.SIGTERM}
LOSSES = {f"{node} {how}, in a graph": (node, number) for node in VICTIMS for how, number in SIGNALS.items()}
Change = tuple[str, str, bool | float | str, bool | float | str]
"""Node, parameter, value that makes the fault, value that ends it."""
CUTS: dict[str, Change] = {
    f"{topic} is lost on its way to {' and '.join(readers)}": ("relay", "lost", topic, "")
    for topic, (*_, readers) in RELAYED.items()
}
CUTS["every message of the planner and of its senses is lost"] = ("relay", "lost", " ".join(RELAYED), "")
CAMERA: dict[str, Change] = {
    "pictures come 300 ms later": ("camera", "further_delay", 0.3, 0.0),
    "the same pixels come with new stamps": ("camera", "frozen_picture", True, False),
    "the camera's clock steps by +1 s": ("camera", "clock_offset", 1.0, 0.0),
    "the camera's clock steps by -1 s": ("camera", "clock_offset", -1.0, 0.0),
    "the camera's clock is 100 ppm fast for three hours": ("camera", "clock_offset", 1.08, 0.0),
    "the camera's clock is 100 ppm slow for an hour": ("camera", "clock_offset", -0.36, 0.0),
}
SENSES = {f"{name}, in a graph": change for name, change in {**CUTS, **CAMERA}.items()}
Ending = tuple[str, float, bool]
"""State in which a row ended, time until then [s], whether the hand stayed off."""
NOTHING: Change = ("relay", "lost", "", "")
SENSES_LIMIT = 1.0
"""As for the loss of camera or estimator [s]."""
ON = 1.0
"""Time after SENSES_LIMIT in which the hand must keep holding [s]."""
LOOSER = {
    f"{what} over DDS while it drives": (name, value)
    for what, name, value in (
        ("kp is raised", "kp", 2.0),
        ("the watch is loosened", "runaway", 3.0),
        ("the patience with commands is raised", "command_timeout", 5.0),
        ("the speed that angles may have is raised", "feedback_velocity", 500.0),
    )
}
TIGHTER = {"kp is lowered over DDS while it drives": ("kp", 0.5)}


def node_loss(g: Graph, name: str) -> Ending:
    """Run a row of :data:`LOSSES`. An orderly end counts as a new start: the node that follows enables
    an emulated hand again."""
    node, number = LOSSES[name]
    wanted, limit = VICTIMS[node]
    pid, start = g.probe.pid(node), time.time()
    os.kill(pid, number)
    holds = lambda: wanted == "hold" and not np.isnan(g.stands_since(start))  # noqa: E731
    g.wait(lambda: not g.tap.servo or holds(), max(2.0, 2.0 * limit + STILL))
    off = not g.tap.servo
    if off:  # switched off by its driver or by the guard
        g.wait(lambda: not np.isnan(g.tap.limp_since), 1.0)
        ended, taken = ("ready" if node == "hand" else "fault"), g.tap.limp_since - start
    else:
        ended, taken = ("hold" if wanted == "hold" else "enabled"), g.stands_since(start) - start
    if number == signal.SIGSTOP:
        g.sleep(AFTERWARDS)
        os.kill(pid, signal.SIGCONT)
    g.wait(lambda: g.probe.pid(node) != pid or number == signal.SIGSTOP, BACK_TIMEOUT)
    g.sleep(2.0 * AFTERWARDS)
    stayed = not off or not g.tap.servo or (node == "hand" and number == signal.SIGTERM)
    return ended, max(taken, 0.0), stayed


def sense_loss(g: Graph, name: str) -> Ending:
    """Run a row of :data:`SENSES`, for any other name without a fault; the time is that of the
    target's last motion while the fault lasts."""
    node, parameter, wrong, right = SENSES.get(name, NOTHING)
    start = time.time()
    if not g.set(node, parameter, wrong):
        return "refused", np.nan, True
    g.sleep(SENSES_LIMIT + ON)
    taken = g.moved_last(start) - start
    ended = "fault" if not g.tap.servo else "hold" if taken <= SENSES_LIMIT else "enabled"
    g.set(node, parameter, right)
    g.sleep(AFTERWARDS)
    return ended, taken, ended != "fault" or not g.tap.servo


def looser(g: Graph, name: str) -> Ending:
    """Run a row of :data:`LOOSER`: the change is refused, and a stop still stops."""
    if g.set("hand", *LOOSER[name]):
        return "loosened", np.nan, True
    start = time.time()
    g.call("hand/stop")
    g.wait(lambda: not g.tap.servo, 2.0)
    g.wait(lambda: g.state() == "ready", 3.0)
    return g.state(), g.tap.limp_since - start, not g.tap.servo


def tighter(g: Graph, name: str) -> Ending:
    """Run a row of :data:`TIGHTER`: the change is applied at once; a stop ends the row."""
    parameter, value = TIGHTER[name]
    start = time.time()
    if not g.set("hand", parameter, value):
        return "refused", np.nan, True
    taken = time.time() - start
    g.call("hand/stop")
    g.wait(lambda: g.state() == "ready", 3.0)
    g.set("hand", parameter, 1.0)
    return g.state(), taken, not g.tap.servo


KINDS: tuple[tuple[Any, Callable[[Graph, str], Ending], Callable[[str], float]], ...] = (
    (LOSSES, node_loss, lambda name: VICTIMS[LOSSES[name][0]][1]),
    (SENSES, sense_loss, lambda name: SENSES_LIMIT),
    (LOOSER, looser, lambda name: 0.1),
    (TIGHTER, tighter, lambda name: 0.1),
)
"""Rows, the function that runs one, and the time limit of one [s]."""


def judged(g: Graph, name: str, run: Callable[[Graph, str], Ending], limit: float) -> FaultResult:
    """Run one row in a graph that moves the hand."""
    if not g.ready():
        return FaultResult(name, NOT_STARTED, np.nan, limit)
    over = g.tap.over_limit
    ended, taken, off = run(g, name)
    return FaultResult(name, ended, taken, limit, g.tap.over_limit == over, off)


def moves_on(g: Graph) -> bool:
    """Return whether the target keeps moving without a fault; else no row can be judged here."""
    return judged(g, "nothing", sense_loss, SENSES_LIMIT).ended_in == "enabled"


def graph_rows(perception: str = "camera") -> dict[str, Callable[[Graph, str], FaultResult]]:
    """Return the function that runs each fault of the nodes of such a graph, by name."""
    nodes = _nodes(perception)
    needs = {name: node for name, (node, *_) in {**LOSSES, **SENSES}.items()}
    return {
        name: partial(judged, run=run, limit=limit(name))
        for rows, run, limit in KINDS
        for name in rows
        if needs.get(name, "hand") in nodes
    }
