"""The trajectory node: plays motions of the joints that somebody else planned or recorded.

``joint_trajectory`` (trajectory_msgs/JointTrajectory) takes what the joint trajectory controller of
ros2_control takes on its topic: points with positions and, or not, velocities, of some or all
joints; a stamp in the future delays the start. A later one takes over from where the running one
has come to, one without points stops it. At the end the joints are held, until somebody else
commands them. ``joint_trajectory/state`` (diagnostic_msgs/DiagnosticStatus) says what becomes of
it: idle, following, done, failed, cancelled. Where control_msgs is installed the same is asked for
by the action ``joint_trajectory/follow_joint_trajectory`` (:mod:`.trajectory_action`). The hand's
own limits, its watchdog and its consent stand behind all this as behind every command.

With the parameter ``motion`` the node plays one from a file, and ends with it. It waits until the
hand has torque, so on hardware until somebody enables it, and for whoever is to hear what comes of
it: programs that start together take seconds to find each other. Meanwhile it asks the joints to
stay where they are.
"""

from __future__ import annotations

import pathlib
import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from dexstack.config import param
from dexstack.errors import ConfigError
from dexstack.hand.trajectory import Follower, FollowParams, Phase
from dexstack.hand.trajectory import read_motion as read_file
from dexstack.model import HAND_NAMES
from dexstack.model.hand import load_hand
from dexstack.nodes.common import OK, PATIENCE, WARN, StackNode, run_node
from dexstack.nodes.trajectory_action import NOBODY, Asker, Request, read_motion, serve
from dexstack.nodes.wire import COMMAND, LATCHED, SENSOR, JointReader, JointWriter, WaitSet
from dexstack.process.history import JointSample

PERIOD = 0.01
"""Time between two commands [s]."""
EARLY = 1.0
"""So long a trajectory waits for the first joint angles [s]."""
UNHEARD = 10.0
"""A motion of a file waits no longer for a listener, once the hand has torque [s]."""
TAKEN_OVER = "another trajectory took over"
LEVELS = {Phase.FAILED: DiagnosticStatus.ERROR, Phase.CANCELLED: WARN}


@dataclass(frozen=True)
class TrajectoryParams:
    """Parameters of the trajectory node, beside its tolerances."""

    hand: str = param("right", f"which hand: {HAND_NAMES}")
    motion: str = param(
        "",
        "file of a motion that is played once the hand has torque, and with which the node ends; empty: none",
    )
    heard_on: str = param(
        "",
        "topic that somebody must listen to before the file's motion begins; it waits 10 s at most; empty: at once",
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
        self._asked = self.newest(JointTrajectory, "joint_trajectory", COMMAND, read_motion)
        self._joints = self.newest(JointState, "joint_states", SENSOR, JointReader(names, "position"))
        self._torques = self.newest(JointState, "joint_states", SENSOR, JointReader(names, "effort"))
        self._commands = self.newest(JointState, "joint_command", COMMAND, JointReader(names, "position"))
        self._wait = WaitSet(self, self._joints)
        self._command = JointWriter(names, "position")
        self._to_command = self.create_publisher(JointState, "joint_command", COMMAND)
        self._to_state = self.create_publisher(DiagnosticStatus, "joint_trajectory/state", LATCHED)

    def begin(self) -> None:
        self._follower = Follower(self._hand, self.params(FollowParams))
        self._seen: JointSample | None = None
        self._next: Request | None = None
        """What begins later."""
        self._early: Request | None = None
        """What was asked for before anybody knew where the joints are."""
        self._asker = NOBODY
        """Who asked for what runs."""
        self._commanded = -np.inf
        file = self.params(TrajectoryParams).motion
        self._torque_since = np.inf
        self._from_file = Request(0.0, read_file(pathlib.Path(file)), asker=_EndsNode(self)) if file else None
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
        self._mind_others()
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
            self._asker = NOBODY

    def ask(self, request: Request) -> bool:
        """Take a request in, from any thread; whether it was."""
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
        """The motion of the file where the servo is on and is heard; until then commands that move
        nothing, because a servo turns on with one."""
        torques, now = self._torques.take(), time.monotonic()
        if torques is not None and not np.any(torques.values):
            self._torque_since = np.inf
        elif torques is not None:
            self._torque_since = min(self._torque_since, now)
        topic = self.params(TrajectoryParams).heard_on
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
        """Nothing moves long after it was asked for because a hand turns up."""
        if self._early is not None and time.monotonic() - self._early.came > EARLY:
            self._refuse(self._early, "nobody knows where the joints are")
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

    def _mind_others(self) -> None:
        """Where somebody else commands the joints after the end of a motion, they are his."""
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
    """The node ends with a motion: 0 if it is done."""

    def __init__(self, node: TrajectoryNode) -> None:
        self._node = node

    def ended(self, phase: Phase, why: str, *, on_the_way: bool = False) -> None:
        print(f"the motion is {phase.value}{f': {why}' if why else ''}", flush=True)
        self._node.end(0 if phase is Phase.DONE else 1)


def main() -> int:
    return run_node(TrajectoryNode)


if __name__ == "__main__":
    sys.exit(main())
