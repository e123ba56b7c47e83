"""Finite-strain elasticity of a layer under a rigid sinusoid by finite elements, the reference of
the pressure field.

As in Elandt et al., Fig. 6: plane strain, Poisson's ratio 0.3, unit thickness, frictionless above,
bonded below. The paper does not give the material law, but a flat punch's force is linear in its
depth there; so it is in the corotated law used here, with F = R U:

    P = 2μ (F − R) + λ tr(U − 1) R

Half a wave between planes of symmetry, with a penalty for contact.
"""

from __future__ import annotations

import math

import numpy as np
from skfem import (
    Basis,
    BilinearForm,
    ElementQuad2,
    ElementVector,
    FacetBasis,
    LinearForm,
    MeshQuad,
    condense,
    solve,
)
from skfem.helpers import ddot, grad

POISSON = 0.3
MU, LAMBDA = 0.5 / (1 + POISSON), POISSON / ((1 + POISSON) * (1 - 2 * POISSON))
"""Lamé's constants for a Young's modulus of one."""
PENALTY = 300.0
"""Pressure per depth of interpenetration, over Young's modulus per unit length."""
STEP = 0.04
"""Depth by which the sinusoid advances between two equilibria."""
TOLERANCE = 1e-9


def _rotation(F):
    """Return R, R turned by 90°, and the trace of U of F = R U, in the plane."""
    a, b = F[0, 0] + F[1, 1], F[1, 0] - F[0, 1]
    trace = np.sqrt(a * a + b * b)
    c, s = a / trace, b / trace
    return np.array([[c, -s], [s, c]]), np.array([[-s, -c], [c, -s]]), trace


def _gradient(u0):
    F = np.array(grad(u0))
    F[0, 0] += 1.0
    F[1, 1] += 1.0
    return F


@LinearForm
def _stress(v, w):
    F = _gradient(w["u0"])
    R, _, trace = _rotation(F)
    return ddot(2 * MU * (F - R) + LAMBDA * (trace - 2.0) * R, grad(v))


@BilinearForm
def _stiffness(u, v, w):
    R, turned, trace = _rotation(_gradient(w["u0"]))
    dF = grad(u)
    dR = ddot(turned, dF) / trace * turned
    return ddot(2 * MU * (dF - dR) + LAMBDA * (ddot(R, dF) * R + (trace - 2.0) * dR), grad(v))


class Layer:
    """Half a wave of the layer, pressed to increasing depth.

    Args:
        amplitude: η of the sinusoid.
        wavelength: λ.
        columns: elements along half a wave; rows in proportion.
    """

    def __init__(self, amplitude: float, wavelength: float, columns: int = 10) -> None:
        width = 0.5 * wavelength
        mesh = MeshQuad.init_tensor(
            np.linspace(0.0, width, columns + 1), np.linspace(0.0, 1.0, round(columns / width) + 1)
        )
        element = ElementVector(ElementQuad2())
        self._amplitude, self._wave, self._width = amplitude, 2 * math.pi / wavelength, width
        self._basis = Basis(mesh, element, intorder=4)
        self._top = FacetBasis(
            mesh, element, facets=mesh.facets_satisfying(lambda x: np.isclose(x[1], 1.0)), intorder=8
        )
        sides = mesh.facets_satisfying(lambda x: np.isclose(x[0], 0.0) | np.isclose(x[0], width))
        below = mesh.facets_satisfying(lambda x: np.isclose(x[1], 0.0))
        self._held = np.union1d(self._basis.get_dofs(sides).all(["u^1"]), self._basis.get_dofs(below).all())
        self._lifted = self._basis.get_dofs(mesh.facets_satisfying(lambda x: np.isclose(x[1], 1.0))).all(
            ["u^2"]
        )
        self._free = self._basis.complement_dofs(self._held)
        self._u = self._basis.zeros()

    def force(self, depth: float) -> float:
        """Return the mean pressure at equilibrium with the sinusoid's lowest line ``depth`` below
        the undeformed layer's face.

        Raises:
            FloatingPointError: no equilibrium was found.
        """
        eta, k, width = self._amplitude, self._wave, self._width

        def overlap(w):
            x, y = w.x[0] + w["u0"][0], 1.0 + w["u0"][1]
            return (
                y - (1.0 - depth + eta * (1.0 - np.cos(k * x))),
                eta * k * np.sin(k * x),
                eta * k * k * np.cos(k * x),
            )

        @LinearForm
        def push(v, w):
            gap, slope, _ = overlap(w)
            return PENALTY * np.maximum(gap, 0.0) * (v[1] - slope * v[0])

        @BilinearForm
        def push_rate(u, v, w):
            gap, slope, bend = overlap(w)
            touching = gap > 0.0
            return (
                PENALTY
                * touching
                * ((u[1] - slope * u[0]) * (v[1] - slope * v[0]) - gap * bend * u[0] * v[0])
            )

        @LinearForm
        def total(v, w):
            return PENALTY * np.maximum(overlap(w)[0], 0.0) * v[1] / width

        def residual(u):
            found = _stress.assemble(self._basis, u0=self._basis.interpolate(u)) + push.assemble(
                self._top, u0=self._top.interpolate(u)
            )
            return found, float(np.linalg.norm(found[self._free]))

        u = self._u
        left, size = residual(u)
        for _ in range(60):
            if size < TOLERANCE:
                self._u = u
                lift = self._top.zeros()
                lift[self._lifted] = 1.0
                return float(total.assemble(self._top, u0=self._top.interpolate(u)) @ lift)
            inner, rim = self._basis.interpolate(u), self._top.interpolate(u)
            tangent = _stiffness.assemble(self._basis, u0=inner) + push_rate.assemble(self._top, u0=rim)
            step = solve(*condense(tangent, -left, D=self._held))
            before = size
            for part in (1.0, 0.5, 0.25, 0.125):
                left, size = residual(u + part * step)
                if size < before:
                    break
            u = u + part * step
        raise FloatingPointError(f"no equilibrium of the layer at depth {depth:g}")


def forces(
    amplitude: float, wavelength: float, depth: float, columns: int = 10
) -> tuple[np.ndarray, np.ndarray]:
    """Return depths up to ``depth`` and the layer's mean pressures there, over that of a flat punch
    at ``depth``."""
    layer = Layer(amplitude, wavelength, columns)
    depths = np.linspace(STEP, depth, round(depth / STEP))
    flat = (2 * MU + LAMBDA) * depth
    return depths, np.array(
        [_advance(layer, start, end) for start, end in zip(np.append(0.0, depths), depths, strict=False)]
    ) / flat


def _advance(layer: Layer, start: float, end: float, halvings: int = 5) -> float:
    """Return the force at depth ``end``, in two halves if Newton's method fails."""
    try:
        return layer.force(end)
    except FloatingPointError:
        if not halvings:
            raise
    middle = 0.5 * (start + end)
    _advance(layer, start, middle, halvings - 1)
    return _advance(layer, middle, end, halvings - 1)
