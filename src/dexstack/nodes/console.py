"""Console: shows a run on the terminal, records it, and ends with it unless ``stay`` is set.

Exit code 0: the goal was reached; 1: it was not, or no command ever came. The recording
(``recording.npz`` in the results folder, see :class:`RolloutLog`) is written however the node ends.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections import deque
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from sensor_msgs.msg import JointState, PointCloud2
from std_msgs.msg import Float64MultiArray, String

from dexstack.config import param
from dexstack.files import whole
from dexstack.geometry.rotations import geodesic_angle
from dexstack.graph.parameters import SceneParams
from dexstack.nodes.common import OK, PATIENCE, run_node
from dexstack.nodes.health import Health
from dexstack.nodes.scene import SceneNode
from dexstack.nodes.silence import doubled, undiscovered
from dexstack.nodes.task import ENDED
from dexstack.nodes.wire import (
    COMMAND,
    LATCHED,
    RECENT,
    REPORTS,
    SENSOR,
    BadMessage,
    JointReader,
    Kept,
    PoseSample,
    WaitSet,
    read_contacts,
    read_pose,
)
from dexstack.process.history import History, JointHistory, JointSample

TRUTHS = 200
"""Number of recent true poses kept for comparison with estimates."""
TRUTH_SLACK = 0.011
"""Largest difference in time of a true pose from its estimate [s]."""
VIEW_PERIOD = 0.25
"""Wall time between two refreshes of the live view [s]."""
LINE_PERIOD = 2.0
"""Wall time between two lines of the plain view [s]."""


@dataclass(frozen=True)
class ConsoleParams:
    """Parameters of the console node."""

    results: str = param("", "folder for recording.npz; empty: no recording")
    live: bool = param(False, "redraw a view in place instead of printing lines")
    launched: float = param(
        0.0, "time.monotonic() at the start of the graph [s]; 0: the start of this node", 0.0, None
    )
    stay: bool = param(False, "continue after the end of a rollout and wait for further goals")
    start_timeout: float = param(
        120.0, "wall time without a joint command after which the run has failed [s]", 1.0, 1e5
    )


_ROWS = ("t", "wall", "pose_WO", "truth_WO", "q", "q_command", "goal_WO", "error", "contacts")


class RolloutLog:
    """Samples of the newest attempt, one per object pose.

    Arrays (n samples): ``t`` since the rollout's start [s], ``wall`` [s], ``pose_WO`` (n, 7), ``q``
    and ``q_command`` (n, joints), NaN where unknown or the hand was limp, ``goal_WO`` (n, 7),
    ``truth_WO`` (n, 7) if the plant publishes it in addition to an estimate, ``error`` [rad],
    ``contacts``. Of the solves: ``solve_t`` like ``t``, ``solve_s`` processor time and
    ``solve_wall_s`` wall time [s].
    """

    def __init__(self, joints: int) -> None:
        self._no_joints = np.full(joints, np.nan)
        self.clear()

    def clear(self) -> None:
        """Discard all samples."""
        self.rows: dict[str, list[Any]] = {name: [] for name in _ROWS}
        self.solves: list[np.ndarray] = []

    def add(self, q: np.ndarray | None, q_command: np.ndarray | None, **row: Any) -> None:
        """Append a sample; None: unknown joints."""
        row |= {"q": q, "q_command": q_command}
        for name, value in row.items():
            self.rows[name].append(self._no_joints if value is None else value)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all samples as arrays."""
        solves = np.concatenate(self.solves) if self.solves else np.empty((0, 3))
        return {name: np.asarray(values, float) for name, values in self.rows.items()} | {
            name: solves[:, i] for i, name in enumerate(("solve_t", "solve_s", "solve_wall_s"))
        }


