"""The film node: plays a film in place of camera and hand, and records the estimated poses.

Used by ``python -m tests.acceptance.pose_estimator`` as ``python -m tests.acceptance.film_node FOLDER
RESULT``. Pictures are sent as by a RealSense's driver (rgb8, reliable), with camera_info, joint angles and
a goal, so that estimator, contact detector and planner do their full work. The time of a picture runs from
just before it is handed to DDS until the estimator hands its pose to DDS (source time stamp).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from rclpy.node import Node
from sensor_msgs.msg import CameraInfo, Image, JointState
from std_msgs.msg import Float64MultiArray

from dexstack.model.hand import load_hand
from dexstack.nodes.images import camera_message, image_message
from dexstack.nodes.wire import (
    COMMAND,
    LATCHED,
    RECENT,
    REPORTS,
    STATE,
    WORLD,
    JointWriter,
    Newest,
    WaitSet,
    fill_pose,
    read_pose,
    set_stamp,
)
from dexstack.perception.camera import CameraModel
from dexstack.process.memory import keep_picture_memory
from tests.acceptance.film import Film, read_film

FRAME_RATE = 30.0
"""Pictures per second."""
AFTERGLOW = 2.0
"""Time to wait for the last poses and the estimator's next report [s]."""
GOAL = (0.0, 0.0, 0.06, 1.0, 0.0, 0.0, 0.0)


class Answers:
    """What estimator and planner publish while the film is played."""

    def __init__(self, node: Node, n: int) -> None:
        def listen(kind: Any, topic: str, qos: Any) -> Newest[Any]:
            return Newest(node, kind, topic, qos, lambda message: message, lambda topic, reason: None)

        self._poses = listen(PoseWithCovarianceStamped, "object_pose", RECENT)
        self._solves = listen(Float64MultiArray, "mpc/solve_times", REPORTS)
        self._reports = listen(DiagnosticArray, "/diagnostics", REPORTS)
        self._wait = WaitSet(node, self._poses)
        self.pictures: dict[int, int] = {}
        """Number of the picture with a stamp [ns]."""
        self.answered, self.processed = np.full(n, np.nan), 0
        self.pose, self.covariance = np.full((n, 7), np.nan), np.full((n, 6, 6), np.nan)
        self.solves = [np.empty((0, 3))]

    def wait_until(self, due: float) -> None:
        """Note answers until a time of the monotonic clock [s]."""
        while (left := due - time.monotonic()) > 0.0:
            if self._wait.wait(min(left, 0.1)):
                self.note()

    def note(self) -> None:
        for message, info in self._poses.take_raw():
            stamp = message.header.stamp
            k = self.pictures.get(stamp.sec * 10**9 + stamp.nanosec)
            if k is not None:
                self.answered[k] = 1e-9 * info["source_timestamp"]
                self.pose[k] = read_pose(message).pose
                self.covariance[k] = np.reshape(message.pose.covariance, (6, 6))
        self.solves += [np.array(message.data).reshape(-1, 3) for message in self._solves.take_all()]
        for status in (s for message in self._reports.take_all() for s in message.status):
            if status.name.endswith("/pose_estimator"):
                values = {kv.key: kv.value for kv in status.values}
                self.processed = int(values.get("pictures", self.processed))


def play(film: Film, node: Node, result: Path) -> None:
    """Play a film and write the answers to a file."""
    n, (height, width) = len(film), film.pictures.shape[1:]
    camera = CameraModel(width, height, film.K, np.zeros(0))
    joints = JointWriter(load_hand("right").joint_names, "position")
    to_image = node.create_publisher(Image, "camera/color/image_raw", COMMAND)
    to_info = node.create_publisher(CameraInfo, "camera/color/camera_info", COMMAND)
    to_joints = node.create_publisher(JointState, "joint_states", STATE)
    to_goal = node.create_publisher(PoseStamped, "task/goal", LATCHED)
    answers, sent, late = Answers(node, n), np.full(n, np.nan), np.zeros(n)
    # estimator; contact detector and planner; planner
    while any(
        to.get_subscription_count() < count for to, count in ((to_image, 1), (to_joints, 2), (to_goal, 1))
    ):
        time.sleep(0.1)
    goal = PoseStamped()
    goal.header.frame_id = WORLD
    set_stamp(goal.header.stamp, float(film.t[0]))
    fill_pose(goal.pose, GOAL)
    to_goal.publish(goal)
    start = time.monotonic() + 0.5
    for k in range(n):
        stamp = CameraInfo().header.stamp
        answers.pictures[set_stamp(stamp, float(film.t[k]))] = k
        message = image_message(stamp, cv2.cvtColor(np.asarray(film.pictures[k]), cv2.COLOR_GRAY2RGB))
        due = start + k / FRAME_RATE
        answers.wait_until(due)
        late[k] = time.monotonic() - due
        joints.position[:] = film.q[k]
        to_joints.publish(joints.at(float(film.t[k])))
        to_info.publish(camera_message(stamp, camera))
        sent[k] = time.time()
        to_image.publish(message)
    answers.wait_until(start + n / FRAME_RATE + AFTERGLOW)
    answers.note()
    np.savez(
        result,
        processed=answers.processed,
        seconds=answers.answered - sent,
        late=late,
        pose_WO=answers.pose,
        covariance=answers.covariance,
        solves=np.concatenate(answers.solves),
    )


def main() -> None:
    keep_picture_memory()
    cv2.setNumThreads(1)
    rclpy.init()
    play(read_film(Path(sys.argv[1])), rclpy.create_node("film"), Path(sys.argv[2]))


if __name__ == "__main__":
    main()
