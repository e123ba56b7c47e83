"""The trajectory node: plays planned or recorded motions of the joints.

``joint_trajectory`` (trajectory_msgs/JointTrajectory) accepts the same as the topic of the joint
trajectory controller of ros2_control: points with positions and optional velocities, of some or all
joints; a stamp in the future delays the start. A later message continues from the target of the
running motion, one without points stops it. After a motion the joints are held until another node
commands them. ``joint_trajectory/state`` (diagnostic_msgs/DiagnosticStatus) reports the phase: idle,
following, done, failed, cancelled. Where control_msgs is installed there is also the action
``joint_trajectory/follow_joint_trajectory`` (:mod:`.trajectory_action`). The hand's limits, watchdog
and consent apply as to every command.

With the parameter ``motion`` the node plays one from a file and ends. It waits until the hand has
torque, on hardware therefore until a person enables it, and until ``heard_on`` has a subscriber,
since programs that start together take seconds to find each other. Until then it commands the
joints to stay. A hand without torque for ``torque_within`` ends the motion as failed.
"""

from __future__ import annotations

import pathlib
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from dexstack.config import param
from dexstack.errors import ConfigError
from dexstack.hand.trajectory import Follower, FollowParams, Phase, Waypoints, read_waypoints
from dexstack.model import HAND_NAMES
from dexstack.model.hand import load_hand
from dexstack.nodes.common import OK, PATIENCE, WARN, StackNode, run_node
from dexstack.nodes.trajectory_action import IGNORED, Asker, Request, read_motion, serve
from dexstack.nodes.wire import COMMAND, LATCHED, SENSOR, BadMessage, JointReader, JointWriter, WaitSet
from dexstack.process.history import JointSample

PERIOD = 0.01
"""Time between two commands [s]."""
EARLY = 1.0
"""Longest wait of a trajectory for the first joint angles [s]."""
UNHEARD = 10.0
"""Longest wait of a file's motion for a subscriber once the hand has torque [s]."""
TAKEN_OVER = "another trajectory took over"
LEVELS = {Phase.FAILED: DiagnosticStatus.ERROR, Phase.CANCELLED: WARN}


@dataclass(frozen=True)
class TrajectoryParams:
    """Parameters of the trajectory node except its tolerances."""

    hand: str = param("right", f"which hand: {HAND_NAMES}")
    motion: str = param(
        "",
        "file of a motion that is played once the hand has torque, after which the node ends; empty: none",
    )
    heard_on: str = param(
        "",
        "topic that needs a subscriber before the file's motion begins, for at most 10 s; empty: at once",
    )
    torque_within: float = param(
        0.0, "longest time without torque before the file's motion begins [s]; 0: no limit", 0.0, 3600.0
    )


