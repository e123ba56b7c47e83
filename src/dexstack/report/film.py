"""Film of a run: the scene, the goal as an outline, and a dial of the yaw."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
import trimesh
from PIL import Image, ImageDraw, ImageFont

from dexstack.geometry.rotations import geodesic_angle, rotation_matrix, wrap_angle, yaw_of
from dexstack.model.scene import OBJECT_BODY, JointLayout
from dexstack.report.render import Camera, Renderer, mesh_of

FPS = 12.5  # GIF times are multiples of 10 ms
GOAL = (214, 30, 130)
_INK, _PAPER = (28, 32, 40), (250, 250, 252)
_FINE = 3  # lines are drawn this many times larger and then averaged
_CREASE = np.radians(25.0)


@dataclass(frozen=True)
class _Outline:
    """Edges of a mesh geom in the frame of its body."""

    vertices: np.ndarray
    normals: np.ndarray
    edges: np.ndarray
    faces_of_edge: np.ndarray
    crease: np.ndarray

    @classmethod
    def of_geom(cls, model: mujoco.MjModel, geom: int) -> _Outline:
        mesh = trimesh.Trimesh(*mesh_of(model, geom))
        R_BG = rotation_matrix(model.geom_quat[geom])
        return cls(
            vertices=mesh.vertices @ R_BG.T + model.geom_pos[geom],
            normals=mesh.face_normals @ R_BG.T,
            edges=np.asarray(mesh.face_adjacency_edges),
            faces_of_edge=np.asarray(mesh.face_adjacency),
            crease=np.asarray(mesh.face_adjacency_angles) > _CREASE,
        )

    def segments(self, camera: Camera, pose_WB: np.ndarray) -> np.ndarray:
        """Return pixel coordinates (n, 2, 2) of the creases and the silhouette facing the camera."""
        R_WB = rotation_matrix(pose_WB[3:])
        p_W = self.vertices @ R_WB.T + pose_WB[:3]
        on_face = p_W[self.edges[:, 0]]
        normals = self.normals @ R_WB.T
        front = [np.einsum("ij,ij->i", normals[f], camera.p_WC - on_face) > 0 for f in self.faces_of_edge.T]
        shown = (front[0] != front[1]) | (self.crease & front[0])
        return camera.project(p_W)[self.edges[shown]]


class Artist:
    """Draws pictures of a scene with the goal as an outline."""

    def __init__(self, scene: mujoco.MjModel, width: int = 400, height: int = 300) -> None:
        """
        Args:
            scene: compiled scene with the camera ``film``, whose state is joints, then object pose.
        """
        camera = Camera.of_model(scene, "film", width=width, height=height)
        self.scene, self.camera = scene, camera
        self.renderer = Renderer(scene, camera)
        body = scene.body(OBJECT_BODY)
        geoms = range(body.geomadr[0], body.geomadr[0] + body.geomnum[0])
        self.outlines = [
            _Outline.of_geom(scene, g) for g in geoms if int(scene.geom_type[g]) == mujoco.mjtGeom.mjGEOM_MESH
        ]
        self.font = ImageFont.load_default(round(camera.height / 19))
        self.layout = JointLayout(scene)

    def picture(self, q: np.ndarray, pose_WO: np.ndarray) -> np.ndarray:
        """Return the picture (height, width, 3) uint8 of joint positions (N,) and object pose (7,)."""
        data = mujoco.MjData(self.scene)
        data.qpos[:] = np.concatenate([self.layout.coordinates(q), pose_WO])
        mujoco.mj_kinematics(self.scene, data)
        mujoco.mj_comPos(self.scene, data)
        return self.renderer.render(data)

    def frame(self, q: np.ndarray, pose_WO: np.ndarray, goal_WO: np.ndarray, t: float) -> Image.Image:
        """Return :meth:`picture` with the goal (7,), time t [s], yaw and error."""
        image = Image.fromarray(self.picture(q, pose_WO))
        for outline in self.outlines:
            self._lines(image, outline.segments(self.camera, goal_WO))
        self._caption(image, pose_WO, goal_WO, t)
        return image

    def _lines(self, image: Image.Image, segments: np.ndarray) -> None:
        mask = Image.new("L", (image.width * _FINE, image.height * _FINE))
        draw = ImageDraw.Draw(mask)
        for (x0, y0), (x1, y1) in segments * _FINE:
            draw.line((x0, y0, x1, y1), fill=235, width=round(1.6 * _FINE))
        image.paste(GOAL, mask=mask.resize(image.size, Image.Resampling.BOX))

    def _caption(self, image: Image.Image, pose_WO: np.ndarray, goal_WO: np.ndarray, t: float) -> None:
        yaw, goal = yaw_of(pose_WO[3:]), yaw_of(goal_WO[3:])
        error = geodesic_angle(pose_WO[3:], goal_WO[3:])
        draw = ImageDraw.Draw(image, "RGBA")
        size = self.font.size
        top = image.height - 1.5 * size
        draw.rectangle((0, top, image.width, image.height), fill=(*_PAPER, 190))
        texts = (
            f"{t:.1f} s",
            f"yaw {np.degrees(yaw):+.0f}°",
            f"goal {np.degrees(goal):+.0f}°",
            f"3-D error {error:.2f} rad",
        )
        for k, text in enumerate(texts):
            draw.text(
                (image.width * (0.03 + 0.20 * k), top + 0.1 * size),
                text,
                font=self.font,
                fill=GOAL if k == 2 else _INK,
            )
        self._dial(image, yaw, goal)

    def _dial(self, image: Image.Image, yaw: float, goal: float) -> None:
        """Draw the headings of goal and object from above, and the turn between them."""
        r = round(image.height / 10)
        side, c, fine = 2 * r + 2, r + 1, _FINE
        dial = Image.new("RGBA", (side * fine, side * fine))
        draw = ImageDraw.Draw(dial)
        box = [fine, fine, (side - 1) * fine, (side - 1) * fine]
        draw.ellipse(box, fill=(*_PAPER, 200), outline=(*_INK, 255), width=fine)
        to_go = wrap_angle(goal - yaw)
        start, stop = sorted((-np.degrees(yaw), -np.degrees(yaw + to_go)))
        draw.pieslice(box, start, stop, fill=(*GOAL, 70))
        for angle, colour, width, reach in ((goal, GOAL, 2, 1.0), (yaw, _INK, 3, 0.85)):
            tip = ((c + reach * r * np.cos(angle)) * fine, (c - reach * r * np.sin(angle)) * fine)
            draw.line((c * fine, c * fine, *tip), fill=(*colour, 255), width=width * fine)
        dial = dial.resize((side, side), Image.Resampling.BOX)
        image.paste(dial, (image.width - side - r // 3, r // 3), dial)


def write_film(
    path: Path,
    recording: Mapping[str, np.ndarray],
    scene: mujoco.MjModel,
    *,
    width: int = 400,
    height: int = 300,
    seconds: float = 15.0,
) -> Path:
    """Write a GIF of a run in real time, or faster if the run is longer than ``seconds``.

    Args:
        path: the file; its folder exists.
        recording: ``t`` (K,), ``q`` (K, n), ``pose_WO`` (K, 7), ``goal_WO``, as
            :func:`dexstack.report.run.write_run` takes them.
        scene: compiled scene with the camera ``film`` whose state is ``q`` then ``pose_WO``.
    """
    t = np.asarray(recording["t"], float)
    artist = Artist(scene, width, height)
    count = max(2, round(FPS * min(t[-1] - t[0], seconds)) + 1)
    samples = np.searchsorted(t, np.linspace(t[0], t[-1], count) - 1e-9).clip(0, len(t) - 1)

    def draw(k: int) -> Image.Image:
        return artist.frame(recording["q"][k], recording["pose_WO"][k], recording["goal_WO"][k], t[k])

    with ThreadPoolExecutor(min(4, len(os.sched_getaffinity(0)))) as pool:
        write_gif(path, pool.map(draw, samples))
    return path


def write_gif(path: Path, frames: Iterator[Image.Image]) -> None:
    """Write frames with one palette and no dither, so that static parts compress well."""
    first = next(frames)
    palette = _palette(first)
    quantised = (
        frame.quantize(palette=palette, dither=Image.Dither.NONE)
        for frame in itertools.chain([first], frames)
    )
    next(quantised).save(
        path, save_all=True, append_images=quantised, duration=round(1000 / FPS), loop=0, optimize=False
    )


def _palette(image: Image.Image) -> Image.Image:
    """Return a palette that weights small coloured regions by more than their area."""
    coarse, counts = np.unique(np.asarray(image).reshape(-1, 3) // 4, axis=0, return_counts=True)
    pixels = np.repeat(coarse * 4 + 2, np.ceil(counts**0.4).astype(int), axis=0).astype(np.uint8)
    return Image.fromarray(pixels[None]).quantize(colors=255, method=Image.Quantize.MEDIANCUT, kmeans=2)
