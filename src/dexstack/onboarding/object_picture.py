"""Pictures of an object (in the hand, its convex parts, its rest poses) and of a hand in its poses."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from pathlib import Path

import mujoco
import numpy as np
from matplotlib.figure import Figure

from dexstack.geometry.rotations import quaternion_of
from dexstack.model.hand import HandModel, load_hand
from dexstack.model.objects import ObjectModel
from dexstack.model.scene import OBJECT_BODY, JointLayout, build_scene
from dexstack.onboarding.rest_poses import RestPose, resting_rotation
from dexstack.report.figure import save_figure
from dexstack.report.render import Camera, Renderer

KINDS = 6
"""Number of kinds of rest poses that are drawn, the most probable first."""
_WIDTH, _HEIGHT = 360, 270
_FROM = np.array([0.62, -0.62, 0.48])


def draw_rests(path: Path, obj: ObjectModel, rests: Sequence[RestPose]) -> Path:
    """Draw each kind of rest pose with its probability as a PNG.

    Raises:
        ConfigError: the file cannot be written.
    """
    return _mosaic(path, _rest_panels(obj, rests))


def draw_object(path: Path, obj: ObjectModel, rests: Sequence[RestPose]) -> Path:
    """Draw the object at each start on a palm, its convex parts and its rest poses as a PNG.

    Raises:
        ConfigError: the file cannot be written.
    """
    hand, panels = load_hand("right"), []
    for task, start in obj.starts.items():
        model = build_scene(hand, obj).compile()
        data = mujoco.MjData(model)
        data.qpos[:-7] = JointLayout(model).coordinates(hand.pose(start.hand_pose))
        data.qpos[-7:] = start.pose_WO
        camera = Camera.of_model(model, "film", width=_WIDTH, height=_HEIGHT)
        panels.append((f"start '{task}'", _picture(model, data, camera)))
    panels.append((f"{len(obj.parts)} convex part{'s' * (len(obj.parts) > 1)}", _parts(obj)))
    return _mosaic(path, panels + _rest_panels(obj, rests))


def draw_hand(path: Path, hand: HandModel) -> Path:
    """Draw the hand in each of its poses, from an angle and from above, as a PNG.

    Raises:
        ConfigError: the file cannot be written.
    """
    model, panels = build_scene(hand, None).compile(), []
    data = mujoco.MjData(model)
    for name, q in hand.poses.items():
        data.qpos[:] = JointLayout(model).coordinates(q)
        mujoco.mj_forward(model, data)
        middle = np.mean(data.geom_xpos, axis=0)
        radius = float(np.linalg.norm(data.geom_xpos - middle, axis=1).max()) + 0.02
        for where, back in (("at an angle", _FROM), ("from above", np.array([-1e-3, 0.0, 1.0]))):
            panels.append((f"pose '{name}', {where}", _picture(model, data, _looking(middle, back, radius))))
    return _mosaic(path, panels)


def _rest_panels(obj: ObjectModel, rests: Sequence[RestPose]) -> list[tuple[str, np.ndarray]]:
    panels = []
    for kind in sorted({rest.kind for rest in rests})[:KINDS]:
        alike = [rest for rest in rests if rest.kind == kind]
        R = resting_rotation(alike[0].down_B, obj.hull_vertices)
        count = f", {len(alike)} poses" if len(alike) > 1 else ""
        probability = 100 * sum(rest.probability for rest in alike)
        panels.append((f"{probability:.1f} %{count}", _on_floor(obj, R, alike[0].height)))
    return panels


def _parts(obj: ObjectModel) -> np.ndarray:
    model = build_scene(None, obj, floor=0.0).compile()
    for g in np.flatnonzero(model.geom_bodyid == model.body(OBJECT_BODY).id):
        rgb = colorsys.hsv_to_rgb(0.618 * g % 1.0, 0.55, 0.9)
        model.geom_rgba[g] = (*rgb, float(model.geom_contype[g] > 0))
    return _drawn(model, obj, np.eye(3), -float(obj.surface.vertices[:, 2].min()))


def _on_floor(obj: ObjectModel, R: np.ndarray, height: float) -> np.ndarray:
    model = build_scene(None, obj, floor=0.0).compile()
    model.geom_rgba[(model.geom_bodyid == model.body(OBJECT_BODY).id) & (model.geom_contype == 0), 3] = 0.0
    return _drawn(model, obj, R, height)


def _drawn(model: mujoco.MjModel, obj: ObjectModel, R_WO: np.ndarray, height: float) -> np.ndarray:
    data = mujoco.MjData(model)
    data.qpos[:3], data.qpos[3:7] = (0.0, 0.0, height), quaternion_of(R_WO)
    radius = float(np.linalg.norm(obj.hull_vertices, axis=1).max())
    return _picture(model, data, _looking(np.array([0.0, 0.0, height]), _FROM, radius))


def _looking(at: np.ndarray, back: np.ndarray, radius: float) -> Camera:
    """Return a camera in the direction ``back`` (3,) of ``at`` (3,) that sees a ball of ``radius``."""
    focal = 1.8 * _HEIGHT
    return Camera.looking_at(at, back, 2.2 * radius * focal / _HEIGHT, focal, (_WIDTH, _HEIGHT))


def _picture(model: mujoco.MjModel, data: mujoco.MjData, camera: Camera) -> np.ndarray:
    mujoco.mj_forward(model, data)
    return Renderer(model, camera).render(data)


def _mosaic(path: Path, panels: Sequence[tuple[str, np.ndarray]]) -> Path:
    columns = min(4, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(3.0 * columns, 2.6 * rows), layout="constrained")
    for k, (title, image) in enumerate(panels):
        axes = figure.add_subplot(rows, columns, k + 1)
        axes.imshow(image)
        axes.set_title(title, fontsize="small")
        axes.axis("off")
    return save_figure(figure, path, dpi=120)
