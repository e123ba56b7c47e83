"""The MPC node: every contact set is answered by one solve and one joint command.

The command is stamped with the time of the contact set it answers, so that the hand sees its true age. A goal with a new stamp starts a
new rollout: the warm start is forgotten. A rollout that gets no nearer to its goal is freed by letting go for a moment. Without goal, pose
or fresh joint angles nothing is commanded and the hand's watchdog decides.

A θ on ``learner/theta`` replaces the one planned with, between two solves: numbers into the compiled solver, nothing is compiled.

While it plans its process runs under SCHED_FIFO, where permitted: on a busy computer others otherwise come between the parts of a solve.

``mpc/solve_times`` carries, every ten solves, one row per solve: time of the contact set, processor time, wall time [s].
"""

from __future__ import annotations

import sys
from array import array
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from geometry_msgs.msg import Point, PoseStamped, PoseWithCovarianceStamped
from sensor_msgs.msg import JointState, PointCloud2
from std_msgs.msg import Float64MultiArray, MultiArrayDimension, String
from visualization_msgs.msg import Marker, MarkerArray

from dexstack.config import param
from dexstack.contact.contact import Contacts, empty_contacts
from dexstack.contact.detector import DetectorParams
from dexstack.control.factory import PlannerParams, make_mpc
from dexstack.control.mpc import MpcParams, SolveStatus
from dexstack.control.supervisors.gait import StallParams, StallRemedy
from dexstack.geometry.rotations import geodesic_angle
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.nodes.common import OK, PATIENCE, WARN, StackNode, run_node
from dexstack.nodes.theta import THETA_TOPIC, ThetaReader
from dexstack.nodes.wire import (
    COMMAND,
    LATCHED,
    REPORTS,
    SENSOR,
    WORLD,
    ContactSample,
    JointReader,
    JointSample,
    JointWriter,
    PoseSample,
    WaitSet,
    read_contacts,
    read_pose,
    set_stamp,
)
from dexstack.process.compilation import use_compilation_cache
from dexstack.process.realtime import make_ordinary, make_realtime
from dexstack.tasks.palm_turn import AllegroCost, AllegroWeights, without_reach

HISTORY = 8192
"""Solve times kept for the percentiles."""
BATCH = 10
"""Solves in one message of solve times: few messages, and little is lost when a run ends."""


@dataclass(frozen=True)
class MpcNodeParams:
    """Parameters of the node, beside those of the MPC and the task's weights."""

    hand: str = param("right", "side of the hand, or the path of a hand's YAML")
    object: str = param("cube", "name of an object, or the path of an object's YAML")
    input_timeout: float = param(0.1, "pose and joint angles older than this against the contacts are not used [s]", 0.001, 10.0)
    prediction_every: int = param(5, "publish mpc/prediction for every n-th solve, if anybody looks", 1, 1000)
    realtime_priority: int = param(20, "SCHED_FIFO priority of the process while it plans, where permitted; 0: none", 0, 90)


