"""Rule for the start of an object in a hand, from the sizes of both; the three packaged objects
follow it.

A start for the hand's family in an object's YAML has precedence. Otherwise the object lies in its
most likely resting pose, the longer side of its outline across the fingers (along world y).

- An object that is not long stands on the palm of the resting hand ("home"), where it touches
  nothing: as far forward as possible, but no nearer to the fingertips than :data:`GAP`, and of such
  places nearest to the middle of the palm's breadth. Places are tried in steps of :data:`STEP`, up
  to :data:`BACK` backwards and :data:`ASIDE` to both sides.
- An object that is longer than :data:`LONG` times its breadth, or finds no such place, lies across
  the stretched fingers ("flat"): its middle over the middle of the fingers' first links, which then
  curl behind it. If its center of mass is not in the middle, the longer half points away from the
  thumb: the other half passes the thumb when the object is turned. An object that is not long lies
  along the fingers if the halves of its shorter side differ more, as a mug's with its handle.
- Its height is the lowest at which it does not touch the hand. Where it would not stay when released,
  but slide or tip off a thumb under its edge, it is moved forward in steps of :data:`STEP`, up to
  :data:`BACK`. If that does not help, it lies on a hand with the thumb lowered beside the palm
  ("open"), and if it stays nowhere, where it tilts least.
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from dataclasses import replace

import mujoco
import numpy as np

from dexstack.errors import ConfigError
from dexstack.geometry.rotations import rotation_matrix
from dexstack.model.hand import HandModel
from dexstack.model.mount import DOWN
from dexstack.model.objects import ObjectModel, Start, mirrored
from dexstack.model.scene import OBJECT_BODY, JointLayout, build_scene

GAP = 0.002
"""Gap between object and fingertips at the start [m]."""
LONG = 2.0
"""Ratio of the sides of an object's outline above which it is long."""
STEP, BACK, ASIDE = 0.0025, 0.02, 0.015
CLEAR = 0.001, 0.005
"""Heights over the palm, in the order in which they are tried, at which the object must not touch
anything [m]: the palm may have a rim, or knuckles that stand up."""
HIGHEST = 0.3
_RESOLUTION = 1e-4
NOISE_POSITION, NOISE_YAW = 0.005, 0.1745
"""Disturbance of the start in a trial [m, rad], as in the paper."""
RELEASED, FALL, TILT = 0.5, 0.003, 0.05
"""An object stays if it falls [m] and tilts [rad] by less in this time [s] after its release."""
RIGID = 1e4
"""Inertia of the joints of a hand that does not give way [kg·m²]."""
YAW = np.pi / 2
"""Turn of the object's x axis, along which its outline is longest, to world y [rad]."""


def with_place(hand: HandModel, obj: ObjectModel) -> ObjectModel:
    """Return the object with :func:`place_on_palm` as its start for hands of this family.

    Raises:
        ConfigError: there is no place.
    """
    start = place_on_palm(hand, obj)
    if hand.side == "left":  # starts are written for a right hand
        start = replace(start, pose_WO=mirrored(start.pose_WO))
    return replace(obj, starts={**obj.starts, hand.family: start})


def place_on_palm(hand: HandModel, obj: ObjectModel) -> Start:
    """Return the start of ``obj`` in this hand (not mirrored for a left one). The object's frame has z
    up as it rests and x along the longer side of its outline.

    Raises:
        ConfigError: it finds no place in the hand's poses "home" and "flat".
    """
    scene = PlacingScene(hand, obj)
    if obj.size[0] <= LONG * obj.size[1] and (spot := scene.spot_on_palm()) is not None:
        return scene.start(spot, "home")
    if "flat" not in hand.poses:
        raise ConfigError(
            f"the hand '{hand.name}' has no pose 'flat' on which a long or large object could lie"
        )
    x, yaw = scene.middle_of_first_links(), scene.yaw_past_thumb()
    poses = [pose for pose in ("flat", "open") if pose in hand.poses]
    found = []
    for pose, forward in itertools.product(poses, x + np.arange(0.0, BACK + STEP / 2, STEP)):
        with suppress(ConfigError):
            start = scene.start(np.array([forward, 0.0, HIGHEST]), pose, yaw)
            fall, tilt = scene.released(start)
            if fall < FALL and tilt < TILT:
                return start
            found.append((tilt, start))
    if not found:
        return scene.start(np.array([x, 0.0, HIGHEST]), "flat", yaw)
    return min(found, key=lambda one: one[0])[1]


