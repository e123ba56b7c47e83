"""Faults of a policy in a graph with an emulated hand: it says NaN, freezes, or shouts full range.

One ``dexstack up mock`` serves all rows. Its policy swings every joint slowly, and fails in the way that
a file next to it names. The time of a row runs from the first wrong action, or the one that does not
come: without usable actions to the last motion of the target, with wrong ones to the last target outside
the joint limits or faster than the servo lets it be.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from dexstack.cli.output import table
from dexstack.hand.servo import ServoParams
from dexstack.model.hand import load_hand
from experiments.harness import Findings, experiment
from tests.acceptance.graph_faults import BACK_TIMEOUT, START_TIMEOUT, Graph
from tests.acceptance.programs import own_domain, up

POLICY = """
import time
from pathlib import Path

import numpy as np

from dexstack.control.policies.planner import PolicyPlanner

HERE = Path(__file__).parent


class Failing(PolicyPlanner):
    count = 0

    def act(self, observation):
        self.count += 1
        fault = (HERE / "fault").read_text()
        if fault and not (HERE / "began").exists():
            (HERE / "beginning").write_text(repr(time.time()))
            (HERE / "beginning").rename(HERE / "began")
        while (HERE / "fault").read_text() == "freeze":
            time.sleep(0.01)
        if fault == "shout":
            return self.robot.upper if self.count % 2 else self.robot.lower
        target = self.robot.home + 0.1 * np.sin(3.0 * observation[0])
        return np.full_like(target, np.nan) if fault == "nan" else target


PLANNER = Failing
"""
MAPPING = "{observations: [time], action: target}"
COMMAND_TIMEOUT = 0.1
"""Of the task [s]."""
REACTION = 0.1
"""Time limit after the last good command has expired; for wrong commands, after the first [s]."""
SILENT = {"the policy says NaN": "nan", "the policy freezes": "freeze"}
LOUD = {"the policy shouts full range": "shout"}
FAULTS = SILENT | LOUD
LASTS = 0.8
"""Duration of a fault, shorter than the time after which a hand that holds goes limp [s]."""
ROUNDING = 1e-3
"""Relative error of a speed computed from stamps."""


@dataclass(frozen=True)
class Outcome:
    """How one fault ended."""

    fault: str
    ended_in: str
    """"hold" or "within limits"; anything else is a failure."""
    seconds: float
    limit_s: float
    torque_kept: bool = False
    """True if no torque on the bus passed a limit."""
    moved_on: bool = False
    """True if the hand followed the policy again after the fault."""

    @property
    def passed(self) -> bool:
        safe = self.ended_in in ("hold", "within limits") and self.seconds <= self.limit_s
        return safe and self.torque_kept and self.moved_on


class PolicyGraph:
    """A graph that runs the failing policy.

    Args:
        graph: follows target and bus.
        folder: folder of the policy.
    """

    def __init__(self, graph: Graph, folder: Path) -> None:
        self._graph, self._folder = graph, folder

    def moving(self) -> bool:
        """Wait until the hand follows the policy; return whether it does."""
        return self._graph.wait(self._graph.moving, BACK_TIMEOUT)

    def row(self, name: str) -> Outcome:
        """Run one fault of :data:`FAULTS`, and wait until the hand moves again."""
        g, began = self._graph, self._folder / "began"
        loud = name in LOUD
        limit = REACTION + (0.0 if loud else COMMAND_TIMEOUT)
        if not self.moving():
            return Outcome(name, "not started", np.nan, limit)
        over = g.tap.over_limit
        (self._folder / "fault").write_text(FAULTS[name])
        if not g.wait(began.exists, 2.0):
            return Outcome(name, "not begun", np.nan, limit)
        start = float(began.read_text())
        g.wait(lambda: time.time() > start + LASTS, 10.0 * LASTS)
        t, q = g.targets(start)
        t, q = t[t < start + LASTS], q[t < start + LASTS]
        if len(t) < 20:
            return Outcome(name, "not heard", np.nan, limit)
        seconds = (_outside(t, q) if loud else g.moved_last(start)) - start
        ended = "within limits" if loud else "hold" if np.isfinite(q).all() else "limp"
        (self._folder / "fault").write_text("")
        began.unlink()
        return Outcome(name, ended, max(seconds, 0.0), limit, g.tap.over_limit == over, self.moving())


def _outside(t: np.ndarray, q: np.ndarray) -> float:
    """Return the last of the times ``t`` (n,) [s] at which a target (n, N) [rad] was outside the joint
    limits or had moved faster than the servo lets it; -inf without any."""
    hand, fastest = load_hand("right"), ServoParams().slew_rate * (1.0 + ROUNDING)
    wrong = ~((q >= hand.lower) & (q <= hand.upper)).all(axis=1)
    wrong[1:] |= (np.abs(np.diff(q, axis=0)) > fastest * np.diff(t)[:, None]).any(axis=1)
    return float(t[wrong][-1]) if wrong.any() else -np.inf


@contextlib.contextmanager
def policy_graph() -> Iterator[PolicyGraph]:
    """Run the graph in a ROS domain of its own."""
    with contextlib.ExitStack() as stack:
        domain = stack.enter_context(own_domain())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dexstack-")))
        policy = folder / "failing.py"
        policy.write_text(POLICY)
        policy.with_suffix(".yaml").write_text(MAPPING)
        (folder / "fault").write_text("")
        asked = ("--planner", str(policy), "--goal-yaw", "175", "--seconds", "900")
        stack.enter_context(up("mock", folder / "run", *asked))
        graph = stack.enter_context(contextlib.closing(Graph(domain, folder)))
        graph.wait(graph.moving, START_TIMEOUT)
        yield PolicyGraph(graph, folder)


def faults(args: argparse.Namespace) -> Findings:
    """Run all rows."""
    with policy_graph() as graph:
        outcomes = [graph.row(name) for name in FAULTS]
    results = {"faults": [asdict(o) for o in outcomes], "passed": all(o.passed for o in outcomes)}
    cells = [
        (o.fault, o.ended_in, 1e3 * o.seconds, 1e3 * o.limit_s, "" if o.passed else "FAILED")
        for o in outcomes
    ]
    columns = ("fault", "ended in", "after [ms]", "limit [ms]", "")
    return Findings(results, lines=[table("Faults of a policy on the emulated hand", columns, cells)])


main = experiment("tests.acceptance.policy_faults", __doc__, faults)

if __name__ == "__main__":
    sys.exit(main())
