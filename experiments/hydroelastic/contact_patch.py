"""Pictures of pressure fields and contact surfaces."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from dexengines.hydroelastic.fields import CompliantMesh
from dexengines.hydroelastic.surface import ContactSurface

CUTS = 160


def draw_contact(mesh: CompliantMesh, surface: ContactSurface) -> Figure:
    """The pressure field of A in its plane y = 0, and the faces of a contact surface in world
    coloured by pressure."""
    figure = Figure(figsize=(10.0, 4.4), layout="constrained")
    ax = figure.add_subplot(1, 2, 1)
    low, high = mesh.vertices_B.min(axis=0), mesh.vertices_B.max(axis=0)
    x, z = np.linspace(low[0], high[0], CUTS), np.linspace(low[2], high[2], CUTS)
    points = np.stack(np.meshgrid(x, z), axis=-1).reshape(-1, 2)
    points = np.column_stack([points[:, 0], np.full(len(points), 1e-9 * (high - low).max()), points[:, 1]])
    field = np.full(len(points), np.nan)
    for planes, gradient, offset in zip(mesh.planes, mesh.gradient_B, mesh.offset, strict=True):
        inside = (points @ planes[:, :3].T + planes[:, 3] >= 0).all(axis=1)
        field[inside] = points[inside] @ gradient + offset
    image = ax.pcolormesh(x, z, field.reshape(CUTS, CUTS), shading="auto", cmap="viridis")
    figure.colorbar(image, ax=ax, label="pressure [Pa]")
    ax.set_aspect("equal")
    ax.set_title(f"field of {mesh.name}, y = 0")
    ax.set_xlabel("x [m]")
    ax.set_ylabel("z [m]")

    ax = figure.add_subplot(1, 2, 2, projection="3d")
    ax.set_title(f"{surface.n} faces")
    if surface.n:
        faces = [surface.vertex_W[surface.start[i] : surface.start[i + 1]] for i in range(surface.n)]
        patch = Poly3DCollection(faces, edgecolors="k", linewidths=0.3, cmap="viridis")
        patch.set_array(surface.pressure)
        ax.add_collection3d(patch)
        centre, half = surface.vertex_W.mean(axis=0), 0.5 * np.ptp(surface.vertex_W, axis=0).max()
        for axis, name in zip((ax.set_xlim, ax.set_ylim, ax.set_zlim), range(3), strict=True):
            axis(centre[name] - half, centre[name] + half)
        figure.colorbar(patch, ax=ax, label="pressure [Pa]", shrink=0.7)
    return figure
