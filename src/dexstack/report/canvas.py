"""What pages in the browser have in common: a server behind a gate, the bodies of a scene, and
where they press on each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import mujoco
import numpy as np
import trimesh

from dexstack.errors import ConfigError
from dexstack.plants.base import Patch
from dexstack.report.bodies import body_meshes
from dexstack.report.colours import pressure_colours
from dexstack.report.gate import Gate


class Patches(NamedTuple):
    """Surfaces on which bodies press on each other, and the forces there."""

    corners_W: np.ndarray
    """(3 n, 3): those of one triangle after another [m]."""
    colours: np.ndarray
    """(3 n, 3): red, green, blue of each corner, 0 to 1."""
    arrows_W: np.ndarray
    """(m, 2, 3): from where a force acts to the tip of its arrow [m]."""


def coloured(patches: Sequence[Patch]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Corners (3 n, 3) and colours (3 n, 3) of each patch's triangles. Pressures share one scale:
    the brightest is the greatest of all."""
    greatest = max((float(p.pressure.max()) for p in patches if len(p.pressure)), default=0.0)
    result = []
    for patch in patches:
        triangles = [(f, first, k) for f, (first, last) in enumerate(zip(patch.start, patch.start[1:], strict=False))
                     for k in range(first + 1, last - 1)]  # fmt: skip
        f, first, k = np.array(triangles, int).reshape(-1, 3).T
        corners = patch.vertex_W[np.stack([first, k, k + 1], axis=1)].reshape(-1, 3)
        result.append((corners, np.repeat(pressure_colours(patch.pressure[f], greatest), 3, axis=0)))
    return result


class Canvas:
    """A page that shows the bodies of a model, served on :attr:`url`, to those who know its token.

    Args:
        token: what whoever opens the page has to know; empty: a new one.

    Raises:
        ConfigError: viser is not installed, or nothing can listen at that address.
    """

    def __init__(self, host: str, port: int, token: str, model: mujoco.MjModel) -> None:
        self.gate = Gate(token)
        try:
            import viser
        except ImportError:
            raise ConfigError(
                "the page needs the extra 'monitor': pip install -c constraints.txt -e '.[monitor]'"
            ) from None
        try:
            with self.gate.in_front():
                self.server = viser.ViserServer(host=host, port=port, label="dexstack", verbose=False)
        except OSError as error:
            raise ConfigError(f"nothing can listen on {host}:{port}: {error.strerror}") from None
        self.url = f"http://{host}:{self.server.get_port()}/?token={self.gate.token}"
        self._model, self._data = model, mujoco.MjData(model)
        self._patches: list[Any] = []
        self._bodies: dict[int, Any] = {}
        self._meshes: dict[int, list[Any]] = {}
        """Of every body."""
        scene = self.server.scene
        scene.set_up_direction("+z")
        self.server.gui.configure_theme(show_logo=False, show_share_button=False)
        self.server.gui.main_panel.dock_right()
        for body, parts in body_meshes(model).items():
            self._bodies[body] = scene.add_frame(f"/scene/{body}", show_axes=False)
            self._meshes[body] = [
                scene.add_mesh_simple(
                    f"/scene/{body}/{k}",
                    np.asarray(mesh.vertices, np.float32),
                    np.asarray(mesh.faces, np.uint32),
                    color=colour,
                    flat_shading=True,
                    cast_shadow=False,
                    receive_shadow=False,
                )
                for k, (colour, mesh) in enumerate(parts)
            ]
        self.show_bodies()

    @property
    def watched(self) -> bool:
        """Whether any browser looks."""
        return bool(self.server.get_clients())

    def close(self) -> None:
        """Stop serving."""
        self.server.stop()

    def show_bodies(self) -> None:
        """Where they are in the model's data."""
        mujoco.mj_kinematics(self._model, self._data)
        with self.server.atomic():
            for body, handle in self._bodies.items():
                handle.position, handle.wxyz = self._data.xpos[body], self._data.xquat[body]

    def show_patches(self, patches: Patches) -> None:
        """Surfaces coloured by pressure, and forces as lines; without any, what was shown goes."""
        for handle in self._patches:
            handle.remove()
        self._patches = []
        if len(patches.corners_W):
            faces = np.arange(len(patches.corners_W)).reshape(-1, 3)
            mesh = trimesh.Trimesh(
                patches.corners_W,
                faces,
                vertex_colors=(255 * patches.colours).astype(np.uint8),
                process=False,
            )
            self._patches.append(
                self.server.scene.add_mesh_trimesh(
                    "/patches/surfaces", mesh, cast_shadow=False, receive_shadow=False
                )
            )
        if len(patches.arrows_W):
            lines = patches.arrows_W.astype(np.float32)
            self._patches.append(
                self.server.scene.add_line_segments("/patches/forces", lines, (255, 128, 0), thickness=0.0015)
            )
