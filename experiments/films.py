"""Films of experiments: states of one MuJoCo model as a GIF."""

from __future__ import annotations

import argparse
from pathlib import Path

import mujoco
import numpy as np
from PIL import Image

from dexstack.report.film import FPS, write_gif
from dexstack.report.render import Camera, Renderer

SIZE = (400, 300)
"""Width and height of a picture [px]."""


def add_film(parser: argparse.ArgumentParser) -> None:
    """Add ``--film`` to an experiment's parser."""
    parser.add_argument("--film", type=Path, metavar="FILE", help="write a GIF of the motion")


def write(
    path: Path,
    model: mujoco.MjModel,
    t: np.ndarray,
    q: np.ndarray,
    at_W: tuple[float, float, float],
    back_W: tuple[float, float, float],
    *,
    distance: float,
    slower: float = 1.0,
) -> None:
    """Write a GIF.

    Args:
        path: the file.
        model: model of the states; its geoms are drawn.
        t: times (K,) [s], increasing.
        q: states (K, nq).
        at_W: the point that the camera looks at [m].
        back_W: direction (3,) from that point to the camera; not vertical.
        distance: distance of the camera from the point [m].
        slower: seconds of the film per second of the motion.
    """
    camera = Camera.looking_at(np.array(at_W), np.array(back_W), distance, 1.6 * SIZE[0], SIZE)
    renderer, data = Renderer(model, camera), mujoco.MjData(model)
    count = max(2, round(FPS * slower * (t[-1] - t[0])))
    shown = np.searchsorted(t, np.linspace(t[0], t[-1], count)).clip(0, len(t) - 1)

    def picture(k: int) -> Image.Image:
        data.qpos[:] = q[k]
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        return Image.fromarray(renderer.render(data))

    write_gif(path, (picture(k) for k in shown))
