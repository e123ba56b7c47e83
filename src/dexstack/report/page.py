"""Page of the monitor: the scene in 3-D, plots, the state of the nodes, and controls, served by viser.

This module does not depend on ROS: :class:`dexstack.nodes.monitor.MonitorNode` sets the values and
provides the actions of the controls.
"""

from __future__ import annotations

import html
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dexstack.model.objects import ObjectModel
from dexstack.model.robot import Robot
from dexstack.model.scene import OBJECT_BODY, JointLayout, robot_scene
from dexstack.report.canvas import Canvas
from dexstack.report.colours import FAR, distance_colours

NORMAL = 0.015
"""Length of a drawn normal [m]."""
_PLOT_POINTS = 300
_LEVELS = {"ok": "#2a9d4a", "warn": "#c98a00", "error": "#c82020", "silent": "#c82020"}

Action = Callable[[], str]
"""Function of a control; returns a message for the user."""


class Controls(NamedTuple):
    """Actions of the controls."""

    stop: Action
    enable: Action
    restart: Action
    set_goal: Callable[[float], str]
    """Called with the turn of the object from its nominal start [deg]."""
    ask_pose: Callable[[np.ndarray], str]
    """Called with the pose (7,) to which the user dragged the object's ghost."""
    set_factor: Callable[[float], str]
    """Called with simulated seconds per second."""
    plants: Sequence[str]
    """Names of the physics engines."""
    set_plant: Callable[[str], str]
    """Called with the name of an engine."""


