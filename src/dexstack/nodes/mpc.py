"""The MPC node: every contact set is answered by one solve and one joint command.

The command is stamped with the time of the contact set it answers, so that the hand sees its true
age. A goal with a new stamp starts a new rollout: the warm start is forgotten. Another goal with
the same stamp is the next one of the same rollout. A rollout that gets stuck is freed by the task's
supervisor. Poses are as old as the pictures they come from; contacts, pose and joint angles are put
together as they were then, the state with the newest joint angles is predicted from them, and from
that the one when the command acts. Where the pose is known badly the commands move more slowly, and
not at all where it counts as not seen; where no contacts come any more, or such whose answer the
hand would refuse, commands that hold what is held go on for ``blind_hold``. Without goal or joint
angles nothing is commanded, and the hand's watchdog decides.

A θ on ``learner/theta`` replaces the one planned with, between two solves: numbers into the
compiled solver, nothing is compiled.

While it plans its process runs under SCHED_FIFO, where permitted: on a busy computer others
otherwise come between the parts of a solve.

``mpc/solve_times`` carries, every ten solves, one row per solve: time of the contact set, processor
time, wall time [s].
"""

from __future__ import annotations

import collections
import sys
from array import array
from dataclasses import fields, replace
from typing import Any

import numpy as np
from geometry_msgs.msg import Point, PoseStamped, PoseWithCovarianceStamped
from sensor_msgs.msg import JointState, PointCloud2
from std_msgs.msg import Float64MultiArray, MultiArrayDimension, String
from visualization_msgs.msg import Marker, MarkerArray

from dexstack.contact.contact import Contacts, empty_contacts
from dexstack.contact.detector import DetectorParams
from dexstack.control.base import Observation
from dexstack.control.factory import PlannerParams
from dexstack.control.params import BLIND_PERIOD, BlindParams, own_blocks
from dexstack.control.planners.gauss_newton import MpcParams
from dexstack.control.planners.sampling import SamplingParams
from dexstack.control.supervisors import SUPERVISORS
from dexstack.graph.parameters import MpcNodeParams
from dexstack.nodes.common import OK, WARN, run_node
from dexstack.nodes.scene import SceneNode
from dexstack.nodes.theta import THETA_TOPIC, ThetaReader
from dexstack.nodes.wire import (
    COMMAND,
    LATCHED,
    RECENT,
    REPORTS,
    SENSOR,
    WORLD,
    ContactSample,
    JointReader,
    JointWriter,
    PoseSample,
    WaitSet,
    read_contacts,
    read_pose,
    set_stamp,
)
from dexstack.process.compilation import side_by_side, use_compilation_cache
from dexstack.process.history import JointHistory
from dexstack.process.realtime import make_ordinary, make_realtime
from dexstack.tasks.controller import Controller, supervisor_name

POSES = 8
"""Newest poses kept, for contact sets that answer an older one."""
BLIND_AGE = 0.06
"""So much older than now are the stamps of these commands: what answers the next picture must not
come before them [s]."""
HISTORY = 8192
"""Solve times kept for the percentiles."""
BATCH = 10
"""Solves in one message of solve times: few messages, and little is lost when a run ends."""


