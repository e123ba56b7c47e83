"""Kernels of the implicit step of one state and of rollouts, in single precision.

The step is that of :class:`~dexstack.control.models.implicit.ImplicitModel`. Its four rows per contact
are n ± μ t: with the 3 × (6 + m) Jacobian J of the relative velocity along normal and tangents, they
contribute Jᵀ D J to the Hessian, D being 3 × 3. Chains are eliminated one by one, then the object.
"""

from __future__ import annotations

import numpy as np

from dexstack.control.rollout.arrays import NEGLIGIBLE, ONE, OPTIONS, ZERO
from dexstack.control.rollout.contacts import contacts, matrix, poses
from dexstack.process.kernels import entry, inner


@inner(**OPTIONS)
def _ramp(gap, numbers):
    """Return force [N] and stiffness [N/m] of a row."""
    x = -gap / numbers.smoothing
    e = np.exp(-abs(x))
    force = numbers.stiffness * numbers.smoothing * (max(x, ZERO) + np.log(ONE + e))
    return force, numbers.stiffness * (ONE if x >= ZERO else e) / (ONE + e)


@inner(**OPTIONS)
def _add_contact(robot, c, dq, scale, numbers, room, g):
    """Add a contact's forces to the gradient and its stiffness to the Hessian."""
    J, K, f, friction = room.J_object[c], room.J_chain[c], room.link[c], scale * room.friction[c]
    first, m = 0, 0
    if f >= 0:
        first, m = robot.first[f], robot.first[f + 1] - robot.first[f]
    v0, v1, v2 = ZERO, ZERO, ZERO
    for j in range(6):
        v0 += J[0, j] * dq[j]
        v1 += J[1, j] * dq[j]
        v2 += J[2, j] * dq[j]
    for j in range(m):
        d = dq[6 + first + j]
        v0 += K[0, j] * d
        v1 += K[1, j] * d
        v2 += K[2, j] * d
    v0 += room.phi[c]
    v1 *= friction
    v2 *= friction
    if v0 - max(abs(v1), abs(v2)) > NEGLIGIBLE * numbers.smoothing:
        return
    fa, ka = _ramp(v0 - v1, numbers)
    fb, kb = _ramp(v0 - v2, numbers)
    fc, kc = _ramp(v0 + v1, numbers)
    fd, kd = _ramp(v0 + v2, numbers)
    fn, ft, fs = fa + fb + fc + fd, friction * (fc - fa), friction * (fd - fb)
    D00, D01, D02 = ka + kb + kc + kd, friction * (kc - ka), friction * (kd - kb)
    D11, D22 = friction * friction * (ka + kc), friction * friction * (kb + kd)
    H, X, B = room.H_object, room.H_cross[f], room.H_chain[f]
    for j in range(6):
        g[j] -= J[0, j] * fn + J[1, j] * ft + J[2, j] * fs
        w0 = D00 * J[0, j] + D01 * J[1, j] + D02 * J[2, j]
        w1 = D01 * J[0, j] + D11 * J[1, j]
        w2 = D02 * J[0, j] + D22 * J[2, j]
        for i in range(6):
            H[j, i] += w0 * J[0, i] + w1 * J[1, i] + w2 * J[2, i]
        for i in range(m):
            X[i, j] += w0 * K[0, i] + w1 * K[1, i] + w2 * K[2, i]
    if m > 0:
        room.used[f] = 1
    for j in range(m):
        g[6 + first + j] -= K[0, j] * fn + K[1, j] * ft + K[2, j] * fs
        w0 = D00 * K[0, j] + D01 * K[1, j] + D02 * K[2, j]
        w1 = D01 * K[0, j] + D11 * K[1, j]
        w2 = D02 * K[0, j] + D22 * K[2, j]
        for i in range(j + 1):
            B[j, i] += w0 * K[0, i] + w1 * K[1, i] + w2 * K[2, i]


@inner(**OPTIONS)
def _factor(A, n):
    """Replace the lower triangle of A (n, n) by its Cholesky factor, with inverted diagonal."""
    for j in range(n):
        d = A[j, j]
        for k in range(j):
            d -= A[j, k] * A[j, k]
        d = ONE / np.sqrt(d)
        A[j, j] = d
        for i in range(j + 1, n):
            s = A[i, j]
            for k in range(j):
                s -= A[i, k] * A[j, k]
            A[i, j] = s * d


