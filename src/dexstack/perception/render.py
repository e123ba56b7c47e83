"""Renderer of a tagged object in a hand without OpenGL: the same pixels on every machine, in a few
milliseconds.

Solids are convex hulls. Everything but the object is drawn from far to near, then the object's
faces, each with its tag. A face is hidden exactly by the silhouettes of those parts of other solids
that lie in front of its plane. The object is drawn at :data:`FINE` times the resolution and
averaged, so that edges and tags have a sensor's grey levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import mujoco
import numpy as np

from dexstack.model.scene import OBJECT_BODY
from dexstack.perception.bundle import CORNERS, Tag, TagBundle
from dexstack.perception.camera import CameraModel
from dexstack.perception.se3 import Transform
from dexstack.perception.solids import Solid, Solids, View, clip, shade
from dexstack.perception.tags import bitmap

FINE = 4
"""Factor on the resolution at which the object is drawn before averaging."""
_SHIFT = 4  # OpenCV's fixed-point pixel fractions: 1/16 px
_NEAR = 0.02  # m
_CARD = np.array([232.0, 231.0, 228.0])
_INK = 0.08  # brightness of printed black against the card's
_LEVELS = _INK + (1.0 - _INK) * np.linspace(0.0, 1.0, 256)[None, :, None]
_DESK = ((96, 92, 86), (128, 124, 118))
_SKIN = np.array([208.0, 178.0, 96.0])


class _Window:
    """The part of a picture around some pixels, enlarged to draw into.

    Args:
        image: (height, width, 3) uint8.
        uv: the pixels (n, 2).
        camera: the camera of the picture.
        factor: factor of the enlargement.
    """

    def __init__(self, image: np.ndarray, uv: np.ndarray, camera: CameraModel, factor: int) -> None:
        self.low = np.maximum(np.floor(uv.min(axis=0)).astype(int) - 2, 0)
        high = np.maximum(np.ceil(uv.max(axis=0)).astype(int) + 3, 0)
        self._part = image[self.low[1] : high[1], self.low[0] : high[0]]
        self.high = self.low + self._part.shape[1::-1]
        self._camera, self._factor = camera, factor
        self.fine = (
            cv2.resize(self._part, None, fx=factor, fy=factor, interpolation=cv2.INTER_NEAREST)
            if self._part.size
            else np.zeros((0, 0, 3), np.uint8)
        )

    def pixels(self, p_C: np.ndarray) -> np.ndarray:
        """Return the enlarged pixels (n, 2) of points (n, 3)."""
        return (self._camera.project(p_C) - self.low + 0.5) * self._factor - 0.5

    def layer(self) -> tuple[np.ndarray, np.ndarray]:
        """Return a copy of the enlarged part and an empty mask."""
        return self.fine.copy(), np.zeros(self.fine.shape[:2], np.uint8)

    def put_back(self) -> None:
        """Average the enlarged part into the picture."""
        self._part[:] = cv2.resize(self.fine, self._part.shape[1::-1], interpolation=cv2.INTER_AREA)


class _Covers:
    """Solids that may hide what is drawn after them."""

    def __init__(self, solids: Solids, view: View) -> None:
        self._solids, self._view = solids, view

    def hide(self, mask: np.ndarray, window: _Window, normal_C: np.ndarray, point_C: np.ndarray) -> None:
        """Remove from the mask the parts of a plane that solids in front of it hide."""
        view = self._view
        near = (view.nearest > _NEAR) & (view.high >= window.low).all(axis=1)
        near &= (view.low <= window.high).all(axis=1)
        near &= self._solids.heights(view.p_C, normal_C, point_C) > 1e-6
        for k in np.flatnonzero(near):
            front = clip(view.p_C[self._solids.parts[k]], normal_C, point_C)
            if front is not None:
                hull = cv2.convexHull(window.pixels(front).astype(np.float32)).reshape(-1, 2)
                _fill(mask, hull, 0, line=cv2.LINE_8)


class TagPainter:
    """Renderer of one scene from one camera.

    Args:
        model: the scene (:func:`dexstack.model.scene.build_scene`); its body "object" carries
            ``bundle``.
        bundle: tags of the object, or None.
        camera: without distortion.
        X_WC: pose of the camera.
        base: tags at rest, with their poses in the world, or None.
        carried: tags on moving bodies, with the body's index; poses in the body's frame.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        bundle: TagBundle | None,
        camera: CameraModel,
        X_WC: Transform,
        base: TagBundle | None = None,
        carried: Sequence[tuple[int, Tag]] = (),
    ) -> None:
        self.camera, self.X_WC = camera, X_WC
        self._X_CW = X_WC.inverse
        self._object = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, OBJECT_BODY)
        self._tags = [] if bundle is None else [_Print.of(tag) for tag in bundle.tags.values()]
        self._carried = [(body, _Print.of(tag)) for body, tag in carried]
        others, body = [], []
        for g in range(model.ngeom):
            of_object = model.geom_bodyid[g] == self._object
            solid = Solid.of_geom(model, g, _SKIN if of_object else 255.0 * model.geom_rgba[g, :3])
            if solid is not None and not of_object:
                others.append(solid)
            elif solid is not None and int(model.geom_type[g]) == mujoco.mjtGeom.mjGEOM_MESH:
                body.append(solid)
        self._others = Solids(others) if others else None
        self._body = Solids(body) if body else None
        self._sides = self._sides_of([normal for solid in body for normal in solid.normals])
        self._corners = [] if self._body is None else [c for faces in self._body.faces for _, c in faces]
        """Vertices around every face of the object."""
        self._still = self._draw_still([] if base is None else [_Print.of(tag) for tag in base.tags.values()])

    def render(self, data: mujoco.MjData, fine: int = FINE) -> np.ndarray:
        """Render the scene, (height, width, 3) uint8 RGB.

        Args:
            data: with up-to-date kinematics.
            fine: factor on the resolution at which the object and moving tags are drawn before averaging.
        """
        image = self._still.copy()
        covers = None
        if self._others is not None:
            view = self._others.seen(data, self._X_CW, self.camera)
            self._draw_others(image, view)
            covers = _Covers(self._others, view)
        for body, print_ in self._carried:
            X_WT = _pose(data, body).compose(print_.X_BT)
            self._draw_carried(image, print_, X_WT, covers, fine)
        if self._body is not None:
            self._draw_object(image, data, covers, fine)
        return image

    # --- parts ---

    def _sides_of(self, normals: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return, for every tag, the faces nearest to its plane, which is used for their occlusion;
        without tags, all."""
        if not self._tags or not len(normals):
            return [np.arange(len(normals))]
        nearest = np.argmax(np.stack(normals) @ np.stack([t.X_BT.R[:, 2] for t in self._tags]).T, axis=1)
        return [np.flatnonzero(nearest == k) for k in range(len(self._tags))]

    def _draw_still(self, prints: Sequence[_Print]) -> np.ndarray:
        """Draw the desk and the base's tags, which do not move."""
        h, w = self.camera.height, self.camera.width
        a, b = (np.array(c, float) for c in _DESK)
        image = np.empty((h, w, 3), np.uint8)
        image[:] = (a + (b - a) * np.linspace(0, 1, h)[:, None, None]).astype(np.uint8)
        if prints:
            window = _Window(image, np.array([[0, 0], [w, h]]), self.camera, FINE)
            for p in prints:
                p.draw(window, window.fine, None, self._X_CW.compose(p.X_BT), shade(_CARD, p.X_BT.R[:, 2]))
            window.put_back()
        return image

    def _draw_others(self, image: np.ndarray, view: View) -> None:
        """Draw all solids but the object, from far to near."""
        solids = self._others
        shown = (view.nearest >= _NEAR) & (view.high >= 0).all(axis=1)
        shown &= (view.low <= image.shape[1::-1]).all(axis=1)
        fixed = np.round(view.uv.clip(-1e6, 1e6) * (1 << _SHIFT)).astype(np.int32)
        uv, shades = view.uv.astype(np.float32), view.shades.tolist()
        for k in np.argsort(-view.depth, kind="stable"):
            if not shown[k]:
                continue
            if not solids.faces[k]:
                part = solids.parts[k]
                outline = cv2.convexHull(uv[part], returnPoints=False)[:, 0]
                _fill_fixed(image, fixed[part][outline], solids.silhouettes[k].tolist())
            for f, corners in solids.faces[k]:
                if view.facing[f]:
                    _fill_fixed(image, fixed[corners], shades[f])

    def _draw_object(self, image: np.ndarray, data: mujoco.MjData, covers: _Covers | None, fine: int) -> None:
        view = self._body.seen(data, self._X_CW, self.camera)
        if view.nearest.min() < _NEAR:
            return
        window = _Window(image, view.uv, self.camera, fine)
        if not window.fine.size:
            return
        X_CO = self._X_CW.compose(_pose(data, self._object))
        for k, side in enumerate(self._sides):
            X_CT = X_CO.compose(self._tags[k].X_BT) if self._tags else None
            if X_CT is not None and X_CT.R[:, 2] @ X_CT.p >= 0.0:
                X_CT = None
            self._draw_side(window, view, side[view.facing[side]], (k, X_CT), covers)
        window.put_back()

    def _draw_side(
        self,
        window: _Window,
        view: View,
        faces: np.ndarray,
        tag: tuple[int, Transform | None],
        covers: _Covers | None,
    ) -> None:
        """Draw the visible parts of faces and of their tag, given by number and pose (None: unseen)."""
        k, X_CT = tag
        if not len(faces) and X_CT is None:
            return
        layer, mask = window.layer()
        for f in faces:
            polygon = window.pixels(view.p_C[self._corners[f]])
            _fill(layer, polygon, view.shades[f], line=cv2.LINE_8)
            _fill(mask, polygon, 255, line=cv2.LINE_8)
        if X_CT is not None:
            plane = X_CT.R[:, 2], X_CT.p
            self._tags[k].draw(window, layer, mask, X_CT, shade(_CARD, self.X_WC.R @ plane[0]))
        else:
            plane = view.normals_C[faces[0]], view.p_C[self._corners[faces[0]][0]]
        if covers is not None:
            covers.hide(mask, window, *plane)
        cv2.copyTo(layer, mask, window.fine)

    def _draw_carried(
        self, image: np.ndarray, print_: _Print, X_WT: Transform, covers: _Covers | None, fine: int
    ) -> None:
        """Draw one tag with its border, hidden where a solid is in front of its plane."""
        X_CT = self._X_CW.compose(X_WT)
        if X_CT.p[2] < _NEAR or X_CT.R[:, 2] @ X_CT.p >= 0.0:
            return
        corners_C = X_CT.apply(print_.edge * 10 / 8 * CORNERS)
        window = _Window(image, self.camera.project(corners_C), self.camera, fine)
        if not window.fine.size:
            return
        layer, mask = window.layer()
        print_.draw(window, layer, mask, X_CT, shade(_CARD, X_WT.R[:, 2]))
        if covers is not None:
            covers.hide(mask, window, X_CT.R[:, 2], X_CT.p)
        cv2.copyTo(layer, mask, window.fine)
        window.put_back()


@dataclass(frozen=True)
class _Print:
    """A printed tag."""

    edge: float
    X_BT: Transform
    modules: np.ndarray
    """(n, n) uint8 of the tag with its border."""

    @classmethod
    def of(cls, tag: Tag) -> _Print:
        return cls(
            tag.edge, tag.X_OT, cv2.resize(bitmap(tag.tag), None, fx=8, fy=8, interpolation=cv2.INTER_NEAREST)
        )

    def draw(
        self, window: _Window, layer: np.ndarray, mask: np.ndarray | None, X_CT: Transform, card: np.ndarray
    ) -> None:
        """Draw the tag's modules, with its border, into a layer of a window and its mask."""
        uv = window.pixels(X_CT.apply(self.edge * 10 / 8 * CORNERS)).astype(np.float32)
        left, top = np.maximum(np.floor(uv.min(axis=0)).astype(int), 0)
        right, bottom = np.minimum(np.ceil(uv.max(axis=0)).astype(int) + 1, layer.shape[1::-1])
        if right <= left or bottom <= top:
            return
        n = self.modules.shape[0]
        source = np.array([[-0.5, -0.5], [n - 0.5, -0.5], [n - 0.5, n - 0.5], [-0.5, n - 0.5]], np.float32)
        H = cv2.getPerspectiveTransform(source, uv - np.array([left, top], np.float32))
        size = (int(right - left), int(bottom - top))
        print_ = cv2.warpPerspective(
            self.modules, H, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
        )
        inside = np.zeros(size[::-1], np.uint8)
        _fill(inside, uv - (left, top), 255, line=cv2.LINE_8)
        colours = cv2.LUT(cv2.cvtColor(print_, cv2.COLOR_GRAY2RGB), (_LEVELS * card).astype(np.uint8))
        cv2.copyTo(colours, inside, layer[top:bottom, left:right])
        if mask is not None:
            np.maximum(mask[top:bottom, left:right], inside, out=mask[top:bottom, left:right])


def _pose(data: mujoco.MjData, body: int) -> Transform:
    return Transform(data.xmat[body].reshape(3, 3), data.xpos[body])


def _fill(image: np.ndarray, polygon: np.ndarray, colour: np.ndarray | int, line: int = cv2.LINE_AA) -> None:
    value = (float(colour),) if np.isscalar(colour) else colour.tolist()
    _fill_fixed(image, np.round(polygon * (1 << _SHIFT)).astype(np.int32), value, line)


def _fill_fixed(
    image: np.ndarray, polygon: np.ndarray, colour: Sequence[float], line: int = cv2.LINE_AA
) -> None:
    """Fill a convex polygon (n, 2), int32 in 1/16 pixel."""
    cv2.fillConvexPoly(image, polygon, colour, lineType=line, shift=_SHIFT)
