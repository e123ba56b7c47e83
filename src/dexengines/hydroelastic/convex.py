"""One step's contact problem as a convex minimisation over the new velocity, by Newton's method
with an exact line search.

    min_v  ½ ‖v − v*‖²_A + Σ_faces ℓ(v_c) + Σ_limits ℓ_n(v_j)

v_c is the velocity of body B relative to A at the face's centroid, A (nv, nv) the mass matrix plus
δt times the implicit damping, v* the velocity without contact. A face's impulse is −∂ℓ/∂v_c. With
v_n = n̂·v_c (n̂ from A into B, v_n > 0 separates), v_t = v_c − v_n n̂,

    y_n = (v̂_n − v_n)/R_n,   y_t = −v_t/R_t

* :data:`SAP`: γ = P(y), the projection on the cone ‖γ_t‖ ≤ μ γ_n in the norm of R = diag(R_t, R_t,
  R_n): stick, slide or separate in closed form. A sliding face is lifted by μ‖v_t‖ (δt + τ), a
  consequence of the convex cone.
* :data:`LAGGED`: γ_n = (y_n)₊, and γ_t = y_t cut to length μ n₀, with n₀ a normal impulse known
  before the solve: nothing lifts. n₀ starts as the elastic impulse of the old pose; while it
  differs from the solution's normal impulses, these replace it and the problem is solved again, so
  that friction does not lag behind an impact. At convergence this is Coulomb's law.

Where a body is one of revolution (``discrete.py``), v_n is n̂·v_c − q·ω with ω the relative angular
velocity, and the normal force has the couple −q γ_n as well.

Each face's force depends on one relative twist per body pair, so that faces only use 3- and
6-vectors: the Hessian of a pair is 6×6 for any number of faces, and the linear system has the size
of the velocity. Its Cholesky factor stays inside the envelope of A and the pairs: bodies that do
not touch cost nothing.
"""

from __future__ import annotations

import numpy as np

from dexengines.hydroelastic.envelope import back_substitute, factorise
from dexengines.hydroelastic.problem import (
    CN,
    CT,
    LAGGED,
    MU,
    N0,
    NX,
    NY,
    NZ,
    QX,
    QY,
    QZ,
    RX,
    RY,
    RZ,
    SAP,
    VHAT,
    Problem,
    SolveStatus,
    Workspace,
)
from dexengines.kernels import KERNEL, inner

TOLERANCE = 1e-8
"""Largest relative optimality residual of a solved problem."""
_TARGET = 1e-11
LAG = 1e-3
"""Largest difference of the n₀ from the normal impulses, relative to their sum, of a settled
problem."""
WHOLE_ROUNDS, MAX_ROUNDS = 4, 24
"""Further solves in which the n₀ are updated fully, and in all; the later ones update by half."""
_MAX_ITERATIONS = 200


_SOLVED, _NOT_CONVERGED, _NOT_FINITE = (int(status) for status in SolveStatus)


@inner(**KERNEL)
def pair_twists(p: Problem, v: np.ndarray, V: np.ndarray) -> None:
    for k in range(p.counts[0]):
        for i in range(6):
            s = 0.0
            for j in range(p.pair_ndof[k]):
                s += p.pair_J[k, i, j] * v[p.pair_dof[k, j]]
            V[k, i] = s


@inner(**KERNEL)
def _face_velocity(face: np.ndarray, V: np.ndarray) -> tuple[float, float, float]:
    rx, ry, rz = face[RX], face[RY], face[RZ]
    return V[0] + V[4] * rz - V[5] * ry, V[1] + V[5] * rx - V[3] * rz, V[2] + V[3] * ry - V[4] * rx


@inner(forceinline=True, **KERNEL)
def _left_out(face: np.ndarray, V: np.ndarray) -> float:
    """Return the part of the normal velocity that does not change the pressure."""
    return face[QX] * V[3] + face[QY] * V[4] + face[QZ] * V[5]


@inner(**KERNEL)
def _rank_one(
    G: np.ndarray, a: float, m: tuple[float, ...], r: tuple[float, ...], q: tuple[float, ...]
) -> None:
    """G (6, 6) += a m̃ m̃ᵀ, lower triangle, with m̃ = [m; r × m − q]."""
    c0, c1, c2 = r[1] * m[2] - r[2] * m[1], r[2] * m[0] - r[0] * m[2], r[0] * m[1] - r[1] * m[0]
    w = (m[0], m[1], m[2], c0 - q[0], c1 - q[1], c2 - q[2])
    for i in range(6):
        s = a * w[i]
        for j in range(i + 1):
            G[i, j] += s * w[j]


