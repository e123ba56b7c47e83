"""Location of points of one body in another; finds patches of a contact surface that touch no
boundary triangle."""

from __future__ import annotations

import math

from dexengines.hydroelastic.clip import barycentric
from dexengines.hydroelastic.workspace import DEEP_A, DEEP_B, PEAKS
from dexengines.kernels import KERNEL, inner


@inner(**KERNEL)
def locate(mesh, x, y, z, start):
    """Return a tet that contains a point of the mesh's frame, or −1; walks from tet ``start``, then
    tries all."""
    tet, tet_int = mesh.tet, mesh.tet_int
    t = start
    for _ in range(64):
        least, face = 0.0, -1
        for k in range(4):
            b = barycentric(tet, t, k, x, y, z)
            if b < least - 1e-14:
                least, face = b, k
        if face < 0:
            return t
        t = tet_int[t, 4 + face]
        if t < 0:
            break
    for t in range(len(tet)):
        if (
            barycentric(tet, t, 0, x, y, z) >= -1e-14
            and barycentric(tet, t, 1, x, y, z) >= -1e-14
            and barycentric(tet, t, 2, x, y, z) >= -1e-14
            and barycentric(tet, t, 3, x, y, z) >= -1e-14
        ):
            return t
    return -1


@inner(**KERNEL)
def in_box(box, x, y, z):
    """Return whether a point of the mesh's frame lies in the root box of its tree."""
    return (
        abs(x - box[0, 0]) <= box[0, 3]
        and abs(y - box[0, 1]) <= box[0, 4]
        and abs(z - box[0, 2]) <= box[0, 5]
    )


@inner(**KERNEL)
def inside_surface(mesh, x, y, z):
    """Return whether a point of B's frame lies inside a closed rigid surface, by the winding number
    from solid angles."""
    total = 0.0
    for i in range(len(mesh.tri_int)):
        a0, a1, a2 = (
            mesh.vertex[mesh.tri_int[i, 0], 0] - x,
            mesh.vertex[mesh.tri_int[i, 0], 1] - y,
            mesh.vertex[mesh.tri_int[i, 0], 2] - z,
        )
        b0, b1, b2 = (
            mesh.vertex[mesh.tri_int[i, 1], 0] - x,
            mesh.vertex[mesh.tri_int[i, 1], 1] - y,
            mesh.vertex[mesh.tri_int[i, 1], 2] - z,
        )
        c0, c1, c2 = (
            mesh.vertex[mesh.tri_int[i, 2], 0] - x,
            mesh.vertex[mesh.tri_int[i, 2], 1] - y,
            mesh.vertex[mesh.tri_int[i, 2], 2] - z,
        )
        na, nb, nc = (
            math.sqrt(a0 * a0 + a1 * a1 + a2 * a2),
            math.sqrt(b0 * b0 + b1 * b1 + b2 * b2),
            math.sqrt(c0 * c0 + c1 * c1 + c2 * c2),
        )
        det = a0 * (b1 * c2 - b2 * c1) - a1 * (b0 * c2 - b2 * c0) + a2 * (b0 * c1 - b1 * c0)
        ab, bc, ca = a0 * b0 + a1 * b1 + a2 * b2, b0 * c0 + b1 * c1 + b2 * c2, c0 * a0 + c1 * a1 + c2 * a2
        total += math.atan2(det, na * nb * nc + ab * nc + bc * na + ca * nb)
    return total > math.pi  # half of the full 2π of these half angles


