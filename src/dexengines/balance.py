"""Balance of free bodies' momentum with forces that their contacts can bear by Coulomb's law.

Between two checks, momentum and angular momentum change by gravity, applied forces and contact
impulses J = N (n + f) with N ≥ 0: f = −μ v_t/|v_t| at a contact that slides all the time, ‖f‖ ≤ μ at one
that sticks. A round body without a material of its own is rigid and bears no moment about the normal.
Where no N and f explain the change, friction is not Coulomb's: rolling is braked, sliding too
strongly, or a contact slips below its cone. Bodies are judged one by one, and all that touch each
other together, since the forces between them are then the same for both.

A body that slides although forces within the cone would do creeps, and one that moves by itself from
where it rested in equilibrium should have stayed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import mujoco
import numpy as np

from dexengines.touching import (
    ALONG,
    MOST,
    Seen,
    Sight,
    Touch,
    between,
    common_slip,
    cross,
    distinct,
    groups,
    mean_of,
    of_pairs,
)

DIVERGED = 1e6
"""Speed of a motion that is not judged [m/s, rad/s]."""
UNEXPLAINED = 0.01
"""Share of the impulse that may stay unexplained."""
STEADY = 0.01
"""Share of the change of momentum over the last checks that may."""
SLOW = 0.005
"""Least speed that this is, over √(g L)."""
RECENT = 10
"""Number of these checks."""
SLIDING = 0.05
"""Speed over √(g L) from which a contact slides."""
MOVED = 0.02
"""Way over L that a contact may move on its body's centre within a check, in the world's axes or the
body's, and that a body may creep within the last checks."""
TURNING = 0.05
"""Largest change of the angular momentum, as a share, of a body that turns steadily."""
BRAKED = 0.3
"""Least ratio of the slips at both ends of a check in which a contact slides all the time."""
HELD = 0.8
"""Share of the friction coefficient that holds a body which creeps, and one in equilibrium."""
ROUNDING = 0.02
"""Share of the friction coefficient that may then stay unexplained."""
LEFT = 0.1
"""Way over L, and angle [rad], that a body in equilibrium may move."""
TILT = 0.02
"""Angle by which gravity may turn without that the equilibrium is lost [rad]."""
ALIKE = 0.25
"""Least share of their mean that each of several unexplained impulses has along it."""
TOUCHING = 1e-3
"""Largest gap of a body in equilibrium, over L."""
TOGETHER = 2 * MOST
"""Contacts of several bodies that are judged together."""
CORNERS = 8
"""Directions of friction of a contact that sticks; the polygon encloses the cone."""


class Check(NamedTuple):
    """What explains the motion of bodies between two checks."""

    touches: list[Touch]
    sliding: np.ndarray
    """(K, 3) directions in which the contacts slide, zero of those that stick."""
    place: dict[int, tuple[slice, np.ndarray, np.ndarray]]
    """Of every body, its rows among all, (r, 6) those of its momentum, and its centre (3,) [m]."""
    pairs: list[tuple[Touch, Touch]]
    """The contacts at both checks, empty if they are not the same."""

    def sticking(self) -> Check:
        """Return the same with contacts that stick."""
        return self._replace(sliding=np.zeros((len(self.touches), 3)))


class Past(NamedTuple):
    """Of bodies that were judged in all of the last checks."""

    rest: tuple[np.ndarray, ...] = ()
    """Impulses that are not explained, each (6 B,), angular parts over L, while they are alike."""
    change: tuple[np.ndarray, ...] = ()
    """(6 B,) of momentum in the same checks."""
    crept: tuple[float, ...] = ()
    """Ways [m]."""
    share: float = 0.0
    """Of the last impulse that is not explained."""

    def followed(self, rest: np.ndarray, change: np.ndarray, crept: float, share: float) -> Past:
        """Return the past after another check."""
        rests, changes = (*self.rest, rest)[-RECENT:], (*self.change, change)[-RECENT:]
        same = all(len(x) == len(rest) for x in rests)
        mean = np.mean(rests, axis=0) if same else rest
        if not same or min(x @ mean for x in rests) < ALIKE * (mean @ mean):
            rests, changes = (rest,), (change,)
        return Past(rests, changes, (*self.crept, crept)[-RECENT:], share)

    def fault(self, slow: float, sure: bool) -> str:
        """Return what is not explained, or an empty string.

        Args:
            slow: momentum that is too little to be judged.
            sure: the last check alone can be judged: no impact falls into it.
        """
        if sure and self.share > UNEXPLAINED:
            return f"{100 * self.share:.0f} %"
        rest, change = (float(np.linalg.norm(np.sum(x, axis=0))) for x in (self.rest, self.change))
        if len(self.rest) > 1 and rest > max(STEADY * change, slow):
            return f"steadily {100 * self.share:.1g} %"
        return ""


