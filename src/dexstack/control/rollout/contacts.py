"""Kernels of kinematics and contact detection of one state, in single precision.

They repeat the traced :meth:`KinematicTree.poses <dexstack.model.kinematics.KinematicTree.poses>`,
:meth:`ContactDetector.trace <dexstack.contact.detector.ContactDetector.trace>` and
:func:`~dexstack.control.problem.relative_jacobian` without fixed shapes. They leave out what cannot
change the result: a link all of whose query points are farther than the margin, the planes of the
object that are the largest at none of a link's points, and the joints of other chains.
"""

from __future__ import annotations

import numpy as np

from dexstack.control.rollout.arrays import (
    BLOCK,
    FAR,
    NEGLIGIBLE,
    ONE,
    OPTIONS,
    PER_LINK,
    SUPPORTS,
    TWO,
    ZERO,
)
from dexstack.process.kernels import inner

SHORTEST = np.float32(1e-6)
"""Least length of a mean normal, as of the C-SDF."""
PART, C2, C3, C4 = np.float32(1 / 32), np.float32(1 / 2), np.float32(1 / 6), np.float32(1 / 24)


@inner(**OPTIONS)
def poses(robot, q, room):
    """Write the poses of all bodies and the hinges' axes in the world."""
    R, p, axis = room.R, room.p, room.axis
    for i in range(3):
        p[0, i] = robot.base[3, i]
        for j in range(3):
            R[0, i, j] = robot.base[i, j]
    for h in range(len(robot.joint)):
        angle = robot.ratio[h] * q[robot.joint[h]] + robot.shift[h]
        b, a = h + 1, robot.parent[h]
        c, s = np.cos(angle), np.sin(angle)
        if robot.slides[h]:
            c, s = ONE, ZERO
        for i in range(3):
            p[b, i] = p[a, i]
            for k in range(3):
                p[b, i] += R[a, i, k] * robot.offset[h, k]
            for j in range(3):
                total = ZERO
                for k in range(3):
                    turn = robot.turn[h, 0, k, j] + c * robot.turn[h, 1, k, j] + s * robot.turn[h, 2, k, j]
                    total += R[a, i, k] * turn
                R[b, i, j] = total
        for i in range(3):
            axis[h, i] = (
                R[b, i, 0] * robot.axis[h, 0] + R[b, i, 1] * robot.axis[h, 1] + R[b, i, 2] * robot.axis[h, 2]
            )
            if robot.slides[h]:
                p[b, i] += angle * axis[h, i]


@inner(**OPTIONS)
def matrix(pose, R):
    """Write the rotation matrix of an object pose."""
    w, x, y, z = pose[3], pose[4], pose[5], pose[6]
    R[0, 0], R[0, 1], R[0, 2] = (
        ONE - TWO * (y * y + z * z),
        TWO * (x * y - w * z),
        TWO * (x * z + w * y),
    )
    R[1, 0], R[1, 1], R[1, 2] = (
        TWO * (x * y + w * z),
        ONE - TWO * (x * x + z * z),
        TWO * (y * z - w * x),
    )
    R[2, 0], R[2, 1], R[2, 2] = (
        TWO * (x * z - w * y),
        TWO * (y * z + w * x),
        ONE - TWO * (x * x + y * y),
    )


@inner(**OPTIONS)
def _decay(x):
    """Return e^x for x ≤ 0, and 0 for e^x below single precision, in operations that vectorise: e^(x/32)
    by its series, which is accurate to 1e-8 where e^x matters."""
    y = max(x, -NEGLIGIBLE) * PART
    e = ONE + y * (ONE + y * (C2 + y * (C3 + y * C4)))
    e *= e
    e *= e
    e *= e
    e *= e
    e *= e
    return e if x > -NEGLIGIBLE else ZERO


