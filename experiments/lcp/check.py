"""Exact distances by an independent library at the end of every substep."""

from __future__ import annotations

from collections.abc import Callable

import mujoco
import numpy as np

from dexengines.lcp import record
from dexengines.lcp.record import MOVE
from dexengines.lcp.roll import gaps_at
from dexengines.lcp.system import LcpSystem
from dexstack.errors import ConfigError

COARSE = 1e-9
"""Distance [m] below which coal's, accurate to 1e-10, does not decide whether two bodies meet."""


class SubstepCheck:
    """Smallest distance of any pair that may touch, as coal computes it from MuJoCo's poses.

    Below :data:`COARSE` in size, it is the engine's bound along a separating direction, which
    proves the separation independently of how the direction was found.

    Raises:
        ConfigError: coal is not installed.
    """

    def __init__(self, system: LcpSystem) -> None:
        try:
            import coal
        except ModuleNotFoundError:
            raise ConfigError("distances are checked by coal: pip install coal") from None
        self.system, self.coal = system, coal
        self.data = mujoco.MjData(system.model)
        self.smallest, self.checked = np.inf, 0
        """Smallest distance so far [m]; configurations checked."""
        sh = system.world.shapes
        self.solids, self.beyond = [], []
        """By geometry: coal's shape and its pose on the body; excess of the geometry's
        thickness."""
        for k, g in enumerate(system.geometries):
            points = sh.vertex[sh.vertex_start[k] : sh.vertex_start[k + 1]]
            self.beyond.append(0.0 if len(points) <= 2 and g.disc == 0.0 else g.radius)
            self.solids.append(None if g.plane is not None else self._solid(points, g.radius, g.disc))

    def _solid(self, points, radius, disc):
        coal = self.coal
        if len(points) == 1:
            return coal.Sphere(radius), points[0], np.eye(3)
        if len(points) == 2:
            z = points[1] - points[0]
            length = np.linalg.norm(z)
            z = z / length
            x = np.cross(z, np.eye(3)[np.argmin(np.abs(z))])
            x /= np.linalg.norm(x)
            solid = coal.Cylinder(disc, float(length)) if disc > 0.0 else coal.Capsule(radius, float(length))
            return solid, points.mean(axis=0), np.column_stack([x, np.cross(z, x), z])
        cloud = coal.StdVec_Vec3s()
        for p in points:
            cloud.append(p)
        return coal.Convex.convexHull(cloud, True, "Qt"), np.zeros(3), np.eye(3)

    def after_step(self) -> None:
        """Check every configuration at the end of a move of the system's last step."""
        tape = self.system.tape
        for i in range(tape.size[0]):
            if tape.op[i, 0] == MOVE:
                self.check(tape.q[i])

    def check(self, q: np.ndarray) -> None:
        """Check one configuration (Q,)."""
        coal, sh = self.coal, self.system.world.shapes
        self.data.qpos[:] = q
        mujoco.mj_kinematics(self.system.model, self.data)
        self.checked += 1
        R_W, p_W = self.data.xmat.reshape(-1, 3, 3)[sh.body], self.data.xpos[sh.body]
        centre = p_W + np.einsum("gij,gj->gi", R_W, sh.centre)
        a, b = sh.pairs.T
        between = centre[b] - centre[a]
        apart = (
            np.where(
                sh.is_plane[a],
                np.sum(between * sh.normal[a], axis=1),
                np.linalg.norm(between, axis=1) - sh.reach[a],
            )
            - sh.reach[b]
        )
        close = np.flatnonzero(apart < self.smallest)  # bounding balls say that the others are farther apart
        if not close.size:
            return
        request, result = coal.DistanceRequest(), coal.DistanceResult()
        request.gjk_tolerance = 1e-10
        for k in close:
            a, b = sh.pairs[k]
            if self.solids[a] is None:
                corners = sh.vertex[sh.vertex_start[b] : sh.vertex_start[b + 1]] @ R_W[b].T
                distance = (
                    (corners + p_W[b] - sh.vertex[sh.vertex_start[a]]) @ sh.normal[a]
                ).min() - sh.radius[b]
                distance -= sh.disc[b] * np.linalg.norm(np.cross(R_W[b] @ sh.axis[b], sh.normal[a]))
            else:
                poses = [
                    coal.Transform3s(R_W[g] @ self.solids[g][2], p_W[g] + R_W[g] @ self.solids[g][1])
                    for g in (a, b)
                ]
                result.clear()
                distance = coal.distance(
                    self.solids[a][0], poses[0], self.solids[b][0], poses[1], request, result
                )
                distance -= self.beyond[a] + self.beyond[b]
                if abs(distance) < COARSE:
                    gaps = np.empty(len(sh.pairs))
                    gaps_at(self.system.reference(), np.ascontiguousarray(q), gaps)
                    distance = gaps[k]
            self.smallest = min(self.smallest, float(distance))


def decisions(tape: record.Tape) -> bytes:
    """Return the decisions of a step or rollout: features, their classes and directions, impacts."""
    ops, contacts, classes, limits = tape.size
    parts = (
        tape.op[:ops],
        tape.feature[:contacts],
        tape.mode[:contacts],
        tape.cls[:classes],
        tape.limit[:limits],
    )
    return b"".join(x.tobytes() for x in parts)


def watched(
    system: LcpSystem, steps: int, drive: Callable[[int], None] | None = None
) -> tuple[np.ndarray, np.ndarray, SubstepCheck]:
    """Simulate and check the distances of every substep; return configurations (steps + 1, Q),
    velocities, the check."""
    check = SubstepCheck(system)
    q, v = [system.q.copy()], [system.v.copy()]
    for k in range(steps):
        if drive is not None:
            drive(k)
        system.step()
        check.after_step()
        q.append(system.q.copy())
        v.append(system.v.copy())
    return np.array(q), np.array(v), check


def contact_results(system: LcpSystem, check: SubstepCheck) -> dict[str, object]:
    """Return a run's distances and counts."""
    return {
        "intersections": {
            "checked": check.checked,
            "failed": int(check.smallest <= 0.0),
            "worst": check.smallest,
        },
        "substeps": int(system.counts[record.SUBSTEPS]),
        "unsolved": int(system.counts[record.UNSOLVED]),
    }


def sound(system: LcpSystem, check: SubstepCheck) -> bool:
    """Return whether no bodies overlapped and no contact problem was left unsolved."""
    c = system.counts
    return check.smallest > 0.0 and not (c[record.UNSOLVED] or c[record.OVERLAPS])
