"""The monitor node: shows the graph in a browser and passes on what the user does there.

It listens, and calls what the graph has anyway: the services ``hand/stop``, ``hand/enable`` and
``task/restart``, the parameters ``goal_yaw`` of the task, ``real_time_factor`` and ``plant`` of the
simulator, and the topic ``goal_pose``. Whoever can open the page can move the hand: it is served to
this machine only unless ``host`` says otherwise, and only to those who know its token
(:mod:`dexstack.report.gate`). While no browser looks, nothing is drawn. The process lowers its own
priority.
"""

from __future__ import annotations

import math
import sys
import threading
import time
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from rcl_interfaces.srv import SetParameters
from rclpy.client import Client
from rclpy.parameter import Parameter
from sensor_msgs.msg import Image, JointState, PointCloud2
from std_msgs.msg import String
from std_srvs.srv import Trigger
from visualization_msgs.msg import Marker, MarkerArray

from dexstack.config import param
from dexstack.nodes.common import OK, PATIENCE, run_node, yield_to_others
from dexstack.nodes.console import read_state
from dexstack.nodes.health import Health
from dexstack.nodes.scene import SceneNode
from dexstack.nodes.wire import (
    COMMAND,
    LATCHED,
    REPORTS,
    SENSOR,
    WORLD,
    BadMessage,
    ContactSample,
    JointReader,
    Newest,
    PoseSample,
    WaitSet,
    fill_pose,
    read_contacts,
    read_pose,
)
from dexstack.plants import PLANTS
from dexstack.process.history import JointSample
from dexstack.report.canvas import Patches
from dexstack.report.page import Controls, Page, ms

SLOW_PERIOD = 0.5
"""Wall time between two refreshes of numbers, plots and the list of nodes [s]."""
ANSWER_TIMEOUT = 3.0
PLANT_TIMEOUT = 600.0
"""Some engines compile for a minute or two when they are used for the first time."""


@dataclass(frozen=True)
class MonitorParams:
    """Parameters of the monitor node."""

    host: str = param(
        "127.0.0.1", "address to serve the page on; 0.0.0.0: to everybody who reaches this machine"
    )
    port: int = param(8080, "port of the page; the next free one where it is taken", 1, 65535)
    rate: float = param(20.0, "pictures per second", 0.5, 60.0)
    token: str = param(
        "", "what whoever opens the page has to know, at the end of its address; empty: a new one, in the log"
    )
    open: bool = param(False, "open the page in this machine's browser")


