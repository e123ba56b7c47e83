"""Oriented point clouds: centres and outward normals of evenly spread quads that follow a shape's
edges and corners.

The quads of a primitive have their edges on the shape's edges; a point is the centre of a quad,
moved onto curved surfaces, with the surface's normal. A point *on* an edge or corner would have no
normal.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dexengines.errors import EngineError


class Cloud(NamedTuple):
    """I oriented points of one body, body frame."""

    points: np.ndarray
    """(I, 3) [m]"""
    normals: np.ndarray
    """(I, 3) outward unit normals."""

    @property
    def radius(self) -> float:
        """Radius of the smallest sphere about the frame's origin that holds all points [m]."""
        return float(np.linalg.norm(self.points, axis=1).max())


def moved(cloud: Cloud, R: np.ndarray, p: np.ndarray) -> Cloud:
    """Return the cloud in the frame in which its own has the pose (R (3, 3), p (3,))."""
    return Cloud(cloud.points @ R.T + p, cloud.normals @ R.T)


def joined(*clouds: Cloud) -> Cloud:
    """Return several clouds of one body as one."""
    return Cloud(np.concatenate([c.points for c in clouds]), np.concatenate([c.normals for c in clouds]))


def rectangle(corner: ArrayLike, u: ArrayLike, v: ArrayLike, spacing: float) -> Cloud:
    """Return a flat rectangle from ``corner`` along its sides u, v (3,) [m] in quads of at most
    ``spacing``; outward is u × v."""
    corner, u, v = (np.asarray(x, float) for x in (corner, u, v))
    n = np.cross(u, v)
    i, j = (_centres(_count(np.linalg.norm(side), spacing)) for side in (u, v))
    points = corner + i[:, None, None] * u + j[None, :, None] * v
    return Cloud(points.reshape(-1, 3), np.tile(n / np.linalg.norm(n), (i.size * j.size, 1)))


def box(half: ArrayLike, spacing: float) -> Cloud:
    """Return a box about the origin with half extents (3,)."""
    h = _positive("half extents of a box", half)
    faces = []
    for axis in range(3):
        e = np.eye(3)[axis]
        u, v = 2.0 * h * np.eye(3)[(axis + 1) % 3], 2.0 * h * np.eye(3)[(axis + 2) % 3]
        top = rectangle(e * h - (u + v) / 2.0, u, v, spacing)
        faces += [top, Cloud(top.points - 2.0 * h * e, -top.normals)]
    return joined(*faces)


def sphere(radius: float, spacing: float) -> Cloud:
    """Return a sphere about the origin: the six faces of a cube, projected, in equal angles."""
    (r,) = _positive("radius of a sphere", radius)
    n = _count(math.pi / 2 * r, spacing)
    d = _unit_sphere(n)
    return Cloud(r * d, d)


def capsule(radius: float, half: float, spacing: float) -> Cloud:
    """Return a capsule about z; ``half`` is half the distance between the centres of its end
    spheres [m]."""
    r, h = _positive("radius and half length of a capsule", radius, half)
    n = 2 * _count(math.pi / 4 * r, spacing)  # even, so that no quad crosses the equator
    d = _unit_sphere(n)
    ends = Cloud(r * d + np.sign(d[:, 2:]) * [0.0, 0.0, h], d)
    return joined(ends, _tube(r, h, 4 * n, spacing))


def cylinder(radius: float, half: float, spacing: float) -> Cloud:
    """Return a cylinder about z of height 2 ``half`` [m]."""
    r, h = _positive("radius and half length of a cylinder", radius, half)
    n = max(2, _count(math.pi / 2 * r, spacing))
    disk = _disk(np.linspace(-1.0, 1.0, n + 1))
    centres = r * (disk[1:, 1:] + disk[1:, :-1] + disk[:-1, 1:] + disk[:-1, :-1]).reshape(-1, 2) / 4.0
    z, e = np.full((n * n, 1), h), np.tile([0.0, 0.0, 1.0], (n * n, 1))
    top = Cloud(np.hstack([centres, z]), e)
    return joined(top, Cloud(np.hstack([centres, -z]), -e), _tube(r, h, 4 * n, spacing))