class Page(Canvas):
    """The page of a robot and an object; see :class:`~dexstack.report.canvas.Canvas`."""

    def __init__(
        self, host: str, port: int, robot: Robot, obj: ObjectModel, controls: Controls, token: str = ""
    ) -> None:
        super().__init__(host, port, token, robot_scene(robot, obj).compile())
        self._busy, self._layout = threading.Lock(), JointLayout(self._model)
        self._build_scene(obj)
        self._build_controls(controls)
        self._build_ghost(obj, controls)
        self._build_plant_control(controls)
        self._build_plots()

    # --- scene -----------------------------------------------------------------------------------

    def _build_scene(self, obj: ObjectModel) -> None:
        scene = self.server.scene
        scene.add_grid(
            "/floor", width=0.6, height=0.6, cell_size=0.05, section_size=0.1, position=(0.0, 0.0, -0.1)
        )
        self._hand_meshes = [
            mesh
            for body, parts in self._meshes.items()
            if self._model.body(body).name != OBJECT_BODY
            for mesh in parts
        ]
        self._goal = scene.add_mesh_simple(
            "/goal",
            np.asarray(obj.surface.vertices, np.float32),
            np.asarray(obj.surface.faces, np.uint32),
            color=(60, 170, 90),
            opacity=0.3,
            visible=False,
            cast_shadow=False,
            receive_shadow=False,
        )
        self._goal_axes = scene.add_frame(
            "/goal/axes", axes_length=0.04, axes_radius=0.001, origin_radius=0.0
        )
        centre = self._data.xpos[1:].mean(axis=0)
        camera = self.server.initial_camera
        camera.position, camera.look_at = tuple(centre + np.array([0.15, -0.2, 0.22])), tuple(centre)
        self.show_contacts(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0))
        self.show_prediction(np.zeros((0, 3)))

    def show_state(self, q: np.ndarray | None, pose_WO: np.ndarray | None) -> None:
        """Show the hand at joint angles ``q`` (N,) [rad] and the object at ``pose_WO`` (7,); None:
        unchanged."""
        if q is not None:
            self._data.qpos[:-7] = self._layout.coordinates(q)
        if pose_WO is not None:
            self._data.qpos[-7:] = pose_WO
        self.show_bodies()

    def show_goal(self, pose_WO: np.ndarray) -> None:
        """Show the goal as the object in transparent green; the ghost follows while not dragged."""
        self._goal.position, self._goal.wxyz, self._goal.visible = pose_WO[:3], pose_WO[3:], True
        if not self._held and not np.array_equal(pose_WO, self._shown_goal):
            self._shown_goal = np.array(pose_WO)
            self.ghost.position, self.ghost.wxyz = pose_WO[:3], pose_WO[3:]

    def show_contacts(self, p_W: np.ndarray, nhat_W: np.ndarray, phi: np.ndarray) -> None:
        """Show contact points (n, 3) and normals (n, 3), coloured by distance (n,)."""
        if not len(phi):
            # viser cannot draw an empty set: one point far away.
            p_W, nhat_W, phi = np.full((1, 3), -9.0), np.zeros((1, 3)), np.full(1, FAR)
        colours = distance_colours(phi)
        ends = np.stack([p_W, p_W + NORMAL * nhat_W], axis=1).astype(np.float32)
        self.server.scene.add_point_cloud(
            "/contacts/points",
            p_W.astype(np.float32),
            colours,
            point_size=0.004,
            point_shape="circle",
            precision="float32",
        )
        self.server.scene.add_line_segments(
            "/contacts/normals", ends, np.repeat(colours[:, None], 2, axis=1), thickness=0.0012
        )

    def show_prediction(self, p_W: np.ndarray) -> None:
        """Show the predicted path of the object (n, 3)."""
        if len(p_W) < 2:
            p_W = np.full((2, 3), -9.0)
        segments = np.stack([p_W[:-1], p_W[1:]], axis=1).astype(np.float32)
        self.server.scene.add_line_segments("/prediction", segments, (200, 40, 200), thickness=0.002)

    # --- controls --------------------------------------------------------------------------------

    def _build_controls(self, controls: Controls) -> None:
        gui = self.server.gui
        self.summary = gui.add_markdown("**waiting**")
        self.stop_button = self._button(
            "Stop the hand", controls.stop, "servo off, until it is enabled again", color="red"
        )
        self.enable_button = self._button(
            "Enable the hand", controls.enable, "servo on; it follows the next command"
        )
        self.restart_button = self._button(
            "Start again", controls.restart, "hand and object back to the start, in simulation"
        )
        self.goal_slider = gui.add_slider("turn [°]", min=-180.0, max=180.0, step=1.0, initial_value=90.0)
        self.goal_button = self._button(
            "Set the goal",
            lambda: controls.set_goal(float(self.goal_slider.value)),
            "turn of the object from its nominal start; a new rollout begins",
        )
        self.factor_slider = gui.add_slider(
            "real-time factor", min=0.05, max=2.0, step=0.05, initial_value=1.0
        )
        self.clear_box = gui.add_checkbox(
            "transparent hand", initial_value=False, hint="contacts are between hand and object"
        )
        self.picture: Any = None
        self._on(self.factor_slider.on_update, lambda: controls.set_factor(float(self.factor_slider.value)))

        @self.clear_box.on_update
        def _(event: Any) -> None:
            for mesh in self._hand_meshes:
                mesh.opacity = 0.3 if self.clear_box.value else None

    def _build_ghost(self, obj: ObjectModel, controls: Controls) -> None:
        """Add a second, blue object with rings and arrows, which the user drags to set the goal."""
        self._held = False
        self._shown_goal = np.zeros(7)
        self.ghost = self.server.scene.add_transform_controls(
            "/ghost", scale=1.5 * float(obj.size.max()), disable_sliders=True, depth_test=False, visible=False
        )
        self.server.scene.add_mesh_simple(
            "/ghost/object",
            np.asarray(obj.surface.vertices, np.float32),
            np.asarray(obj.surface.faces, np.uint32),
            color=(60, 110, 200),
            opacity=0.25,
            cast_shadow=False,
            receive_shadow=False,
        )
        self.ghost_box = self.server.gui.add_checkbox(
            "drag the goal",
            initial_value=False,
            hint="turn the blue object by its rings: the goal is where you release it",
        )

        @self.ghost_box.on_update
        def _(event: Any) -> None:
            self.ghost.visible = self.ghost_box.value

        @self.ghost.on_update
        def _(event: Any) -> None:
            self._held = event.phase != "end"
            if event.phase == "end":
                self.answer.content = controls.ask_pose(
                    np.array([*self.ghost.position, *self.ghost.wxyz], float)
                )

    def _build_plant_control(self, controls: Controls) -> None:
        gui = self.server.gui
        self.plant_menu = gui.add_dropdown(
            "plant", controls.plants, hint="physics engine of the simulator; applied by the button below"
        )
        self.plant_button = self._button(
            "Change the plant",
            lambda: controls.set_plant(self.plant_menu.value),
            "restart in another engine; its first use compiles it",
        )
        self._plant_running = self.plant_menu.value
        self.answer = gui.add_markdown("")

    def _button(self, label: str, action: Action, hint: str, **style: Any) -> Any:
        button = self.server.gui.add_button(label, hint=hint, **style)
        self._on(button.on_click, action)
        return button

    def _on(self, register: Any, action: Action) -> None:
        """Register an action; each runs in a thread of viser's pool, so ``stop`` never waits for
        another."""

        def run(event: Any) -> None:
            if event.client is not None:  # None: changed by the page itself
                self.answer.content = "…"
                answer = action()
                with self._busy:
                    self.answer.content = answer

        register(run)

    def offer_goal(self, degrees: float) -> None:
        """Set the slider of the goal [deg]."""
        self.goal_slider.value = degrees

    def offer_plant(self, name: str) -> None:
        """Show the running plant in the menu when it changes."""
        if name != self._plant_running:
            self._plant_running = self.plant_menu.value = name

    def show_picture(self, rgb: np.ndarray) -> None:
        """Show the camera's picture (height, width, 3) uint8."""
        if self.picture is None:
            self.picture = self.server.gui.add_image(rgb, label="camera", format="jpeg")
        else:
            self.picture.image = rgb

    def show_summary(self, lines: Sequence[str]) -> None:
        """Show the summary, as markdown lines."""
        self.summary.content = "  \n".join(lines)

    def show_nodes(
        self, rows: Sequence[tuple[str, str, str]], values: Mapping[str, Mapping[str, str]]
    ) -> None:
        """Show (name, ok | warn | error | silent, message) of every node and its reported values."""
        cells = []
        for name, level, message in rows:
            details = "".join(
                f"<br><small>{html.escape(k)}: {html.escape(v)}</small>"
                for k, v in values.get(name, {}).items()
            )
            dot = f'<span style="color:{_LEVELS[level]}">●</span>'
            summary = f"{dot} <b>{html.escape(name)}</b> {html.escape(message)}"
            cells.append(f"<details><summary>{summary}</summary>{details}</details>")
        self._nodes.content = f'<div style="font-size:0.8em;padding:0 1em">{"".join(cells)}</div>'

    # --- plots -----------------------------------------------------------------------------------

    def _build_plots(self) -> None:
        gui = self.server.gui
        self._plots: dict[str, tuple[Any, deque[tuple[float, ...]]]] = {}
        with gui.add_folder("Nodes"):
            self._nodes = gui.add_html("")
        with gui.add_folder("Plots"):
            for title, series in (
                ("error [rad]", ("error",)),
                ("solve time [ms]", ("p50", "p99")),
                ("rate [Hz]", ("MPC", "contacts", "hand / 10")),
            ):
                self._add_plot(title, series)

    def _add_plot(self, title: str, series: tuple[str, ...]) -> None:
        import viser.uplot as uplot

        colours = ("#c82020", "#2060c8", "#2a9d4a")
        lines = tuple(
            uplot.Series(label=name, stroke=colour, width=2)
            for name, colour in zip(series, colours, strict=False)
        )
        empty = tuple(np.zeros(1) for _ in range(len(series) + 1))
        handle = self.server.gui.add_uplot(
            empty,
            (uplot.Series(label="t [s]"), *lines),
            title=title,
            scales={"x": uplot.Scale(time=False)},
            axes=(uplot.Axis(), uplot.Axis(size=45)),
            legend=uplot.Legend(show=True),
            aspect=2.0,
        )
        self._plots[title] = handle, deque(maxlen=_PLOT_POINTS)

    def plot(self, title: str, t: float, *values: float) -> None:
        """Append one point per curve, for :meth:`draw_plots`; a time in the past clears the plot."""
        points = self._plots[title][1]
        if points and t < points[-1][0]:
            points.clear()
        points.append((t, *values))

    def draw_plots(self) -> None:
        """Send the plots to the browsers."""
        for handle, points in self._plots.values():
            if points:
                table = np.array(points).T
                handle.data = tuple(np.where(np.isfinite(row), row, 0.0) for row in table)