def room_over_fingers(hand: HandModel, obj: ObjectModel, x: float) -> float:
    """Return how far forward of x the object may lie over the fingers: up to the middle of their
    first long links in the pose "flat" [m].

    It is 0 for an object narrower than the distance of neighbouring knuckles, which would sink
    between two fingers when one gives way.

    Returns:
        Not negative; infinite in a hand without the pose "flat".
    """
    if "flat" not in hand.poses:
        return np.inf
    scene = PlacingScene(hand, obj)
    apart = np.diff(np.sort(scene.first_links()[:, 0, 1])).max(initial=0.0)
    return 0.0 if least_width(obj.hull_vertices) < apart else max(scene.middle_of_first_links() - x, 0.0)


def least_width(points: np.ndarray) -> float:
    """Return the least distance of two parallel planes that enclose all points, one of them on a
    face of their hull [m]."""
    from scipy.spatial import ConvexHull  # slow to import

    normals = ConvexHull(points).equations[:, :3]
    return float(np.ptp(points @ normals.T, axis=0).min())


class PlacingScene:
    """Hand and object without dynamics, to test where they touch."""

    def __init__(self, hand: HandModel, obj: ObjectModel) -> None:
        self._hand, self._obj = hand, obj
        self._model = build_scene(hand, obj, gravity=DOWN).compile()  # however the hand is mounted
        self._data, self._layout = mujoco.MjData(self._model), JointLayout(self._model)
        self._of_object = self._model.geom_bodyid == self._model.body(OBJECT_BODY).id
        self._bodies = [self._model.body(body.name).id for body in hand.bodies]

    def spot_on_palm(self) -> np.ndarray | None:
        """Return the place (3,) in the resting hand, at the first of :data:`CLEAR` over the palm at which
        there is one [m], or None."""
        self._set_pose("home")
        p_WB, R_WB = self._data.xpos[self._bodies], self._data.xmat[self._bodies].reshape(-1, 3, 3)
        tips = [
            p_WB[t.body] + R_WB[t.body] @ t.p_BT for t in self._hand.fingertips[:-1]
        ]  # without the thumb's
        half_depth = float(self._obj.surface.vertices[:, 1].max())
        foremost = float(np.mean(tips, axis=0)[0]) - self._hand.fingertip_radius - GAP - half_depth
        palm = self._palm_top() - float(self._obj.surface.vertices[:, 2].min())
        inwards = -1.0 if self._hand.side == "left" else 1.0
        aside = sorted(np.arange(-ASIDE, ASIDE + STEP / 2, STEP), key=lambda y: (round(abs(y), 6), y))
        backwards = foremost - np.arange(0.0, BACK + STEP / 2, STEP)
        for clear, x, y in itertools.product(CLEAR, backwards, inwards * np.array(aside)):
            if not self._touches(x, y, palm + clear, YAW):
                return np.array([x, y, palm + clear])
        return None

    def first_links(self) -> np.ndarray:
        """Return both ends (fingers, 2, 3) of each finger's first long link, stretched, without the
        thumb's [m]."""
        self._set_pose("flat")
        links = []
        for tip in self._hand.fingertips[:-1]:
            chain = [tip.body]
            while self._hand.bodies[chain[0]].parent > 0:
                chain.insert(0, self._hand.bodies[chain[0]].parent)
            joints = self._data.xpos[self._bodies][chain]
            k = int(np.argmax(np.linalg.norm(np.diff(joints, axis=0), axis=1)))  # the proximal phalanx
            links.append(joints[k : k + 2])
        return np.array(links)

    def middle_of_first_links(self) -> float:
        """Return the mean x of the ends of :meth:`first_links` [m]."""
        return float(self.first_links()[:, :, 0].mean())

    def yaw_past_thumb(self) -> float:
        """Return the yaw at which the longer half of the outline points away from the thumb [rad]: along
        the axis on which its halves differ most, along x if the object is long. :data:`YAW` with halves
        that differ by less than :data:`STEP`."""
        low, high = (f(self._obj.hull_vertices[:, :2], axis=0) for f in (np.min, np.max))
        more = high + low  # of the halves towards +x, +y
        if self._obj.size[0] > LONG * self._obj.size[1]:
            more[1] = 0.0
        axis = int(np.argmax(np.abs(more)))
        if abs(more[axis]) < STEP:
            return YAW
        away = 1.0 if self._hand.side == "right" else -1.0  # the side of world y without the thumb
        turned = away * np.sign(more[axis])  # where the axis has to point in world y
        return float(turned * YAW) if axis == 0 else float(0.0 if turned > 0 else np.pi)

    def start(self, spot: np.ndarray, pose: str, yaw: float = YAW) -> Start:
        """Return the start at the lowest height, downwards from ``spot`` (3,), at which the object,
        turned by ``yaw`` [rad], does not touch the hand.

        Raises:
            ConfigError: the object touches the hand at every height, or at none.
        """
        self._set_pose(pose)
        x, y, top = (float(v) for v in spot)
        return Start(_pose(x, y, self._lowest(x, y, top, yaw), yaw), NOISE_POSITION, NOISE_YAW, pose)

    def released(self, start: Start) -> tuple[float, float]:
        """Return by how much the object falls [m] and tilts [rad] within :data:`RELEASED` when it is
        released at its start, on a hand that does not give way."""
        model, data = self._model, self._data
        mujoco.mj_resetData(model, data)
        self._set_pose(start.hand_pose)
        data.qpos[-7:] = start.pose_WO
        armature = model.dof_armature.copy()
        model.dof_armature[:-6] = RIGID
        mujoco.mj_step(model, data, round(RELEASED / model.opt.timestep))
        model.dof_armature[:] = armature
        up = rotation_matrix(data.qpos[-4:])[2, 2]
        return float(start.pose_WO[2] - data.qpos[-5]), float(np.arccos(np.clip(up, -1.0, 1.0)))

    def _lowest(self, x: float, y: float, top: float, yaw: float) -> float:
        """Return the lowest height [m]; see :meth:`start`."""
        bottom = highest = top
        while not self._touches(x, y, bottom, yaw):
            top, bottom = bottom, bottom - 0.01
            if bottom < -HIGHEST:
                raise ConfigError(
                    f"the object '{self._obj.name}' falls past the hand: no part of it lies under x = "
                    f"{x:.3f} m"
                )
        if top == bottom:
            raise ConfigError(
                f"the object '{self._obj.name}' is too large: {highest:g} m over the palm it still touches "
                "the hand"
            )
        while top - bottom > _RESOLUTION:
            middle = (top + bottom) / 2.0
            top, bottom = (top, middle) if self._touches(x, y, middle, yaw) else (middle, bottom)
        return top

    def touches(self, hand_pose: str, p_WO: np.ndarray, yaw: float) -> bool:
        """Return true if the object at p_WO (3,) [m], turned by ``yaw`` [rad], touches the hand."""
        self._set_pose(hand_pose)
        return self._touches(*p_WO, yaw)

    def _set_pose(self, pose: str) -> None:
        self._data.qpos[:-7] = self._layout.coordinates(self._hand.pose(pose))
        mujoco.mj_kinematics(self._model, self._data)

    def _palm_top(self) -> float:
        """Return the height of the palm's highest side [m]."""
        model, data = self._model, self._data
        tops = []
        for g in np.flatnonzero((model.geom_bodyid == self._bodies[0]) & (model.geom_contype > 0)):
            R, box = data.geom_xmat[g].reshape(3, 3), model.geom_aabb[g]
            tops.append((data.geom_xpos[g] + R @ box[:3] + np.abs(R) @ box[3:])[2])
        return float(max(tops))

    def _touches(self, x: float, y: float, z: float, yaw: float) -> bool:
        self._data.qpos[-7:] = _pose(x, y, z, yaw)
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_collision(self._model, self._data)
        own, contact = self._of_object, self._data.contact
        return bool(((contact.dist < 0.0) & (own[contact.geom[:, 0]] != own[contact.geom[:, 1]])).any())


def _pose(x: float, y: float, z: float, yaw: float) -> np.ndarray:
    return np.array([x, y, z, np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)])
