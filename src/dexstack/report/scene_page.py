"""Comparison of engines on one scene as an HTML file: films with contact forces, and curves."""

from __future__ import annotations

import html
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
from PIL import Image, ImageDraw

from dexstack.plants.base import Contact
from dexstack.plants.engines import State
from dexstack.report.colours import force_arrows
from dexstack.report.film import write_gif
from dexstack.report.render import Camera, Renderer
from dexstack.report.run_page import chart, picture, write_charts

FORCE = (214, 30, 130)
WIDTH, HEIGHT = 400, 300
_AZIMUTH, _ELEVATION, _FIELD = np.radians(-55.0), np.radians(22.0), np.radians(40.0)


class Run(NamedTuple):
    """Result of one engine."""

    states: State
    """States of F frames, with a leading axis (F, …)."""
    contacts: Sequence[Sequence[Contact]]
    """Contacts of each frame."""


def camera_of(model: mujoco.MjModel) -> Camera:
    """Return the model's first camera in its initial pose, or else one that sees the whole model."""
    if model.ncam:
        return Camera.of_model(model, model.camera(0).name, width=WIDTH, height=HEIGHT)
    back = np.array(
        [np.cos(_ELEVATION) * np.cos(_AZIMUTH), np.cos(_ELEVATION) * np.sin(_AZIMUTH), np.sin(_ELEVATION)]
    )
    distance, focal = (x / np.tan(_FIELD / 2.0) for x in (0.6 * model.stat.extent, HEIGHT / 2.0))
    return Camera.looking_at(model.stat.center, back, distance, focal, (WIDTH, HEIGHT))


def write_scene_page(path: Path, model: mujoco.MjModel, runs: Mapping[str, Run], title: str) -> Path:
    """Write the page of runs by engine, all with frames at :data:`dexstack.report.film.FPS`."""
    films = []
    for engine, run in runs.items():
        image = picture(_film(model, run), "gif", "film")
        films.append(f"<figure><figcaption>{html.escape(engine)}</figcaption>{image}</figure>")
    t = next(iter(runs.values())).states.time
    force = {
        engine: np.array([sum(np.linalg.norm(c.force_W) for c in frame) for frame in run.contacts])
        for engine, run in runs.items()
    }
    depth = {
        engine: np.array([max([0.0, *(-c.gap for c in frame)]) for frame in run.contacts])
        for engine, run in runs.items()
    }
    charts = [
        chart("sum of contact force magnitudes [N]", t, force, zero=True),
        chart("largest penetration [mm]", t, {engine: 1e3 * d for engine, d in depth.items()}, zero=True),
        *(
            chart(f"coordinate {k}", t, {engine: run.states.q[:, k] for engine, run in runs.items()})
            for k in range(min(model.nq, 7))
        ),
    ]
    return write_charts(path, charts, title, "".join(films))


def _film(model: mujoco.MjModel, run: Run) -> bytes:
    camera = camera_of(model)
    light = model.stat.center + model.stat.extent * np.array([0.4, -0.7, 1.6])
    renderer, data = Renderer(model, camera, light=light), mujoco.MjData(model)

    def frames():
        for q, contacts in zip(run.states.q, run.contacts, strict=True):
            data.qpos[:] = q
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            image = Image.fromarray(renderer.render(data))
            draw = ImageDraw.Draw(image)
            draw.text((6, 4), "contact forces", fill=FORCE)  # the film's palette is that of its first frame
            for arrow in force_arrows(model, contacts):
                if ((arrow - camera.p_WC) @ camera.R_WC[:, 2] > 0.0).all():
                    (x, y), end = camera.project(arrow)
                    draw.line((x, y, *end), fill=FORCE, width=2)
                    draw.ellipse((x - 2, y - 2, x + 2, y + 2), fill=FORCE)
            yield image

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "film.gif"
        write_gif(file, frames())
        return file.read_bytes()
