"""Monitor: shows the graph in a browser and lets the user control it.

The page uses interfaces of the graph: the services ``hand/stop``, ``hand/enable`` and
``task/restart``, the parameters ``goal_yaw`` of the task, ``real_time_factor`` and ``plant`` of the
simulator, and the topic ``goal_pose``. Since a user of the page can move the hand, it is served to
this machine only, unless ``host`` says otherwise, and requires a token
(:mod:`dexstack.report.gate`). Nothing is drawn without a connected browser. The process lowers its
priority.
"""

from __future__ import annotations

import math
import threading
import time
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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
from visualization_msgs.msg import MarkerArray

from dexstack.config import param
from dexstack.nodes.common import OK, PATIENCE, run_node
from dexstack.nodes.console import progress, read_state
from dexstack.nodes.health import Health
from dexstack.nodes.markers import read_patches, read_path
from dexstack.nodes.scene import SceneNode
from dexstack.nodes.wire import (
    COMMAND,
    LATCHED,
    REPORTS,
    SENSOR,
    WORLD,
    BadMessage,
    JointReader,
    Newest,
    PoseSample,
    WaitSet,
    fill_pose,
    read_contacts,
)
from dexstack.plants import PLANTS
from dexstack.process.history import JointSample
from dexstack.report.page import Controls, Page

SLOW_PERIOD = 0.5
"""Wall time between two refreshes of numbers, plots and the list of nodes [s]."""
ANSWER_TIMEOUT = 3.0
PLANT_TIMEOUT = 600.0
"""Longest wait for a change of the plant [s]; some engines compile for minutes on first use."""


@dataclass(frozen=True)
class MonitorParams:
    """Parameters of the monitor node."""

    host: str = param("127.0.0.1", "address of the page; 0.0.0.0: all interfaces of this machine")
    port: int = param(8080, "port of the page; the next free one if it is in use", 1, 65535)
    rate: float = param(20.0, "pictures per second", 0.5, 60.0)
    token: str = param(
        "", "token that the address of the page must contain; empty: a new one, written to the log"
    )
    open: bool = param(False, "open the page in the browser of this machine")


class MonitorNode(SceneNode):
    BACKGROUND = True
    LIVE = frozenset({"rate"})

    def __init__(self) -> None:
        super().__init__("monitor", MonitorParams)
        self.page: Page | None = None

    def configure(self) -> None:
        p = self.params(MonitorParams)
        robot, obj, _ = self.make_task().setup()
        names = robot.joint_names
        self._poses = self.newest(PoseWithCovarianceStamped, "object_pose", SENSOR, self.read_pose)
        self._joints = self.newest(JointState, "joint_states", SENSOR, JointReader(names, "position"))
        self._goals = self.newest(PoseStamped, "task/goal", LATCHED, self.read_pose)
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
        if (state := self._states.take()) is not None:
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
        if (contacts := self._contacts.take()) is not None:
            self.page.show_contacts(contacts.p_W, contacts.nhat_W, contacts.phi)
        if (prediction := self._predictions.take()) is not None:
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
        """Subscribe to pictures with detections and to contact patches, which are published only on
        demand, and show them.

        Args:
            look: False ends the subscriptions.
        """
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
            if (value := newest.take()) is not None:
                show(value)

    def _refresh(self) -> None:
        """Show numbers, plots and the list of nodes."""
        s, mpc, page = self._state, self._health.values("mpc"), self.page
        if "yaw" in s:
            page.plot("error [rad]", s["t"], s["error"])
        if "solve_p50" in mpc:
            solve_ms = (1e3 * float(mpc[key]) for key in ("solve_p50", "solve_p99"))
            page.plot("solve time [ms]", self.time, *solve_ms)
        rates = [
            float(self._health.values(name).get("rate_hz", "nan"))
            for name in ("mpc", "contact_detector", "hand")
        ]
        if not all(map(math.isnan, rates)):
            page.plot("rate [Hz]", self.time, rates[0], rates[1], rates[2] / 10)
        if "plant" in (simulator := self._health.values("simulator")):
            page.offer_plant(simulator["plant"])
        numbers = progress(s, self._health)
        page.show_summary([f"**{s['phase']}**", *(f"{name} {text}" for name, text in numbers.items())])
        rows = self._health.rows()
        page.show_nodes(rows, {name: self._health.values(name) for name, _, _ in rows})
        page.draw_plots()

    # --- controls --------------------------------------------------------------------------------

    def _trigger(self, name: str) -> str:
        answer = self._call(self._triggers[name], Trigger.Request())
        if isinstance(answer, str):
            return answer
        return f"{name}: {'done' if answer.success else answer.message or 'refused'}"

    def _ask_pose(self, pose_WO: np.ndarray) -> str:
        if not self._to_goal.get_subscription_count():
            return "goal_pose has no subscriber"
        message = PoseStamped()
        message.header.frame_id = WORLD
        fill_pose(message.pose, pose_WO)
        self._to_goal.publish(message)
        return "goal_pose: sent"

    def _set_plant(self, name: str) -> str:
        """Restart the rollout in another engine."""
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
        """Return the answer, or a sentence without one; blocks the calling thread of the page."""
        if not client.service_is_ready():
            return f"the service {client.srv_name} is not available"
        done = threading.Event()
        future = client.call_async(request)
        future.add_done_callback(lambda _: done.set())
        return future.result() if done.wait(timeout) else f"no answer from {client.srv_name}"


def read_picture(message: Image) -> np.ndarray:
    """Return the pixels (height, width, 3) uint8 of an rgb8 picture."""
    size = message.height * message.width * 3
    if message.encoding != "rgb8" or len(message.data) != size or not size:
        raise BadMessage(
            f"a picture of {len(message.data)} bytes in '{message.encoding[:20]}', rgb8 expected"
        )
    return np.frombuffer(message.data, np.uint8).reshape(message.height, message.width, 3)


main = partial(run_node, MonitorNode)