class MonitorNode(SceneNode):
    """See the module's docstring."""

    LIVE = frozenset({"rate"})

    def __init__(self) -> None:
        super().__init__("monitor", MonitorParams)
        self.page: Page | None = None

    def configure(self) -> None:
        p = self.params(MonitorParams)
        robot, obj, _ = self.make_task().scene()
        names = robot.joint_names
        self._poses = self.newest(PoseWithCovarianceStamped, "object_pose", SENSOR, read_pose)
        self._joints = self.newest(JointState, "joint_states", SENSOR, JointReader(names, "position"))
        self._goals = self.newest(PoseStamped, "task/goal", LATCHED, read_pose)
        self._contacts = self.newest(PointCloud2, "contacts", SENSOR, read_contacts)
        self._predictions = self.newest(MarkerArray, "mpc/prediction", COMMAND, read_path)
        self._states = self.newest(String, "rollout/state", LATCHED, read_state)
        self._to_goal = self.create_publisher(PoseStamped, "goal_pose", COMMAND)
        self._health = Health(self)
        self._reports = self.newest(DiagnosticArray, "/diagnostics", REPORTS, self._health.note)
        self._wait = WaitSet(self, self._poses)
        self._triggers = {
            name: self.create_client(Trigger, name) for name in ("hand/stop", "hand/enable", "task/restart")
        }
        self._setters = {
            name: self.create_client(SetParameters, f"{name}/set_parameters")
            for name in ("task", "simulator")
        }
        if self.page is not None:
            self.page.close()
        controls = Controls(
            stop=lambda: self._trigger("hand/stop"),
            enable=lambda: self._trigger("hand/enable"),
            restart=lambda: self._trigger("task/restart"),
            set_goal=lambda degrees: self._set("task", "goal_yaw", math.radians(degrees)),
            ask_pose=self._ask_pose,
            set_factor=lambda factor: self._set("simulator", "real_time_factor", factor),
            plants=tuple(PLANTS),
            set_plant=self._set_plant,
        )
        self.page = Page(p.host, p.port, robot, obj, controls, p.token)
        self.get_logger().info(f"the monitor is at {self.page.url}")
        if p.open:
            threading.Thread(target=webbrowser.open, args=(self.page.url,), daemon=True).start()

    def begin(self) -> None:
        self._pose: PoseSample | None = None
        self._q: JointSample | None = None
        self._goal: PoseSample | None = None
        self._state: dict[str, Any] = {"phase": "waiting"}
        self._shown = self._refreshed = 0.0
        self._on_demand: list[tuple[Newest[Any], Callable[[Any], None]]] = []

    def work(self) -> None:
        self._wait.wait(PATIENCE)
        now = time.monotonic()
        left = self._shown + 1.0 / self.params(MonitorParams).rate - now
        if left > 0.0:
            self._stop.wait(min(left, PATIENCE))
            return
        self._shown = now
        self._reports.take()
        state = self._states.take()
        if state is not None:
            if "goal_yaw" not in self._state:
                self.page.offer_goal(round(math.degrees(state["goal_yaw"])))
            self._state = state
        self._q = self._joints.take() or self._q
        self._pose = pose = self._poses.take() or self._pose
        self._goal = goal = self._goals.take() or self._goal
        if pose is not None:
            self.time = pose.t
        if not self.page.watched:
            self._look(False)
            return
        self.page.show_state(None if self._q is None else self._q.values, None if pose is None else pose.pose)
        contacts: ContactSample | None = self._contacts.take()
        if contacts is not None:
            self.page.show_contacts(contacts.p_W, contacts.nhat_W, contacts.phi)
        prediction = self._predictions.take()
        if prediction is not None:
            self.page.show_prediction(prediction)
        if now - self._refreshed > SLOW_PERIOD:
            self._refreshed = now
            self._look(True)
            if goal is not None:
                self.page.show_goal(goal.pose)
            self._refresh()

    def finish(self) -> None:
        self._look(False)
        if self.page is not None and not self.context.ok():
            self.page.close()

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        return OK, self.page.url, {"browsers": len(self.page.server.get_clients())}

    def _look(self, look: bool) -> None:
        """Show what others draw only for who looks: the picture in which the estimator marked what
        it found, and the plant's patches."""
        if look and not self._on_demand:
            self._on_demand = [
                (self.newest(Image, "object_pose/image", SENSOR, read_picture), self.page.show_picture),
                (self.newest(MarkerArray, "contact_patch", COMMAND, read_patches), self.page.show_patches),
            ]
        elif not look:
            for newest, _ in self._on_demand:
                for subscription in newest.subscriptions:
                    self.destroy_subscription(subscription)
            self._on_demand = []
        for newest, show in self._on_demand:
            value = newest.take()
            if value is not None:
                show(value)

    def _refresh(self) -> None:
        """Numbers, plots and the list of nodes."""
        s, mpc, page = self._state, self._health.values("mpc"), self.page
        lines = [f"**{s['phase']}**"]
        if "yaw" in s:
            lines[0] += f", {s['elapsed']:.1f} s, {s.get('goals_reached', 0)} reached"
            lines.append(f"yaw {math.degrees(s['yaw']):+.1f}° of {math.degrees(s['goal_yaw']):+.0f}°")
            lines.append(f"error {s['error']:.3f} rad, {1e3 * s['position_error']:.0f} mm")
            page.plot("error [rad]", s["t"], s["error"])
        if "solve_p50" in mpc:
            lines.append(
                f"MPC {float(mpc['rate_hz']):.0f} Hz, solve {ms(mpc, 'solve_p50'):.1f} / {ms(mpc, 'solve_p99'):.1f} ms"
            )
            page.plot("solve time [ms]", self.time, ms(mpc, "solve_p50"), ms(mpc, "solve_p99"))
        rates = [
            float(self._health.values(name).get("rate_hz", "nan"))
            for name in ("mpc", "contact_detector", "hand")
        ]
        if not all(map(math.isnan, rates)):
            page.plot("rate [Hz]", self.time, rates[0], rates[1], rates[2] / 10)
        if "plant" in (simulator := self._health.values("simulator")):
            page.offer_plant(simulator["plant"])
        page.show_summary(lines)
        rows = self._health.rows()
        page.show_nodes(rows, {name: self._health.values(name) for name, _, _ in rows})
        page.draw_plots()

    # --- what the user does -------------------------------------------------------------------------------------------------------

    def _trigger(self, name: str) -> str:
        answer = self._call(self._triggers[name], Trigger.Request())
        if isinstance(answer, str):
            return answer
        return f"{name}: {'done' if answer.success else answer.message or 'refused'}"

    def _ask_pose(self, pose_WO: np.ndarray) -> str:
        if not self._to_goal.get_subscription_count():
            return "nobody listens to goal_pose"
        message = PoseStamped()
        message.header.frame_id = WORLD
        fill_pose(message.pose, pose_WO)
        self._to_goal.publish(message)
        return "goal_pose: asked"

    def _set_plant(self, name: str) -> str:
        """The same rollout again, in another engine."""
        answer = self._set("simulator", "plant", name, PLANT_TIMEOUT)
        return f"{answer}; {self._trigger('task/restart')}" if answer == "plant: set" else answer

    def _set(self, node: str, name: str, value: float | str, timeout: float = ANSWER_TIMEOUT) -> str:
        request = SetParameters.Request(parameters=[Parameter(name, value=value).to_parameter_msg()])
        answer = self._call(self._setters[node], request, timeout)
        if isinstance(answer, str):
            return answer
        (result,) = answer.results
        return f"{name}: {'set' if result.successful else result.reason}"

    def _call(self, client: Client, request: Any, timeout: float = ANSWER_TIMEOUT) -> Any:
        """The answer, or why there is none; waits in the thread of the page that asked."""
        if not client.service_is_ready():
            return f"nobody offers {client.srv_name}"
        done = threading.Event()
        future = client.call_async(request)
        future.add_done_callback(lambda _: done.set())
        return future.result() if done.wait(timeout) else f"no answer from {client.srv_name}"