class MpcNode(StackNode):
    """See the module's docstring."""

    LIVE = frozenset(
        {
            *("input_timeout", "prediction_every"),
            *("u_max", "effort_weight", "damping", "limit_margin"),  # what the compiled solver takes as numbers
            *(f.name for block in (AllegroWeights, StallParams) for f in fields(block)),
        }
    )

    def __init__(self) -> None:
        super().__init__("mpc", MpcNodeParams, PlannerParams, MpcParams, DetectorParams, AllegroWeights, StallParams)

    def configure(self) -> None:
        use_compilation_cache()
        p = self.params(MpcNodeParams)
        hand, obj = load_hand(p.hand), load_object(p.object)
        self._build(hand, obj)
        names = hand.joint_names
        self._contacts = self.newest(PointCloud2, "contacts", SENSOR, read_contacts)
        self._poses = self.newest(PoseWithCovarianceStamped, "object_pose", SENSOR, read_pose)
        position, velocity = JointReader(names, "position"), JointReader(names, "velocity")
        moving = self.params(PlannerParams).joint_velocities  # only then has a message to have them
        self._joints = self.newest(JointState, "joint_states", SENSOR, lambda m: (position(m), velocity(m).values if moving else None))
        self._goals = self.newest(PoseStamped, "goal_pose", LATCHED, read_pose)
        reader = ThetaReader(obj.name, hand.name, self.params(MpcParams).step, len(names))
        self._thetas = self.newest(String, THETA_TOPIC, LATCHED, reader)
        self._wait = WaitSet(self, self._contacts)
        self._command = JointWriter(names, "position")
        self._to_command = self.create_publisher(JointState, "joint_command", COMMAND)
        self._to_prediction = self.create_publisher(MarkerArray, "mpc/prediction", COMMAND)
        self._to_times = self.create_publisher(Float64MultiArray, "mpc/solve_times", REPORTS)

    def _build(self, hand, obj) -> None:
        blocks = (self.params(block) for block in (PlannerParams, MpcParams, DetectorParams))
        self._mpc, self._theta = make_mpc(hand, obj, AllegroCost(), *blocks)
        self._weights = self.params(AllegroWeights).arrays()
        rest = hand.pose(obj.start("allegro").hand_pose)
        self._remedy = StallRemedy(self._mpc, rest, self.params(StallParams), without_reach, hand.swing_joints)
        self._mpc.warm_up(empty_contacts(self.params(DetectorParams).capacity), self._theta, self._weights)

    def apply(self, block: Any) -> None:
        if isinstance(block, AllegroWeights):
            self._weights = block.arrays()
        elif isinstance(block, StallParams):
            self._remedy.params = block
        elif isinstance(block, MpcParams):
            self._mpc.params = block

    def begin(self) -> None:
        self._restart()
        self._goal: PoseSample | None = None
        self._pose: PoseSample | None = None
        self._q: JointSample | None = None
        self._qd: np.ndarray | None = None
        self._t = 0.0
        self._times = np.zeros((HISTORY, 3))
        self._count = self._reported = self._without_input = self._refused = self._thetas_taken = 0
        self._failures: dict[str, int] = {}
        priority = self.params(MpcNodeParams).realtime_priority
        self._realtime = bool(priority) and make_realtime(priority)  # only now: compiling would starve everybody else

    def finish(self) -> None:
        make_ordinary()

    def work(self) -> None:
        p = self.params(MpcNodeParams)
        self._wait.wait(PATIENCE)
        goal = self._goals.take()
        if goal is not None:
            if self._goal is None or goal.t != self._goal.t:
                self._restart()
            self._goal = goal
        theta = self._thetas.take()
        if theta is not None:
            self._theta = theta
            self._thetas_taken += 1
        contacts = self._contacts.take()
        if contacts is None:
            return
        if contacts.t < self._t:  # the simulator was restarted
            self._pose = self._q = None
            self._restart()
        self.time = self._t = contacts.t
        self._pose = self._poses.take() or self._pose
        self._q, self._qd = self._joints.take() or (self._q, self._qd)
        old = lambda sample: sample is None or abs(contacts.t - sample.t) > p.input_timeout  # noqa: E731
        if self._goal is None or old(self._pose) or old(self._q):
            self._without_input += 1
            return
        found = self._padded(contacts, self.params(DetectorParams).capacity)
        error = geodesic_angle(self._pose.pose[3:], self._goal.pose[3:])
        state = self._pose.pose, self._q.values, found
        result = self._remedy.solve(contacts.t, error, *state, self._goal.pose, self._theta, self._weights, self._qd)
        self._times[self._count % HISTORY] = contacts.t, result.cpu_s, result.wall_s
        self._count += 1
        if self._count % BATCH == 0:
            self._to_times.publish(_table(self._times[np.arange(self._count - BATCH, self._count) % HISTORY]))
        if result.status in (SolveStatus.BAD_INPUT, SolveStatus.DIVERGED):
            self._failures[result.status.name] = self._failures.get(result.status.name, 0) + 1
            return
        self._command.position[:] = result.q_des
        self._to_command.publish(self._command.at(contacts.t))
        if self._count % p.prediction_every == 0 and self._to_prediction.get_subscription_count():
            self._to_prediction.publish(_path(contacts.t, result.prediction))

    def _restart(self) -> None:
        """Begin a rollout: neither warm start nor progress of the one before."""
        self._remedy.reset()

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        first, self._reported = self._reported, self._count
        rate = self._reported - first
        values: dict[str, Any] = {"rate_hz": float(rate), "without_input": self._without_input, "stalls": self._remedy.stalls}
        values.update(thetas_taken=self._thetas_taken, realtime=self._realtime)
        values.update({f"failed {name}": n for name, n in self._failures.items()})
        n = min(self._reported, HISTORY)
        if n:
            for name, samples in (("solve", self._times[:n, 1]), ("solve_wall", self._times[:n, 2])):
                p50, p99 = np.percentile(samples, [50, 99])
                values.update({f"{name}_p50": float(p50), f"{name}_p99": float(p99), f"{name}_mean": float(samples.mean())})
            values["solve_n"] = n
        if not rate:
            return WARN, "no contacts, pose, joint states or goal", values
        return OK, f"{rate} Hz", values

    def _padded(self, sample: ContactSample, capacity: int) -> Contacts:
        """The nearest contacts in as many slots as the solver was compiled for."""
        contacts = empty_contacts(capacity)
        keep = np.argsort(sample.phi, kind="stable")[:capacity]
        n = len(keep)
        contacts.p_W[:n], contacts.nhat_W[:n], contacts.phi[:n] = sample.p_W[keep], sample.nhat_W[keep], sample.phi[keep]
        contacts.link[:n], contacts.active[:n] = sample.link[keep], True
        return contacts


def _table(rows: np.ndarray) -> Float64MultiArray:
    message = Float64MultiArray(data=array("d", rows.tobytes()))
    message.layout.dim = [
        MultiArrayDimension(label="solve", size=rows.shape[0], stride=rows.size),
        MultiArrayDimension(label="t cpu wall", size=rows.shape[1], stride=rows.shape[1]),
    ]
    return message


def _path(t: float, prediction: np.ndarray) -> MarkerArray:
    """The object's predicted way as a line."""
    marker = Marker(ns="prediction", type=Marker.LINE_STRIP, action=Marker.ADD)
    marker.header.frame_id = WORLD
    set_stamp(marker.header.stamp, t)
    marker.scale.x = 0.002
    marker.color.g, marker.color.a = 1.0, 1.0
    marker.pose.orientation.w = 1.0
    marker.points = [Point(x=float(x), y=float(y), z=float(z)) for x, y, z in prediction[:, :3]]
    return MarkerArray(markers=[marker])


def main() -> int:
    return run_node(MpcNode)


if __name__ == "__main__":
    sys.exit(main())