class MpcNode(SceneNode):
    """See the module's docstring."""

    LIVE = frozenset(
        {
            *(
                "input_timeout",
                "command_timeout",
                "prediction_every",
                "blind_hold",
                "blind_position",
                "blind_rotation",
            ),
            *(
                "u_max",
                "effort_weight",
                "damping",
                "limit_margin",
            ),  # what the compiled solver takes as numbers
        }
    )

    def __init__(self) -> None:
        super().__init__(
            "mpc", MpcNodeParams, BlindParams, PlannerParams, MpcParams, SamplingParams, DetectorParams
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
        robot, obj, _ = scene = task.scene()
        names = robot.joint_names
        # Before anything is compiled, so that all who listen have found the publishers when the
        # first command comes.
        self._contacts = self.newest(PointCloud2, "contacts", SENSOR, read_contacts)
        self._poses = self.newest(PoseWithCovarianceStamped, "object_pose", RECENT, read_pose)
        self._joints = self.newest(JointState, "joint_states", RECENT, JointReader(names, "position"))
        self._goals = self.newest(PoseStamped, "task/goal", LATCHED, read_pose)
        reader = ThetaReader(obj.name, robot.name, self.params(MpcParams).step, len(names))
        self._thetas = self.newest(String, THETA_TOPIC, LATCHED, reader)
        self._wait = WaitSet(self, self._contacts)
        self._command = JointWriter(names, "position")
        self._to_command = self.create_publisher(JointState, "joint_command", COMMAND)
        self._to_prediction = self.create_publisher(MarkerArray, "mpc/prediction", COMMAND)
        self._to_times = self.create_publisher(Float64MultiArray, "mpc/solve_times", REPORTS)
        unwaiting = replace(self.params(SamplingParams), sampling_wait=False)  # time goes on
        self._controller = Controller(task, scene, {**self.blocks(), SamplingParams: unwaiting})
        self._supervisor, self._planner = self._controller.supervisor, self._controller.planner
        self._predictor = self._controller.predictor
        side_by_side(self._controller.warm_up, self._predictor.warm_up)

    def apply(self, block: Any) -> None:
        if isinstance(block, self.task_type.Weights):
            self._planner.weights = block
        elif isinstance(block, self._supervisor_params):
            self._supervisor.params = block
        elif isinstance(block, MpcParams):
            self._planner.params = block

    def begin(self) -> None:
        self._restart()
        self._goal: PoseSample | None = None
        self._poses_seen: collections.deque[PoseSample] = collections.deque(maxlen=POSES)
        self._angles = JointHistory()
        self._t, self._speed = 0.0, 1.0
        self._times = np.zeros((HISTORY, 3))
        self._count = self._reported = self._without_input = self._untimely = self._thetas_taken = 0
        self._untimely_reported, self._late = 0, 0.0
        self._failures: dict[str, int] = {}
        self._short = ""
        priority = self.params(MpcNodeParams).realtime_priority
        self._realtime = bool(priority) and make_realtime(
            priority
        )  # only now: compiling would starve everybody else

    def finish(self) -> None:
        make_ordinary()

    def work(self) -> None:
        p = self.params(MpcNodeParams)
        self._wait.wait(BLIND_PERIOD)
        goal = self._goals.take()
        if goal is not None:
            if self._goal is None or goal.t != self._goal.t:
                self._restart()
            self._goal = goal
        theta = self._thetas.take()
        if theta is not None:
            self._planner.theta = theta
            self._thetas_taken += 1
        contacts = self._contacts.take()
        for angles in self._joints.take_all():
            self._angles.add(angles)
        if contacts is None:
            self._hold_blind()
            return
        if contacts.t < self._t:  # the simulator was restarted
            self._restart()
        self.time = contacts.t
        for sample in self._poses.take_all():
            if self._poses_seen and sample.t < self._poses_seen[-1].t:  # so it was
                self._poses_seen.clear()
            self._poses_seen.append(sample)
        if self._angles.samples and abs(self._angles.samples[-1].t - contacts.t) > p.command_timeout:
            self._late = abs(self._angles.samples[-1].t - contacts.t)
            self._untimely += 1  # nor may its answer be what is held on to: that would bring it to the hand with a new stamp
            self._hold_blind()
            return
        self._t = contacts.t
        joints = self._angles.at(contacts.t, p.input_timeout)
        # The contacts are those of one pose: the one with their stamp, or the nearest to it.
        pose = min(self._poses_seen, key=lambda sample: abs(contacts.t - sample.t), default=None)
        if self._goal is None or joints is None or pose is None or abs(contacts.t - pose.t) > p.input_timeout:
            self._without_input += 1
            return
        found = self._padded(contacts, self.params(DetectorParams).capacity)
        seen = Observation(contacts.t, pose.pose, joints.values, found)
        newest = self._angles.samples[-1]
        result = self._supervisor.plan(
            self._predictor.predict(seen, newest.values, newest.t), self._goal.pose
        )
        self._times[self._count % HISTORY] = contacts.t, result.cpu_s, result.wall_s
        self._count += 1
        self._short = result.lack
        if self._count % BATCH == 0:
            self._to_times.publish(_table(self._times[np.arange(self._count - BATCH, self._count) % HISTORY]))
        if not result.status.usable:
            self._failures[result.status.name] = self._failures.get(result.status.name, 0) + 1
            return
        blind = self.params(BlindParams)
        doubt = max(pose.spread[0] / blind.blind_position, pose.spread[1] / blind.blind_rotation)
        self._speed = min(1.0, 2.0 * max(0.0, 1.0 - doubt))
        if not self._commanded and self._speed < 1.0:
            return  # a motion does not begin in doubt
        self._commanded = True
        now = self._command.position
        now[:] = result.q_des if self._speed == 1.0 else now + self._speed * (result.q_des - now)
        self._to_command.publish(self._command.at(contacts.t))
        self._predictor.sent(newest.t, now)
        if self._count % p.prediction_every == 0 and self._to_prediction.get_subscription_count():
            self._to_prediction.publish(_path(contacts.t, result.prediction))

    def _hold_blind(self) -> None:
        """Nothing is seen any more: hold on."""
        now = self._angles.samples[-1].t if self._angles.samples else 0.0
        if self._commanded and self.params(BlindParams).hold(now - self._t):
            self._speed = 0.0
            self._to_command.publish(self._command.at(now - BLIND_AGE))

    def _restart(self) -> None:
        """Begin a rollout: neither warm start nor progress of the one before, nor anything to
        hold."""
        self._supervisor.reset()
        self._commanded = False

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        first, self._reported = self._reported, self._count
        rate = self._reported - first
        values: dict[str, Any] = {
            "rate_hz": float(rate),
            "without_input": self._without_input,
            "untimely": self._untimely,
        }
        values["stalls"] = self._supervisor.stalls
        values["speed"] = self._speed
        values.update(thetas_taken=self._thetas_taken, realtime=self._realtime)
        values.update({f"failed {name}": n for name, n in self._failures.items()})
        n = min(self._reported, HISTORY)
        if n:
            for name, samples in (("solve", self._times[:n, 1]), ("solve_wall", self._times[:n, 2])):
                p50, p99 = np.percentile(samples, [50, 99])
                values.update(
                    {
                        f"{name}_p50": float(p50),
                        f"{name}_p99": float(p99),
                        f"{name}_mean": float(samples.mean()),
                    }
                )
            values["solve_n"] = n
        if not rate:
            return WARN, self._lack(), values
        if self._speed < 1.0:
            return WARN, f"the pose is known badly: moving at {100 * self._speed:.0f} % of the speed", values
        if self._short:
            return WARN, self._short, values
        return OK, f"{rate} Hz", values

    def _lack(self) -> str:
        """Why there are no plans."""
        first, self._untimely_reported = self._untimely_reported, self._untimely
        if self._untimely > first:
            return f"contacts come {self._late:.2f} s after joint angles of their time: this machine is too slow, or two clocks differ"
        lack = self.silent(self._joints, self._contacts, self._poses, self._goals)
        return lack or "contacts, pose, joint states and goal are of different times"

    def _padded(self, sample: ContactSample, capacity: int) -> Contacts:
        """The nearest contacts in as many slots as the solver was compiled for."""
        contacts = empty_contacts(capacity)
        keep = np.argsort(sample.phi, kind="stable")[:capacity]
        n = len(keep)
        contacts.p_W[:n], contacts.nhat_W[:n], contacts.phi[:n] = (
            sample.p_W[keep],
            sample.nhat_W[keep],
            sample.phi[keep],
        )
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
