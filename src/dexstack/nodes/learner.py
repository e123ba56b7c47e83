"""Learner: learns θ of the planner's model during rollouts and publishes it for the planner.

For every object pose during a rollout it keeps a sample (pose, joint angles, joint command); samples
between rollouts (the reset of hand and object) are discarded. Every ``update_every`` samples a
separate thread cuts them into transitions and adds these to the ring buffer; every HELD_OUT-th chunk
goes to a second buffer instead. It takes gradient steps, and publishes θ on ``learner/theta``
(latched) if it predicts the held-out transitions better than the θ that ``mpc/theta_version`` names;
the ``mpc`` node takes it between two goals. With ``results`` every published θ is also written to
``theta.yaml`` in that folder.

The process lowers its priority in favour of planner and servo.
"""

from __future__ import annotations

import math
import queue
import threading
import traceback
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseWithCovarianceStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import String, UInt32

from dexstack.contact.detector import ContactDetector, DetectorParams
from dexstack.control.factory import PlannerParams
from dexstack.control.planners.gauss_newton import MpcParams
from dexstack.control.planners.sampling import SamplingParams
from dexstack.control.theta_file import ThetaFile, make_theta, save_theta
from dexstack.graph.parameters import LearnerNodeParams
from dexstack.learning.loss import LearnerParams
from dexstack.learning.planner import planner_learner
from dexstack.learning.transitions import MATCH, RingBuffer, at_rest, cut
from dexstack.nodes.common import EXIT_FAILED, OK, PATIENCE, WARN, run_node
from dexstack.nodes.console import read_state
from dexstack.nodes.scene import SceneNode
from dexstack.nodes.theta import THETA_TOPIC, VERSION_TOPIC, theta_message
from dexstack.nodes.wire import COMMAND, LATCHED, RECENT, SENSOR, JointReader, PoseSample, WaitSet
from dexstack.process.compilation import use_compilation_cache
from dexstack.process.history import JointHistory, JointSample

HELD_OUT = 4
"""One chunk of this number is not learned from, but judges θ."""


class Samples:
    """Samples of running rollouts (pose, joint angles, joint command), cut into chunks for learning.

    Args:
        step: time step of the learned transitions [s].
    """

    def __init__(self, step: float) -> None:
        self.joints = JointHistory()
        self.command: JointSample | None = None
        self.fresh = 0
        """Number of samples since the last chunk."""
        self._step, self._start, self._rollout = step, math.nan, ()
        self._rows: list[tuple[float, np.ndarray, np.ndarray, np.ndarray]] = []

    def take_state(self, state: dict[str, Any]) -> dict[str, np.ndarray] | None:
        """Start a new sequence of samples when a rollout begins; return the last chunk of the old one."""
        rollout = (state["phase"], state["attempt"])
        if rollout == self._rollout:
            return None
        chunk = self.chunk(keep=False)
        self._start = state["t"] if state["phase"] == "running" else math.nan
        self._rollout = rollout
        return chunk

    def take_pose(self, pose: PoseSample, timeout: float) -> None:
        """Add a sample if a rollout is running and a command and joint angles are known.

        Args:
            timeout: largest age of the joint angles relative to the pose [s].
        """
        running = pose.t >= self._start  # the start is NaN without a rollout
        if not running or self.command is None or (self._rows and pose.t <= self._rows[-1][0]):
            return
        joints = self.joints.at(pose.t, timeout)
        if joints is None:
            return
        command = self.command.values
        command = np.full_like(command, np.nan) if joints.limp else command
        self._rows.append((pose.t, pose.pose, joints.values, command))
        self.fresh += 1

    def chunk(self, *, keep: bool) -> dict[str, np.ndarray] | None:
        """Return all samples of the sequence; None without fresh ones.

        Args:
            keep: whether samples less than a step old start the next chunk.
        """
        chunk = None
        if self.fresh:
            t, pose, q, command = (np.array(column) for column in zip(*self._rows, strict=True))
            chunk = {"t": t, "pose_WO": pose, "q": q, "q_command": command}
        last = self._rows[-1][0] if self._rows else 0.0
        # A transition starts at each sample that has a later one a step away; the sample before the
        # first gives the velocity.
        started = [i for i, row in enumerate(self._rows) if row[0] <= last - (1 - MATCH) * self._step]
        self._rows = self._rows[started[-1] :] if keep and started else []
        self.fresh = 0
        return chunk