@inner(**OPTIONS)
def _smooth(normals, offsets, x, y, z, sigma, planes):
    """Return the smooth distance of a point of the object's frame, and the normal of the nearest
    part. Blocks of planes without one near the largest are left out of the sums."""
    best, nx, ny, nz = FAR, ZERO, ZERO, ZERO
    values, tops = planes[4], planes[5]
    for part in range(len(offsets)):
        n, b = normals[part], offsets[part]
        peak = -FAR
        for block in range(0, offsets.shape[1], BLOCK):
            top = -FAR
            for k in range(block, block + BLOCK):
                s = n[0, k] * x + n[1, k] * y + n[2, k] * z + b[k]
                values[k] = s
                top = s if s > top else top
            tops[block] = top
            peak = max(peak, top)
        least = peak - NEGLIGIBLE / sigma
        total, gx, gy, gz = ZERO, ZERO, ZERO, ZERO
        for block in range(0, offsets.shape[1], BLOCK):
            if tops[block] < least:
                continue
            for k in range(block, block + BLOCK):
                w = _decay(sigma * (values[k] - peak))
                total += w
                gx += w * n[0, k]
                gy += w * n[1, k]
                gz += w * n[2, k]
        distance = peak + np.log(total) / sigma
        if distance < best:
            inverse = ONE / max(np.sqrt(gx * gx + gy * gy + gz * gz) / total, SHORTEST) / total
            best, nx, ny, nz = distance, gx * inverse, gy * inverse, gz * inverse
    return best, nx, ny, nz


@inner(**OPTIONS)
def _into(R, dx, dy, dz):
    """Return Rᵀ d."""
    return (
        R[0, 0] * dx + R[1, 0] * dy + R[2, 0] * dz,
        R[0, 1] * dx + R[1, 1] * dy + R[2, 1] * dz,
        R[0, 2] * dx + R[1, 2] * dy + R[2, 2] * dz,
    )


@inner(**OPTIONS)
def _out(R, x, y, z):
    """Return R x."""
    return (
        R[0, 0] * x + R[0, 1] * y + R[0, 2] * z,
        R[1, 0] * x + R[1, 1] * y + R[1, 2] * z,
        R[2, 0] * x + R[2, 1] * y + R[2, 2] * z,
    )


@inner(**OPTIONS)
def _largest(planes, kept, x, y, z, peak, count):
    """Write the largest of some planes at points, four planes at a time."""
    for i in range(count):
        peak[i] = -FAR
    for k in range(0, kept, 4):
        a, b, c, d = k, min(k + 1, kept - 1), min(k + 2, kept - 1), min(k + 3, kept - 1)
        a0, a1, a2, a3 = planes[0, a], planes[1, a], planes[2, a], planes[3, a]
        b0, b1, b2, b3 = planes[0, b], planes[1, b], planes[2, b], planes[3, b]
        c0, c1, c2, c3 = planes[0, c], planes[1, c], planes[2, c], planes[3, c]
        d0, d1, d2, d3 = planes[0, d], planes[1, d], planes[2, d], planes[3, d]
        for i in range(count):
            s = max(a0 * x[i] + a1 * y[i] + a2 * z[i] + a3, b0 * x[i] + b1 * y[i] + b2 * z[i] + b3)
            r = max(c0 * x[i] + c1 * y[i] + c2 * z[i] + c3, d0 * x[i] + d1 * y[i] + d2 * z[i] + d3)
            peak[i] = max(peak[i], max(s, r))


@inner(**OPTIONS)
def _ranks(robot, b, normals, offsets, pose, R_WO, margin, room):
    """Write each query point of a body in the object's frame and its largest plane less its radius;
    return False if all are farther than the margin."""
    R, p, at, peak, planes = room.R[b], room.p[b], room.at, room.peak, room.planes
    first, count = robot.begin[b], robot.begin[b + 1] - robot.begin[b]
    cx, cy, cz = _out(R, robot.ball[b, 0], robot.ball[b, 1], robot.ball[b, 2])
    cx, cy, cz = _into(R_WO, p[0] + cx - pose[0], p[1] + cy - pose[1], p[2] + cz - pose[2])
    reach, thick, found = robot.ball[b, 3], robot.ball[b, 4], False
    for part in range(len(offsets)):
        n, o = normals[part], offsets[part]
        top = -FAR
        for k in range(o.shape[0]):
            s = n[0, k] * cx + n[1, k] * cy + n[2, k] * cz + o[k]
            planes[4, k] = s
            top = s if s > top else top
        if top - reach - thick > margin:
            continue
        if not found:
            found = True
            tx, ty, tz = _into(R_WO, p[0] - pose[0], p[1] - pose[1], p[2] - pose[2])
            ax, ay, az = _into(R_WO, R[0, 0], R[1, 0], R[2, 0])
            bx, by, bz = _into(R_WO, R[0, 1], R[1, 1], R[2, 1])
            dx, dy, dz = _into(R_WO, R[0, 2], R[1, 2], R[2, 2])
            X, Y, Z = robot.points[0], robot.points[1], robot.points[2]
            for i in range(count):
                x, y, z = X[first + i], Y[first + i], Z[first + i]
                at[0, i] = tx + ax * x + bx * y + dx * z
                at[1, i] = ty + ay * x + by * y + dy * z
                at[2, i] = tz + az * x + bz * y + dz * z
                at[3, i] = FAR
        kept = 0
        for k in range(o.shape[0]):
            if planes[4, k] >= top - TWO * reach:
                for row in range(3):
                    planes[row, kept] = n[row, k]
                planes[3, kept] = o[k]
                kept += 1
        _largest(planes, kept, at[0], at[1], at[2], peak, count)
        for i in range(count):
            at[3, i] = peak[i] if peak[i] < at[3, i] else at[3, i]
    if found:
        for i in range(count):
            at[3, i] -= robot.points[3, first + i]
    return found


