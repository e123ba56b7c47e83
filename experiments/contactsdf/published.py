"""The θ that the authors of ContactSDF publish with their code, converted to θ files.

Theirs is a vector (σ, m_t, m_rx, m_ry, m_rz, k, s, f) in which squared reciprocals are masses over h²:

    inertia   (h²/m_t² three times, h²/m_rx², h²/m_ry², h²/m_rz²)   [kg, kg m²]
    stiffness 1/k²   mass s²   friction 1/(1 + e^(−f))   σ unchanged   cover 0.99

with h = 0.1 s. The authors' planner for the hand applies the logistic function to f, that for the balls
does not; here both do, since without it the balls seldom flip the cube. The numbers serve control
and are not physical: the cube's mass for the balls is below a milligram.

Required: the packaged files have these numbers. ``--to`` writes files to another folder.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dexstack.cli.output import table
from dexstack.control.problem import ModelParams
from dexstack.control.theta_file import ThetaFile, load_theta, save_theta
from dexstack.tasks import load_task
from experiments.harness import Findings, experiment

STEP, COVER = 0.1, 0.99
"""h [s], and the share of a command that a free joint covers in it."""
PUBLISHED = {
    ("three_ball", "cube"): (120.417, 0.0913591, 1.4693, 0.602442, 1.32538, 0.513266, -0.000302907, 1.08711),
    ("three_ball", "foambrick"): (120.223, 0.403609, 1.5038, 1.14279, 1.55258, 0.99718, -0.015059, 0.340951),
    ("three_ball", "stick"): (100.545, 0.199336, 1.90137, 1.94328, 1.60386, 0.769046, -0.00101175, 0.755457),
    ("palm_turn", "cube"): (119.659, 0.653641, 0.875519, 0.766121, 0.670051, 1.3007, 0.0913508, 0.173678),
    ("palm_turn", "foambrick"): (119.323, 0.50069, 0.73698, 0.89663, 0.52353, 1.75736, -0.06093, 0.47797),
    ("palm_turn", "stick"): (99.6527, 0.65116, 0.71217, 0.65902, 0.66815, 1.26332, -0.04682, 0.15578),
}
"""Vector of every task and object."""
DATE = "2024-08-31T00:00:00+00:00"
SOURCE = "published with the code of ContactSDF, converted by experiments.contactsdf.published"


def converted(vector: Sequence[float], joints: int) -> ModelParams:
    """Return θ for a robot of ``joints`` joints from a published vector (8,)."""
    sigma, translation, *rotation, k, root_mass, friction = vector
    inertia = STEP**2 / np.square([translation] * 3 + rotation)
    return ModelParams(
        inertia=inertia,
        stiffness=np.full(joints, 1.0 / k**2),
        cover=np.full(joints, COVER),
        mass=np.asarray(root_mass**2),
        friction=np.asarray(1.0 / (1.0 + math.exp(-friction))),
        sigma=np.asarray(sigma),
    )


def name_of(task: str, obj: str) -> str:
    """Return the name of the θ of a task and object, for ``--theta``."""
    return f"paper_{task}_{obj}"


def make(args: argparse.Namespace) -> Findings:
    """Convert every vector, and compare with the packaged files."""
    rows, differing = [], []
    for (task, obj), vector in PUBLISHED.items():
        robot, name = load_task(task)(None, obj, "right").robot(), name_of(task, obj)
        theta = converted(vector, len(robot.joint_names))
        if args.to is not None:
            content = ThetaFile(theta, obj, robot.name, "dsdf", STEP, 0, DATE, {"source": SOURCE})
            save_theta(args.to / f"{name}.yaml", content)
        kept = load_theta(name, len(robot.joint_names)).theta
        if not all(np.allclose(a, b, rtol=1e-6) for a, b in zip(kept, theta, strict=True)):
            differing.append(name)
        numbers = (*theta.inertia[2:], theta.stiffness[0], theta.mass, theta.friction, theta.sigma)
        rows.append([task, obj, *map(float, numbers)])
    columns = [
        "task",
        "object",
        "m [kg]",
        "I_x [kg m²]",
        "I_y",
        "I_z",
        "k [N/m, N m/rad]",
        "gravity's m [kg]",
    ]
    results = {"passed": not differing, "differing": differing, "files": len(rows)}
    return Findings(results, lines=[table("published θ", [*columns, "μ", "σ"], rows)])


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", type=Path, metavar="DIR", help="also write the files to a folder")


main = experiment("experiments.contactsdf.published", __doc__, make, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
