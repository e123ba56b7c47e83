"""Base of the pages in the browser: a server behind a gate, the bodies of a model, and contact patches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mujoco
import numpy as np
import trimesh

from dexstack.errors import ConfigError
from dexstack.geometry.rotations import rotation_matrix
from dexstack.model.scene import JointLayout
from dexstack.report.colours import Patches
from dexstack.report.gate import Gate
from dexstack.report.render import mesh_of

_GEOM = mujoco.mjtGeom
_ROUND = 24
"""Number of sides of a circle."""


class Canvas:
    """A page that shows the bodies of a model on :attr:`url`, to users who know its token.

    Args:
        token: token of the page; empty: a new one.

    Raises:
        ConfigError: the address is in use or is not this machine's.
    """

    def __init__(self, host: str, port: int, token: str, model: mujoco.MjModel) -> None:
        import viser  # slow to import

        self.gate = Gate(token)
        try:
            with self.gate.in_front():
                self.server = viser.ViserServer(host=host, port=port, label="dexstack", verbose=False)
        except OSError as error:
            raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}") from None
        self.url = f"http://{host}:{self.server.get_port()}/?token={self.gate.token}"
        self._model, self._data = model, mujoco.MjData(model)
        self.patches: list[Any] = []
        self.bodies: dict[int, Any] = {}
        self._meshes: dict[int, list[Any]] = {}
        """Meshes of each body."""
        scene = self.server.scene
        scene.set_up_direction("+z")
        self.server.gui.configure_theme(show_logo=False, show_share_button=False)
        self.server.gui.main_panel.dock_right()
        for body, parts in body_meshes(model).items():
            self.bodies[body] = scene.add_frame(f"/scene/{body}", show_axes=False)
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
        """True if a browser is connected."""
        return bool(self.server.get_clients())

    def close(self) -> None:
        """Stop serving."""
        self.server.stop()

    def show_state(self, q: np.ndarray, pose_WO: np.ndarray) -> None:
        """Show a robot's scene with joints at ``q`` (N,) [rad, m] and the object at a pose (7,)."""
        self._data.qpos[:] = np.concatenate([JointLayout(self._model).coordinates(q), pose_WO])
        self.show_bodies()

    def show_bodies(self) -> None:
        """Show the bodies at their poses in the data."""
        mujoco.mj_kinematics(self._model, self._data)
        with self.server.atomic():
            for body, handle in self.bodies.items():
                handle.position, handle.wxyz = self._data.xpos[body], self._data.xquat[body]

    def show_patches(self, patches: Patches) -> None:
        """Show surfaces coloured by pressure and forces as lines, in place of those shown before."""
        for handle in self.patches:
            handle.remove()
        self.patches = []
        if len(patches.corners_W):
            faces = np.arange(len(patches.corners_W)).reshape(-1, 3)
            mesh = trimesh.Trimesh(
                patches.corners_W,
                faces,
                vertex_colors=(255 * patches.colours).astype(np.uint8),
                process=False,
            )
            self.patches.append(
                self.server.scene.add_mesh_trimesh(
                    "/patches/surfaces", mesh, cast_shadow=False, receive_shadow=False
                )
            )
        if len(patches.arrows_W):
            lines = patches.arrows_W.astype(np.float32)
            self.patches.append(
                self.server.scene.add_line_segments("/patches/forces", lines, (255, 128, 0), thickness=0.0015)
            )


def body_meshes(model: mujoco.MjModel) -> dict[int, list[tuple[tuple[int, int, int], trimesh.Trimesh]]]:
    """Return the visible meshes of each body, by body id, except planes.

    Returns:
        Pairs of sRGB colour and mesh in the body's frame [m].
    """
    parts: dict[int, dict[tuple[int, int, int], list[trimesh.Trimesh]]] = {}
    for g in range(model.ngeom):
        mesh = _mesh(model, g) if model.geom_rgba[g, 3] > 0.0 else None
        if mesh is None:
            continue
        X_BG = np.eye(4)
        X_BG[:3, :3], X_BG[:3, 3] = rotation_matrix(model.geom_quat[g]), model.geom_pos[g]
        mesh.apply_transform(X_BG)
        r, g_, b = (int(255 * x) for x in model.geom_rgba[g, :3])
        parts.setdefault(int(model.geom_bodyid[g]), {}).setdefault((r, g_, b), []).append(mesh)
    return {
        body: [(colour, trimesh.util.concatenate(meshes)) for colour, meshes in by_colour.items()]
        for body, by_colour in parts.items()
    }


def _capsule(size: np.ndarray) -> trimesh.Trimesh:
    capsule = trimesh.creation.capsule(radius=size[0], height=2 * size[1], count=[_ROUND, _ROUND])
    return capsule.apply_translation(-capsule.bounds.mean(axis=0))


_SHAPES: Mapping[int, Callable[[np.ndarray], trimesh.Trimesh]] = {
    _GEOM.mjGEOM_BOX: lambda size: trimesh.creation.box(extents=2 * size),
    _GEOM.mjGEOM_SPHERE: lambda size: trimesh.creation.icosphere(subdivisions=2, radius=size[0]),
    _GEOM.mjGEOM_ELLIPSOID: lambda size: trimesh.creation.icosphere(subdivisions=2).apply_scale(size),
    _GEOM.mjGEOM_CYLINDER: lambda size: trimesh.creation.cylinder(size[0], 2 * size[1], sections=_ROUND),
    _GEOM.mjGEOM_CAPSULE: _capsule,
}
"""Meshes of geoms by their kind, from their sizes [m]."""


def _mesh(model: mujoco.MjModel, g: int) -> trimesh.Trimesh | None:
    """Return one geom in its own frame; None for planes and other kinds."""
    if (kind := int(model.geom_type[g])) == _GEOM.mjGEOM_MESH:
        return trimesh.Trimesh(*mesh_of(model, g), process=False)
    return _SHAPES[kind](model.geom_size[g]) if kind in _SHAPES else None
