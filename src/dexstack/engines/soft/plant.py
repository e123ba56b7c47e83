"""The soft plant: hand and object as oriented point clouds, stepped linearly implicitly in double precision."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np

from dexstack.config import param
from dexstack.engines.common import ScenePlant
from dexstack.engines.soft import cloud
from dexstack.engines.soft.cloud import Cloud
from dexstack.engines.soft.meshing import remesh
from dexstack.engines.soft.scm import ContactParams, paper_dissipation, smooth_dissipation
from dexstack.engines.soft.system import Meeting, SoftSystem, Surface, SystemData
from dexstack.errors import ConfigError
from dexstack.model.hand import HandModel
from dexstack.model.objects import ObjectModel
from dexstack.model.scene import OBJECT_BODY, build_scene
from dexstack.model.urdf import Shape
from dexstack.process.compilation import jit

DISSIPATIONS = {"paper": paper_dissipation, "smooth": smooth_dissipation}


@dataclass(frozen=True)
class SoftPlantParams:
    """Parameters of the soft plant."""

    dt: float = param(0.002, "length of one physics step [s]", 1e-4, 0.01)
    stiffness: float = param(1e4, "contact stiffness of a pair of bodies, k [N/m]", 1.0, 1e6)
    dissipation_speed: float = param(0.1, "separation speed scale of dissipation, v_d [m/s]", 1e-3, 10.0)
    stiction_speed: float = param(1e-3, "speed below which friction is viscous, v_s [m/s]", 1e-5, 0.1)
    onset: float = param(2e-4, "smoothing of the onset of force, ε3 [m]", 1e-6, 0.01)
    spread: float = param(5e-4, "smoothing among the points that touch, ε2 [m]", 1e-6, 0.01)
    roundness: float = param(0.2, "smoothing among planes, √ε1, in spacings of the points", 0.05, 5.0)
    dissipation: str = param("paper", f"dissipation d(r): {' or '.join(DISSIPATIONS)} (paper: once, smooth: twice differentiable)")
    palm_spacing: float = param(0.007, "spacing of the points on palm and object where they meet [m]", 1e-3, 0.05)
    finger_spacing: float = param(0.004, "spacing of the points on fingers and object where they meet [m]", 1e-3, 0.05)
    palm_patch: int = param(64, "points in a patch between palm and object", 8, 2048)
    finger_patch: int = param(32, "points in a patch between a link and the object", 8, 2048)
    near_links: int = param(8, "how many links, the nearest to the object, can touch it at a time", 1, 16)


class SoftPlant(ScenePlant):
    """Hand and object with soft contact; see :class:`dexstack.engines.base.Plant`.

    The object meets the palm and the links; the fingers do not meet each other.

    Raises:
        ConfigError: a parameter, or a shape this engine has no points for.
    """

    def __init__(self, hand: HandModel, obj: ObjectModel, params: SoftPlantParams | None = None) -> None:
        p = params or SoftPlantParams()
        if p.dissipation not in DISSIPATIONS:
            raise ConfigError(f"parameter 'dissipation' of the soft plant must be {' or '.join(DISSIPATIONS)}, got '{p.dissipation}'")
        self.dt = p.dt
        self.model = build_scene(hand, obj).compile()
        self.system = SoftSystem(self.model, meetings(hand, obj, p), dissipation=DISSIPATIONS[p.dissipation])

        joints = len(hand.joint_names)

        def advance(data: SystemData, q: jax.Array, v: jax.Array, torque: jax.Array) -> tuple[jax.Array, jax.Array]:
            tau = jax.numpy.zeros(self.model.nv, q.dtype).at[:joints].set(torque)
            return self.system.implicit(data, q, v, tau, p.dt)

        with jax.enable_x64(True):  # the numbers are arguments: as constants, XLA would spend minutes on the lookup tables
            self._data = jax.device_put(self.system.data)
            self._advanced = jit(advance).lower(self._data, *map(np.zeros, (self.model.nq, self.model.nv, joints))).compile()
        super().__init__(hand, obj)

    @property
    def time(self) -> float:
        return self._steps * self.dt

    def _state(self) -> tuple[np.ndarray, np.ndarray]:
        return self._q, self._v

    def _place(self, q: np.ndarray, v: np.ndarray) -> None:
        self._q, self._v, self._steps = q, v, 0

    def _advance(self, tau: np.ndarray) -> bool:
        with jax.enable_x64(True):
            q, v = self._advanced(self._data, self._q, self._v, np.asarray(tau, float))
        self._q, self._v = np.asarray(q), np.asarray(v)
        self._steps += 1
        return bool(np.isfinite(self._v).all())


def meetings(hand: HandModel, obj: ObjectModel, p: SoftPlantParams) -> list[Meeting]:
    """The object against the palm, whose wide faces need wide patches, and against the links."""
    law = ContactParams(p.stiffness, eps2=p.spread, eps3=p.onset, v_d=p.dissipation_speed, v_s=p.stiction_speed)
    surfaces = hand_surfaces(hand, p)
    palm = [s for s, b in zip(surfaces, hand.bodies, strict=True) if b.joint is None]
    links = [s for s, b in zip(surfaces, hand.bodies, strict=True) if b.joint is not None]
    result = []
    for side, spacing, patch, slots in (
        (palm, p.palm_spacing, p.palm_patch, None),
        (links, p.finger_spacing, p.finger_patch, p.near_links),
    ):
        body = Surface(obj.name, OBJECT_BODY, object_cloud(obj, spacing), float(obj.friction[0]))
        law_here = law._replace(eps1=(p.roundness * spacing) ** 2)
        result.append(Meeting(side, [body], patch, voxel=min(spacing, 0.005) / 2.0, slots=slots, params=law_here))
    return result


def hand_surfaces(hand: HandModel, p: SoftPlantParams) -> list[Surface]:
    """The union of every body's shapes as one cloud."""
    result = []
    for body in hand.bodies:
        palm = body.joint is None
        spacing = p.palm_spacing if palm else p.finger_spacing
        friction = hand.friction_palm if palm else hand.friction_fingers
        result.append(Surface(body.name, body.name, union(body.shapes, spacing), friction))
    return result


