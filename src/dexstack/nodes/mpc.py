"""The MPC node: one plan and one joint command for every contact set.

The node pairs contact sets with the pose of their stamp and the joint positions of that time, and
publishes what :class:`~dexstack.control.controller.Controller` answers. A command carries the stamp of
its contact set, so that the hand knows its true age. A goal with a new stamp starts a new rollout; a
goal with the same stamp is the next one of the same rollout. Without contacts, or with contacts so old
or so far ahead that the hand would reject the answer, the controller holds its last target for
``blind_hold``. Without goal or joint positions nothing is commanded, and the hand's watchdog takes
over.

A θ on ``learner/theta`` replaces the planner's between two goals, without compiling, and leaves again
if the hand then gets slower; ``mpc/theta_version`` names the one in use (see
:class:`dexstack.learning.gate.ThetaGate`).

While planning the process runs under SCHED_FIFO, where permitted: on a busy computer other processes
would interrupt the parts of a solve.

``mpc/solve_times`` carries, every ten solves, one row per solve: time of the contact set, processor
time, wall time [s].
"""

from __future__ import annotations

import collections
from array import array
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from sensor_msgs.msg import JointState, PointCloud2
from std_msgs.msg import Float64MultiArray, MultiArrayDimension, String, UInt32
from visualization_msgs.msg import MarkerArray

from dexstack.contact.contact import nearest_contacts
from dexstack.contact.params import DetectorParams
from dexstack.control.controller import Measurement
from dexstack.control.params import (
    BLIND_PERIOD,
    BlindParams,
    MpcParams,
    PlannerParams,
    SamplingParams,
    TrackerParams,
    own_blocks,
)
from dexstack.control.supervisors import SUPERVISORS
from dexstack.geometry.rotations import geodesic_angle
from dexstack.graph.parameters import MpcNodeParams, SceneParams
from dexstack.learning.gate import Approach, ThetaGate
from dexstack.nodes.common import OK, WARN, WARNING, run_node
from dexstack.nodes.markers import path_marker
from dexstack.nodes.scene import SceneNode
from dexstack.nodes.theta import THETA_TOPIC, VERSION_TOPIC, ThetaReader
from dexstack.nodes.wire import (
    COMMAND,
    LATCHED,
    RECENT,
    REPORTS,
    SENSOR,
    ContactSample,
    JointReader,
    JointWriter,
    PoseSample,
    WaitSet,
    read_contacts,
)
from dexstack.process.compilation import run_concurrently, use_compilation_cache
from dexstack.process.history import JointHistory
from dexstack.process.realtime import drop_realtime, make_realtime
from dexstack.tasks.controller import make_controller, supervisor_name

POSES = 8
"""Number of newest poses in memory, for contact sets of an older pose."""
HOLD_AGE = 0.06
"""Age of the stamps of held commands, so that the answer to the next picture is newer [s]."""
HISTORY = 8192
"""Number of solve times in memory, for percentiles."""
BATCH = 10
"""Solves per message of solve times: few messages, and little is lost when a run ends."""


class Counts:
    """Counts and solve times of the node since its activation."""

    def __init__(self) -> None:
        self.times = np.zeros((HISTORY, 3))
        """Rows of contact time, processor time, wall time [s]."""
        self.solves = self.without_input = self.untimely = 0
        self.failures: dict[str, int] = {}

    def add(self, *row: float) -> np.ndarray | None:
        """Add one solve; return the last BATCH rows whenever they are complete."""
        self.times[self.solves % HISTORY] = row
        self.solves += 1
        if self.solves % BATCH:
            return None
        return self.times[np.arange(self.solves - BATCH, self.solves) % HISTORY]

    def values(self) -> dict[str, Any]:
        """Return entries of the node's diagnostics."""
        values: dict[str, Any] = {
            "without_input": self.without_input,
            "untimely": self.untimely,
        }
        values.update({f"failed {name}": n for name, n in self.failures.items()})
        n = min(self.solves, HISTORY)
        for k, name in enumerate(("solve", "solve_wall"), 1) if n else ():
            samples = self.times[:n, k]
            p50, p99 = np.percentile(samples, [50, 99])
            values[f"{name}_p50"], values[f"{name}_p99"] = float(p50), float(p99)
            values[f"{name}_mean"] = float(samples.mean())
            values["solve_n"] = n
        return values