@inner(forceinline=True, **KERNEL)
def _impulse(face: np.ndarray, scheme: int, vn: float, slip: float) -> tuple[float, float, bool]:
    """Return γ_n, b of γ_t = −b v_t, and whether the face slides, for its normal velocity and its
    speed of sliding."""
    cn, ct, mu = face[CN], face[CT], face[MU]
    yn, yt = (face[VHAT] - vn) * cn, slip * ct
    if scheme == SAP:
        if yt <= mu * yn:
            return yn, ct, False
        # μ̃² = μ² R_t/R_n; the projection's normal part is zero or less when the face separates
        gn = max((yn + mu * slip * cn) / (1.0 + mu * mu * cn / ct), 0.0)
        return gn, mu * gn / slip if gn > 0.0 else 0.0, True
    if yt > mu * face[N0]:
        return max(yn, 0.0), mu * face[N0] / slip, True
    return max(yn, 0.0), ct, False


@inner(**KERNEL)
def pair_gradient_hessian(p: Problem, scheme: int, V: np.ndarray, G: np.ndarray) -> None:
    """Compute the impulse (6,) of each pair at relative twists V, and G = −∂impulse/∂V (6, 6); in one
    piece because the sums over faces stay in registers."""
    for k in range(p.counts[0]):
        Gk, Vk, out = G[k], V[k], p.impulse[k]
        Gk[:] = 0.0
        turns, still, q = p.pair_turns[k], (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
        sx = sy = sz = mx = my = mz = 0.0
        # sums of b (I, [r]×, r²I − rrᵀ) over the faces whose stiffness has a part b I
        b0 = b1 = b2 = b3 = qxx = qyy = qzz = qxy = qxz = qyz = 0.0
        for f in range(p.pair_start[k], p.pair_start[k + 1]):
            face = p.faces[f]
            rx, ry, rz, nx, ny, nz = face[RX], face[RY], face[RZ], face[NX], face[NY], face[NZ]
            vx, vy, vz = _face_velocity(face, Vk)
            vn = nx * vx + ny * vy + nz * vz
            tx, ty, tz = vx - vn * nx, vy - vn * ny, vz - vn * nz
            slip = np.sqrt(tx * tx + ty * ty + tz * tz)
            if turns:
                q = face[QX], face[QY], face[QZ]
                vn -= q[0] * Vk[3] + q[1] * Vk[4] + q[2] * Vk[5]
            gn, b, sliding = _impulse(face, scheme, vn, slip)
            cn, ct, mu = face[CN], face[CT], face[MU]
            if gn <= 0.0 and (scheme == SAP or mu * face[N0] <= 0.0):
                continue
            fx, fy, fz = gn * nx - b * tx, gn * ny - b * ty, gn * nz - b * tz  # γ_t = −b v_t in either case
            sx += fx
            sy += fy
            sz += fz
            mx += ry * fz - rz * fy
            my += rz * fx - rx * fz
            mz += rx * fy - ry * fx
            if turns:
                mx, my, mz = mx - gn * q[0], my - gn * q[1], mz - gn * q[2]
            n, r = (nx, ny, nz), (rx, ry, rz)
            if sliding:
                ux, uy, uz = tx / slip, ty / slip, tz / slip
                if scheme == SAP:
                    a = cn / (1.0 + mu * mu * cn / ct)
                    _rank_one(Gk, a, (nx - mu * ux, ny - mu * uy, nz - mu * uz), r, q)
                elif gn > 0.0:
                    _rank_one(Gk, cn, n, r, q)
                across = ny * uz - nz * uy, nz * ux - nx * uz, nx * uy - ny * ux
                _rank_one(Gk, b, across, r, still)
            else:
                normal = cn if gn > 0.0 else 0.0
                if turns:
                    _rank_one(Gk, normal, n, r, q)
                    normal = 0.0
                _rank_one(Gk, normal - b, n, r, still)
                b0 += b
                b1 += b * rx
                b2 += b * ry
                b3 += b * rz
                qxx += b * rx * rx
                qyy += b * ry * ry
                qzz += b * rz * rz
                qxy += b * rx * ry
                qxz += b * rx * rz
                qyz += b * ry * rz
        out[0], out[1], out[2], out[3], out[4], out[5] = sx, sy, sz, mx, my, mz
        Gk[0, 0] += b0
        Gk[1, 1] += b0
        Gk[2, 2] += b0
        Gk[3, 1] -= b3
        Gk[3, 2] += b2
        Gk[4, 0] += b3
        Gk[4, 2] -= b1
        Gk[5, 0] -= b2
        Gk[5, 1] += b1
        Gk[3, 3] += qyy + qzz
        Gk[4, 4] += qxx + qzz
        Gk[5, 5] += qxx + qyy
        Gk[4, 3] -= qxy
        Gk[5, 3] -= qxz
        Gk[5, 4] -= qyz
        for i in range(6):
            for j in range(i):
                Gk[j, i] = Gk[i, j]


@inner(**KERNEL)
def _slope_along(
    p: Problem, scheme: int, V: np.ndarray, dV: np.ndarray, alpha: float, U: np.ndarray
) -> tuple[float, float]:
    """Return the first and second derivative of the faces' cost with respect to alpha at V + alpha
    dV; ``U`` (6,) is scratch."""
    d1 = d2 = 0.0
    for k in range(p.counts[0]):
        for i in range(6):
            U[i] = V[k, i] + alpha * dV[k, i]
        for f in range(p.pair_start[k], p.pair_start[k + 1]):
            face = p.faces[f]
            nx, ny, nz = face[NX], face[NY], face[NZ]
            vx, vy, vz = _face_velocity(face, U)
            wx, wy, wz = _face_velocity(face, dV[k])
            vn = nx * vx + ny * vy + nz * vz
            wn = nx * wx + ny * wy + nz * wz
            tx, ty, tz = vx - vn * nx, vy - vn * ny, vz - vn * nz
            slip = np.sqrt(tx * tx + ty * ty + tz * tz)
            wt = tx * wx + ty * wy + tz * wz  # slip × its rate
            w2 = wx * wx + wy * wy + wz * wz - wn * wn
            if p.pair_turns[k]:
                vn, wn = vn - _left_out(face, U), wn - _left_out(face, dV[k])
            gn, b, sliding = _impulse(face, scheme, vn, slip)
            d1 += b * wt - gn * wn
            if sliding and slip > 0.0:
                wt /= slip
                w2 = max(w2 - wt * wt, 0.0)
            d2 += b * w2
            if gn > 0.0 and sliding and scheme == SAP:
                wn -= face[MU] * wt
                d2 += wn * wn * face[CN] / (1.0 + face[MU] ** 2 * face[CN] / face[CT])
            elif gn > 0.0:
                d2 += face[CN] * wn * wn
    return d1, d2


@inner(**KERNEL)
def _limit_slope(p: Problem, v: np.ndarray, dv: np.ndarray, alpha: float) -> tuple[float, float]:
    d1 = d2 = 0.0
    for i in range(p.counts[2]):
        w = p.limit_sign[i] * dv[p.limit_dof[i]]
        y = (p.limit_row[i, 1] - p.limit_sign[i] * v[p.limit_dof[i]] - alpha * w) * p.limit_row[i, 0]
        if y > 0.0:
            d1 -= y * w
            d2 += p.limit_row[i, 0] * w * w
    return d1, d2


@inner(**KERNEL)
def cost_gradient(p: Problem, v: np.ndarray, gradient: np.ndarray, net: np.ndarray) -> tuple[float, float]:
    """Compute the gradient of the cost from the pairs' impulses; return its norm and that of the
    net contact impulse, each over √A_ii."""
    nv = v.size
    net[:] = 0.0
    for k in range(p.counts[0]):
        for j in range(p.pair_ndof[k]):
            s = 0.0
            for i in range(6):
                s += p.pair_J[k, i, j] * p.impulse[k, i]
            net[p.pair_dof[k, j]] += s
    for i in range(p.counts[2]):
        dof = p.limit_dof[i]
        p.limit_impulse[i] = max((p.limit_row[i, 1] - p.limit_sign[i] * v[dof]) * p.limit_row[i, 0], 0.0)
        net[dof] += p.limit_sign[i] * p.limit_impulse[i]
    for i in range(nv):
        di = v[i] - p.v_star[i]
        gradient[i] = p.A[i, i] * di
        for j in range(p.first[i], i):
            gradient[i] += p.A[i, j] * (v[j] - p.v_star[j])
            gradient[j] += p.A[i, j] * di
    norm = contact = 0.0
    for i in range(nv):
        gradient[i] -= net[i]
        norm += gradient[i] * gradient[i] / p.A[i, i]
        contact += net[i] * net[i] / p.A[i, i]
    return np.sqrt(norm), np.sqrt(contact)


@inner(**KERNEL)
def _momentum_norm(p: Problem, scratch: np.ndarray) -> float:
    """Return ‖A v*‖, over √A_ii."""
    total = 0.0
    for i in range(scratch.size):
        scratch[i] = p.A[i, i] * p.v_star[i]
        for j in range(p.first[i], i):
            scratch[i] += p.A[i, j] * p.v_star[j]
            scratch[j] += p.A[i, j] * p.v_star[i]
    for i in range(scratch.size):
        total += scratch[i] * scratch[i] / p.A[i, i]
    return np.sqrt(total)


@inner(**KERNEL)
def assemble_hessian(p: Problem, v: np.ndarray, w: Workspace) -> None:
    """Compute H = A + Σ Jᵀ G J + limits, lower triangle inside the envelope."""
    nv = v.size
    H = w.H
    for i in range(nv):
        for j in range(w.envelope[i], i + 1):
            H[i, j] = p.A[i, j] if j >= p.first[i] else 0.0
    GJ = w.GJ
    for k in range(p.counts[0]):
        n = p.pair_ndof[k]
        J = p.pair_J[k]
        for i in range(6):
            for j in range(n):
                s = 0.0
                for m in range(6):
                    s += w.G[k, i, m] * J[m, j]
                GJ[i, j] = s
        for a in range(n):
            row = p.pair_dof[k, a]
            for b in range(a + 1):
                s = 0.0
                for m in range(6):
                    s += J[m, a] * GJ[m, b]
                H[row, p.pair_dof[k, b]] += s
    for i in range(p.counts[2]):
        if p.limit_impulse[i] > 0.0:
            H[p.limit_dof[i], p.limit_dof[i]] += p.limit_row[i, 0]


@inner(**KERNEL)
def find_envelope(p: Problem, w: Workspace) -> None:
    for i in range(p.first.size):
        w.envelope[i] = p.first[i]
    for k in range(p.counts[0]):
        if p.pair_ndof[k] > 0:
            lowest = p.pair_dof[k, 0]
            for j in range(p.pair_ndof[k]):
                i = p.pair_dof[k, j]
                w.envelope[i] = min(w.envelope[i], lowest)


@inner(**KERNEL)
def _line_search(
    p: Problem, scheme: int, v: np.ndarray, w: Workspace, start: float, end: float, quad0: float, quad1: float
) -> float:
    """Return the step between 0 and 1 where the cost's slope along dv is zero, by Newton's method
    kept inside the bracket.

    Args:
        p, scheme, v, w: as in :func:`solve`; ``w.V`` and ``w.dV`` are the pairs' twists of v and
            dv.
        start, end: slope at 0 (negative) and at 1 (positive).
        quad0, quad1: slope of the quadratic part at 0, and its rate.
    """
    low, high = 0.0, 1.0
    alpha = -start / (end - start)
    for _ in range(60):
        d1, d2 = _slope_along(p, scheme, w.V, w.dV, alpha, w.twist)
        l1, l2 = _limit_slope(p, v, w.dv, alpha)
        w.info[1] += 1
        d1 += quad0 + alpha * quad1 + l1
        d2 += quad1 + l2
        if abs(d1) <= 1e-3 * abs(start):
            break
        if d1 > 0.0:
            high = alpha
        else:
            low = alpha
        step = alpha - d1 / d2 if d2 > 0.0 else low
        alpha = step if low < step < high else 0.5 * (low + high)
        if high - low < 1e-14:
            break
    return alpha


@inner(**KERNEL)
def _newton(p: Problem, scheme: int, v: np.ndarray, w: Workspace, momentum: float) -> int:
    """Minimise for fixed n₀; ``w.V`` holds the pairs' twists of v on return."""
    nv = v.size
    pair_twists(p, v, w.V)
    pair_gradient_hessian(p, scheme, w.V, w.G)
    norm, contact = cost_gradient(p, v, w.gradient, w.net)
    best, stalled = np.inf, 0
    for _ in range(_MAX_ITERATIONS):
        scale = max(momentum, contact)
        residual = norm / scale if scale > 0.0 else norm
        w.info[2] = residual
        if not np.isfinite(residual):
            return _NOT_FINITE
        if residual <= _TARGET:
            return _SOLVED
        # rounding limits the residual: between target and tolerance, continue only while it falls
        stalled = 0 if residual < 0.5 * best else stalled + 1
        best = min(best, residual)
        if residual <= TOLERANCE and stalled >= 1:
            return _SOLVED
        assemble_hessian(p, v, w)
        if not factorise(w.H, w.envelope):
            return _NOT_FINITE
        w.info[0] += 1
        for i in range(nv):
            w.dv[i] = -w.gradient[i]
        back_substitute(w.H, w.envelope, w.dv)
        start = 0.0
        for i in range(nv):
            start += w.gradient[i] * w.dv[i]
            w.trial[i] = v[i] + w.dv[i]
        # the full step, nearly always accepted
        pair_twists(p, w.trial, w.V)
        pair_gradient_hessian(p, scheme, w.V, w.G)
        norm, contact = cost_gradient(p, w.trial, w.gradient, w.net)
        end = 0.0
        for i in range(nv):
            end += w.gradient[i] * w.dv[i]
        if end > -0.1 * start:
            quad0 = quad1 = 0.0
            for i in range(nv):
                for j in range(p.first[i], i + 1):
                    a = p.A[i, j]
                    if i == j:
                        quad0 += a * (v[i] - p.v_star[i]) * w.dv[i]
                        quad1 += a * w.dv[i] * w.dv[i]
                    else:
                        quad0 += a * ((v[i] - p.v_star[i]) * w.dv[j] + (v[j] - p.v_star[j]) * w.dv[i])
                        quad1 += 2.0 * a * w.dv[i] * w.dv[j]
            pair_twists(p, v, w.V)
            pair_twists(p, w.dv, w.dV)
            alpha = _line_search(p, scheme, v, w, start, end, quad0, quad1)
            for i in range(nv):
                w.trial[i] = v[i] + alpha * w.dv[i]
            pair_twists(p, w.trial, w.V)
            pair_gradient_hessian(p, scheme, w.V, w.G)
            norm, contact = cost_gradient(p, w.trial, w.gradient, w.net)
        for i in range(nv):
            v[i] = w.trial[i]
    return _SOLVED if w.info[2] <= TOLERANCE else _NOT_CONVERGED


@inner(**KERNEL)
def _lag(p: Problem, V: np.ndarray, catch_up: float) -> float:
    """Return the difference of the n₀ from the normal impulses at twists V, relative to their sum,
    and move them by the share ``catch_up`` of it."""
    total = off = 0.0
    for k in range(p.counts[0]):
        for f in range(p.pair_start[k], p.pair_start[k + 1]):
            face = p.faces[f]
            vx, vy, vz = _face_velocity(face, V[k])
            vn = face[NX] * vx + face[NY] * vy + face[NZ] * vz - _left_out(face, V[k])
            gn = max((face[VHAT] - vn) * face[CN], 0.0)
            total += face[MU] * gn
            off += face[MU] * abs(gn - face[N0])
            face[N0] += catch_up * (gn - face[N0])
    return off / total if total > 0.0 else 0.0


@inner(**KERNEL)
def solve(p: Problem, scheme: int, v: np.ndarray, w: Workspace) -> int:
    """Solve the problem; v (nv,) holds the initial guess and then the solution.

    Returns:
        A :class:`SolveStatus`; ``w.info`` has the counts and the residual ‖D g‖ / max(‖D A v*‖, ‖D
        Jᵀγ‖), D = diag(A)^−½.
    """
    w.info[:] = 0.0
    find_envelope(p, w)
    momentum = _momentum_norm(p, w.dv)
    status = _newton(p, scheme, v, w, momentum)
    if scheme == LAGGED:
        for i in range(MAX_ROUNDS + 1):
            if status != _SOLVED:
                break
            w.info[3] = _lag(p, w.V, 0.0)
            if w.info[3] <= LAG:
                break
            if i == MAX_ROUNDS:
                w.unsettled[0] += 1
                break
            _lag(p, w.V, 1.0 if i < WHOLE_ROUNDS else 0.5)  # half steps damp oscillations
            status = _newton(p, scheme, v, w, momentum)
    return status