class ConsoleNode(SceneNode):
    def __init__(self) -> None:
        super().__init__("console", ConsoleParams)

    def configure(self) -> None:
        names = self.make_task().robot().joint_names
        self._recording = RolloutLog(len(names))
        self._poses = self.newest(PoseWithCovarianceStamped, "object_pose", SENSOR, self.read_pose)
        self._truths = self.kept(PoseWithCovarianceStamped, "object_pose_truth", RECENT)
        self._joints = self.kept(JointState, "joint_states", RECENT)
        self._read_joints = JointReader(names, "position")
        self._commands = self.newest(JointState, "joint_command", COMMAND, JointReader(names, "position"))
        self._goals = self.newest(PoseStamped, "task/goal", LATCHED, self.read_pose)
        self._contacts = self.newest(PointCloud2, "contacts", SENSOR, read_contacts)
        self._states = self.newest(String, "rollout/state", LATCHED, read_state)
        self._health = Health(self)
        self._reports = self.newest(DiagnosticArray, "/diagnostics", REPORTS, self._health.note)
        self._times = self.newest(Float64MultiArray, "mpc/solve_times", REPORTS, self._note_solves)
        self._wait = WaitSet(self, self._poses, self._states)
        self._view: Any = None

    def begin(self) -> None:
        self._state: dict[str, Any] = {"phase": "waiting", "attempt": 1}
        self._goal = self._command = None
        self._angles: History[Kept] = History()
        self._truth: deque[Kept] = deque(maxlen=TRUTHS)
        self._contact_count = 0
        self._launched = self.params(ConsoleParams).launched or time.monotonic()
        self._first_command: float | None = None
        self._rollout: tuple[float, float] | None = None
        self._shown, self._begun = 0.0, time.monotonic()
        self._factor = math.nan
        if self.params(ConsoleParams).live:
            from rich.live import Live

            self._view = Live(auto_refresh=False)
            self._view.start()

    def work(self) -> None:
        self._wait.wait(PATIENCE)
        now = time.monotonic()
        self._reports.take()
        self._times.take()
        self._truth.extend(self._truths.take_all())
        self._goal = self._goals.take() or self._goal
        for angles in self._joints.take_all():
            self._angles.add(angles)
        if (command := self._commands.take()) is not None:
            self._command = command
            if self._first_command is None:
                self._first_command = now - self._launched
        if (contacts := self._contacts.take()) is not None:
            self._contact_count = len(contacts.phi)
        if (state := self._states.take()) is not None:
            self._take_state(state, now)
        if (pose := self._poses.take()) is not None:
            self.time = pose.t
            self._record(pose, now)
        if now - self._shown > (VIEW_PERIOD if self._view else LINE_PERIOD):
            self._shown = now
            self._show()
        if self._state["phase"] in ENDED and not self.params(ConsoleParams).stay:
            self.end(0 if self._state["phase"] == "reached" else 1)
        elif self._first_command is None and now - self._launched > self.params(ConsoleParams).start_timeout:
            print(f"no joint command after {now - self._launched:.0f} s; see the nodes' logs", flush=True)
            self.end(1)

    def finish(self) -> None:
        if self._view:
            self._show()
            self._view.stop()
        if folder := self.params(ConsoleParams).results:
            with whole(Path(folder) / "recording.npz") as file:
                np.savez_compressed(file, summary=json.dumps(self._summary()), **self._recording.arrays())

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        return OK, self._state["phase"], {"samples": len(self._recording.rows["t"])}

    # --- input -----------------------------------------------------------------------------------

    def _take_state(self, state: dict[str, Any], now: float) -> None:
        if state["phase"] == "running" and (
            self._state["phase"] != "running" or state["attempt"] != self._state["attempt"]
        ):
            self._rollout = (state["t"], now)
            self._recording.clear()
        self._state = state

    def _record(self, pose: PoseSample, now: float) -> None:
        if self._rollout is None or pose.t < self._rollout[0]:
            return
        elapsed = pose.t - self._rollout[0]
        self._factor = elapsed / max(now - self._rollout[1], 1e-3)
        joints = self._joints_at(pose.t)
        command = None if joints is not None and joints.limp else self._command
        self._recording.add(
            t=elapsed,
            wall=now - self._rollout[1],
            pose_WO=pose.pose,
            truth_WO=self._true_pose(pose.t),
            q=None if joints is None else joints.values,
            q_command=None if command is None else command.values,
            goal_WO=np.full(7, np.nan) if self._goal is None else self._goal.pose,
            error=self._state.get("error", math.nan),
            contacts=self._contact_count,
        )

    def _joints_at(self, t: float) -> JointSample | None:
        """Interpolate the joints at time ``t`` [s]; None without valid ones near it."""
        near = JointHistory()
        for kept in self._angles.around(t)[:2] if self._angles.samples else ():
            try:
                near.add(self._read_joints(kept.message(JointState)))
            except BadMessage as reason:
                self.drop(self._joints.topic, str(reason))
        return near.at(t)

    def _true_pose(self, t: float) -> np.ndarray:
        """Return the true pose (7,) nearest to time ``t`` [s]; NaN without one."""
        nearest = min(self._truth, key=lambda sample: abs(sample.t - t), default=None)
        if nearest is None or abs(nearest.t - t) > TRUTH_SLACK:
            return np.full(7, np.nan)
        try:
            return read_pose(nearest.message(PoseWithCovarianceStamped)).pose
        except BadMessage as reason:
            self.drop(self._truths.topic, str(reason))
            return np.full(7, np.nan)

    def _against_truth(self) -> dict[str, Any]:
        """Return the errors of estimate and goal with respect to the true poses."""
        rows = self._recording.rows
        truth, pose = np.array(rows["truth_WO"]).reshape(-1, 7), np.array(rows["pose_WO"]).reshape(-1, 7)
        known = np.flatnonzero(np.isfinite(truth).all(axis=1))
        if not known.size:
            return {}
        shift = np.linalg.norm(truth[known, :3] - pose[known, :3], axis=1)
        turn = np.array([geodesic_angle(truth[k, 3:], pose[k, 3:]) for k in known])
        end: dict[str, Any] = {}
        if np.isfinite(rows["goal_WO"][known[-1]]).all():
            end["true_orientation_error_rad"] = geodesic_angle(
                truth[known[-1], 3:], rows["goal_WO"][known[-1]][3:]
            )
        return {**end, "estimate_error_m": _quantiles(shift), "estimate_error_rad": _quantiles(turn)}

    def _note_solves(self, message: Float64MultiArray) -> None:
        if len(message.data) % 3:
            raise BadMessage(f"{len(message.data)} numbers, three per solve expected")
        if self._rollout is not None:
            rows = np.array(message.data).reshape(-1, 3)
            rows[:, 0] -= self._rollout[0]
            self._recording.solves.append(rows[rows[:, 0] >= 0.0])

    def _summary(self) -> dict[str, Any]:
        state = self._state
        return {
            **asdict(self.params(SceneParams)),
            "phase": state["phase"],
            "reached": state["phase"] == "reached",
            "attempt": state["attempt"],
            "seconds": state.get("elapsed"),
            "goal": state.get("goal"),
            "goals_reached": state.get("goals_reached"),
            "drops": state.get("drops"),
            "goal_yaw": state.get("goal_yaw"),
            "yaw": state.get("yaw"),
            "orientation_error_rad": state.get("error"),
            "position_error_m": state.get("position_error"),
            "first_command_s": self._first_command,
            "real_time_factor": None if math.isnan(self._factor) else self._factor,
            "trouble": self._trouble("error", "silent"),
            **thetas(self._health),
            **self._against_truth(),
        }

    # --- output ----------------------------------------------------------------------------------

    def _show(self) -> None:
        if self._view:
            self._view.update(self._panel(), refresh=True)
        else:
            print(self._line(), flush=True)

    def _line(self) -> str:
        parts = [f"{name} {text}" for name, text in self._numbers().items()]
        return "  ".join([self._state["phase"], *parts, *self._trouble("warn", "error", "silent")])

    def _numbers(self) -> dict[str, str]:
        factor = {} if math.isnan(self._factor) else {"real-time factor": f"{self._factor:.2f}"}
        return {**progress(self._state, self._health), "contacts": str(self._contact_count), **factor}

    def _trouble(self, *levels: str) -> list[str]:
        """Return the messages of nodes at the given levels (see :class:`.health.Health`)."""
        rows = self._health.rows()
        return [f"{name}: {text}" for name, level, text in rows if level in levels] + self._graph_trouble()

    def _graph_trouble(self) -> list[str]:
        """Return why the graph is not one: its nodes do not find each other, or there are two."""
        heard = bool(self._health.rows()) or self.count_publishers("rollout/state") > 0
        alone = undiscovered(time.monotonic() - self._begun, heard, os.environ)
        mixed = doubled(
            self.get_node_names_and_namespaces(), self.get_namespace(), os.environ.get("ROS_DOMAIN_ID", "0")
        )
        return [text for text in (alone, mixed) if text]

    def _panel(self) -> Any:
        from rich.console import Group
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text

        numbers = Table.grid(padding=(0, 2))
        numbers.add_row("phase", Text(self._state["phase"], style="bold"))
        if "yaw" in self._state:
            numbers.add_row("", _bar(self._state["yaw"], self._state["goal_yaw"]))
        for row in self._numbers().items():
            numbers.add_row(*row)
        nodes = Table.grid(padding=(0, 2))
        style = {"ok": "green", "warn": "yellow", "error": "red", "silent": "red"}
        for name, level, text in self._health.rows():
            nodes.add_row(Text("●", style=style[level]), name, text)
        for text in self._graph_trouble():
            nodes.add_row(Text("●", style="red"), "graph", text)
        return Panel(Group(numbers, "", nodes), title="dexstack", title_align="left", width=78)