@inner(**OPTIONS)
def _fingers(robot, normals, offsets, pose, R_WO, numbers, room):
    """Write the nearest query points of every link as candidates, nearest first; return their
    number."""
    count = 0
    near, order = room.near, room.order
    for b in range(1, len(robot.chain)):
        size = robot.begin[b + 1] - robot.begin[b]
        if size == 0 or not _ranks(robot, b, normals, offsets, pose, R_WO, numbers.margin, room):
            continue
        for _ in range(min(PER_LINK, size)):
            pick, least = 0, FAR
            for i in range(size):
                if room.at[3, i] < least:
                    pick, least = i, room.at[3, i]
            if least > numbers.margin:
                break
            room.at[3, pick] = FAR
            x, y, z = room.at[0, pick], room.at[1, pick], room.at[2, pick]
            distance, nx, ny, nz = _smooth(normals, offsets, x, y, z, numbers.sigma, room.planes)
            phi = distance - robot.points[3, robot.begin[b] + pick]
            if phi >= numbers.margin:
                continue
            near[count, 0] = phi
            near[count, 1], near[count, 2], near[count, 3] = (
                x - distance * nx,
                y - distance * ny,
                z - distance * nz,
            )
            near[count, 4], near[count, 5], near[count, 6] = nx, ny, nz
            room.near_body[count] = b
            k = count
            while k > 0 and near[order[k - 1], 0] > phi:
                order[k] = order[k - 1]
                k -= 1
            order[k] = count
            count += 1
    return count


@inner(**OPTIONS)
def _base(robot, normals, offsets, feet, pose, R_WO, numbers, room):
    """Write the feet on the base in the world and their distances."""
    for f in range(len(feet)):
        x, y, z = _out(R_WO, feet[f, 0], feet[f, 1], feet[f, 2])
        x, y, z = x + pose[0], y + pose[1], z + pose[2]
        if len(robot.boxes) == 0:
            distance = robot.plane[0] * x + robot.plane[1] * y + robot.plane[2] * z - robot.plane[3]
        else:
            px, py, pz, least = x, y, z, FAR
            for k in range(len(robot.boxes)):
                box = robot.boxes[k]
                sx, sy, sz = _into(box, px - box[3, 0], py - box[3, 1], pz - box[3, 2])
                ux, uy, uz = abs(box[2, 0]), abs(box[2, 1]), abs(box[2, 2])
                a, b, c = box[4, 0], box[4, 1], box[4, 2]
                ix, iy, iz = min(max(sx, -a), a), min(max(sy, -b), b), min(max(sz, -c), c)
                mx, my, mz = (sx - ix) ** 2, (sy - iy) ** 2, (sz - iz) ** 2
                if ux >= uy and ux >= uz:
                    ix, mx = (a if box[2, 0] > ZERO else -a), ZERO
                elif uy >= uz:
                    iy, my = (b if box[2, 1] > ZERO else -b), ZERO
                else:
                    iz, mz = (c if box[2, 2] > ZERO else -c), ZERO
                moved = mx + my + mz
                if moved < least:
                    least = moved
                    x, y, z = _out(box, ix, iy, iz)
                    x, y, z = x + box[3, 0], y + box[3, 1], z + box[3, 2]
            ox, oy, oz = _into(R_WO, x - pose[0], y - pose[1], z - pose[2])
            distance = _smooth(normals, offsets, ox, oy, oz, numbers.sigma, room.planes)[0]
        room.feet[f, 0], room.feet[f, 1], room.feet[f, 2], room.feet[f, 3] = x, y, z, distance
        room.feet[f, 4] = FAR


