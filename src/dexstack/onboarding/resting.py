"""Rules for mount and resting pose of a hand: palm up, the fingers around a free space above it.

**Up** is the axis of the palm frame, of six, with the largest product of the area of that side of
the palm and the share of random poses in which a fingertip is above the side's rectangle.

**Forward** (world x) is the direction of the fingers without the thumb at zero angles, level with
the palm. In a claw it is the direction from the last finger's knuckle to the others': where they
point up, or the last finger points away from them. Within :data:`SNAP` of an axis of the palm frame
it is this axis.

**Home** leaves a cylinder free over a point c on the palm, of the first possible of :data:`WIDTHS`
(:data:`~dexstack.onboarding.reaching.TALL` high). The fingertips stand next to it,
:data:`~dexstack.onboarding.reaching.HEIGHT` over the palm: those of the fingers in a row in front
of it, that of the thumb behind it; in a claw each in the direction of its knuckle. For every
finger, width and c a least-squares problem over joint angles, in the middle 90 % of their ranges,
is solved from several starts. Its residuals are

- the fingertip's distance from its place, forward and up, and with a small weight to the side, from
  its place when stretched, at most :data:`SPREAD` to the side of the knuckle;
- the depths of the finger in the cylinder;
- the angles, with a small weight.

The combination without contacts is taken, with every fingertip within :data:`NEAR` of its place,
sideways within half a width, that stands out least over the palm's ends, and then of least cost: an
object over the first links lies on what moves.

**Flat** stretches the fingers, with the thumb as at home. **Open** does, too, with the thumb as low as
possible: beside the palm, where it does not carry a large object's edge.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import mujoco
import numpy as np

from dexstack.geometry.rotations import quaternion_of
from dexstack.model.hand import HandModel
from dexstack.model.scene import JointLayout, build_scene
from dexstack.onboarding.reaching import GAP, Finger, Place, Solution, half_extents, reach

WIDTHS = (0.034, 0.040, 0.028, 0.022)
"""Radii of the free space, the preferred first [m]: at 34 mm fingers stand close to a cube of 56 mm, which
turns within 40 mm."""
NEAR, SPREAD = 0.006, 0.02
"""[m]"""
OPPOSED = -0.7
"""Largest cosine between the directions of the stretched last finger and of the others in a claw."""
SNAP = np.cos(np.radians(20.0))
ALWAYS = 0.9
"""Share of random poses in which links overlap that do not collide: their shapes are coarse."""
_POSES, _MIDDLES, _SEED = 400, 6, 0
_COMBINATIONS = 60
"""Largest number of combinations of the fingers' solutions that are tested."""


@dataclass(frozen=True)
class Mounted:
    """A hand with its mount, and findings."""

    hand: HandModel
    claw: bool
    """True if the fingers stand on the palm, False if next to it."""
    swing_joints: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def rest(hand: HandModel, up: np.ndarray | None = None, forward: np.ndarray | None = None) -> Mounted:
    """Return the hand with its mount, poses "home" and, unless it is a claw, "flat", swing joints
    and pairs of links that do not collide.

    Args:
        hand: with any mount.
        up, forward: (3,) in the palm frame; None: by the rules.
    """
    mounted = _mounted(hand, up, forward)
    figure = Figure(mounted.hand)
    always = figure.overlapping()
    hand = replace(mounted.hand, ignored_contacts=always)
    home, c, notes, touching = _home(hand, mounted.claw)
    hand = replace(hand, ignored_contacts=always + touching)
    top = Figure(hand).top
    hand = replace(hand, p_WP=hand.p_WP - np.array([*c, top]), poses={"home": home})
    if not mounted.claw:
        thumb = len(home) - hand.chains[-1]
        flat = np.clip(np.zeros(len(home)), hand.lower, hand.upper)
        flat[thumb:] = home[thumb:]
        if not Figure(hand).touching(flat):
            hand = replace(hand, poses={"home": home, "flat": flat, "open": _opened(hand, flat)})
    if always:
        notes.append(f"do not collide, because they overlap in nearly every pose: {_pairs(always)}")
    return replace(mounted, hand=hand, swing_joints=_swings(hand, mounted.claw), notes=tuple(notes))


