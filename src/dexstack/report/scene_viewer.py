"""Page of a running scene: bodies, contact forces, pressures, and the choice of the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import mujoco
import numpy as np

from dexstack.geometry.rotations import quaternion_of
from dexstack.plants.base import Contact, Patch
from dexstack.report.canvas import Canvas
from dexstack.report.colours import Patches, force_arrows, patch_triangles


class SceneControls(NamedTuple):
    """Actions of the controls, called in threads of the page."""

    engines: Sequence[str]
    """Names of the engines."""
    choose: Callable[[str], None]
    """Called with the name of an engine."""
    restart: Callable[[], None]


class SceneViewer(Canvas):
    """A page that shows a model and lets the user choose its engine; see :class:`.canvas.Canvas`."""

    def __init__(
        self, host: str, port: int, token: str, model: mujoco.MjModel, controls: SceneControls
    ) -> None:
        super().__init__(host, port, token, model)
        gui = self.server.gui
        self.summary = gui.add_markdown("**waiting**")
        self.engine_menu = gui.add_dropdown(
            "engine",
            controls.engines,
            hint="the scene continues in it from its present state, once it is compiled",
        )
        self.restart_button = gui.add_button("Start again", hint="back to the start of the scene")
        self.pause_box = gui.add_checkbox("pause", initial_value=False)
        self.message = gui.add_markdown("")
        self._shown: tuple[str, str] = "", ""
        extent, centre = model.stat.extent, np.array(model.stat.center)
        for g in np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE):
            side = 2.0 * float(np.max(model.geom_size[g, :2])) or 4.0 * extent
            self.server.scene.add_grid(
                f"/planes/{g}",
                width=side,
                height=side,
                cell_size=side / 40.0,
                section_size=side / 8.0,
                position=self._data.geom_xpos[g],
                wxyz=quaternion_of(self._data.geom_xmat[g]),
            )
        camera = self.server.initial_camera
        camera.position, camera.look_at = tuple(centre + extent * np.array([0.7, -1.0, 0.6])), tuple(centre)

        @self.engine_menu.on_update
        def _(event: Any) -> None:
            if event.client is not None:  # None: changed by the page itself
                controls.choose(self.engine_menu.value)

        @self.restart_button.on_click
        def _(event: Any) -> None:
            controls.restart()

    @property
    def paused(self) -> bool:
        """True if the scene is paused."""
        return self.pause_box.value

    def show(self, q: np.ndarray, contacts: Sequence[Contact], patches: Sequence[Patch]) -> None:
        """Show bodies at q (nq,), contact forces and pressures."""
        self._data.qpos[:] = q
        self.show_bodies()
        triangles, none = patch_triangles(patches), np.empty((0, 3))
        corners, colours = (np.concatenate([none, *(t[k] for t in triangles)]) for k in (0, 1))
        self.show_patches(Patches(corners, colours, force_arrows(self._model, contacts)))

    def tell(self, lines: Sequence[str], engine: str, said: str) -> None:
        """Show the summary as lines of markdown, and changes of the engine and of the message."""
        self.summary.content = "  \n".join(lines)
        if (engine, said) != self._shown:
            self._shown = engine, said
            self.engine_menu.value, self.message.content = engine, said
