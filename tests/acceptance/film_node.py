"""The film node: plays a film in place of camera and hand, and records the estimated poses.

Used by ``python -m tests.acceptance.pose_estimator``. Pictures are sent as by a RealSense's driver
(rgb8, reliable), with camera_info, joint angles and a goal, so that estimator, contact detector and
planner do their full work. The time of a picture runs from just before it is handed to DDS until
the estimator hands its pose to DDS (source time stamp).
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from sensor_msgs.msg import CameraInfo, Image, JointState
from std_msgs.msg import Float64MultiArray

from dexstack.config import param
from dexstack.model import HAND_NAMES
from dexstack.model.hand import load_hand
from dexstack.nodes.common import OK, PATIENCE, StackNode, run_node
from dexstack.nodes.images import camera_message, image_message
from dexstack.nodes.wire import (
    COMMAND,
    LATCHED,
    RECENT,
    REPORTS,
    STATE,
    WORLD,
    JointWriter,
    WaitSet,
    fill_pose,
    read_pose,
    set_stamp,
    stamp_nanoseconds,
)
from dexstack.perception.camera import CameraModel
from dexstack.process.memory import keep_picture_memory
from tests.acceptance.film import read_film

AFTERGLOW = 2.0
"""Time to wait for the last poses and the estimator's next report [s]."""
LISTENERS = {"camera/color/image_raw": 1, "joint_states": 2, "task/goal": 1}
"""Number of subscribers to wait for: estimator, contact detector and planner."""


@dataclass(frozen=True)
class FilmParams:
    """Parameters of the film node."""

    folder: str = param(".", "folder of the film")
    result: str = param("film-result.npz", "file for the measurements")
    hand: str = param("right", f"which hand: {HAND_NAMES}")
    goal: tuple[float, ...] = param((0.0, 0.0, 0.06, 1.0, 0.0, 0.0, 0.0), "goal pose for the planner")
    frame_rate: float = param(30.0, "pictures per second", 1.0, 120.0)


class FilmNode(StackNode):
    """The film node; see the module's docstring."""

    def __init__(self) -> None:
        super().__init__("film", FilmParams)

    def configure(self) -> None:
        p = self.params(FilmParams)
        cv2.setNumThreads(1)
        self._film = read_film(Path(p.folder))
        height, width = self._film.pictures.shape[1:]
        self._camera = CameraModel(width, height, self._film.K, np.zeros(0))
        self._joints = JointWriter(load_hand(p.hand).joint_names, "position")
        self._poses = self.newest(PoseWithCovarianceStamped, "object_pose", RECENT, read_pose)
        self._solves = self.newest(Float64MultiArray, "mpc/solve_times", REPORTS, lambda message: message)
        self._reports = self.newest(DiagnosticArray, "/diagnostics", REPORTS, lambda message: message)
        self._wait = WaitSet(self, self._poses)
        self._to_image = self.create_publisher(Image, "camera/color/image_raw", COMMAND)
        self._to_info = self.create_publisher(CameraInfo, "camera/color/camera_info", COMMAND)
        self._to_joints = self.create_publisher(JointState, "joint_states", STATE)
        self._to_goal = self.create_publisher(PoseStamped, "task/goal", LATCHED)

    def begin(self) -> None:
        self._k = 0
        self._start = np.inf
        n = len(self._film)
        self._sent, self._answered = np.full(n, np.nan), np.full(n, np.nan)
        self._late = np.zeros(n)
        self._pose, self._covariance = np.full((n, 7), np.nan), np.full((n, 6, 6), np.nan)
        self._stamps: dict[int, int] = {}
        self._processed = 0
        self._solve_s: list[np.ndarray] = []

    def work(self) -> None:
        p = self.params(FilmParams)
        if not np.isfinite(self._start):
            publishers = (self._to_image, self._to_joints, self._to_goal)
            if all(to.get_subscription_count() >= LISTENERS[to.topic_name.lstrip("/")] for to in publishers):
                self._show_goal(p.goal)
                self._start = time.monotonic() + 0.5
            self._stop.wait(PATIENCE)
            return
        due = (
            self._start + self._k / p.frame_rate
            if self._k < len(self._film)
            else self._start + len(self._film) / p.frame_rate + AFTERGLOW
        )
        message = self._make(self._k) if self._k < len(self._film) else None  # converted before it is due
        while (left := due - time.monotonic()) > 0.0 and not self.stopping:
            if self._wait.wait(min(left, PATIENCE)):
                self._note_answers()
        if message is None:
            self._note_answers()
            self._write()
            return
        self._late[self._k] = time.monotonic() - due
        self._show(self._k, message)
        self._k += 1

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        return OK, f"picture {self._k} of {len(self._film)}", {"poses": len(self._stamps)}

    def _show_goal(self, pose: tuple[float, ...]) -> None:
        goal = PoseStamped()
        goal.header.frame_id = WORLD
        set_stamp(goal.header.stamp, float(self._film.t[0]))
        fill_pose(goal.pose, pose)
        self._to_goal.publish(goal)

    def _make(self, k: int) -> Image:
        stamp = CameraInfo().header.stamp
        self._stamps[set_stamp(stamp, float(self._film.t[k]))] = k
        return image_message(stamp, cv2.cvtColor(np.asarray(self._film.pictures[k]), cv2.COLOR_GRAY2RGB))

    def _show(self, k: int, message: Image) -> None:
        self._joints.position[:] = self._film.q[k]
        self._to_joints.publish(self._joints.at(float(self._film.t[k])))
        self._to_info.publish(camera_message(message.header.stamp, self._camera))
        self._sent[k] = time.time()
        self._to_image.publish(message)

    def _note_answers(self) -> None:
        for message, info in self._poses.take_raw():
            k = self._stamps.get(stamp_nanoseconds(message.header.stamp))
            if k is not None:
                self._answered[k] = 1e-9 * info["source_timestamp"]
                self._pose[k] = read_pose(message).pose
                self._covariance[k] = np.reshape(message.pose.covariance, (6, 6))
        self._solve_s += [np.array(message.data).reshape(-1, 3) for message in self._solves.take_all()]
        for message in self._reports.take_all():
            values = {
                kv.key: kv.value
                for status in message.status
                if status.name.endswith("/pose_estimator")
                for kv in status.values
            }
            self._processed = int(values.get("pictures", self._processed))

    def _write(self) -> None:
        np.savez(
            self.params(FilmParams).result,
            processed=self._processed,
            seconds=self._answered - self._sent,
            late=self._late,
            pose_WO=self._pose,
            covariance=self._covariance,
            solves=np.concatenate([np.empty((0, 3)), *self._solve_s]),
        )
        self.end(0)
        self._stop.set()


def main() -> int:
    keep_picture_memory()
    return run_node(FilmNode)


if __name__ == "__main__":
    sys.exit(main())
