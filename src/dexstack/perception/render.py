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
from scipy.spatial import ConvexHull

from dexstack.model.scene import OBJECT_BODY
from dexstack.perception.bundle import CORNERS, Tag, TagBundle
from dexstack.perception.camera import CameraModel
from dexstack.perception.se3 import Transform
from dexstack.perception.tags import bitmap

FINE = 4
"""Factor on the resolution at which the object is drawn before averaging."""
_SHIFT = 4  # OpenCV's fixed-point pixel fractions: 1/16 px
_NEAR = 0.02  # m
_CARD = np.array([232.0, 231.0, 228.0])
_INK = 0.08  # brightness of printed black against the card's
_LEVELS = _INK + (1.0 - _INK) * np.linspace(0.0, 1.0, 256)[None, :, None]
_ENDS = np.array([[0.0, 0.0, -1.0], [0.0, 0.0, 1.0]])
_DESK = ((96, 92, 86), (128, 124, 118))
_SKIN = np.array([208.0, 178.0, 96.0])


@dataclass(frozen=True)
class _Solid:
    """A convex solid fixed to a body of the model."""

    body: int
    vertices: np.ndarray
    """(n, 3) in the body's frame [m]."""
    faces: tuple[np.ndarray, ...]
    """Vertex indices around every flat face; empty: drawn as a silhouette."""
    normals: np.ndarray
    """(faces, 3) outward."""
    colour: np.ndarray
    """(3,) 0 to 255."""