def check(cloud: Cloud, name: str, *, closed: bool = True) -> Cloud:
    """Return the cloud if it is valid; one that is ``closed`` encloses its body.

    Raises:
        EngineError: wrong shapes, numbers that are not finite, normals that are not of unit length
            or that point inwards on average.
    """
    p, n = np.asarray(cloud.points, float), np.asarray(cloud.normals, float)
    if p.ndim != 2 or p.shape[1] != 3 or p.shape != n.shape or len(p) == 0:
        raise EngineError(
            f"the oriented points of {name} must be two arrays (I, 3), got {p.shape} and {n.shape}"
        )
    if not (np.isfinite(p).all() and np.isfinite(n).all()):
        raise EngineError(f"the oriented points of {name} are not finite")
    if np.abs(np.linalg.norm(n, axis=1) - 1.0).max() > 1e-3:
        raise EngineError(f"the normals of {name} are not of unit length")
    if closed and len(p) > 3 and np.einsum("ij,ij->i", p - p.mean(0), n).mean() < 0.0:
        raise EngineError(f"the normals of {name} point inwards")
    return Cloud(p, n)


def _unit_sphere(n: int) -> np.ndarray:
    """Return (6 n², 3) directions of a cubed sphere of equal angles."""
    t = np.tan((_centres(n) - 0.5) * math.pi / 2)
    X, Y = np.meshgrid(t, t, indexing="ij")
    face = np.stack([X, Y, np.ones_like(X)], axis=-1).reshape(-1, 3)
    d = np.concatenate([sign * np.roll(face, axis, axis=1) for axis in range(3) for sign in (1.0, -1.0)])
    return d / np.linalg.norm(d, axis=1)[:, None]


def _disk(x: np.ndarray) -> np.ndarray:
    """Return the places (n, n, 2) of a grid of coordinates x (n,) in [-1, 1] on the unit disk.

    Squares become rings (Shirley and Chiu), so that all quads have one area: a flat end's pressure is
    a mean over its points, and with it the lever of friction in a spin, 2/3 of the radius.
    """
    X, Y = np.meshgrid(x, x, indexing="ij")
    wide = np.abs(X) > np.abs(Y)
    r = np.where(wide, X, Y)
    turn = np.divide(np.where(wide, Y, X), r, out=np.zeros_like(r), where=r != 0.0) * math.pi / 4
    c, s = r * np.cos(turn), r * np.sin(turn)
    return np.stack([np.where(wide, c, s), np.where(wide, s, c)], axis=-1)


def _tube(r: float, h: float, around: int, spacing: float) -> Cloud:
    angle = 2 * math.pi * _centres(around)
    z = h * (2.0 * _centres(_count(2 * h, spacing)) - 1.0)
    n = np.stack([np.cos(angle), np.sin(angle), np.zeros(around)], axis=1)
    points = (r * n)[None] + z[:, None, None] * np.array([0.0, 0.0, 1.0])
    return Cloud(points.reshape(-1, 3), np.tile(n, (len(z), 1)))


def _centres(n: int) -> np.ndarray:
    return (np.arange(n) + 0.5) / n


def _count(length: float, spacing: float) -> int:
    if not (math.isfinite(spacing) and spacing > 0.0):
        raise EngineError(f"the spacing of oriented points must be positive, got {spacing:g} m")
    return max(1, math.ceil(length / spacing - 1e-9))


def _positive(what: str, *values: object) -> np.ndarray:
    x = np.concatenate([np.atleast_1d(np.asarray(v, float)) for v in values])
    if not (np.isfinite(x).all() and x.min() > 0.0):
        raise EngineError(f"the {what} must be positive, got {x.tolist()}")
    return x