def _opened(hand: HandModel, flat: np.ndarray) -> np.ndarray:
    """Return the pose "open": of random angles of the thumb, in the middle 90 % of their ranges, those at
    which its highest corner is lowest and it touches nothing; ``flat`` (N,) if there are none [rad]."""
    figure, count = Figure(hand), hand.chains[-1]
    poses = np.tile(flat, (_POSES + 1, 1))
    margin = 0.05 * (hand.upper - hand.lower)
    poses[1:, -count:] = np.clip(figure.random(), hand.lower + margin, hand.upper - margin)[:, -count:]
    for q in sorted(poses, key=figure.thumb_top):
        if not figure.touching(q):
            return q
    return flat


def _pairs(pairs: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{a} and {b}" for a, b in pairs)


class Figure:
    """Bodies and shapes of a hand at given joint angles."""

    def __init__(self, hand: HandModel) -> None:
        self.hand = hand
        self._model = build_scene(hand, None, camera=False).compile()
        self._data, self._layout = mujoco.MjData(self._model), JointLayout(self._model)
        self._bodies = [self._model.body(body.name).id for body in hand.bodies]

    def _at(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self._data.qpos[:] = self._layout.coordinates(q)
        mujoco.mj_kinematics(self._model, self._data)
        return self._data.xpos[self._bodies], self._data.xmat[self._bodies].reshape(-1, 3, 3)

    def tips(self, q: np.ndarray) -> np.ndarray:
        """Return the fingertips (F, 3) [m]."""
        p, R = self._at(q)
        return np.array([p[t.body] + R[t.body] @ t.p_BT for t in self.hand.fingertips])

    def thumb_top(self, q: np.ndarray) -> float:
        """Return the height of the highest corner of the boxes around the thumb's shapes [m]."""
        p, R = self._at(q)
        body, heights = self.hand.fingertips[-1].body, [-np.inf]
        while body > 0:
            for shape in self.hand.bodies[body].shapes:
                half = np.abs(R[body] @ shape.R) @ half_extents(shape)
                heights.append(float((p[body] + R[body] @ shape.p + half)[2]))
            body = self.hand.bodies[body].parent
        return max(heights)

    def knuckles(self) -> np.ndarray:
        """Return the first joints (F, 3) of the fingers [m]."""
        p, _ = self._at(self.stretched())
        return np.array([p[i] for i, body in enumerate(self.hand.bodies) if body.parent == 0])

    def stretched(self) -> np.ndarray:
        """Return the joint angles (N,) nearest to zero [rad]."""
        return np.clip(np.zeros(len(self.hand.joint_names)), self.hand.lower, self.hand.upper)

    def random(self) -> np.ndarray:
        """Return random joint angles (n, N) [rad]."""
        rng = np.random.default_rng(_SEED)
        return rng.uniform(self.hand.lower, self.hand.upper, (_POSES, len(self.hand.lower)))

    def touching(self, q: np.ndarray, depth: float = 0.0) -> tuple[tuple[str, str], ...]:
        """Return the pairs of links that overlap by more than a depth [m]."""
        self._at(q)
        mujoco.mj_collision(self._model, self._data)
        bodies = [self._model.geom_bodyid[c.geom] for c in self._data.contact if c.dist < -depth]
        name = lambda b: self._model.body(b).name  # noqa: E731
        return tuple(sorted({(name(a), name(b)) for a, b in map(sorted, bodies)}))

    def overlapping(self) -> tuple[tuple[str, str], ...]:
        """Return the pairs of links that overlap in nearly every pose."""
        counts = Counter(pair for q in self.random() for pair in self.touching(q))
        return tuple(sorted(pair for pair, count in counts.items() if count >= ALWAYS * _POSES))

    def palm(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lowest and the highest corner (n, 3) of the shapes' boxes of the palm in the
        world [m]."""
        p, R = self._at(self.stretched())
        boxes = []
        for shape in self.hand.bodies[0].shapes:
            half = np.abs(R[0] @ shape.R) @ half_extents(shape)
            middle = p[0] + R[0] @ shape.p
            boxes.append((middle - half, middle + half))
        return np.array([b[0] for b in boxes]), np.array([b[1] for b in boxes])

    @functools.cached_property
    def top(self) -> float:
        """Height above which a fifth of the palm's area lies [m]: a rim or the thumb's base may be
        higher."""
        low, high = self.palm()
        x, y = (np.linspace(low[:, k].min(), high[:, k].max(), 40) for k in (0, 1))
        at = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 1, 2)
        covered = ((at >= low[None, :, :2]) & (at <= high[None, :, :2])).all(axis=2)
        heights = np.where(covered, high[None, :, 2], -np.inf).max(axis=1)
        return float(np.quantile(heights[np.isfinite(heights)], 0.8))


def _mounted(hand: HandModel, up: np.ndarray | None, forward: np.ndarray | None) -> Mounted:
    """Return the hand with its orientation and side, the palm frame at the world's origin."""
    figure = Figure(replace(hand, p_WP=np.zeros(3), quat_WP=np.array([1.0, 0.0, 0.0, 0.0])))
    nhat = _up(figure) if up is None else up / np.linalg.norm(up)
    knuckles = figure.knuckles()
    reaches = figure.tips(figure.stretched()) - knuckles
    reach = reaches[: max(len(knuckles) - 1, 1)].mean(axis=0)
    level = reach - nhat * (nhat @ reach)
    lengths = np.linalg.norm(reaches[-1]) * np.linalg.norm(level)
    opposed = len(knuckles) > 1 and bool(reaches[-1] @ level < OPPOSED * lengths)
    claw = opposed or bool(np.linalg.norm(level) < 0.5 * np.linalg.norm(reach))
    if claw:
        level = knuckles[:-1].mean(axis=0) - knuckles[-1] if len(knuckles) > 1 else np.roll(nhat, 1)
    if forward is not None:
        level = forward
    level = level - nhat * (nhat @ level)
    level = level / np.linalg.norm(level) if np.linalg.norm(level) > 1e-9 else np.roll(nhat, 1)
    near = int(np.argmax(np.abs(level)))
    if abs(level[near]) > SNAP and abs(nhat[near]) < 1e-9 and forward is None:
        level = np.sign(level[near]) * np.eye(3)[near]
    R_WP = np.array([level, np.cross(nhat, level), nhat])
    aside = float((R_WP @ (knuckles[-1] - knuckles[:-1].mean(axis=0)))[1]) if len(knuckles) > 1 else 0.0
    side = "left" if aside > 0.005 and not claw else "right"
    return Mounted(replace(hand, p_WP=np.zeros(3), quat_WP=quaternion_of(R_WP), side=side), claw)


def _up(figure: Figure) -> np.ndarray:
    low, high = (f(x, axis=0) for f, x in zip((np.min, np.max), figure.palm(), strict=True))
    tips = np.array([figure.tips(q) for q in figure.random()])
    best, chosen = -1.0, np.eye(3)[2]
    for axis in range(3):
        across = [k for k in range(3) if k != axis]
        within = ((tips > low) & (tips < high))[:, :, across].all(axis=2)
        area = float(np.prod((high - low)[across]))
        for sign in (-1.0, 1.0):
            above = tips[:, :, axis] > high[axis] if sign > 0.0 else tips[:, :, axis] < low[axis]
            score = area * float((within & above).mean())
            if score > best:
                best, chosen = score, sign * np.eye(3)[axis]
    return chosen


def _home(
    hand: HandModel, claw: bool
) -> tuple[np.ndarray, np.ndarray, list[str], tuple[tuple[str, str], ...]]:
    """Return the angles (N,), the middle of the grasp (2,) in the world [m], notes, and pairs of
    links that overlap in spite of the search."""
    figure, best = Figure(hand), None
    fingers = [Finger(hand, f) for f in range(len(hand.chains))]
    for width in WIDTHS:
        found = []
        for c in _middles(figure, claw):
            solutions = list(map(reach, fingers, _places(figure, claw, c, width)))
            found.append((*_together(figure, solutions), c, _overhang(figure, width, c)))
        order = sorted(found, key=lambda one: (len(one[0]), one[1] > NEAR, one[5], one[2]))
        for touching, miss, cost, q, c, _ in order:
            if not touching and miss <= NEAR:
                return q, c, [f"home leaves free a cylinder of {1e3 * width:.0f} mm radius"], ()
            if best is None or (len(touching), miss, cost) < best[0]:
                best = (len(touching), miss, cost), q, c, touching, width
    assert best is not None
    (_, miss, _), q, c, touching, width = best
    notes = [
        f"at home a fingertip is {1e3 * miss:.0f} mm from its place next to a free cylinder of "
        f"{1e3 * width:.0f} mm radius"
    ]
    if touching:
        notes.append(f"do not collide, because they overlap at home: {_pairs(touching)}")
    return q, c, notes, touching


def _overhang(figure: Figure, width: float, c: np.ndarray) -> float:
    """Return the length by which a cylinder over c stands out over the palm's ends [m]."""
    low, high = figure.palm()
    return max(0.0, c[0] + width - high[:, 0].max()) + max(0.0, low[:, 0].min() - c[0] + width)


def _middles(figure: Figure, claw: bool) -> np.ndarray:
    """Return the candidates (n, 2) for the middle of the grasp [m]."""
    if claw:
        return figure.knuckles()[:, :2].mean(axis=0, keepdims=True)
    low, high = (f(x, axis=0) for f, x in zip((np.min, np.max), figure.palm(), strict=True))
    return np.column_stack([np.linspace(low[0], high[0], _MIDDLES), np.full(_MIDDLES, _row(figure).mean())])


def _row(figure: Figure) -> np.ndarray:
    """Return y of the fingertips without the thumb's, in a row [m]."""
    knuckles, tips = figure.knuckles()[:, 1], figure.tips(figure.stretched())[:, 1]
    row = knuckles + np.clip(tips - knuckles, -SPREAD, SPREAD)
    return row[:-1] if len(row) > 1 else row


def _places(figure: Figure, claw: bool, c: np.ndarray, width: float) -> list[Place]:
    ring, count, top = width + figure.hand.fingertip_radius + GAP, len(figure.hand.fingertips), figure.top
    if claw:
        away = figure.knuckles()[:, :2] - c
        away = away / np.maximum(np.linalg.norm(away, axis=1, keepdims=True), 1e-6)
        return [Place(c + ring * d, d, c, width, top) for d in away]
    x = np.array([1.0, 0.0])
    fingers = [Place(np.array([c[0] + ring, aside]), x, c, width, top) for aside in _row(figure)]
    return [*fingers, Place(c - ring * x, -x, c, width, top)][:count]


def _together(
    figure: Figure, fingers: Sequence[list[Solution]]
) -> tuple[tuple[tuple[str, str], ...], float, float, np.ndarray]:
    """Return touching pairs, worst miss, cost and angles of the best combination of the fingers'
    solutions."""
    combinations = itertools.product(*(solutions[:3] for solutions in fingers))
    cheapest = sorted(combinations, key=lambda one: sum(solution.cost for solution in one))
    best = None
    for chosen in cheapest[:_COMBINATIONS]:
        q = np.concatenate([solution.q for solution in chosen])
        found = figure.touching(q), max(s.miss for s in chosen), sum(s.cost for s in chosen), q
        if best is None or len(found[0]) < len(best[0]):
            best = found
        if not best[0]:
            break
    assert best is not None
    return best


def _swings(hand: HandModel, claw: bool) -> tuple[str, ...]:
    """Return, for each finger but the thumb, the joint that moves its tip from side to side at home,
    if there is one."""
    figure, home, step = Figure(hand), hand.home, 1e-4
    tips, names, j = figure.tips(home), [], 0
    for f, count in enumerate(hand.chains):
        shares = []
        for k in range(j, j + count):
            moved = figure.tips(home + step * np.eye(len(home))[k])[f] - tips[f]
            radial = tips[f, :2] / max(float(np.linalg.norm(tips[f, :2])), 1e-9)
            sideways = np.array([-radial[1], radial[0], 0.0]) if claw else np.eye(3)[1]
            shares.append(abs(moved @ sideways) / max(float(np.linalg.norm(moved)), 1e-3 * step))
        if f < len(hand.chains) - 1 and max(shares) > 0.6:
            names.append(hand.joint_names[j + int(np.argmax(shares))])
        j += count
    return tuple(names)