def read_state(message: String) -> dict[str, Any]:
    """Return the rollout state (see :mod:`dexstack.nodes.task`)."""
    try:
        state = json.loads(message.data)
    except ValueError:
        raise BadMessage("not JSON") from None
    numbers = ("t", "elapsed", "goal_yaw", "yaw", "error", "position_error", "attempt")
    if (
        not isinstance(state, dict)
        or "phase" not in state
        or not all(isinstance(state.get(k), int | float) for k in numbers)
    ):
        raise BadMessage("not a rollout state")
    return state


def progress(state: dict[str, Any], health: Health) -> dict[str, str]:
    """Return the numbers of a run that are known, as text by name: time, yaw, error, MPC."""
    numbers, mpc = {}, health.values("mpc")
    if "yaw" in state:
        yaw, goal = math.degrees(state["yaw"]), math.degrees(state["goal_yaw"])
        drops = f", {state['drops']} dropped" if state.get("drops") else ""
        numbers["time"] = f"{state['elapsed']:.1f} s, {state.get('goals_reached', 0)} reached{drops}"
        numbers["yaw"] = f"{yaw:+.1f}° of {goal:+.0f}°"
        numbers["error"] = f"{state['error']:.3f} rad, {1e3 * state['position_error']:.0f} mm"
    if "rate_hz" in mpc:
        times = [f"{1e3 * float(mpc[key]):.1f}" if key in mpc else "–" for key in ("solve_p50", "solve_p99")]
        numbers["MPC"] = f"{float(mpc['rate_hz']):.0f} Hz, solve p50 {times[0]} ms, p99 {times[1]} ms"
    return numbers


def thetas(health: Health) -> dict[str, int]:
    """Return how many θ of the learner the planner took and took back, where it says so."""
    mpc = health.values("mpc")
    return {key: int(mpc[key]) for key in ("thetas_taken", "thetas_undone") if key in mpc}


def _quantiles(x: np.ndarray) -> dict[str, Any]:
    return {"p50": float(np.median(x)), "p95": float(np.percentile(x, 95)), "n": len(x)}


def _bar(value: float, goal: float, width: int = 30) -> str:
    share = 0.0 if goal == 0 else min(max(value / goal, 0.0), 1.0)
    full = round(share * width)
    return "█" * full + "░" * (width - full)


main = partial(run_node, ConsoleNode)
