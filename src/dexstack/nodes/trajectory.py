"""The trajectory node: plays motions of the joints that somebody else planned or recorded.

``joint_trajectory`` (trajectory_msgs/JointTrajectory) takes what the joint trajectory controller of ros2_control takes on its topic: points
with positions and, or not, velocities, of some or all joints; a stamp in the future delays the start. A later one takes over from where the
running one has come to, one without points stops it. At the end the joints are held, until somebody else commands them.
``joint_trajectory/state`` (diagnostic_msgs/DiagnosticStatus) says what becomes of it: idle, following, done, failed, cancelled.
The hand's own limits, its watchdog and its consent stand behind all this as behind every command.
"""

from __future__ import annotations

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
from dexstack.hand.trajectory import Follower, FollowParams, Motion, Phase
from dexstack.model import HAND_NAMES
from dexstack.model.hand import load_hand
from dexstack.nodes.common import OK, PATIENCE, WARN, StackNode, run_node
from dexstack.nodes.wire import COMMAND, LATCHED, SENSOR, BadMessage, JointReader, JointSample, JointWriter, WaitSet, seconds

PERIOD = 0.01
"""Time between two commands [s]."""
EARLY = 1.0
"""So long a trajectory waits for the first joint angles [s]."""
LEVELS = {Phase.FAILED: DiagnosticStatus.ERROR, Phase.CANCELLED: WARN}


@dataclass(frozen=True)
class TrajectoryParams:
    """Parameters of the trajectory node, beside its tolerances."""

    hand: str = param("right", f"which hand: {HAND_NAMES}")


class TrajectoryNode(StackNode):
    """See the module's docstring."""

    LIVE = frozenset({"path_tolerance", "goal_tolerance", "goal_time"})

    def __init__(self) -> None:
        super().__init__("trajectory", TrajectoryParams, FollowParams)

    def configure(self) -> None:
        self._hand = load_hand(self.params(TrajectoryParams).hand)
        names = self._hand.joint_names
        self._asked = self.newest(JointTrajectory, "joint_trajectory", COMMAND, read_motion)
        self._joints = self.newest(JointState, "joint_states", SENSOR, JointReader(names, "position"))
        self._commands = self.newest(JointState, "joint_command", COMMAND, JointReader(names, "position"))
        self._wait = WaitSet(self, self._joints)
        self._command = JointWriter(names, "position")
        self._to_command = self.create_publisher(JointState, "joint_command", COMMAND)
        self._to_state = self.create_publisher(DiagnosticStatus, "joint_trajectory/state", LATCHED)

    def begin(self) -> None:
        self._follower = Follower(self._hand, self.params(FollowParams))
        self._seen: JointSample | None = None
        self._next: tuple[float, Motion] | None = None
        """What begins later, and when [s]."""
        self._early: tuple[float, tuple[float, Motion | None]] | None = None
        """What was asked for before anybody knew where the joints are, and when."""
        self._commanded = -np.inf
        self._say()

    def apply(self, block: Any) -> None:
        if isinstance(block, FollowParams):
            self.in_worker(lambda: setattr(self._follower, "params", block))

    def work(self) -> None:
        self._wait.wait(PATIENCE)
        self._seen = seen = self._joints.take() or self._seen
        asked = self._asked.take()
        if asked is not None:
            self._early = time.monotonic(), asked
        if seen is None:
            self._forget()
            return
        asked = None if self._early is None else self._early[1]
        self._early = None
        self.time = seen.t
        before = self._follower.phase
        self._mind_others()
        if asked is not None:
            self._ask(*asked)
        if self._next is not None and seen.t >= self._next[0]:
            self._start(self._next[1])
        if not 0.0 <= seen.t - self._commanded < PERIOD:
            target = self._follower.target(seen.t, seen.values)
            if target is not None:
                self._commanded = seen.t
                self._command.position[:] = target
                self._to_command.publish(self._command.at(seen.t))
        if self._follower.phase is not before:
            self._say()

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        f = self._follower
        values = {"phase": f.phase.value, "error": f.error, "left": f.left}
        if self._seen is None:
            return WARN, self.silent(self._joints), values
        return LEVELS.get(f.phase, OK), f.why or f.phase.value, values

    def _forget(self) -> None:
        """Nothing moves long after it was asked for because a hand turns up."""
        if self._early is not None and time.monotonic() - self._early[0] > EARLY:
            self._early = None
            self.drop("joint_trajectory", "nobody knows where the joints are")
            self._say("nobody knows where the joints are")

    def _ask(self, start: float, motion: Motion | None) -> None:
        self._next = None
        if motion is None:
            self._follower.cancel(self._seen.values)
        elif start > self._seen.t:
            self._next = start, motion
        else:
            self._start(motion)

    def _start(self, motion: Motion) -> None:
        self._next = None
        try:
            self._follower.take(motion, self._seen.t, self._seen.values)
        except ConfigError as error:
            self.drop("joint_trajectory", str(error))
            self._say(str(error))

    def _mind_others(self) -> None:
        """Where somebody else commands the joints after the end of a motion, they are his."""
        other = self._commands.take()
        if other is None or self._follower.phase is Phase.FOLLOWING:
            return
        if self._follower.phase is not Phase.IDLE and not np.array_equal(other.values, self._command.position):
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


def read_motion(message: JointTrajectory) -> tuple[float, Motion | None]:
    """When it begins [s] (0: at once), and what; None: whatever runs is to stop."""
    if not message.points:
        return 0.0, None
    if len({(len(point.positions), len(point.velocities)) for point in message.points}) > 1:
        raise BadMessage("points of different sizes")
    positions, velocities = (np.array([getattr(p, name) for p in message.points], float) for name in ("positions", "velocities"))
    times = np.array([point.time_from_start.sec + 1e-9 * point.time_from_start.nanosec for point in message.points])
    try:
        return seconds(message.header.stamp), Motion(tuple(message.joint_names), times, positions, velocities if velocities.size else None)
    except ConfigError as error:
        raise BadMessage(str(error)) from None


def main() -> int:
    return run_node(TrajectoryNode)


if __name__ == "__main__":
    sys.exit(main())
