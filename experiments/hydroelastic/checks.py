"""Contact forces against closed forms: a sphere on a plane under mesh refinement, sinusoids pressed into a layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dexstack.engines.hydroelastic import shapes
from dexstack.engines.hydroelastic.fields import RigidMesh
from dexstack.engines.hydroelastic.forces import ContactLaw, wrench
from dexstack.engines.hydroelastic.surface import Workspace, query

STATIC = ContactLaw(modulus=1.0)
RADIUS, PENETRATION, MODULUS = 0.05, 0.01, 1e5
WAVELENGTH = 2 * math.pi / 3
DEPTH = 0.4
AMPLITUDES = (0.0, 0.166, 0.333)
FEM_GAP = 0.23
"""By how much the paper's pressure field force is below its finite element force at the largest amplitude; more is too much."""


def sphere_force(radius: float, penetration: float, modulus: float) -> float:
    """Force [N] of a compliant sphere, p = E (1 − r/R), on a rigid plane: 2πE [a²/2 − (R³ − h³)/(3R)], h = R − δ, a² = R² − h²."""
    h = radius - penetration
    return 2 * math.pi * modulus * ((radius**2 - h**2) / 2 - (radius**3 - h**3) / (3 * radius))


def convergence(sizes: list[float]) -> tuple[list[float], list[float]]:
    """Relative error of the force of a sphere on a rigid plane for every mesh size, and the order between successive sizes."""
    exact = sphere_force(RADIUS, PENETRATION, MODULUS)
    out, ground = Workspace(), shapes.rigid_half_space()
    R = np.eye(3)
    errors = []
    for size in sizes:
        ball = shapes.sphere(RADIUS, MODULUS, size=size)
        surface = query(ball, ground, R, np.array([0.0, 0.0, RADIUS - PENETRATION]), R, np.zeros(3), out)
        errors.append(abs(wrench(surface, STATIC, np.zeros(3))[5] - exact) / exact)
    orders = [math.log(errors[i] / errors[i + 1]) / math.log(sizes[i] / sizes[i + 1]) for i in range(len(sizes) - 1)]
    return errors, orders


def sinusoid(amplitude: float, segments: int = 96) -> RigidMesh:
    """One wavelength of a rigid sinusoid, one metre wide, its lowest line at z = 0, facing down."""
    x = WAVELENGTH * np.linspace(-0.5, 0.5, segments + 1)
    z = amplitude * (1 - np.cos(2 * np.pi * x / WAVELENGTH))
    n = len(x)
    vertices = np.column_stack([np.tile(x, 2), np.repeat([-0.5, 0.5], n), np.tile(z, 2)])
    i = np.arange(segments)
    triangles = np.concatenate([np.column_stack([i, n + i, i + 1]), np.column_stack([i + 1, n + i, n + i + 1])])
    return RigidMesh(f"sinusoid {amplitude:g}", vertices, triangles)


def sinusoid_force(amplitude: float, depth: float = DEPTH, segments: int = 96) -> tuple[float, float]:
    """Force over that of the flat punch at :data:`DEPTH`, on a layer of unit thickness; and its closed form.

    The layer's pressure is E times the depth, so the exact value is the mean of max(depth − η (1 − cos θ), 0) over one wave, over 0.4.
    """
    layer = shapes.half_space(1.0, depth=1.0)
    R = np.eye(3)
    surface = query(layer, sinusoid(amplitude, segments), R, np.zeros(3), R, np.array([0.0, 0.0, -depth]), Workspace())
    force = -wrench(surface, STATIC, np.zeros(3))[5] / (WAVELENGTH * DEPTH)
    if depth >= 2 * amplitude:
        exact = depth - amplitude
    else:
        t = math.acos(1 - depth / amplitude)  # half the angle in contact
        exact = ((depth - amplitude) * t + amplitude * math.sin(t)) / math.pi
    return float(force), exact / DEPTH


def draw_sinusoids(path: Path, elastic: Sequence[tuple[np.ndarray, np.ndarray]]) -> Path:
    """Force against depth for every amplitude, computed (dots), closed form (lines) and by finite elements (dashes), as a PNG.

    Args:
        path: where to.
        elastic: per amplitude what :func:`~experiments.hydroelastic.fem.forces` found.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 4.0), layout="constrained")
    ax = figure.subplots()
    depths = np.linspace(0.02, DEPTH, 20)
    for amplitude, colour, fem in zip(AMPLITUDES, ("#1f5fa8", "#3a9d5d", "#d61e82"), elastic, strict=True):
        ax.plot(*fem, "--", lw=1.5, color=colour)
        values = np.array([sinusoid_force(amplitude, d) for d in depths])
        ax.plot(depths, values[:, 0], "o", ms=4, color=colour, label=f"η = {amplitude:g} (dashed: finite elements)")
        ax.plot(depths, values[:, 1], "-", lw=1, color=colour)
    ax.set_xlabel("depth pressed into a layer of unit thickness")
    ax.set_ylabel("force over that of the flat punch at 0.4")
    ax.grid(alpha=0.3)
    ax.legend()
    figure.savefig(path, dpi=110)
    return path


def draw_convergence(path: Path, sizes: list[float], errors: list[float]) -> Path:
    """Error against mesh size, with a line of order two, as a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0, 4.0), layout="constrained")
    ax = figure.subplots()
    ax.loglog(sizes, errors, "o-", color="#1f5fa8", label="sphere on a plane")
    ax.loglog(sizes, errors[0] * (np.array(sizes) / sizes[0]) ** 2, "--", color="0.5", label="order 2")
    ax.set_xlabel("mesh size [m]")
    ax.set_ylabel("relative error of the force")
    ax.grid(alpha=0.3, which="both")
    ax.legend()
    figure.savefig(path, dpi=110)
    return path