def read_path(message: MarkerArray) -> np.ndarray:
    """The points (n, 3) of the first line of markers."""
    for marker in message.markers:
        if marker.points:
            return _points(marker)
    raise BadMessage("no line")


def read_patches(message: MarkerArray) -> Patches:
    """The triangles with their colours and the arrows of
    :func:`dexstack.nodes.patch_markers.patch_markers`."""
    surfaces = [m for m in message.markers if m.type == Marker.TRIANGLE_LIST and m.points]
    if any(len(m.colors) != len(m.points) or len(m.points) % 3 for m in surfaces):
        raise BadMessage("a surface without three coloured corners for each triangle")
    corners = [_points(m) for m in surfaces]
    colours = [np.array([(c.r, c.g, c.b) for c in m.colors]) for m in surfaces]
    arrows = [_points(m) for m in message.markers if m.type == Marker.ARROW and len(m.points) == 2]
    none = np.empty((0, 3))
    return Patches(
        np.concatenate([none, *corners]), np.concatenate([none, *colours]), np.reshape(arrows, (-1, 2, 3))
    )


def _points(marker: Marker) -> np.ndarray:
    """(n, 3) in the world."""
    if marker.header.frame_id not in (WORLD, ""):
        raise BadMessage(f"frame '{marker.header.frame_id[:40]}', '{WORLD}' expected")
    points = np.array([(p.x, p.y, p.z) for p in marker.points])
    if not np.isfinite(points).all():
        raise BadMessage("a non-finite point")
    return points


def read_picture(message: Image) -> np.ndarray:
    """The pixels (height, width, 3) uint8 of a picture in rgb8."""
    if (
        message.encoding != "rgb8"
        or len(message.data) != message.height * message.width * 3
        or not len(message.data)
    ):
        raise BadMessage(
            f"a picture of {len(message.data)} bytes in '{message.encoding[:20]}', rgb8 expected"
        )
    return np.frombuffer(message.data, np.uint8).reshape(message.height, message.width, 3)


def main() -> int:
    yield_to_others()
    return run_node(MonitorNode)


if __name__ == "__main__":
    sys.exit(main())