class LearnerNode(SceneNode):
    BACKGROUND = True
    LIVE = frozenset({"update_every", "input_timeout"})

    def __init__(self) -> None:
        super().__init__(
            "learner",
            LearnerNodeParams,
            LearnerParams,
            PlannerParams,
            MpcParams,
            SamplingParams,
            DetectorParams,
        )

    def configure(self) -> None:
        use_compilation_cache()
        planner, self._step = self.params(PlannerParams), self.params(MpcParams).step
        self._robot, self._obj, _ = self.make_task().setup()
        self._first = make_theta(self._robot, self._obj, planner, self._step)
        self._cover = np.asarray(self._first.cover, float)
        self._detector = ContactDetector(self._robot, self._obj, self.params(DetectorParams))
        self._model = planner.model
        self._learner = planner_learner(self._robot, self._obj, self._first, self.blocks())
        pose, q = np.array([0, 0, 0.1, 1, 0, 0, 0]), self._robot.home
        self._learner.warm_up(at_rest(pose, q, self._detector.detect(pose, q)))
        self._buffer, self._held_out = (RingBuffer(self.params(LearnerParams).buffer) for _ in range(2))
        self._proposed = {0: self._learner.free}
        names = self._robot.joint_names
        self._poses = self.newest(PoseWithCovarianceStamped, "object_pose", SENSOR, self.read_pose)
        self._joints = self.newest(JointState, "joint_states", RECENT, JointReader(names, "position"))
        self._commands = self.newest(JointState, "joint_command", COMMAND, JointReader(names, "position"))
        self._states = self.newest(String, "rollout/state", LATCHED, read_state)
        self._versions = self.newest(UInt32, VERSION_TOPIC, LATCHED, lambda message: message.data)
        self._wait = WaitSet(self, self._poses, self._states)
        self._to_theta = self.create_publisher(String, THETA_TOPIC, LATCHED)

    def begin(self) -> None:
        self._samples = Samples(self._step)
        self._transitions = self._updates = self._refused = self._proposals = self._in_use = 0
        self._chunk = 0
        self._loss = self._held_out_loss = math.nan
        self._chunks: queue.SimpleQueue[dict[str, np.ndarray] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._learn, name="learning")
        self._thread.start()

    def work(self) -> None:
        self._wait.wait(PATIENCE)
        samples, p = self._samples, self.params(LearnerNodeParams)
        version, state = self._versions.take(), self._states.take()
        if version in self._proposed:
            self._in_use = version
        if state is not None:
            self._hand_over(samples.take_state(state))
        for angles in self._joints.take_all():
            samples.joints.add(angles)
        samples.command = self._commands.take() or samples.command
        if (pose := self._poses.take()) is not None:
            self.time = pose.t
            samples.take_pose(pose, p.input_timeout)
            if samples.fresh >= p.update_every:
                self._hand_over(samples.chunk(keep=True))

    def _hand_over(self, chunk: dict[str, np.ndarray] | None) -> None:
        if chunk is not None:
            self._chunks.put(chunk)

    def finish(self) -> None:
        self._chunks.put(None)
        self._thread.join()

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        values = {
            "transitions": self._transitions,
            "updates": self._updates,
            "loss": self._loss,
            "held_out_loss": self._held_out_loss,
            "proposals": self._proposals,
            "refused_steps": self._refused,
        }
        if not self._updates:
            return OK, "no update yet", values
        level = OK if math.isfinite(self._loss) else WARN
        return level, f"update {self._updates}, loss {self._loss:.3g}", values

    def _learn(self) -> None:
        """Run the learning thread."""
        rng = np.random.default_rng(self.params(LearnerNodeParams).seed)
        try:
            while (chunk := self._chunks.get()) is not None:
                new = cut(chunk, self._step, self._cover, self._detector.detect)
                if new is None or self.stopping:
                    continue
                self._chunk += 1
                if self._chunk % HELD_OUT == 0:
                    self._held_out.add(new)
                    continue
                self._buffer.add(new)
                self._transitions += new.count
                update = self._learner.update(self._buffer.all(), rng, lambda: self.stopping)
                self._refused += update.refused
                self._loss = update.loss_after
                self._updates += 1
                if self._held_out.count:
                    self._judge()
        except Exception:
            self.get_logger().fatal(traceback.format_exc())
            self.end(EXIT_FAILED)

    def _judge(self) -> None:
        """Publish θ if it predicts held-out transitions better than the planner's."""
        data, used = self._held_out.all(), self._proposed[self._in_use]
        self._held_out_loss = self._learner.data_loss(data)
        if self._held_out_loss < self._learner.data_loss(data, used):
            self._proposed[self._updates] = self._learner.free
            self._proposals += 1
            self._publish()

    def _publish(self) -> None:
        theta = self._learner.theta
        about = {"object": self._obj.name, "hand": self._robot.name, "model": self._model, "step": self._step}
        if self.context.ok():
            self._to_theta.publish(
                theta_message(
                    theta, **about, loss=self._loss, transitions=self._transitions, updates=self._updates
                )
            )
        p = self.params(LearnerNodeParams)
        if p.results:
            data = self._buffer.all()
            content = ThetaFile(
                theta,
                **about,
                seed=p.seed,
                date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                data={"transitions": data.count, "sha256": data.digest(), "source": "learner node"},
                metrics={"loss_after": self._loss, "updates": self._updates},
            )
            save_theta(Path(p.results) / "theta.yaml", content)


main = partial(run_node, LearnerNode)
