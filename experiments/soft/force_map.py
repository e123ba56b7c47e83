"""Force between two spheres as one slides past, compared with MuJoCo's; derivatives out of
contact."""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from matplotlib.figure import Figure

from dexengines.soft import cloud
from dexengines.soft.scm import ContactParams
from dexstack.process.compilation import jit
from experiments.harness import BLUE, PINK, Findings, experiment
from experiments.soft.systems import dense_pair

RADII = (0.05, 0.03)
"""Radii of the fixed sphere and of the one that slides past [m]."""


def force_map() -> Findings:
    """Compute the force on a sphere that slides past another, along y and over the x–y plane, with
    both engines."""
    balls = [cloud.sphere(r, 0.2 * r) for r in RADII]
    params = ContactParams(stiffness=1e4, eps1=2e-5, eps2=2e-3, eps3=2e-3)

    def force(p: jax.Array) -> jax.Array:
        return dense_pair(
            *balls[0], *balls[1], jnp.eye(3, dtype=p.dtype), p, jnp.zeros(6, p.dtype), params
        ).wrench[:3]

    y = np.linspace(-0.11, 0.11, 89)
    line = np.column_stack([np.full_like(y, 0.04), y, np.zeros_like(y)])
    with jax.enable_x64(True):
        many = jit(lambda x: jax.lax.map(force, x))
        ours = np.asarray(many(jnp.asarray(line)))
        xs = np.linspace(-0.1, 0.1, 31)
        grid = np.stack(np.meshgrid(xs, xs), axis=-1).reshape(-1, 2)
        grid = np.hstack([grid, np.zeros((len(grid), 1))])
        ours_map = np.linalg.norm(np.asarray(many(jnp.asarray(grid))), axis=1).reshape(len(xs), -1)
        apart = jnp.array([0.0, sum(RADII) + 0.01, 0.0])  # a centimetre out of contact
        push = lambda p: force(p)[1]  # noqa: E731
        gradient, hessian = (np.asarray(jit(f(push))(apart)) for f in (jax.grad, jax.hessian))
    theirs, theirs_map = mujoco_force(line), np.linalg.norm(mujoco_force(grid), axis=1).reshape(len(xs), -1)

    def jump(f: np.ndarray) -> float:
        size = np.linalg.norm(f, axis=1)
        return float(np.abs(np.diff(size, 2)).max() / size.max())

    finite = bool(
        np.isfinite(gradient).all()
        and np.isfinite(hessian).all()
        and gradient[1] != 0.0
        and hessian[1, 1] != 0.0
    )
    results = {
        "gradient_out_of_contact": gradient,
        "hessian_out_of_contact": hessian,
        "second_difference": {"soft": jump(ours), "mujoco": jump(theirs)},
        "passed": finite and jump(ours) < jump(theirs),
    }
    figure = Figure(figsize=(11.0, 6.0), layout="constrained")
    axes = figure.subplots(2, 2)
    for row, (name, curve, area) in zip(
        axes, (("SCM", ours, ours_map), ("MuJoCo", theirs, theirs_map)), strict=True
    ):
        for i, colour in enumerate((BLUE, PINK)):
            row[0].plot(1e3 * y, curve[:, i], color=colour, label=f"force along {'xy'[i]}")
        row[0].set(xlabel="y [mm]", ylabel="force [N]", title=f"{name}: past at x = 40 mm")
        row[0].legend()
        image = row[1].imshow(area, extent=(-100, 100, -100, 100), origin="lower", cmap="viridis")
        figure.colorbar(image, ax=row[1], label="force [N]")
        row[1].set(xlabel="x [mm]", ylabel="y [mm]", title=name)
    lines = [
        f"10 mm apart: gradient along y {gradient[1]:.3g} N/m, Hessian {hessian[1, 1]:.3g} N/m², "
        f"both finite and not zero: {finite}",
        f"largest second difference along y over the largest force: SCM {jump(ours):.3f}, "
        f"MuJoCo {jump(theirs):.3f}",
    ]
    return Findings(results, figure, lines)


def mujoco_force(where: np.ndarray) -> np.ndarray:
    """Return MuJoCo's contact force (N, 3) on a sphere at rest with its centre at ``where`` (N,
    3)."""
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><option gravity="0 0 0"/><worldbody><geom size="{RADII[0]}"/>'
        f'<body name="b"><freejoint/><geom size="{RADII[1]}" mass="1"/></body></worldbody></mujoco>'
    )
    data = mujoco.MjData(model)
    result = np.zeros((len(where), 3))
    for i, p in enumerate(where):
        data.qpos[:3], data.qvel[:] = p, 0.0
        mujoco.mj_forward(model, data)
        result[i] = data.qfrc_constraint[:3]
    return result


main = experiment(__spec__.name, __doc__, lambda args: force_map())


if __name__ == "__main__":
    sys.exit(main())
