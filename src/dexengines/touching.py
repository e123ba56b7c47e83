"""What MuJoCo sees of the bodies of any engine's state: their momentum and their contacts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import mujoco
import numpy as np

MOST = 12
"""Contacts of a body above which nearly every change of momentum can be explained."""
ALONG = 0.9
"""Least cosine between directions that are the same, of slips and of normals."""
_NEXT, _AFTER = np.array((1, 2, 0)), np.array((2, 0, 1))


class Touch(NamedTuple):
    """A contact of the second geom's body with the first one's."""

    geoms: tuple[int, int]
    bodies: tuple[int, int]
    point: np.ndarray
    """(3,) [m]"""
    normal: np.ndarray
    """(3,) into the second."""
    slip: np.ndarray
    """(3,) tangential velocity of the second against the first [m/s]."""
    gap: float
    """[m]"""
    spin: float
    """Relative angular speed [rad/s]."""
    turns: bool
    """A moment about the normal is borne, as by a patch."""
    alone: bool
    """It is the only one of its geoms; several span the patch."""


class Seen(NamedTuple):
    """A body with its contacts."""

    momentum: np.ndarray
    """(6,) linear, angular about the centre of mass, world axes."""
    centre: np.ndarray
    """(3,) [m]"""
    R: np.ndarray
    """(3, 3)"""
    rows: np.ndarray
    """(r, 6) of the momentum that its joint leaves free, angular parts over L."""
    touches: list[Touch]


class Sight:
    """Sight of one scene's bodies.

    Args:
        model: of the scene.
        friction: of the pairs of geoms that may touch, smaller number first.
        ignored: geoms whose contacts MuJoCo does not see as they are; bodies that they touch are not
            seen.
        points: geoms that touch others in points.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        friction: Mapping[tuple[int, int], float],
        ignored: Collection[int] = (),
        points: Collection[int] = (),
    ) -> None:
        m = model
        self.friction = friction
        self._model, self._ignored, self._points = m, set(ignored), set(points)
        plain = not (m.neq or m.nmocap or m.ntendon or m.opt.density or m.opt.viscosity)
        self.dofs = {
            int(b): int(m.jnt_dofadr[j])
            for j, b in enumerate(m.jnt_bodyid)
            if plain
            and m.jnt_type[j] == mujoco.mjtJoint.mjJNT_FREE
            and np.isclose(m.body_subtreemass[b], m.body_mass[b])
            and not m.body_gravcomp[b]
            and not m.dof_damping[m.jnt_dofadr[j]]
        }
        """Free bodies; their first degrees of freedom."""
        self.slides = {int(m.jnt_bodyid[j]): int(j) for j in range(m.njnt) if plain and _is_plain_slide(m, j)}
        """Bodies on a slide in the world, judged together with free ones; their joints."""
        both = (*self.dofs, *self.slides)
        self.length = {b: float(np.sqrt(m.body_inertia[b].mean() / m.body_mass[b])) for b in both}
        """L of both: the radius of gyration [m]."""
        met = {b: set() for b in self.dofs}
        for pair in friction:
            bodies = [int(m.geom_bodyid[g]) for g in pair]
            for own, other in (bodies, bodies[::-1]):
                if own in met:
                    met[own].add(int(m.body_weldid[other]))
        self.lone = {b for b, others in met.items() if others == {0}}
        """Free bodies that meet nothing that moves."""

    def bodies(self, d: mujoco.MjData) -> dict[int, Seen]:
        """Return the bodies whose contacts can be judged, in a state with ``cvel``."""
        m, found = self._model, {}
        touching: dict[int, list[int]] = {}
        for k, geoms in enumerate(d.contact.geom.tolist() if d.ncon else []):
            for g in geoms:
                if (body := int(m.geom_bodyid[g])) in self.length:
                    touching.setdefault(body, []).append(k)
        judged: dict[int, list[int]] = {}
        for body, rows in touching.items():
            geoms = d.contact.geom[rows].tolist()
            known = all((min(g), max(g)) in self.friction for g in geoms)
            rolls = (d.contact.dim[rows] > 4).any()  # the model asks for rolling friction
            known = known and not rolls and not self._ignored & {g for pair in geoms for g in pair}
            if len(rows) <= MOST and known:
                judged[body] = rows
        touches = self._touches(d, sorted(set().union(*judged.values())))
        for body, rows in judged.items():
            R, spin = d.ximat[body].reshape(3, 3), d.cvel[body, :3]
            centre = _velocity(m, d, body, d.xipos[body])
            momentum = [m.body_mass[body] * centre, R @ (m.body_inertia[body] * (R.T @ spin))]
            free = np.diag((1.0,) * 3 + (1.0 / self.length[body],) * 3)
            if body in self.slides:
                free = np.append(d.xaxis[self.slides[body]], (0.0,) * 3)[None]
            found[body] = Seen(
                np.concatenate(momentum), d.xipos[body].copy(), R.copy(), free, [touches[k] for k in rows]
            )
        return found

    def _touches(self, d: mujoco.MjData, rows: list[int]) -> dict[int, Touch]:
        """Return MuJoCo's contacts of these rows."""
        m, c, found = self._model, d.contact, {}
        geoms, point, normal = c.geom[rows], c.pos[rows], c.frame[rows, :3]
        bodies = m.geom_bodyid[geoms]
        slip = _velocity(m, d, bodies[:, 1], point) - _velocity(m, d, bodies[:, 0], point)
        slip -= np.sum(slip * normal, axis=1, keepdims=True) * normal
        spin = np.linalg.norm(d.cvel[bodies[:, 1], :3] - d.cvel[bodies[:, 0], :3], axis=1).tolist()
        gap, patch = c.dist[rows].tolist(), (c.dim[rows] > 3).tolist()
        of_pair = Counter(map(tuple, c.geom.tolist()))
        for i, (k, pair) in enumerate(zip(rows, map(tuple, geoms.tolist()), strict=True)):
            turns = patch[i] or not self._points & set(pair)
            ends, alone = tuple(bodies[i].tolist()), of_pair[pair] == 1
            found[k] = Touch(pair, ends, point[i], normal[i], slip[i], gap[i], spin[i], turns, alone)
        return found


