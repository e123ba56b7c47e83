"""What acts on the faces of a contact surface: pressure with dissipation, regularised friction,
wrench.

Static pressure is linear on a polygon. The fan about the centroid integrates it and its moment
exactly (edge midpoints, degree two) and changes continuously while corners come and go; rate terms
are taken at the same points. One point per polygon (its centroid) integrates the force exactly and
the moment to second order in the mesh size; that is what the velocity-level scheme uses.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from dexengines.hydroelastic.surface import ContactSurface


class ContactLaw(NamedTuple):
    """p = (p0 (1 + χ ε̇ − d v_n) + τ ṗ0)_+ and t = −μ p v_t / √(v_s² + ‖v_t‖²), with v_n > 0 while
    the bodies part.

    ṗ0 = −g v_n is the rate of the static pressure, g = g_A g_B / (g_A + g_B) from g_A = ∇p_A·n̂ and
    g_B = −∇p_B·n̂ (rigid B: g = g_A), and ε̇ = ṗ0 / E. One of χ, d, τ is meant to be non-zero.
    """

    modulus: float
    """E [Pa] of χ; of the softer body where they differ"""
    chi: float = 0.0
    """Hunt–Crossley, on the rate of the penetration extent [s]"""
    hunt_crossley: float = 0.0
    """d, Hunt–Crossley on the speed of approach [s/m]"""
    relaxation: float = 0.0
    """τ, linear dissipation [s]"""
    friction: float = 0.0
    """μ"""
    stiction_speed: float = 1e-4
    """v_s [m/s]"""


@njit(cache=True, forceinline=True)
def effective_gradient(grad_a, grad_b, rigid):
    """g [Pa/m] of a face, zero where pushing deeper would not raise the pressure."""
    if rigid:
        return max(grad_a, 0.0)
    if grad_a <= 0.0 or grad_b >= 0.0:
        return 0.0
    return grad_a * -grad_b / (grad_a - grad_b)


@njit(cache=True)
def wrench_kernel(out, n, law, rigid, about_W, w_AB_W, v_AB_W, wrench):
    """Wrench on A by the faces of a surface, on the fan about every centroid.

    Args:
        out: :class:`~dexengines.hydroelastic.surface.Surface` with n faces.
        law: :class:`ContactLaw`.
        rigid: whether B is rigid.
        about_W: (3,) point the moment is taken about.
        w_AB_W: (3,) angular velocity of A relative to B [rad/s].
        v_AB_W: (3,) velocity of A relative to B at ``about_W`` [m/s].
        wrench: (6,) filled: moment [N m], force [N] on A; on B act their opposites.
    """
    t0 = t1 = t2 = f0 = f1 = f2 = 0.0
    w0, w1, w2 = w_AB_W
    for i in range(n):
        first, last = out.start[i], out.start[i + 1]
        n0, n1, n2 = out.nhat_W[i]
        c0, c1, c2 = out.centroid_W[i]
        # static pressure on the polygon is the centroid's plus slope·(x − centroid)
        g = effective_gradient(out.grad_a[i], out.grad_b[i], rigid)
        s0, s1, s2 = out.slope_W[i]
        for k in range(first, last):
            m = k + 1 if k + 1 < last else first
            a0, a1, a2 = out.vertex_W[k, 0] - c0, out.vertex_W[k, 1] - c1, out.vertex_W[k, 2] - c2
            b0, b1, b2 = out.vertex_W[m, 0] - c0, out.vertex_W[m, 1] - c1, out.vertex_W[m, 2] - c2
            area = 0.5 * ((a1 * b2 - a2 * b1) * n0 + (a2 * b0 - a0 * b2) * n1 + (a0 * b1 - a1 * b0) * n2)
            for q in range(3):  # midpoints of the triangle's edges
                wa = 0.0 if q == 0 else 0.5
                wb = 0.0 if q == 1 else 0.5
                x0, x1, x2 = wa * a0 + wb * b0, wa * a1 + wb * b1, wa * a2 + wb * b2
                p = max(out.pressure[i] + s0 * x0 + s1 * x1 + s2 * x2, 0.0)
                r0, r1, r2 = c0 + x0 - about_W[0], c1 + x1 - about_W[1], c2 + x2 - about_W[2]
                v0 = v_AB_W[0] + w1 * r2 - w2 * r1
                v1 = v_AB_W[1] + w2 * r0 - w0 * r2
                v2 = v_AB_W[2] + w0 * r1 - w1 * r0
                vn = v0 * n0 + v1 * n1 + v2 * n2
                p = max(
                    p * (1.0 - law.chi * g / law.modulus * vn - law.hunt_crossley * vn)
                    - law.relaxation * g * vn,
                    0.0,
                )
                v0, v1, v2 = v0 - vn * n0, v1 - vn * n1, v2 - vn * n2
                rub = (
                    -law.friction
                    * p
                    / math.sqrt(law.stiction_speed * law.stiction_speed + v0 * v0 + v1 * v1 + v2 * v2)
                )
                weight = area / 3.0
                q0, q1, q2 = (
                    weight * (p * n0 + rub * v0),
                    weight * (p * n1 + rub * v1),
                    weight * (p * n2 + rub * v2),
                )
                f0, f1, f2 = f0 + q0, f1 + q1, f2 + q2
                t0 += r1 * q2 - r2 * q1
                t1 += r2 * q0 - r0 * q2
                t2 += r0 * q1 - r1 * q0
    wrench[0], wrench[1], wrench[2], wrench[3], wrench[4], wrench[5] = t0, t1, t2, f0, f1, f2


def wrench(
    surface: ContactSurface,
    law: ContactLaw,
    about_W: np.ndarray,
    w_AB_W: np.ndarray | None = None,
    v_AB_W: np.ndarray | None = None,
) -> np.ndarray:
    """(6,) moment about a point and force on A, see :func:`wrench_kernel`; at rest without
    velocities."""
    out, zero = np.empty(6), np.zeros(3)
    wrench_kernel(
        surface.faces,
        surface.n,
        law,
        surface.rigid,
        np.asarray(about_W, float),
        zero if w_AB_W is None else np.asarray(w_AB_W, float),
        zero if v_AB_W is None else np.asarray(v_AB_W, float),
        out,
    )
    return out


def polygon_wrench(surface: ContactSurface, about_W: np.ndarray) -> np.ndarray:
    """(6,) static moment about a point and force on A with one point per polygon, its centroid."""
    force = (surface.pressure * surface.area)[:, None] * surface.nhat_W
    return np.concatenate([np.cross(surface.centroid_W - about_W, force).sum(axis=0), force.sum(axis=0)])
