"""The lcp plant: rigid hand and object that never intersect."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dexstack.config import param
from dexstack.engines.lcp import record
from dexstack.engines.lcp.shapes import Geometry, box, capsule, cylinder, pieces, sphere
from dexstack.engines.lcp.system import LcpSystem
from dexstack.errors import ConfigError
from dexstack.model.description import number_list, quaternion
from dexstack.model.hand import HandModel
from dexstack.model.objects import ObjectModel
from dexstack.model.scene import OBJECT_BODY, build_scene
from dexstack.model.urdf import Shape

DEEPEST = 0.02
"""Depth up to which hand and object may overlap at a reset [m]: the engine pushes them apart."""
SETTLED = 1.0
"""Time after which they are to have parted [s]."""

TROUBLES = {
    record.UNSOLVED: "contact problems without a valid solution",
    record.CAPPED: "steps given up after too many sub-steps",
}
"""Counts of the engine that are not to be there, in words."""


@dataclass(frozen=True)
class LcpPlantParams:
    """Parameters of the lcp plant."""

    dt: float = param(0.002, "length of one physics step [s]", 1e-4, 0.01)
    directions: int = param(2, "friction directions per contact; the friction polygon has twice as many corners", 2, 16)
    restitution: float = param(0.0, "restitution between hand and object", 0.0, 1.0)


class LcpPlant:
    """Hand and object in rigid contact; see :class:`dexstack.engines.base.Plant`.

    Raises:
        ConfigError: a shape this engine does not take.
    """

    def __init__(self, hand: HandModel, obj: ObjectModel, params: LcpPlantParams | None = None) -> None:
        p = params or LcpPlantParams()
        spec = build_scene(hand, obj)
        spec.option.timestep = p.dt
        self.dt = p.dt
        self._joints = len(hand.joint_names)
        self.model = spec.compile()
        """The scene; state layout as :mod:`dexstack.model.scene` says."""
        self.system = LcpSystem(self.model, [*hand_geometries(hand), *object_geometries(obj, p.restitution)], p.directions)
        start = next(iter(obj.starts.values()))
        self.reset(hand.pose(start.hand_pose), start.pose_WO)

    @property
    def time(self) -> float:
        return self.system.time

    @property
    def joint_position(self) -> np.ndarray:
        return self.system.q[:self._joints].copy()

    @property
    def joint_velocity(self) -> np.ndarray:
        return self.system.v[:self._joints].copy()

    @property
    def pose_WO(self) -> np.ndarray:
        return self.system.q[self._joints:].copy()

    @property
    def twist_WO(self) -> np.ndarray:
        return self.system.v[self._joints:].copy()

    def reset(self, q_hand: np.ndarray, pose_WO: np.ndarray, v: np.ndarray | None = None) -> None:
        """Start again at time zero; see :meth:`Plant.reset`. What overlaps is pushed apart during the first steps.

        Raises:
            ConfigError: wrong size, not finite, a quaternion that is not of unit length, shapes that overlap by more than ``DEEPEST``.
        """
        where = "reset of the plant"
        q = number_list(where, "q_hand", q_hand, self._joints)
        pose = number_list(where, "pose_WO", pose_WO, 7)
        pose[3:] = quaternion(where, "pose_WO[3:7]", pose[3:])
        velocity = np.zeros(self.model.nv) if v is None else number_list(where, "v", v, self.model.nv)
        system = self.system
        system.q[:self._joints], system.q[self._joints:], system.v[:], system.time = q, pose, velocity, 0.0
        system.tau[:] = 0.0
        system.forget()
        inside = [(gap, pair) for pair, gap in system.gaps().items() if gap < -DEEPEST]
        if inside:
            gap, (first, second) = min(inside)
            raise ConfigError(f"{where}: '{first}' and '{second}' overlap by {-1e3 * gap:.0f} mm, more than {1e3 * DEEPEST:.0f} mm")

    def step(self, tau: np.ndarray) -> None:
        """Advance by ``dt``; torques are applied as given, whoever computes them limits them.

        What did not go as it should is counted in ``system.counts``.

        Raises:
            ConfigError: ``tau`` is not (N,) and finite.
            FloatingPointError: the simulation diverged.
        """
        if tau.shape != (self._joints,) or not np.isfinite(tau).all():
            raise ConfigError(f"the plant needs {self._joints} finite torques, got {tau!r}")
        self.system.tau[:self._joints] = tau
        self.system.step()

    def trouble(self) -> str:
        """What went wrong since the last reset; see :class:`dexstack.engines.base.WatchedPlant`."""
        counts = self.system.counts
        found = [f"{counts[entry]} {what}" for entry, what in TROUBLES.items() if counts[entry]]
        stuck = [pair for pair, gap in self.system.gaps().items() if gap <= 0.0] if counts[record.OVERLAPS] and self.time > SETTLED else []
        said = [f"counted {', '.join(found)}"] if found else []
        said += [f"finds '{first}' and '{second}' overlapping" for first, second in stuck]
        return f"the lcp plant {', and '.join(said)}" if said else ""


def hand_geometries(hand: HandModel) -> list[Geometry]:
    """Every shape of the hand."""
    return [
        _geometry(shape, f"{body.name}/{k}", body.name, hand.friction_palm if body.joint is None else hand.friction_fingers)
        for body in hand.bodies
        for k, shape in enumerate(body.shapes)
    ]


def object_geometries(obj: ObjectModel, restitution: float = 0.0) -> list[Geometry]:
    """The object's convex parts: its hull where it is convex.

    Raises:
        ConfigError: it is not convex, and what takes it apart is not installed.
    """
    return pieces(obj.name, OBJECT_BODY, obj.mesh, friction=float(obj.friction[0]), restitution=restitution)


def _geometry(shape: Shape, name: str, body: str, friction: float) -> Geometry:
    s = shape.size
    if shape.kind == "box":
        return box(name, body, s, shape.p, shape.R, friction=friction)
    if shape.kind == "sphere":
        return sphere(name, body, s[0], shape.p, friction=friction)
    if shape.kind == "capsule":
        return capsule(name, body, s[0], s[1], shape.p, shape.R, friction=friction)
    if shape.kind == "cylinder":
        return cylinder(name, body, s[0], s[1], shape.p, shape.R, friction=friction)
    raise ConfigError(f"the lcp plant takes boxes, spheres, capsules, cylinders and convex meshes, but not the {shape.kind} '{name}'")