def _flat_faces(vertices: np.ndarray) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Return the faces of a convex hull, with the triangles of one plane joined, and their
    normals."""
    hull = ConvexHull(vertices)
    planes: list[np.ndarray] = []
    members: list[set[int]] = []
    for simplex, equation in zip(hull.simplices, hull.equations, strict=True):
        for k, plane in enumerate(planes):
            if plane[:3] @ equation[:3] > 1.0 - 1e-6 and abs(plane[3] - equation[3]) < 1e-6:
                members[k].update(simplex)
                break
        else:
            planes.append(equation)
            members.append(set(simplex))
    faces = []
    for plane, member in zip(planes, members, strict=True):
        index = np.array(sorted(member))
        n = plane[:3]
        a = np.cross(n, [1.0, 0.0, 0.0] if abs(n[0]) < 0.9 else [0.0, 1.0, 0.0])
        d = vertices[index] - vertices[index].mean(axis=0)
        faces.append(index[np.argsort(np.arctan2(d @ np.cross(n, a), d @ a))])
    return tuple(faces), np.array(planes)[:, :3]


def _ball(radius: float) -> np.ndarray:
    """Return points (n, 3) whose hull has the silhouette of a ball within 1 %."""
    k = np.arange(96) + 0.5
    polar, azimuth = np.arccos(1 - 2 * k / 96), np.pi * (1 + 5**0.5) * k
    unit = [np.cos(azimuth) * np.sin(polar), np.sin(azimuth) * np.sin(polar), np.cos(polar)]
    return radius * 1.01 * np.stack(unit, axis=1)


def _geom_vertices(model: mujoco.MjModel, g: int) -> np.ndarray | None:
    """Return points (n, 3) in the geom's frame whose hull it is; None for other geoms."""
    kind, size = int(model.geom_type[g]), model.geom_size[g]
    if kind == mujoco.mjtGeom.mjGEOM_BOX:
        return np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * size
    if kind == mujoco.mjtGeom.mjGEOM_SPHERE:
        return _ball(size[0])
    if kind == mujoco.mjtGeom.mjGEOM_CAPSULE:
        return np.concatenate([_ball(size[0]) + size[1] * end for end in _ENDS])
    if kind == mujoco.mjtGeom.mjGEOM_CYLINDER:
        a = np.linspace(0, 2 * np.pi, 24, endpoint=False)
        ring = np.stack([size[0] * np.cos(a), size[0] * np.sin(a), 0 * a], axis=1)
        return np.concatenate([ring + size[1] * end for end in _ENDS])
    if kind == mujoco.mjtGeom.mjGEOM_MESH:
        first = model.mesh_vertadr[model.geom_dataid[g]]
        return model.mesh_vert[first : first + model.mesh_vertnum[model.geom_dataid[g]]].astype(float)
    return None


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
        self.model, self.camera, self.X_WC = model, camera, X_WC
        self._X_CW = X_WC.inverse
        self._object = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, OBJECT_BODY)
        self._light_W = np.array([0.3, -0.4, 0.85])
        self._light_W /= np.linalg.norm(self._light_W)
        solids = [solid for g in range(model.ngeom) if (solid := self._make_solid(g)) is not None]
        self._others = [s for s in solids if s.body != self._object]
        self._body = [s for s in solids if s.body == self._object]
        self._tags = [] if bundle is None else [_Print.of(tag) for tag in bundle.tags.values()]
        self._plane_of = [self._nearest_tag(s) for s in self._body]
        self._carried = [(body, _Print.of(tag)) for body, tag in carried]
        self._still = self._draw_still([] if base is None else [_Print.of(tag) for tag in base.tags.values()])

    def render(self, data: mujoco.MjData) -> np.ndarray:
        """Render the scene at ``data``, with up-to-date kinematics, as (height, width, 3) uint8
        RGB."""
        X_WB = [Transform(data.xmat[b].reshape(3, 3), data.xpos[b]) for b in range(self.model.nbody)]
        image = self._still.copy()
        shown = sorted(
            ((self._X_CW.apply(X_WB[s.body].apply(s.vertices)), s) for s in self._others),
            key=lambda x: -x[0][:, 2].mean(),
        )
        for p_C, solid in shown:
            self._draw(image, p_C, solid, X_WB[solid.body].R)
        for body, print_ in self._carried:
            self._draw_carried(image, print_, X_WB[body].compose(print_.X_BT), [p_C for p_C, _ in shown])
        if self._body:
            self._draw_object(image, X_WB[self._object], [p_C for p_C, _ in shown])
        return image

    # --- parts ---

    def _make_solid(self, g: int) -> _Solid | None:
        model = self.model
        body = int(model.geom_bodyid[g])
        vertices = _geom_vertices(model, g)
        kind = int(model.geom_type[g])
        if vertices is None or (body == self._object and kind != mujoco.mjtGeom.mjGEOM_MESH):
            return None
        R = np.empty(9)
        mujoco.mju_quat2Mat(R, model.geom_quat[g])
        vertices = vertices @ R.reshape(3, 3).T + model.geom_pos[g]
        flat = kind in (mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_MESH)
        faces, normals = _flat_faces(vertices) if flat else ((), np.zeros((0, 3)))
        colour = _SKIN if body == self._object else 255.0 * model.geom_rgba[g, :3]
        return _Solid(body, vertices, faces, normals, colour)

    def _nearest_tag(self, solid: _Solid) -> np.ndarray:
        """Return, for every face, the tag whose plane is used for occlusion."""
        if not self._tags:
            return np.zeros(len(solid.faces), int)
        return np.argmax(solid.normals @ np.stack([t.X_BT.R[:, 2] for t in self._tags]).T, axis=1)

    def _shade(self, colour: np.ndarray, normal_W: np.ndarray) -> np.ndarray:
        return colour * (0.55 + 0.45 * max(float(normal_W @ self._light_W), 0.0))

    def _draw_still(self, prints: Sequence[_Print]) -> np.ndarray:
        """Draw the desk and the base's tags, which do not move."""
        h, w = self.camera.height, self.camera.width
        a, b = (np.array(c, float) for c in _DESK)
        image = np.empty((h, w, 3), np.uint8)
        image[:] = (a + (b - a) * np.linspace(0, 1, h)[:, None, None]).astype(np.uint8)
        if prints:
            fine = cv2.resize(image, None, fx=FINE, fy=FINE, interpolation=cv2.INTER_NEAREST)
            for p in prints:
                card = self._shade(_CARD, p.X_BT.R[:, 2])
                p.draw(fine, None, self._X_CW.compose(p.X_BT), self.camera, np.zeros(2), card)
            image = cv2.resize(fine, (w, h), interpolation=cv2.INTER_AREA)
        return image

    def _draw(self, image: np.ndarray, p_C: np.ndarray, solid: _Solid, R_WB: np.ndarray) -> None:
        if p_C[:, 2].min() < _NEAR:
            return
        uv = self.camera.project(p_C)
        if (uv.max(axis=0) < 0).any() or uv[:, 0].min() > image.shape[1] or uv[:, 1].min() > image.shape[0]:
            return
        if not solid.faces:
            _fill(image, _hull(uv), self._shade(solid.colour, np.array([0.0, 0.0, 0.7])))
            return
        for face, normal in zip(solid.faces, solid.normals @ R_WB.T, strict=True):
            if (self._X_CW.R @ normal) @ p_C[face[0]] < 0.0:
                _fill(image, uv[face], self._shade(solid.colour, normal))

    def _draw_object(self, image: np.ndarray, X_WO: Transform, others_C: list[np.ndarray]) -> None:
        X_CO = self._X_CW.compose(X_WO)
        corners_C = [X_CO.apply(s.vertices) for s in self._body]
        everything = np.concatenate(corners_C)
        if everything[:, 2].min() < _NEAR:
            return
        low, part = _window(image, self.camera.project(everything))
        if not part.size:
            return
        fine = cv2.resize(part, None, fx=FINE, fy=FINE, interpolation=cv2.INTER_NEAREST)
        near = [p for p in others_C if self._is_in_front(p, low, part)]
        for k in range(max(len(self._tags), 1)):
            self._draw_side(fine, k, X_WO, corners_C, near, low)
        part[:] = cv2.resize(fine, (part.shape[1], part.shape[0]), interpolation=cv2.INTER_AREA)

    def _draw_carried(
        self, image: np.ndarray, print_: _Print, X_WT: Transform, others_C: list[np.ndarray]
    ) -> None:
        """Draw one tag with its border, hidden where a solid is in front of its plane."""
        X_CT = self._X_CW.compose(X_WT)
        if X_CT.p[2] < _NEAR or X_CT.R[:, 2] @ X_CT.p >= 0.0:
            return
        low, part = _window(image, self.camera.project(X_CT.apply(print_.edge * 10 / 8 * CORNERS)))
        if not part.size:
            return
        fine = cv2.resize(part, None, fx=FINE, fy=FINE, interpolation=cv2.INTER_NEAREST)
        layer, mask = fine.copy(), np.zeros(fine.shape[:2], np.uint8)
        print_.draw(layer, mask, X_CT, self.camera, low, self._shade(_CARD, X_WT.R[:, 2]))
        for p_C in others_C:
            if self._is_in_front(p_C, low, part):
                self._cover(mask, p_C, X_CT.R[:, 2], X_CT.p, low)
        cv2.copyTo(layer, mask, fine)
        part[:] = cv2.resize(fine, (part.shape[1], part.shape[0]), interpolation=cv2.INTER_AREA)

    def _cover(
        self, mask: np.ndarray, p_C: np.ndarray, normal_C: np.ndarray, point_C: np.ndarray, low: np.ndarray
    ) -> None:
        """Remove from the mask the part of a plane that the hull of the points ``p_C`` hides."""
        front = _clip(p_C, normal_C, point_C)
        if front is not None:
            _fill(mask, _hull(self._fine(front, low)), 0, line=cv2.LINE_8)

    def _draw_side(
        self,
        fine: np.ndarray,
        k: int,
        X_WO: Transform,
        corners_C: list[np.ndarray],
        near: list[np.ndarray],
        low: np.ndarray,
    ) -> None:
        """Draw the visible parts of the faces that belong to the tag ``k``, with the tag."""
        X_CO, shown = self._X_CW.compose(X_WO), []
        for solid, p_C, plane_of in zip(self._body, corners_C, self._plane_of, strict=True):
            for f in np.flatnonzero(plane_of == k):
                n_C, corners = X_CO.R @ solid.normals[f], p_C[solid.faces[f]]
                if n_C @ corners[0] < 0.0:
                    shown.append((n_C, corners, self._shade(solid.colour, X_WO.R @ solid.normals[f])))
        tag = X_CO.compose(self._tags[k].X_BT) if self._tags else None
        if tag is not None and tag.R[:, 2] @ tag.p >= 0.0:
            tag = None
        if not shown and tag is None:
            return
        layer, mask = fine.copy(), np.zeros(fine.shape[:2], np.uint8)
        for _, p_C, colour in shown:
            polygon = self._fine(p_C, low)
            _fill(layer, polygon, colour, line=cv2.LINE_8)
            _fill(mask, polygon, 255, line=cv2.LINE_8)
        normal_C, point_C = (tag.R[:, 2], tag.p) if tag is not None else (shown[0][0], shown[0][1][0])
        if tag is not None:
            card = self._shade(_CARD, self.X_WC.R @ normal_C)
            self._tags[k].draw(layer, mask, tag, self.camera, low, card)
        for p_C in near:
            self._cover(mask, p_C, normal_C, point_C, low)
        cv2.copyTo(layer, mask, fine)

    def _fine(self, p_C: np.ndarray, low: np.ndarray) -> np.ndarray:
        """Return pixels in the enlarged part whose upper left pixel is ``low``."""
        return (self.camera.project(p_C) - low + 0.5) * FINE - 0.5

    def _is_in_front(self, p_C: np.ndarray, low: np.ndarray, part: np.ndarray) -> bool:
        """Return true if the points lie before the camera and their picture may overlap a part."""
        if p_C[:, 2].min() <= _NEAR:
            return False
        uv = self.camera.project(p_C)
        return bool((uv.max(axis=0) >= low).all() and (uv.min(axis=0) <= low + part.shape[1::-1]).all())


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
        self,
        fine: np.ndarray,
        mask: np.ndarray | None,
        X_CT: Transform,
        camera: CameraModel,
        low: np.ndarray,
        card: np.ndarray,
    ) -> None:
        """Draw the tag's modules, with its border, into an enlarged picture and its mask."""
        uv = ((camera.project(X_CT.apply(self.edge * 10 / 8 * CORNERS)) - low + 0.5) * FINE - 0.5).astype(
            np.float32
        )
        left, top = np.maximum(np.floor(uv.min(axis=0)).astype(int), 0)
        right, bottom = np.minimum(np.ceil(uv.max(axis=0)).astype(int) + 1, [fine.shape[1], fine.shape[0]])
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
        shade = cv2.LUT(cv2.cvtColor(print_, cv2.COLOR_GRAY2RGB), (_LEVELS * card).astype(np.uint8))
        part = fine[top:bottom, left:right]
        cv2.copyTo(shade, inside, part)
        if mask is not None:
            np.maximum(mask[top:bottom, left:right], inside, out=mask[top:bottom, left:right])


