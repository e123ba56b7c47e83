"""Pictures of a MuJoCo scene by ray casting on the CPU: no OpenGL, no display, the same pixels on
every machine.

One ``mj_multiRay`` from the camera finds the geom of each pixel, one from the light finds shadows;
shading is Lambert plus a small highlight, in linear colour. Pixels on an edge are cast again with
more rays. Tiles without moving geoms and their shadows are cast only once.

Frames: W world, C camera (x right, y down, z forward, as ROS optical frames). Lengths in metres.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import ArrayLike

_BACKGROUND = ((0.97, 0.98, 1.0), (0.74, 0.80, 0.88))  # sRGB, bottom and top of the picture
_SUBPIXELS = np.array(
    [[-0.375, -0.125], [0.125, -0.375], [0.25, 0.375]]
)  # with the centre: four samples of an edge pixel
_TILE = 8  # px
_FAR = 100.0
_SRGB = np.round(255 * np.linspace(0.0, 1.0, 4096) ** (1 / 2.2)).astype(np.uint8)


def _linear(srgb: Sequence | np.ndarray) -> np.ndarray:
    return np.asarray(srgb, np.float32) ** 2.2


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", a, b)


def _unit(a: np.ndarray) -> np.ndarray:
    return a / np.sqrt(_dot(a, a))[:, None]


@dataclass(frozen=True)
class Camera:
    """Pinhole camera.

    ``R_WC`` (3, 3) and ``p_WC`` (3,) are the pose of the optical frame in the world; ``focal``
    [px]; the principal point is the centre.
    """

    R_WC: np.ndarray
    p_WC: np.ndarray
    focal: float
    width: int
    height: int

    @classmethod
    def of_model(cls, model: mujoco.MjModel, name: str, *, width: int, height: int) -> Camera:
        """Return the camera ``name`` of a scene in the model's initial pose."""
        data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, data)
        mujoco.mj_camlight(model, data)
        camera = model.camera(name).id
        flip = np.array([1.0, -1.0, -1.0])  # MuJoCo's cameras look along −z with y up
        focal = height / 2 / np.tan(np.radians(model.cam_fovy[camera]) / 2)
        R_WC = data.cam_xmat[camera].reshape(3, 3) * flip
        return cls(R_WC, data.cam_xpos[camera].copy(), focal, width, height)

    @classmethod
    def looking_at(
        cls, p_W: np.ndarray, back_W: np.ndarray, distance: float, focal: float, size: tuple[int, int]
    ) -> Camera:
        """Return an upright camera that looks at a point (3,).

        Args:
            back_W: direction (3,) from the point to the camera; not vertical.
            distance: distance of the camera from the point [m].
            focal: focal length [px].
            size: width and height [px].
        """
        back = back_W / np.linalg.norm(back_W)
        right = np.cross([0.0, 0.0, 1.0], back)
        right /= np.linalg.norm(right)
        R_WC = np.column_stack([right, -np.cross(back, right), -back])
        return cls(R_WC, p_W + distance * back, focal, *size)

    def rays(self, uv: np.ndarray) -> np.ndarray:
        """Return unit directions (n, 3) in W of pixel coordinates ``uv`` (n, 2); pixel centres are at
        +0.5."""
        d_C = np.ones((len(uv), 3))
        d_C[:, :2] = (uv - [self.width / 2, self.height / 2]) / self.focal
        return _unit(d_C) @ self.R_WC.T

    def project(self, p_W: np.ndarray) -> np.ndarray:
        """Return pixel coordinates (n, 2) of points (n, 3) in front of the camera."""
        p_C = (np.asarray(p_W) - self.p_WC) @ self.R_WC
        return self.focal * p_C[:, :2] / p_C[:, 2:] + [self.width / 2, self.height / 2]


def mesh_of(model: mujoco.MjModel, geom: int) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices (V, 3) in the geom's frame [m] and faces (F, 3) of a mesh geom."""
    mesh = model.mesh(model.geom_dataid[geom])
    vertices = model.mesh_vert[mesh.vertadr[0] :][: mesh.vertnum[0]]
    return vertices, model.mesh_face[mesh.faceadr[0] :][: mesh.facenum[0]]