class MpcNode(SceneNode):
    """See the module's docstring."""

    LIVE = frozenset(
        {
            *("input_timeout", "command_timeout", "prediction_every"),
            *("blind_hold", "blind_position", "blind_rotation"),
            *("u_max", "effort_weight", "damping", "limit_margin"),  # numeric inputs of the compiled solver
        }
    )

    def __init__(self) -> None:
        super().__init__(
            "mpc",
            MpcNodeParams,
            *(BlindParams, TrackerParams, PlannerParams, MpcParams, SamplingParams, DetectorParams),
        )
        _, self._supervisor_params = SUPERVISORS.load(supervisor_name(self.task_type, self.blocks()))
        for block in own_blocks(self.params(PlannerParams), self.task_type.supervisor):
            self.declare_block(block)
        for block in (self.task_type.Weights, self._supervisor_params):
            self.declare_block(block)
            self.LIVE = self.LIVE | {f.name for f in fields(block)}

    def configure(self) -> None:
        use_compilation_cache()
        task = self.make_task()
        robot, obj, _ = setup = task.setup()
        names = robot.joint_names
        # Before compiling, so that all subscribers know the publishers when the first command comes.
        self._contacts = self.newest(PointCloud2, "contacts", SENSOR, read_contacts)
        self._poses = self.newest(PoseWithCovarianceStamped, "object_pose", RECENT, self.read_pose)
        self._joints = self.newest(JointState, "joint_states", RECENT, JointReader(names, "position"))
        self._goals = self.newest(PoseStamped, "task/goal", LATCHED, self.read_pose)
        reader = ThetaReader(obj.name, robot.name, self.params(MpcParams).step, len(names))
        self._thetas = self.newest(String, THETA_TOPIC, LATCHED, reader)
        self._wait = WaitSet(self, self._contacts)
        self._command = JointWriter(names, "position", sender=self.get_name())
        self._to_command = self.create_publisher(JointState, "joint_command", COMMAND)
        self._to_prediction = self.create_publisher(MarkerArray, "mpc/prediction", COMMAND)
        self._to_version = self.create_publisher(UInt32, VERSION_TOPIC, LATCHED)
        self._to_times = self.create_publisher(Float64MultiArray, "mpc/solve_times", REPORTS)
        realtime = replace(self.params(SamplingParams), sampling_wait=False)
        self._upright = self.gravity_source(self.params(SceneParams))
        self.controller = make_controller(task, setup, {**self.blocks(), SamplingParams: realtime})
        self._gate = ThetaGate(self.controller.planner.theta, self.params(MpcNodeParams).judged_goals)
        run_concurrently(self.controller.warm_up, self.controller.predictor.warm_up)

    def apply(self, block: Any) -> None:
        if isinstance(block, self.task_type.Weights):
            self.controller.planner.weights = block
        elif isinstance(block, self._supervisor_params):
            self.controller.supervisor.params = block
        elif isinstance(block, MpcParams):
            self.controller.planner.params = block
        elif isinstance(block, BlindParams):
            self.controller.tracker.blind = block

    def begin(self) -> None:
        self.controller.reset()
        self._to_version.publish(UInt32(data=self._gate.version))
        self._goal: PoseSample | None = None
        self._approach: Approach | None = None
        self._recent: collections.deque[PoseSample] = collections.deque(maxlen=POSES)
        self._angles = JointHistory()
        self._counts = Counts()
        self._reported = self._untimely_reported = 0
        self._late, self._warning, self._slow = 0.0, "", False
        priority = self.params(MpcNodeParams).realtime_priority
        # only now: while compiling it would starve all other processes
        self._realtime = bool(priority) and make_realtime(priority)

    def finish(self) -> None:
        drop_realtime()

    def work(self) -> None:
        self._wait.wait(BLIND_PERIOD / 3)
        if (goal := self._goals.take()) is not None:
            self._judge_theta()
            if self._goal is None or goal.t != self._goal.t:
                self.controller.reset()
            self._goal = goal
        if (theta := self._thetas.take()) is not None:
            self._gate.propose(*theta)
        contacts = self._contacts.take()
        for angles in self._joints.take_all():
            self._angles.add(angles)
        if contacts is None:
            self._hold()
        else:
            self.time = contacts.t
            if self._upright.turns and self._upright.update(contacts.t):
                self.controller.gravity = self._upright.gravity
            self._take_poses()
            self._answer(contacts)

    def _judge_theta(self) -> None:
        """At the end of a goal: change θ if the gate does."""
        approach, self._approach = self._approach, None
        if approach is None or not self._recent:
            return
        last = self._recent[-1]
        left = geodesic_angle(last.pose[3:], self._goal.pose[3:])
        if self._gate.next_goal(approach.pace(last.t, left)):
            self._change_theta()

    def _change_theta(self) -> None:
        self.controller.planner.theta = self._gate.theta
        self._to_version.publish(UInt32(data=self._gate.version))

    def _take_poses(self) -> None:
        for sample in self._poses.take_all():
            if self._recent and sample.t < self._recent[-1].t:  # the simulator was restarted
                self._recent.clear()
            self._recent.append(sample)

    def _answer(self, contacts: ContactSample) -> None:
        """Plan from a contact set, and publish the command."""
        newest = self._angles.samples[-1] if self._angles.samples else None
        if newest and abs(newest.t - contacts.t) > self.params(MpcNodeParams).command_timeout:
            self._late = abs(newest.t - contacts.t)
            self._counts.untimely += 1
            self._hold()
            return
        seen = self._measurement(contacts)
        if seen is None or self._goal is None:
            self._counts.without_input += 1
            return
        angle = geodesic_angle(seen.pose_WO[3:], self._goal.pose[3:])
        self._approach = self._approach or Approach(contacts.t, angle)
        self._approach.see(contacts.t, angle)
        if self._gate.judging and self._gate.during_goal(self._approach.pace(contacts.t, 0.0)):
            self._change_theta()
            self._approach = None  # its time is that of the θ that was undone
        answer = self.controller.answer(seen, self._goal.pose)
        plan, self._warning = answer.plan, answer.plan.warning
        self._say_speed(answer.deviation)
        if (rows := self._counts.add(contacts.t, plan.cpu_s, plan.wall_s)) is not None:
            self._to_times.publish(_table(rows))
        if not plan.status.usable:
            name = plan.status.name
            self._counts.failures[name] = self._counts.failures.get(name, 0) + 1
        elif answer.target is not None:
            self._send(answer.target, contacts.t)
            every = self.params(MpcNodeParams).prediction_every
            if self._counts.solves % every == 0 and self._to_prediction.get_subscription_count():
                self._to_prediction.publish(path_marker(contacts.t, plan.prediction[:, :3]))

    def _say_speed(self, deviation: tuple[float, float]) -> None:
        """Log once that uncertainty of the pose slows the hand, and again after it was certain."""
        slow = self.controller.speed < 1.0
        if slow and not self._slow:
            sizes = f"{1e3 * deviation[0]:.1f} mm, {np.degrees(deviation[1]):.1f}°"
            self.say(WARNING, f"the pose is uncertain ({sizes}): the hand moves more slowly")
        self._slow = slow

    def _measurement(self, contacts: ContactSample) -> Measurement | None:
        """Combine a contact set with the pose nearest to its stamp and the joint positions of that
        time; None if one is missing or too far away in time."""
        timeout = self.params(MpcNodeParams).input_timeout
        joints = self._angles.at(contacts.t, timeout)
        pose = min(self._recent, key=lambda sample: abs(contacts.t - sample.t), default=None)
        if joints is None or pose is None or abs(contacts.t - pose.t) > timeout:
            return None
        newest, capacity = self._angles.samples[-1], self.params(DetectorParams).capacity
        found = nearest_contacts(capacity, *contacts[1:])
        return Measurement(pose.pose, joints.values, newest.t, newest.values, found, pose.spread)

    def _hold(self) -> None:
        """Repeat the last target while the controller demands it."""
        now = self._angles.samples[-1].t if self._angles.samples else 0.0
        if (target := self.controller.hold(now)) is not None:
            self._send(target, now - HOLD_AGE)

    def _send(self, target: np.ndarray, t: float) -> None:
        self._command.position[:] = target
        self._to_command.publish(self._command.at(t))

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        counts, controller = self._counts, self.controller
        rate, self._reported = counts.solves - self._reported, counts.solves
        values = {
            "rate_hz": float(rate),
            "stalls": controller.supervisor.stalls,
            "speed": controller.speed,
            "realtime": self._realtime,
            "theta_version": self._gate.version,
            "thetas_taken": self._gate.adopted,
            "thetas_undone": self._gate.undone,
            **counts.values(),
        }
        if not rate:
            return WARN, self._missing(), values
        if controller.speed < 1.0:
            speed = 100 * controller.speed
            return WARN, f"the pose is uncertain: moving at {speed:.0f} % of the speed", values
        if warning := self._warning or self._upright.trouble:
            return WARN, warning, values
        return OK, f"{rate} Hz", values

    def _missing(self) -> str:
        """Return the reason for which there are no plans."""
        first, self._untimely_reported = self._untimely_reported, self._counts.untimely
        if self._counts.untimely > first:
            return (
                f"contacts come {self._late:.2f} s after joint angles of their time: "
                "this machine is too slow, or two clocks differ"
            )
        missing = self.silent(self._joints, self._contacts, self._poses, self._goals)
        return missing or "contacts, pose, joint states and goal are of different times"


def _table(rows: np.ndarray) -> Float64MultiArray:
    message = Float64MultiArray(data=array("d", rows.tobytes()))
    message.layout.dim = [
        MultiArrayDimension(label="solve", size=rows.shape[0], stride=rows.size),
        MultiArrayDimension(label="t cpu wall", size=rows.shape[1], stride=rows.shape[1]),
    ]
    return message


main = partial(run_node, MpcNode)