@inner(**OPTIONS)
def _newton(robot, Q, b, friction, count, numbers, room, dq):
    """Change the displacement dq (6 + N) by one Newton step; return the largest change."""
    H, g = room.H_object, room.g
    chains, V = len(robot.first) - 1, len(dq)
    for j in range(V):
        g[j] = Q[j] * dq[j] - b[j]
    H[:, :] = ZERO
    for j in range(6):
        H[j, j] = Q[j]
    for f in range(chains):
        room.used[f] = 0
        first, m = robot.first[f], robot.first[f + 1] - robot.first[f]
        for i in range(m):
            for j in range(6):
                room.H_cross[f, i, j] = ZERO
            for j in range(m):
                room.H_chain[f, i, j] = ZERO
            room.H_chain[f, i, i] = Q[6 + first + i]
    for c in range(count):
        _add_contact(robot, c, dq, friction, numbers, room, g)
    for f in range(chains):
        if not room.used[f]:
            continue
        first, m = 6 + robot.first[f], robot.first[f + 1] - robot.first[f]
        L, X = room.H_chain[f], room.H_cross[f]
        _factor(L, m)
        for i in range(m):  # X becomes L⁻¹ X, g becomes L⁻¹ g
            for k in range(i):
                g[first + i] -= L[i, k] * g[first + k]
                for j in range(6):
                    X[i, j] -= L[i, k] * X[k, j]
            g[first + i] *= L[i, i]
            for j in range(6):
                X[i, j] *= L[i, i]
        for i in range(m):
            for j in range(6):
                g[j] -= X[i, j] * g[first + i]
                for k in range(6):
                    H[j, k] -= X[i, j] * X[i, k]
    _factor(H, 6)
    for i in range(6):
        for k in range(i):
            g[i] -= H[i, k] * g[k]
        g[i] *= H[i, i]
    for i in range(5, -1, -1):
        for k in range(i + 1, 6):
            g[i] -= H[k, i] * g[k]
        g[i] *= H[i, i]
    for f in range(chains):
        first, m = 6 + robot.first[f], robot.first[f + 1] - robot.first[f]
        if not room.used[f]:
            for i in range(m):
                g[first + i] /= Q[first + i]
            continue
        L, X = room.H_chain[f], room.H_cross[f]
        for i in range(m - 1, -1, -1):
            for j in range(6):
                g[first + i] -= X[i, j] * g[j]
            for k in range(i + 1, m):
                g[first + i] -= L[k, i] * g[first + k]
            g[first + i] *= L[i, i]
    largest = ZERO
    for j in range(V):
        dq[j] -= g[j]
        largest = max(largest, abs(g[j]))
    return largest


@inner(**OPTIONS)
def _integrate(pose, dq):
    """Move an object pose by a displacement, linear in the world and angular in body axes."""
    for i in range(3):
        pose[i] += dq[i]
    x, y, z = np.float32(0.5) * dq[3], np.float32(0.5) * dq[4], np.float32(0.5) * dq[5]
    half = np.sqrt(x * x + y * y + z * z)
    s = np.sin(half) / half if half > np.float32(1e-6) else ONE
    w, x, y, z = np.cos(half), s * x, s * y, s * z
    a, b, c, d = pose[3], pose[4], pose[5], pose[6]
    pose[3] = a * w - b * x - c * y - d * z
    pose[4] = a * x + b * w + c * z - d * y
    pose[5] = a * y - b * z + c * w + d * x
    pose[6] = a * z + b * y - c * x + d * w
    length = ONE / np.sqrt(pose[3] ** 2 + pose[4] ** 2 + pose[5] ** 2 + pose[6] ** 2)
    for i in range(3, 7):
        pose[i] *= length


@entry(nogil=True, **OPTIONS)
def roll(robot, bodies, physics, numbers, steps, targets, q, pose, before, out_q, out_pose, room):
    """Roll out plans.

    Args:
        steps: number of Newton steps.
        targets: (B, T, N) joint targets.
        q: (B, N) joints at the start; changed.
        pose: (B, 7) object poses at the start; changed.
        before: (B, 6 + N) displacement of the step before the first.
        out_q: (B, T, N) is written.
        out_pose: (B, T, 7) is written.
    """
    N = q.shape[1]
    dq, b, R = room.dq, room.b, room.R_WO
    lower, upper = robot.limits[0], robot.limits[1]
    for plan in range(len(targets)):
        joints, x, Q = q[plan], pose[plan], physics.Q[plan]
        o, friction = physics.body[plan], physics.friction[plan]
        for j in range(6 + N):
            dq[j] = before[plan, j]
        for t in range(targets.shape[1]):
            poses(robot, joints, room)
            matrix(x, R)
            count = contacts(robot, bodies.normals[o], bodies.offsets[o], bodies.feet[o], x, R, numbers, room)
            for j in range(6):
                b[j] = numbers.momentum * Q[j] * dq[j]
            for j in range(3):
                b[j] += physics.weight[plan, j]
            for j in range(N):
                u = min(max(targets[plan, t, j] - joints[j], -numbers.u_max), numbers.u_max)
                b[6 + j] = physics.pull[plan, j] * min(max(u, lower[j] - joints[j]), upper[j] - joints[j])
            for _ in range(steps):
                _newton(robot, Q, b, friction, count, numbers, room, dq)
            for j in range(N):
                now = joints[j]
                joints[j] = min(max(now + dq[6 + j], min(lower[j], now)), max(upper[j], now))
                out_q[plan, t, j] = joints[j]
            _integrate(x, dq)
            for j in range(7):
                out_pose[plan, t, j] = x[j]