class _Picture(NamedTuple):
    """Result of n rays."""

    colour: np.ndarray
    """(n, 3) linear."""
    geom: np.ndarray
    """(n,) geom id; −1: background."""
    nhat_W: np.ndarray
    """(n, 3)"""
    lit: np.ndarray
    """(n,)"""
    p_W: np.ndarray
    """(n, 3) end of the ray."""

    def put(self, index: np.ndarray, other: _Picture) -> None:
        for mine, new in zip(self, other, strict=True):
            mine[index] = new


class Renderer:
    """Renderer of one scene from one camera.

    Args:
        model: the scene; geom colours come from its ``rgba`` or material, geoms with alpha 0 are
            invisible.
        camera: the camera.
        light: position (3,) in W of the one point light.
    """

    def __init__(self, model: mujoco.MjModel, camera: Camera, *, light: ArrayLike = (0.25, -0.45, 0.9)):
        self.model, self.camera = model, camera
        self._light = np.array(light, float)
        rgba = np.where(
            (model.geom_matid >= 0)[:, None],
            model.mat_rgba[model.geom_matid] if model.nmat else 0.0,
            model.geom_rgba,
        )
        self._rgb = _linear(rgba[:, :3])
        self._is_plane = model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE
        self._moving = np.flatnonzero(model.body_weldid[model.geom_bodyid] != 0)
        v, u = np.mgrid[0 : camera.height, 0 : camera.width]
        self._uv = np.stack([u.ravel() + 0.5, v.ravel() + 0.5], axis=1)
        self._rays = camera.rays(self._uv)

        still = copy.copy(model)
        still.geom_rgba[self._moving] = 0.0
        still.geom_matid[self._moving] = -1
        data = mujoco.MjData(still)
        mujoco.mj_kinematics(still, data)
        mujoco.mj_comPos(still, data)
        self._still = self._shade(still, data, self._uv, self._rays)
        self._still_colour = self._still.colour.copy()
        self._smooth(still, data, self._still, self._still_colour, np.arange(len(self._uv)))
        self._still_from_light = _unit(self._still.p_W - self._light)

    def render(self, data: mujoco.MjData) -> np.ndarray:
        """Return the picture (height, width, 3) uint8 of the scene at ``data``, whose kinematics must
        be up to date (``mj_forward``)."""
        changed = self.changed_pixels(data)
        picture = _Picture(*(x.copy() for x in self._still))
        colour = self._still_colour.copy()
        picture.put(changed, self._shade(self.model, data, self._uv[changed], self._rays[changed]))
        colour[changed] = picture.colour[changed]
        self._smooth(self.model, data, picture, colour, changed)
        image = _SRGB[(np.clip(colour, 0.0, 1.0) * 4095).astype(np.int16)]
        return image.reshape(self.camera.height, self.camera.width, 3)

    def depth(self, data: mujoco.MjData) -> np.ndarray:
        """Return the depth (height, width) along the optical axis [m]; +inf for the background."""
        distance = self._cast(self.model, data, self.camera.p_WC, self._rays)[1]
        along = self._rays @ self.camera.R_WC[:, 2]
        return np.where(distance < 0, np.inf, distance * along).reshape(self.camera.height, self.camera.width)

    def changed_pixels(self, data: mujoco.MjData) -> np.ndarray:
        """Return the indices of pixels in tiles that may show a moving geom or its shadow."""
        h, w = self.camera.height, self.camera.width
        p_W, radius = data.geom_xpos[self._moving], self.model.geom_rbound[self._moving]
        touched = np.zeros((h, w), bool)
        v, u = np.mgrid[_TILE // 2 : h : _TILE, _TILE // 2 : w : _TILE]
        pixel = (v * w + u).ravel()
        near = np.zeros(len(pixel), bool)
        slack = 0.75 * _TILE / self.camera.focal  # half a tile's diagonal, seen from the camera
        for origin, rays in (
            (self.camera.p_WC, self._rays[pixel]),
            (self._light, self._still_from_light[pixel]),
        ):
            to_geom = p_W - origin
            distance = np.sqrt(_dot(to_geom, to_geom))
            angle = np.arccos(np.clip(rays @ (to_geom / distance[:, None]).T, -1.0, 1.0))
            near |= (angle < np.arcsin(np.minimum(radius / distance, 1.0)) + slack).any(axis=1)
        near = near.reshape(v.shape)
        for i, j in zip(*np.nonzero(near), strict=True):
            touched[i * _TILE : (i + 1) * _TILE, j * _TILE : (j + 1) * _TILE] = True
        return np.flatnonzero(touched)

    def _smooth(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        picture: _Picture,
        colour: np.ndarray,
        among: np.ndarray,
    ) -> None:
        """Supersample the edge pixels ``among`` those given and write the mean into ``colour``."""
        h, w = self.camera.height, self.camera.width
        edge = np.zeros((h, w), bool)
        geom, lit, nhat = (x.reshape(h, w, *x.shape[1:]) for x in (picture.geom, picture.lit, picture.nhat_W))
        for a, b in ((np.s_[:, :-1], np.s_[:, 1:]), (np.s_[:-1], np.s_[1:])):
            step = (
                (geom[a] != geom[b])
                | (lit[a] != lit[b])
                | (np.einsum("ijk,ijk->ij", nhat[a], nhat[b]) < 0.8) & (geom[a] >= 0)
            )
            edge[a] |= step
            edge[b] |= step
        again = among[edge.ravel()[among]]
        if again.size:
            uv = (self._uv[again, None] + _SUBPIXELS).reshape(-1, 2)
            fine = self._shade(model, data, uv, self.camera.rays(uv)).colour.reshape(len(again), -1, 3)
            colour[again] = (picture.colour[again] + fine.sum(axis=1)) / (1 + len(_SUBPIXELS))

    def _cast(
        self, model: mujoco.MjModel, data: mujoco.MjData, origin: np.ndarray, rays: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        n = len(rays)
        geom, distance, nhat = np.empty(n, np.int32), np.empty(n), np.zeros(3 * n)
        mujoco.mj_multiRay(model, data, origin, rays.ravel(), None, True, -1, geom, distance, nhat, n, _FAR)
        return geom, distance, nhat.reshape(n, 3).astype(np.float32)

    def _shade(
        self, model: mujoco.MjModel, data: mujoco.MjData, uv: np.ndarray, rays: np.ndarray
    ) -> _Picture:
        geom, distance, nhat_W = self._cast(model, data, self.camera.p_WC, rays)
        bottom, top = _linear(_BACKGROUND)
        colour = bottom + (top - bottom) * (1.0 - uv[:, 1:] / self.camera.height).astype(np.float32)
        p_W = self.camera.p_WC + rays * np.where(geom >= 0, distance, _FAR)[:, None]
        lit = np.zeros(len(rays), bool)
        hit = np.flatnonzero(geom >= 0)
        if hit.size == 0:
            return _Picture(colour, geom, nhat_W, lit, p_W)

        g, n_W, d_W = geom[hit], nhat_W[hit], rays[hit].astype(np.float32)
        from_light = p_W[hit] - self._light
        l_W = -_unit(from_light.astype(np.float32))
        cosine = _dot(l_W, n_W)
        facing = np.flatnonzero(cosine > 0.0)
        way = self._cast(model, data, self._light, from_light[facing])[1]  # in units of the way to the point
        lit[hit[facing]] = way > 1.0 - 2e-3
        diffuse = cosine * lit[hit]
        shine = np.maximum(_dot(_unit(l_W - d_W), n_W), 0.0) * (lit[hit] & ~self._is_plane[g])
        for _ in range(5):
            shine *= shine
        ambient = 0.34 + 0.16 * n_W[:, 2] - 0.10 * _dot(d_W, n_W)  # sky above, and a little from the viewer
        colour_hit = (
            self._base_colour(g, p_W[hit]) * (ambient + 0.75 * diffuse)[:, None] + 0.12 * shine[:, None]
        )
        far = np.where(self._is_plane[g], 1.0 - np.exp(-((distance[hit] / 3.0) ** 3)), 0.0).astype(
            np.float32
        )[:, None]
        colour[hit] += (colour_hit - colour[hit]) * (1.0 - far)
        return _Picture(colour, geom, nhat_W, lit, p_W)

    def _base_colour(self, geom: np.ndarray, p_W: np.ndarray) -> np.ndarray:
        base = self._rgb[geom]
        plane = np.flatnonzero(self._is_plane[geom])
        dark = np.floor(p_W[plane, :2] / 0.05).sum(axis=1) % 2 > 0.5  # squares of 5 cm
        base[plane[dark]] *= 0.94
        return base