def _is_plain_slide(m: mujoco.MjModel, j: int) -> bool:
    """Return whether a joint is all that moves a body, along an axis and by contacts and motors."""
    b, dof = int(m.jnt_bodyid[j]), int(m.jnt_dofadr[j])
    resisted = (
        m.jnt_stiffness[j].any() or m.dof_damping[dof] or m.dof_frictionloss[dof] or m.dof_armature[dof]
    )
    alone = m.body_jntnum[b] == 1 and m.body_weldid[m.body_parentid[b]] == 0
    return bool(
        m.jnt_type[j] == mujoco.mjtJoint.mjJNT_SLIDE
        and alone
        and np.isclose(m.body_subtreemass[b], m.body_mass[b])
        and not (resisted or m.jnt_limited[j] or m.body_gravcomp[b])
    )


def of_pairs(bodies: tuple[int, ...], seen: Mapping[int, Seen]) -> dict[tuple[int, int], list[Touch]]:
    """Return the contacts of bodies by their geoms."""
    found: dict[tuple[int, int], list[Touch]] = {}
    for t in {id(t): t for b in bodies for t in seen[b].touches}.values():
        found.setdefault(t.geoms, []).append(t)
    return found


def distinct(touches: list[Touch]) -> list[Touch]:
    """Return contacts of different normals."""
    found: list[Touch] = []
    for t in touches:
        if all(t.normal @ x.normal < 1.0 - 1e-6 for x in found):
            found.append(t)
    return found


def mean_of(touches: list[Touch]) -> Touch:
    """Return a contact with the mean slip of several."""
    return touches[0]._replace(slip=np.mean([t.slip for t in touches], axis=0))


def groups(seen: Mapping[int, Seen], free: Collection[int]) -> list[tuple[int, ...]]:
    """Return every free body, and all bodies that touch each other if they are more than one."""
    found: list[set[int]] = []
    for b, x in seen.items():
        joined = {b, *(c for t in x.touches for c in t.bodies if c in seen)}
        for group in [g for g in found if g & joined]:
            found.remove(group)
            joined |= group
        found.append(joined)
    together = [tuple(sorted(g)) for g in found if len(g) > 1 and not g.isdisjoint(free)]
    return [(b,) for b in seen if b in free] + together


def between(pairs: Sequence[tuple[Touch, Touch]]) -> list[Touch]:
    """Return contacts in the middle of a check."""
    normals = np.array([old.normal + new.normal for old, new in pairs])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    points = 0.5 * np.array([old.point + new.point for old, new in pairs])
    return [new._replace(point=p, normal=n) for (_, new), p, n in zip(pairs, points, normals, strict=True)]


def common_slip(touches: Sequence[Touch], length: float) -> float:
    """Return the speed [m/s] with which all contacts slide in one direction, 0 if they do not or if
    a body of that radius of gyration rolls or spins rather than slides."""
    if not touches:
        return 0.0
    slips = np.array([t.slip for t in touches])
    sizes, mean = np.linalg.norm(slips, axis=1), slips.mean(axis=0)
    along = slips @ mean / max(float(np.linalg.norm(mean)), 1e-300)
    same = (along >= ALONG * sizes).all()
    slides = same and sizes.min() > 2.0 * length * max(t.spin for t in touches)
    return float(along.min()) if slides else 0.0


def _velocity(m: mujoco.MjModel, d: mujoco.MjData, body: int | np.ndarray, point: np.ndarray) -> np.ndarray:
    """Return the velocities (…, 3) of points of bodies (…)."""
    arm = point - d.subtree_com[m.body_rootid[body]]
    return d.cvel[body, 3:] + cross(d.cvel[body, :3], arm)


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a × b along the last axis; ``np.cross`` takes ten times as long for so few."""
    return a.take(_NEXT, -1) * b.take(_AFTER, -1) - a.take(_AFTER, -1) * b.take(_NEXT, -1)