def _fill(image: np.ndarray, polygon: np.ndarray, colour: np.ndarray | int, line: int = cv2.LINE_AA) -> None:
    fixed = np.round(polygon * (1 << _SHIFT)).astype(np.int32)
    value = (float(colour),) if np.isscalar(colour) else colour.tolist()
    cv2.fillConvexPoly(image, fixed, value, lineType=line, shift=_SHIFT)


def _hull(uv: np.ndarray) -> np.ndarray:
    return cv2.convexHull(uv.astype(np.float32)).reshape(-1, 2)


def _window(image: np.ndarray, uv: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the upper left pixel and a view of the part of an image around pixels; it may be
    empty."""
    low = np.maximum(np.floor(uv.min(axis=0)).astype(int) - 2, 0)
    high = np.maximum(np.ceil(uv.max(axis=0)).astype(int) + 3, 0)
    return low, image[low[1] : high[1], low[0] : high[0]]


def _clip(p_C: np.ndarray, normal: np.ndarray, point: np.ndarray) -> np.ndarray | None:
    """Return points whose hull is the part of the hull of ``p_C`` in front of a plane; None if there
    is none."""
    height = (p_C - point) @ normal
    front, behind = height > 1e-6, height <= 1e-6
    if not front.any():
        return None
    if not behind.any():
        return p_C
    a, b = p_C[front], p_C[behind]
    share = height[front][:, None] / (height[front][:, None] - height[behind][None, :])
    cut = a[:, None] + share[..., None] * (b[None] - a[:, None])
    return np.concatenate([a, cut.reshape(-1, 3)])