@inner(**KERNEL)
def _march(pa, pb, R, p, ta, tb, x, y, z):
    """Follow p_A − p_B towards zero on a straight line through pairs of tets, from a point in both.

    Returns:
        The pair that contains the zero, or (−1, −1) if the line leaves a body first.
    """
    d0 = d1 = d2 = 0.0
    for step in range(4 * (len(pa.tet) + len(pb.tet))):
        # p_A − p_B and its gradient here, in A's frame
        g0, g1, g2 = pb.tet[tb, 16], pb.tet[tb, 17], pb.tet[tb, 18]
        n0 = pa.tet[ta, 16] - (R[0, 0] * g0 + R[0, 1] * g1 + R[0, 2] * g2)
        n1 = pa.tet[ta, 17] - (R[1, 0] * g0 + R[1, 1] * g1 + R[1, 2] * g2)
        n2 = pa.tet[ta, 18] - (R[2, 0] * g0 + R[2, 1] * g1 + R[2, 2] * g2)
        u0, u1, u2 = x - p[0], y - p[1], z - p[2]
        y0 = R[0, 0] * u0 + R[1, 0] * u1 + R[2, 0] * u2
        y1 = R[0, 1] * u0 + R[1, 1] * u1 + R[2, 1] * u2
        y2 = R[0, 2] * u0 + R[1, 2] * u1 + R[2, 2] * u2
        f = (
            pa.tet[ta, 16] * x
            + pa.tet[ta, 17] * y
            + pa.tet[ta, 18] * z
            + pa.tet[ta, 19]
            - (g0 * y0 + g1 * y1 + g2 * y2 + pb.tet[tb, 19])
        )
        if step == 0:
            length = math.sqrt(n0 * n0 + n1 * n1 + n2 * n2)
            if length == 0.0:
                return -1, -1
            sign = -1.0 if f > 0.0 else 1.0
            d0, d1, d2 = sign * n0 / length, sign * n1 / length, sign * n2 / length
            above = f > 0.0
        slope = n0 * d0 + n1 * d1 + n2 * d2
        zero = math.inf
        if f == 0.0 or (f > 0.0) != above:
            return ta, tb
        if slope * f < 0.0:
            zero = -f / slope
        leave, face = math.inf, -1
        for k in range(4):
            s = pa.tet[ta, 4 * k] * d0 + pa.tet[ta, 4 * k + 1] * d1 + pa.tet[ta, 4 * k + 2] * d2
            if s < 0.0:
                t = max(barycentric(pa.tet, ta, k, x, y, z), 0.0) / -s
                if t < leave:
                    leave, face = t, k
        e0 = R[0, 0] * d0 + R[1, 0] * d1 + R[2, 0] * d2
        e1 = R[0, 1] * d0 + R[1, 1] * d1 + R[2, 1] * d2
        e2 = R[0, 2] * d0 + R[1, 2] * d1 + R[2, 2] * d2
        for k in range(4):
            s = pb.tet[tb, 4 * k] * e0 + pb.tet[tb, 4 * k + 1] * e1 + pb.tet[tb, 4 * k + 2] * e2
            if s < 0.0:
                t = max(barycentric(pb.tet, tb, k, y0, y1, y2), 0.0) / -s
                if t < leave:
                    leave, face = t, 4 + k
        if zero <= leave:
            return ta, tb
        x, y, z = x + leave * d0, y + leave * d1, z + leave * d2
        if face < 4:
            ta = pa.tet_int[ta, 4 + face]
        else:
            tb = pb.tet_int[tb, face]
        if ta < 0 or tb < 0:
            return -1, -1
    return -1, -1


@inner(**KERNEL)
def peak_pair(pa, pb, R, p, i, out):
    """Return the pair that holds the surface around peak i (A's peaks first, then B's), or (−1,
    −1); updates the counts in ``out.status``."""
    of_a = i < len(pa.peak)
    if of_a:
        ta = pa.peak[i, 1]
        v = pa.peak[i, 0]
        x, y, z = pa.vertex[v, 0], pa.vertex[v, 1], pa.vertex[v, 2]
        mesh, t = pa, ta
    else:
        tb = pb.peak[i - len(pa.peak), 1]
        v = pb.peak[i - len(pa.peak), 0]
        x, y, z = pb.vertex[v, 0], pb.vertex[v, 1], pb.vertex[v, 2]
        mesh, t = pb, tb
    c0 = c1 = c2 = 0.0
    for k in range(4):
        c0 += 0.25 * mesh.vertex[mesh.tet_int[t, k], 0]
        c1 += 0.25 * mesh.vertex[mesh.tet_int[t, k], 1]
        c2 += 0.25 * mesh.vertex[mesh.tet_int[t, k], 2]
    # slightly inside the tet: the walk starts in its interior
    x, y, z = x + 1e-3 * (c0 - x), y + 1e-3 * (c1 - y), z + 1e-3 * (c2 - z)
    if of_a:
        u0, u1, u2 = x - p[0], y - p[1], z - p[2]
        y0 = R[0, 0] * u0 + R[1, 0] * u1 + R[2, 0] * u2
        y1 = R[0, 1] * u0 + R[1, 1] * u1 + R[2, 1] * u2
        y2 = R[0, 2] * u0 + R[1, 2] * u1 + R[2, 2] * u2
        if not in_box(pb.box, y0, y1, y2):
            return -1, -1
        tb = locate(pb, y0, y1, y2, 0)
    else:
        y0, y1, y2 = x, y, z
        x = R[0, 0] * y0 + R[0, 1] * y1 + R[0, 2] * y2 + p[0]
        y = R[1, 0] * y0 + R[1, 1] * y1 + R[1, 2] * y2 + p[1]
        z = R[2, 0] * y0 + R[2, 1] * y1 + R[2, 2] * y2 + p[2]
        if not in_box(pa.box, x, y, z):
            return -1, -1
        ta = locate(pa, x, y, z, 0)
    if ta < 0 or tb < 0:
        return -1, -1
    out.status[PEAKS] += 1
    f = pa.tet[ta, 16] * x + pa.tet[ta, 17] * y + pa.tet[ta, 18] * z + pa.tet[ta, 19]
    f -= pb.tet[tb, 16] * y0 + pb.tet[tb, 17] * y1 + pb.tet[tb, 18] * y2 + pb.tet[tb, 19]
    if of_a and f < 0.0:
        out.status[DEEP_A] += 1
        return -1, -1
    if not of_a and f > 0.0:
        out.status[DEEP_B] += 1
        return -1, -1
    return _march(pa, pb, R, p, ta, tb, x, y, z)