class TrajectoryNode(StackNode):
    """See the module's docstring."""

    LIVE = frozenset({"path_tolerance", "goal_tolerance", "goal_time"})

    def __init__(self) -> None:
        super().__init__("trajectory", TrajectoryParams, FollowParams)
        serve(self, self.ask)

    def configure(self) -> None:
        self._hand = load_hand(self.params(TrajectoryParams).hand)
        names = self._hand.joint_names
        self._asked = self.newest(JointTrajectory, "joint_trajectory", COMMAND, self._read)
        self._joints = self.newest(JointState, "joint_states", SENSOR, JointReader(names, "position"))
        self._commands = self.newest(JointState, "joint_command", COMMAND, JointReader(names, "position"))
        self._wait = WaitSet(self, self._joints)
        self._command = JointWriter(names, "position", sender=self.get_name())
        self._to_command = self.create_publisher(JointState, "joint_command", COMMAND)
        self._to_state = self.create_publisher(DiagnosticStatus, "joint_trajectory/state", LATCHED)

    def begin(self) -> None:
        self._follower = Follower(self._hand, self.params(FollowParams))
        self._seen: JointSample | None = None
        self._next: Request | None = None
        """The request that begins later."""
        self._early: Request | None = None
        """The request that came before the joint angles."""
        self._asker = IGNORED
        """Receiver of the running motion's outcome."""
        self._commanded = -np.inf
        file = self.params(TrajectoryParams).motion
        self._torque_since = np.inf
        self._limp_since = np.inf
        self._from_file = (
            Request(0.0, read_waypoints(pathlib.Path(file)), asker=_EndsNode(self)) if file else None
        )
        self._say()

    def apply(self, block: Any) -> None:
        if isinstance(block, FollowParams):
            self.in_worker(lambda: setattr(self._follower, "params", block))

    def work(self) -> None:
        self._wait.wait(PATIENCE)
        self._seen = seen = self._joints.take() or self._seen
        asked = self._asked.take()
        if asked is not None:
            self._take_in(Request(*asked))
        if seen is None:
            self._forget()
            return
        asked, self._early = self._early, None
        self.time = seen.t
        if self._from_file is not None:
            asked = self._stay_until_ready(seen)
        before, left = self._follower.phase, self._follower.left
        self._yield_to_others()
        if asked is not None:
            self._ask(asked)
        if self._next is not None and seen.t >= self._next.start:
            self._start(self._next)
        if not 0.0 <= seen.t - self._commanded < PERIOD:
            target = self._follower.target(seen.t, seen.values)
            if target is not None:
                self._commanded = seen.t
                self._command.position[:] = target
                self._to_command.publish(self._command.at(seen.t))
                self._asker.progress(seen.t, self._hand.joint_names, target, seen.values)
        if self._follower.phase is not before:
            self._say()
        if self._follower.phase is not Phase.FOLLOWING:
            self._asker.ended(self._follower.phase, self._follower.why, on_the_way=left > 0.0)
            self._asker = IGNORED

    def _read(self, message: JointTrajectory) -> tuple[float, Waypoints | None]:
        """Return :func:`read_motion`; a malformed message is also reported as a refusal."""
        try:
            return read_motion(message)
        except BadMessage as error:
            self._say(str(error))
            raise

    def ask(self, request: Request) -> bool:
        """Accept a request, from any thread; return True if the node is active."""
        return self.in_worker(lambda: self._take_in(request))

    def finish(self) -> None:
        for asker in (self._asker, *(r.asker for r in (self._next, self._early) if r is not None)):
            asker.ended(Phase.CANCELLED, "the trajectory node ends")

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        f = self._follower
        values = {"phase": f.phase.value, "error": f.error, "left": f.left}
        if self._seen is None:
            return WARN, self.silent(self._joints), values
        return LEVELS.get(f.phase, OK), f.why or f.phase.value, values

    def _stay_until_ready(self, seen: JointSample) -> Request | None:
        """Return the motion of the file once the servo is on and ``heard_on`` has a subscriber; until
        then command the measured angles, because the servo needs a command to turn on."""
        now, params = time.monotonic(), self.params(TrajectoryParams)
        self._torque_since = np.inf if seen.limp else min(self._torque_since, now)
        self._limp_since = min(self._limp_since, now) if seen.limp else np.inf
        if 0.0 < params.torque_within <= now - self._limp_since:
            asked, self._from_file = self._from_file, None
            why = f"no torque for {params.torque_within:g} s; the log of the node hand says why"
            asked.asker.ended(Phase.FAILED, why)
            return None
        topic = params.heard_on
        if now >= self._torque_since and (
            not topic or self.count_subscribers(topic) or now - self._torque_since >= UNHEARD
        ):
            asked, self._from_file = self._from_file, None
            return asked
        if not 0.0 <= seen.t - self._commanded < PERIOD:
            self._commanded = seen.t
            self._command.position[:] = np.clip(seen.values, self._hand.lower, self._hand.upper)
            self._to_command.publish(self._command.at(seen.t))
        return None

    def _take_in(self, request: Request) -> None:
        if self._early is not None:
            self._early.asker.ended(Phase.CANCELLED, TAKEN_OVER)
        self._early = request

    def _forget(self) -> None:
        """Drop a request for which no joint angles came."""
        if self._early is not None and time.monotonic() - self._early.came > EARLY:
            self._refuse(self._early, "no joint angles")
            self._early = None

    def _ask(self, request: Request) -> None:
        if self._next is not None:
            self._next.asker.ended(Phase.CANCELLED, TAKEN_OVER)
        self._next = None
        if request.motion is None:
            self._follower.cancel(self._seen.values)
        elif request.start > self._seen.t:
            self._next = request
        else:
            self._start(request)

    def _start(self, request: Request) -> None:
        self._next = None
        try:
            self._follower.take(request.motion, self._seen.t, self._seen.values)
        except ConfigError as error:
            self._refuse(request, str(error))
            return
        self._follower.params = request.tolerances or self.params(FollowParams)
        self._asker.ended(Phase.CANCELLED, TAKEN_OVER)
        self._asker = request.asker

    def _refuse(self, request: Request, why: str) -> None:
        self.drop("joint_trajectory", why)
        self._say(why)
        request.asker.ended(Phase.IDLE, why)

    def _yield_to_others(self) -> None:
        """Stop holding if another node commands the joints after a motion."""
        other = self._commands.take()
        if other is None or self._follower.phase is Phase.FOLLOWING:
            return
        if self._follower.phase is not Phase.IDLE and not np.array_equal(
            other.values, self._command.position
        ):
            self._follower.release()

    def _say(self, refused: str = "") -> None:
        f = self._follower
        level = DiagnosticStatus.ERROR if refused else LEVELS.get(f.phase, OK)
        message = DiagnosticStatus(level=level, name=self.get_fully_qualified_name(), message=f.phase.value)
        message.values = [
            KeyValue(key="why", value=f"refused: {refused}" if refused else f.why),
            KeyValue(key="error", value=f"{f.error:.6g}"),
        ]
        self._to_state.publish(message)


class _EndsNode(Asker):
    """Ends the node with a motion, with exit code 0 if it is done."""

    def __init__(self, node: TrajectoryNode) -> None:
        self._node = node

    def ended(self, phase: Phase, why: str, *, on_the_way: bool = False) -> None:
        print(f"the motion is {phase.value}{f': {why}' if why else ''}", flush=True)
        self._node.end(0 if phase is Phase.DONE else 1)


main = partial(run_node, TrajectoryNode)