def union(shapes: tuple[Shape, ...], spacing: float) -> Cloud:
    """Oriented points of shapes that overlap or touch, without those that lie inside another one."""
    parts = []
    for k, shape in enumerate(shapes):
        part = cloud.moved(shape_cloud(shape, spacing), shape.R, shape.p)
        outside = part.points + 1e-2 * spacing * part.normals  # so that two faces that touch are both inside
        hidden = np.zeros(len(outside), bool)
        for j, other in enumerate(shapes):
            if j != k:
                hidden |= inside(other, outside)
        parts.append(Cloud(part.points[~hidden], part.normals[~hidden]))
    return cloud.joined(*parts)


def shape_cloud(shape: Shape, spacing: float) -> Cloud:
    """A primitive in its own frame."""
    s = shape.size
    if shape.kind == "box":
        return cloud.box(s, spacing)
    if shape.kind == "sphere":
        return cloud.sphere(s[0], spacing)
    if shape.kind == "capsule":
        return cloud.capsule(s[0], s[1], spacing)
    if shape.kind == "cylinder":
        return cloud.cylinder(s[0], s[1], spacing)
    raise ConfigError(f"the soft plant has no oriented points for a {shape.kind}")


def inside(shape: Shape, points: np.ndarray) -> np.ndarray:
    """(I,) whether points (I, 3) in the frame of the body lie in the shape."""
    p, s = (points - shape.p) @ shape.R, shape.size
    if shape.kind == "box":
        return (np.abs(p) < s).all(axis=1)
    if shape.kind == "cylinder":
        return (np.hypot(p[:, 0], p[:, 1]) < s[0]) & (np.abs(p[:, 2]) < s[1])
    half = s[1] if shape.kind == "capsule" else 0.0
    along = p - np.clip(p[:, 2:], -half, half) * [0.0, 0.0, 1.0]
    return np.linalg.norm(along, axis=1) < s[0]


def object_cloud(obj: ObjectModel, spacing: float) -> Cloud:
    """The object as its convex hull, as in every plant: a box exactly, anything else remeshed in quads."""
    hull = obj.mesh.convex_hull
    low, high = hull.bounds
    if hull.volume > (1.0 - 1e-6) * np.prod(high - low):
        return cloud.moved(cloud.box((high - low) / 2.0, spacing), np.eye(3), (low + high) / 2.0)
    return remesh(hull, spacing, obj.name)