NOTHING = Past()


class Balance:
    """Checks of one scene's free bodies.

    Args:
        model: of the scene.
        sight: of its bodies.
    """

    def __init__(self, model: mujoco.MjModel, sight: Sight) -> None:
        from scipy.optimize import nnls  # takes 0.3 s: not where it is not used, and not during a step

        self._nnls = nnls
        self._model, self._sight, self._length = model, sight, sight.length
        self._gravity = max(float(np.linalg.norm(model.opt.gravity)), 1.0)
        self.begin()

    def begin(self) -> None:
        """Forget earlier checks."""
        self._first: dict[int, Seen] | None = None
        self._last: dict[int, Seen] = {}
        self._past: dict[tuple[int, ...], Past] = {}

    def see(self, d: mujoco.MjData, applied: np.ndarray, seconds: float) -> str:
        """Return a sentence on bodies whose motion since the last check is not explained, or empty.

        Args:
            d: state with positions, contacts and ``cvel``.
            applied: (nv,) impulse of applied forces since then.
            seconds: time since then.
        """
        if not np.abs(d.cvel).max() < DIVERGED:  # which the energy says
            self._last, self._past = {}, {}
            return ""
        now, before, past = self._sight.bodies(d), self._last, self._past
        self._last, self._past = now, {}
        if self._first is None:
            self._first = {b: x for b, x in now.items() if b in self._sight.lone and not x.momentum.any()}
        if applied.any():
            self._first = {b: x for b, x in self._first.items() if not applied[self._of(b)].any()}
        said = self._left_equilibrium(d)
        pushed = {b: applied[self._model.jnt_dofadr[j]] for b, j in self._sight.slides.items()}
        for bodies in groups(now, self._sight.dofs):
            free = [b for b in bodies if b in self._sight.dofs]
            if all(b in before for b in bodies) and not any(applied[self._of(b)].any() for b in free):
                check = self._check(bodies, before, now)
                motion = self._motion(bodies, before, now, pushed, seconds)
                if check is not None:
                    said = self._judge(bodies, check, motion, past.get(bodies, NOTHING), seconds) or said
        return said

    def _of(self, body: int) -> slice:
        return slice(self._sight.dofs[body], self._sight.dofs[body] + 6)

    def _name(self, body: int) -> str:
        return f"'{self._model.body(body).name or f'body {body}'}'"

    def _check(
        self, bodies: tuple[int, ...], before: Mapping[int, Seen], now: Mapping[int, Seen]
    ) -> Check | None:
        """Return the contacts that explain a motion, None if that is open: those of both ends if they
        are the same, else their normals, for the linear momentum alone."""
        pairs = self._alike(bodies, before, now)
        sliding, sure = self._slips(pairs)
        most = MOST if len(bodies) == 1 else TOGETHER
        if whole := bool(pairs) and len(pairs) <= most and sure.all():
            touches = between(pairs)
        else:
            pairs, old, new = [], *(of_pairs(bodies, seen) for seen in (before, now))
            if old.keys() != new.keys():
                return None
            touches = [t for pair in old for t in distinct([*old[pair], *new[pair]])]
            if not 0 < len(touches) <= most:
                return None
            length = min(self._length[b] for b in bodies)
            slides = [common_slip([*old[g], *new[g]], length) > 0.0 for g in old]
            along, sure = self._slips([(mean_of(old[g]), mean_of(new[g])) for g in old])
            along[~(sure & slides)] = 0.0
            of = list(old)
            sliding = along[[of.index(t.geoms) for t in touches]]
        place, first = {}, 0
        for b in bodies:
            rows = now[b].rows if whole else now[b].rows[:3]
            centre = 0.5 * (before[b].centre + now[b].centre)
            place[b] = slice(first, first + len(rows)), rows, centre
            first += len(rows)
        return Check(touches, sliding, place, pairs)

    def _motion(
        self,
        bodies: tuple[int, ...],
        before: Mapping[int, Seen],
        now: Mapping[int, Seen],
        pushed: Mapping[int, float],
        seconds: float,
    ) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """Return the change of momentum (6,) of bodies, and the impulse (6,) of their contacts."""
        found = {}
        for b in bodies:
            change = now[b].momentum - before[b].momentum
            known = np.append(self._model.body_mass[b] * self._model.opt.gravity * seconds, (0.0,) * 3)
            if b in pushed:
                known += pushed[b] * now[b].rows[0]
            found[b] = change, change - known
        return found

    def _judge(
        self,
        bodies: tuple[int, ...],
        check: Check,
        motion: Mapping[int, tuple[np.ndarray, np.ndarray]],
        past: Past,
        seconds: float,
    ) -> str:
        """Judge bodies together, and keep what is needed at the next check."""
        change, impulse = (
            np.concatenate([rows @ motion[b][k] for b, (_, rows, _) in check.place.items()]) for k in (0, 1)
        )
        linear = [(rows @ motion[b][1])[:3] for b, (_, rows, _) in check.place.items()]
        mass = float(self._model.body_mass[list(bodies)].sum())
        size = max(mass * self._gravity * seconds, float(np.linalg.norm(np.concatenate(linear))))
        rest = size * self._unexplained(check, impulse / size)
        share, length = float(np.linalg.norm(rest)) / size, min(self._length[b] for b in bodies)
        crept = (
            seconds * common_slip([t for pair in check.pairs for t in pair], length)
            if len(bodies) == 1
            else 0.0
        )
        if RECENT * crept > MOVED * length:
            held = self._unexplained(check.sticking(), impulse / size, HELD)
            least = ROUNDING * min(map(self._mu, check.touches))
            crept = crept if np.linalg.norm(held) <= least else 0.0
        # an impact may fall into a single check, and contacts that are not the same be incomplete
        sure = past.share > UNEXPLAINED or (bool(check.pairs) and check.sliding.any(axis=1).all())
        known = self._past[bodies] = past.followed(rest, change, crept, share)
        what = known.fault(mass * SLOW * np.sqrt(self._gravity * length), sure)
        names = " and ".join(map(self._name, bodies))
        if what:
            return f"{what} of the contact forces on {names} are not explained by Coulomb's law"
        if sum(known.crept) > MOVED * length:
            way, time = 1e3 * sum(known.crept), seconds * len(known.crept)
            return f"{names} slides by {way:.2g} mm in {time:.2g} s although friction would hold it"
        return ""

    def _mu(self, touch: Touch) -> float:
        return self._sight.friction[min(touch.geoms), max(touch.geoms)]

    def _alike(
        self, bodies: tuple[int, ...], before: Mapping[int, Seen], now: Mapping[int, Seen]
    ) -> list[tuple[Touch, Touch]]:
        """Return the contacts at both checks, none if they are not the same."""
        found: dict[int, tuple[Touch, Touch]] = {}
        for b in bodies:
            old, new = before[b], now[b]
            a, c = (np.array([t.point for t in x.touches]) - x.centre for x in (old, new))
            way = np.linalg.norm(a[:, None] - c, axis=2)
            turn, spin = old.momentum[3:], new.momentum[3:]
            if np.linalg.norm(spin - turn) < TURNING * np.linalg.norm(turn):  # with its contacts
                way = np.minimum(way, np.linalg.norm((a @ old.R)[:, None] - c @ new.R, axis=2))
            other = [[x.geoms != y.geoms for y in new.touches] for x in old.touches]
            way = np.where(other, np.inf, way)
            first = way.argmin(axis=0)
            most = MOVED * self._length[b] if b in self._sight.dofs else np.finfo(float).max
            if len(set(first)) < len(a) or way.min(axis=0).max() > most:
                return []
            for k, y in zip(first, new.touches, strict=True):
                found.setdefault(id(y), (old.touches[k], y))
        return list(found.values())

    def _slips(self, pairs: Sequence[tuple[Touch, Touch]]) -> tuple[np.ndarray, np.ndarray]:
        """Return the directions (K, 3) in which contacts slide all the time, zero where they stick,
        and whether (K,) either is sure."""
        if not pairs:
            return np.zeros((0, 3)), np.zeros(0, bool)
        length = np.array([min(self._length[b] for b in new.bodies if b in self._length) for _, new in pairs])
        slips = np.array([[old.slip, new.slip] for old, new in pairs])
        speeds = np.linalg.norm(slips, axis=2)
        low, high = speeds.min(axis=1), speeds.max(axis=1)
        sticks = high <= SLIDING * np.sqrt(self._gravity * length)
        turned = np.sum(slips[:, 0] * slips[:, 1], axis=1) < ALONG * low * high
        slides = ~(sticks | turned | (low < BRAKED * high))
        along = np.zeros((len(pairs), 3))
        along[slides] = (slips[slides] / speeds[slides, :, None]).sum(axis=1)
        along[slides] /= np.linalg.norm(along[slides], axis=1, keepdims=True)
        return along, sticks | slides

    def _unexplained(self, check: Check, wanted: np.ndarray, held: float = 1.0) -> np.ndarray:
        """Return the part (r,) of an impulse that no contact forces explain, if a share ``held`` of
        the friction coefficients counts."""
        normals, slide = np.array([t.normal for t in check.touches]), check.sliding.any(axis=1)
        # where corners slide, the load may be within
        turns = np.array([t.turns and (t.alone or s) for t, s in zip(check.touches, slide, strict=True)])
        mu = held * np.array([self._mu(t) for t in check.touches])
        along = np.where(slide[:, None, None], -check.sliding[:, None], _polygon(normals))
        of, corner = np.nonzero(np.arange(CORNERS) < np.where(slide, 1, CORNERS)[:, None])
        turn = mu * turns  # with a lever of L at most, to either side
        other = np.flatnonzero(turns[of])
        turn = np.append(turn[of], -turn[of[other]])
        of, corner = np.append(of, of[other]), np.append(corner, corner[other])
        force, moment = normals[of] + mu[of, None] * along[of, corner], turn[:, None] * normals[of]
        point = np.array([t.point for t in check.touches])[of]
        bodies = np.array([t.bodies for t in check.touches])[of]
        A = np.zeros((len(wanted), len(force)))
        for b, (part, rows, centre) in check.place.items():
            sign = (bodies[:, 1] == b).astype(float) - (bodies[:, 0] == b)
            turn = cross(point - centre, force) + self._length[b] * moment
            A[part] = rows @ (sign[:, None] * np.hstack([force, turn])).T
        return wanted - A @ self._nnls(A, wanted)[0]

    def _left_equilibrium(self, d: mujoco.MjData) -> str:
        """Return a sentence on a body that has left the place where it was in equilibrium."""
        for b, seen in list((self._first or {}).items()):
            length = self._length[b]
            turned = np.linalg.norm(d.ximat[b].reshape(3, 3) - seen.R)
            if np.linalg.norm(d.xipos[b] - seen.centre) < LEFT * length and turned < LEFT:
                continue
            del self._first[b]
            if self._holds(b, seen):
                return f"{self._name(b)} leaves the place where it was in equilibrium"
        return ""

    def _holds(self, b: int, seen: Seen) -> bool:
        """Return whether fixed bodies below it hold a body, if gravity turns a little as well."""
        normals = np.array([t.normal if t.bodies[1] == b else -t.normal for t in seen.touches])
        apart = any(t.gap > TOUCHING * self._length[b] for t in seen.touches)
        if apart or (normals @ normals.T < ALONG).any():  # bodies may jam between walls, but need not
            return False
        up = -self._model.opt.gravity / self._gravity
        sticks = np.zeros((len(seen.touches), 3))
        check = Check(seen.touches, sticks, {b: (slice(0, 6), seen.rows, seen.centre)}, [])
        for turn in TILT * _polygon(up):
            wanted = np.append(up + turn, (0.0,) * 3)
            if np.linalg.norm(self._unexplained(check, wanted, HELD)) > 1e-6:
                return False
        return True


def _polygon(n: np.ndarray) -> np.ndarray:
    """Return the corners (…, CORNERS, 3) of polygons about unit circles at right angles to n (…, 3)."""
    u = cross(n, np.eye(3)[np.argmin(np.abs(n), axis=-1)])
    u /= np.linalg.norm(u, axis=-1, keepdims=True)
    angle = np.arange(CORNERS)[:, None] * 2.0 * np.pi / CORNERS
    corners = np.cos(angle) * u[..., None, :] + np.sin(angle) * cross(n, u)[..., None, :]
    return corners / np.cos(np.pi / CORNERS)
