"""Where the turning task puts an object in a hand, from the sizes of both; the three objects that
come with dexstack are examples of it.

What an object's YAML says of a family of hands counts for them. In any other hand the object is
where this rule puts it: it lies as it rests likeliest, the longer side of its outline across the
fingers (along world y).

- An object that is not long stands on the palm of the resting hand ("home"), where it touches
  nothing: as far forward as it goes, but not farther than :data:`GAP` short of the fingertips, and
  of such places nearest to the middle of the palm's breadth. It is tried in steps of :data:`STEP`,
  :data:`BACK` back and :data:`ASIDE` to both sides.
- An object that is longer than :data:`LONG` times its breadth, or finds no such place, lies across
  the stretched fingers ("flat"): its middle over the middle of the fingers' first links, which then
  curl behind it.
- It is as high as the lowest place where it touches nothing of the hand.
"""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np

from dexstack.errors import ConfigError
from dexstack.model.hand import HandModel
from dexstack.model.objects import ObjectModel, Start, mirrored
from dexstack.model.scene import OBJECT_BODY, JointLayout, build_scene

GAP = 0.002
"""Between object and fingertips at the start [m]."""
LONG = 2.0
"""An object is long if it measures this many times more along one side of its outline than along
the other."""
STEP, BACK, ASIDE = 0.0025, 0.02, 0.015
APART = 0.015
"""Between places that are tried [m]."""
HIGHER = 0.02
CLEAR = 0.001
"""Height over the palm at which it must touch nothing [m]."""
HIGHEST = 0.3
_RESOLUTION = 1e-4
NOISE_POSITION, NOISE_YAW = 0.005, 0.1745
"""By which a trial disturbs the start [m, rad]: that of the paper."""
YAW = np.pi / 2
"""From the object's x, along which its outline is longest, to world y."""


def with_place(hand: HandModel, obj: ObjectModel) -> ObjectModel:
    """The object with its :func:`place_on_palm` as its start for hands of this family.

    Raises:
        ConfigError: there is no place.
    """
    start = place_on_palm(hand, obj)
    if hand.side == "left":  # starts are written for a right hand
        start = replace(start, pose_WO=mirrored(start.pose_WO))
    return replace(obj, starts={**obj.starts, hand.family: start})


def place_on_palm(hand: HandModel, obj: ObjectModel) -> Start:
    """The start of ``obj``, whose frame has z up as it rests and x along the longer side of its
    outline, in this very hand.

    Raises:
        ConfigError: it finds no place in the hand's poses "home" and "flat".
    """
    scene = _Scene(hand, obj)
    if obj.size[0] <= LONG * obj.size[1] and (spot := scene.spot_on_palm()) is not None:
        return scene.start(spot, "home")
    if "flat" not in hand.poses:
        raise ConfigError(
            f"the hand '{hand.name}' has no pose 'flat' on which a long or large object could lie"
        )
    return scene.start(np.array([scene.middle_of_first_links(), 0.0, HIGHEST]), "flat")


def other_places(hand: HandModel, obj: ObjectModel, first: Start) -> list[Start]:
    """Starts to try where ``first`` is not good enough: the hand's other pose, then from both back
    and forth and turned by a quarter.

    Places beside which the object falls past the hand are left out, and those where it would lie on
    something that stands up beside the pose's own place, :data:`HIGHER` over it.
    """
    scene, yaw = _Scene(hand, obj), 2.0 * np.arctan2(first.pose_WO[6], first.pose_WO[3])
    at = {first.hand_pose: first.pose_WO[:2]}
    if first.hand_pose == "home" and "flat" in hand.poses:
        at["flat"] = np.array([scene.middle_of_first_links(), 0.0])
    elif (spot := scene.spot_on_palm()) is not None:
        at["home"] = spot[:2]
    poses = sorted(at, key=lambda pose: pose == first.hand_pose)
    changes = [
        (np.zeros(2), 0.0),
        *((np.array([dx, 0.0]), 0.0) for dx in (-APART, APART)),
        (np.zeros(2), np.pi / 2),
    ]
    found: list[Start] = []
    heights = {first.hand_pose: first.pose_WO[2]}
    for change, turn in changes:
        for pose in poses:
            if pose == first.hand_pose and not (change.any() or turn):
                continue
            try:
                start = scene.start(np.array([*(at[pose] + change), HIGHEST]), pose, yaw + turn)
            except ConfigError:
                continue
            if start.pose_WO[2] < heights.setdefault(pose, start.pose_WO[2]) + HIGHER:
                found.append(start)
    return found


def room_over_fingers(hand: HandModel, obj: ObjectModel, x: float) -> float:
    """How far forward of x the object may lie over the fingers: up to the middle of their first
    long links in the pose "flat" [m].

    An object that is narrower than neighbouring knuckles are apart may not: where a finger gives
    way, it sinks down between two.

    Returns:
        Not negative; infinite in a hand that has no pose "flat".
    """
    if "flat" not in hand.poses:
        return np.inf
    scene = _Scene(hand, obj)
    apart = np.diff(np.sort(scene.first_links()[:, 0, 1])).max(initial=0.0)
    return 0.0 if least_width(obj.hull_vertices) < apart else max(scene.middle_of_first_links() - x, 0.0)