@inner(**OPTIONS)
def _row(robot, pose, R_WO, c, b, px, py, pz, nx, ny, nz, phi, room):
    """Write contact c with body b."""
    room.phi[c], room.link[c], room.friction[c] = phi, robot.chain[b], robot.friction[b]
    sign = ONE if nz >= ZERO else -ONE
    a = -ONE / (sign + nz)
    t = nx * ny * a
    J, K = room.J_object[c], room.J_chain[c]
    K[:] = ZERO
    rx, ry, rz = px - pose[0], py - pose[1], pz - pose[2]
    for e in range(3):
        if e == 0:
            ex, ey, ez = nx, ny, nz
        elif e == 1:
            ex, ey, ez = ONE + sign * nx * nx * a, sign * t, -sign * nx
        else:
            ex, ey, ez = t, sign + ny * ny * a, -ny
        J[e, 0], J[e, 1], J[e, 2] = -ex, -ey, -ez
        J[e, 3], J[e, 4], J[e, 5] = _into(R_WO, ey * rz - ez * ry, ez * rx - ex * rz, ex * ry - ey * rx)
        for k in range(robot.ancestors.shape[1]):
            h = robot.ancestors[b, k]
            if h < 0:
                break
            wx, wy, wz = room.axis[h, 0], room.axis[h, 1], room.axis[h, 2]
            if not robot.slides[h]:
                ax, ay, az = px - room.p[h + 1, 0], py - room.p[h + 1, 1], pz - room.p[h + 1, 2]
                wx, wy, wz = wy * az - wz * ay, wz * ax - wx * az, wx * ay - wy * ax
            j = robot.joint[h] - robot.first[robot.chain[b]]
            K[e, j] += robot.ratio[h] * (ex * wx + ey * wy + ez * wz)


@inner(**OPTIONS)
def contacts(robot, normals, offsets, feet, pose, R_WO, numbers, room):
    """Write the active contacts; return their number."""
    count = 0
    _base(robot, normals, offsets, feet, pose, R_WO, numbers, room)
    F = room.feet
    for slot in range(SUPPORTS):
        pick, least = 0, FAR
        for f in range(len(feet)):
            value = F[f, 3] - numbers.tilt * F[f, 4] if slot else F[f, 3]
            if value < least:
                pick, least = f, value
        x, y, z, distance, apart = F[pick, 0], F[pick, 1], F[pick, 2], F[pick, 3], F[pick, 4]
        for f in range(len(feet)):
            away = np.sqrt((F[f, 0] - x) ** 2 + (F[f, 1] - y) ** 2 + (F[f, 2] - z) ** 2)
            F[f, 4] = min(F[f, 4], away)
        if apart == ZERO or distance >= numbers.margin:  # chosen before, or far
            continue
        if len(robot.boxes) == 0:
            nx, ny, nz = -robot.plane[0], -robot.plane[1], -robot.plane[2]
        else:
            ox, oy, oz = _into(R_WO, x - pose[0], y - pose[1], z - pose[2])
            _, nx, ny, nz = _smooth(normals, offsets, ox, oy, oz, numbers.sigma, room.planes)
            nx, ny, nz = _out(R_WO, nx, ny, nz)
            x, y, z = x - distance * nx, y - distance * ny, z - distance * nz
        _row(robot, pose, R_WO, count, 0, x, y, z, nx, ny, nz, distance, room)
        count += 1
    most = len(room.phi) - SUPPORTS
    found = _fingers(robot, normals, offsets, pose, R_WO, numbers, room)
    for k in range(min(found, most)):
        c = room.near[room.order[k]]
        x, y, z = _out(R_WO, c[1], c[2], c[3])
        nx, ny, nz = _out(R_WO, c[4], c[5], c[6])
        body = room.near_body[room.order[k]]
        x, y, z = x + pose[0], y + pose[1], z + pose[2]
        _row(robot, pose, R_WO, count, body, x, y, z, nx, ny, nz, c[0], room)
        count += 1
    return count