def least_width(points: np.ndarray) -> float:
    """Least distance of two parallel planes with all points between them, one of them on a face of
    their hull [m]."""
    from scipy.spatial import ConvexHull  # slow to import

    normals = ConvexHull(points).equations[:, :3]
    return float(np.ptp(points @ normals.T, axis=0).min())


class _Scene:
    """Hand and object, without gravity or time."""

    def __init__(self, hand: HandModel, obj: ObjectModel) -> None:
        self._hand, self._obj = hand, obj
        self._yaw = YAW
        self._model = build_scene(hand, obj).compile()
        self._data, self._layout = mujoco.MjData(self._model), JointLayout(self._model)
        self._own = self._model.geom_bodyid == self._model.body(OBJECT_BODY).id
        self._numbers = [self._model.body(body.name).id for body in hand.bodies]

    def spot_on_palm(self) -> np.ndarray | None:
        """(3,) the place in the resting hand, if there is one, :data:`CLEAR` over the palm [m]."""
        self._take("home")
        tips = [
            self._places()[t.body] + self._rotations()[t.body] @ t.p_BT for t in self._hand.fingertips[:-1]
        ]  # the thumb's is last
        foremost = (
            float(np.mean(tips, axis=0)[0])
            - self._hand.fingertip_radius
            - GAP
            - float(self._obj.surface.vertices[:, 1].max())
        )
        z = self._palm_top() - float(self._obj.surface.vertices[:, 2].min()) + CLEAR
        inwards = -1.0 if self._hand.side == "left" else 1.0
        aside = inwards * np.array(
            sorted(np.arange(-ASIDE, ASIDE + STEP / 2, STEP), key=lambda y: (round(abs(y), 6), y))
        )
        for x in foremost - np.arange(0.0, BACK + STEP / 2, STEP):
            for y in aside:
                if not self._touches(x, y, z):
                    return np.array([x, y, z])
        return None

    def first_links(self) -> np.ndarray:
        """(fingers, 2, 3) where each finger's first long link begins and ends, stretched; not the
        thumb's [m]."""
        self._take("flat")
        links = []
        for tip in self._hand.fingertips[:-1]:
            chain = [tip.body]
            while self._hand.bodies[chain[0]].parent > 0:
                chain.insert(0, self._hand.bodies[chain[0]].parent)
            places = self._places()[chain]
            k = int(np.argmax(np.linalg.norm(np.diff(places, axis=0), axis=1)))  # the proximal phalanx
            links.append(places[k : k + 2])
        return np.array(links)

    def middle_of_first_links(self) -> float:
        """Its x [m]."""
        return float(self.first_links()[:, :, 0].mean())

    def start(self, spot: np.ndarray, pose: str, yaw: float = YAW) -> Start:
        """At the lowest height, downwards from ``spot`` (3,), where nothing of the hand is touched,
        turned by ``yaw`` [rad].

        Raises:
            ConfigError: there is none.
        """
        self._take(pose)
        self._yaw = yaw
        x, y, top = (float(v) for v in spot)
        bottom = top
        while not self._touches(x, y, bottom):
            top, bottom = bottom, bottom - 0.01
            if bottom < -HIGHEST:
                raise ConfigError(
                    f"the object '{self._obj.name}' falls past the hand: nothing of it lies under x = {x:.3f} m"
                )
        if top == bottom:
            raise ConfigError(
                f"the object '{self._obj.name}' is too large: {top:g} m over the palm it still touches the hand"
            )
        while top - bottom > _RESOLUTION:
            middle = (top + bottom) / 2.0
            top, bottom = (top, middle) if self._touches(x, y, middle) else (middle, bottom)
        return Start(_pose(x, y, top, yaw), NOISE_POSITION, NOISE_YAW, pose)

    def _take(self, pose: str) -> None:
        self._data.qpos[:-7] = self._layout.coordinates(self._hand.pose(pose))
        mujoco.mj_kinematics(self._model, self._data)

    def _places(self) -> np.ndarray:
        return self._data.xpos[self._numbers]

    def _rotations(self) -> np.ndarray:
        return self._data.xmat[self._numbers].reshape(-1, 3, 3)

    def _palm_top(self) -> float:
        """Height of the palm's highest side [m]."""
        model, data = self._model, self._data
        tops = []
        for g in np.flatnonzero((model.geom_bodyid == self._numbers[0]) & (model.geom_contype > 0)):
            R = data.geom_xmat[g].reshape(3, 3)
            tops.append(
                (data.geom_xpos[g] + R @ model.geom_aabb[g, :3] + np.abs(R) @ model.geom_aabb[g, 3:])[2]
            )
        return float(max(tops))

    def _touches(self, x: float, y: float, z: float) -> bool:
        self._data.qpos[-7:] = _pose(x, y, z, self._yaw)
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_collision(self._model, self._data)
        return any(c.dist < 0.0 and self._own[c.geom[0]] != self._own[c.geom[1]] for c in self._data.contact)


def _pose(x: float, y: float, z: float, yaw: float) -> np.ndarray:
    return np.array([x, y, z, np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)])
