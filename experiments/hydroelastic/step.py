"""Time of one whole step of the hydroelastic engine beside Drake's SAP, on the same gripper, the same meshes, in the same run."""

from __future__ import annotations

import importlib.metadata
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dexstack.engines.hydroelastic import scenes, shapes
from dexstack.engines.hydroelastic.convex import SAP
from dexstack.engines.hydroelastic.system import HydroelasticSystem
from dexstack.errors import ConfigError

DT = 1e-3
LEVELS = ((0.08, 10.0), (0.04, 5.0), (0.04, 10.0), (0.02, 10.0), (0.01, 10.0), (0.005, 4.0))
"""Longest edges of the fingers' meshes [m] and grip forces [N]: 48, 62, 86, 150, 316 and 486 faces."""
SETTLING = 200
"""Steps from the start, during which both grippers close; not counted."""
BLOCK = 50
"""Steps of one of the two that count before it is the other's turn."""
WARM_UP = 10
"""Steps after the other's turn that bring the caches back and do not count."""


@dataclass(frozen=True)
class Level:
    """One level: processor times per step [s], one sample per block, and what was simulated."""

    size: float
    force: float
    ours: np.ndarray
    peer: np.ndarray
    """Empty without Drake."""
    faces: float
    peer_faces: float
    iterations: float
    worst_residual: float
    unsolved: int
    height_difference: float
    """Between the two bars at the end [m]."""


def peer_version() -> str:
    """Drake's version, empty where it is not installed."""
    try:
        return importlib.metadata.version("drake")
    except importlib.metadata.PackageNotFoundError:
        return ""


def time_steps(levels: Sequence[tuple[float, float]], steps: int, scheme: int, *, with_peer: bool) -> list[Level]:
    """Grip the bar on every level.

    Args:
        levels: longest edge of the fingers' meshes [m] and grip force [N] of each.
        steps: how many count, of either engine.
        scheme: of ours; Drake runs SAP.
        with_peer: whether Drake runs, too.
    """
    return [_level(size, force, steps, scheme, with_peer) for size, force in levels]


def _level(size: float, force: float, steps: int, scheme: int, with_peer: bool) -> Level:
    system = scenes.gripper(DT, scheme, size=size)
    scenes.press(system, force)
    peer = _DrakeGripper(size, force) if with_peer else None
    for _ in range(SETTLING):
        system.step()
    if peer:
        peer.advance(SETTLING)
    ours, theirs, iterations, faces = [], [], 0, 0
    for _ in range(max(1, steps // BLOCK)):
        _advance(system, WARM_UP)
        ours.append(_timed(lambda: _advance(system, BLOCK)) / BLOCK)
        iterations += system.iterations
        faces += system.faces
        if peer:
            peer.advance(WARM_UP)
            theirs.append(_timed(lambda: peer.advance(BLOCK)) / BLOCK)
    n = len(ours)
    return Level(
        size=size,
        force=force,
        ours=np.array(ours),
        peer=np.array(theirs),
        faces=faces / n,
        peer_faces=peer.faces() if peer else float("nan"),
        iterations=iterations / n,
        worst_residual=system.worst_residual,
        unsolved=system.unsolved,
        height_difference=abs(peer.height() - system.data.qpos[4]) if peer else float("nan"),
    )


def _timed(action: Callable[[], Any]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def _advance(system: HydroelasticSystem, steps: int) -> None:
    for _ in range(steps):
        system.step()


class _DrakeGripper:
    """:func:`~dexstack.engines.hydroelastic.scenes.gripper` in Drake's discrete plant, with polygons and SAP."""

    def __init__(self, size: float, grip_force: float) -> None:
        try:
            from pydrake import all as drake
        except ImportError:
            raise ConfigError("the comparison needs Drake: pip install 'dexstack[peers]'; --no-peer runs without it") from None
        builder = drake.DiagramBuilder()
        plant, self._graph = drake.AddMultibodyPlantSceneGraph(builder, DT)
        plant.set_contact_model(drake.ContactModel.kHydroelastic)
        plant.set_contact_surface_representation(drake.HydroelasticContactRepresentation.kPolygon)
        plant.set_discrete_contact_approximation(drake.DiscreteContactApproximation.kSap)

        def inertia(mass: float, moments: tuple[float, float, float]) -> Any:
            return drake.SpatialInertia(mass, np.zeros(3), drake.UnitInertia(*(m / mass for m in moments)))

        def material(relaxation: float) -> Any:
            properties = drake.ProximityProperties()
            friction = drake.CoulombFriction(scenes.GRIP_FRICTION, scenes.GRIP_FRICTION)
            drake.AddContactMaterial(friction=friction, properties=properties)
            properties.AddProperty("material", "relaxation_time", relaxation)
            return properties

        for name, side in (("left", -1.0), ("right", 1.0)):
            finger = plant.AddRigidBody(name, inertia(scenes.FINGER_MASS, (1e-4, 1e-4, 1e-4)))
            frame = plant.AddFrame(
                drake.FixedOffsetFrame(
                    f"{name}_mount",
                    plant.world_frame(),
                    drake.RigidTransform([0.0, side * (scenes.BAR_RADIUS + scenes.FINGER_AXES[1]), 0.0]),
                )
            )
            plant.AddJoint(drake.PrismaticJoint(name, frame, finger.body_frame(), [0.0, -side, 0.0], damping=1.0))
            properties = material(scenes.GRIP_RELAXATION)
            drake.AddCompliantHydroelasticProperties(size, scenes.FINGER_MODULUS, properties)
            plant.RegisterCollisionGeometry(finger, drake.RigidTransform(), drake.Ellipsoid(*scenes.FINGER_AXES), name, properties)
        moments = scenes.cylinder_inertia(0.1, scenes.BAR_RADIUS, scenes.BAR_LENGTH)
        bar = plant.AddRigidBody("bar", inertia(0.1, moments))
        properties = material(0.0)
        drake.AddRigidHydroelasticProperties(properties)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "bar.obj"
            mesh = shapes.rigid(shapes.cylinder(scenes.BAR_RADIUS, scenes.BAR_LENGTH, 1.0, size=0.005))
            lines = [f"v {x!r} {y!r} {z!r}" for x, y, z in mesh.vertices_B.tolist()]
            lines += [f"f {i + 1} {j + 1} {k + 1}" for i, j, k in mesh.triangles.tolist()]
            path.write_text("\n".join(lines) + "\n")
            plant.RegisterCollisionGeometry(bar, drake.RigidTransform(), drake.Mesh(str(path), 1.0), "bar", properties)
            plant.Finalize()
            diagram = builder.Build()
            self._simulator = drake.Simulator(diagram)
        self._plant, self._bar = plant, bar
        self._context = plant.GetMyMutableContextFromRoot(self._simulator.get_mutable_context())
        plant.SetFreeBodyPose(self._context, bar, drake.RigidTransform(drake.Quaternion(np.sqrt([0.5, 0.0, 0.5, 0.0])), np.zeros(3)))
        force = np.zeros(plant.num_velocities())
        for name in ("left", "right"):
            force[plant.GetJointByName(name).velocity_start()] = grip_force
        plant.get_applied_generalized_force_input_port().FixValue(self._context, force)
        self._simulator.Initialize()
        self._steps = 0

    def advance(self, steps: int) -> None:
        """Take so many steps."""
        self._steps += steps
        self._simulator.AdvanceTo(self._steps * DT)

    def faces(self) -> float:
        """Faces of the contact surfaces now."""
        results = self._plant.get_contact_results_output_port().Eval(self._context)
        surfaces = (results.hydroelastic_contact_info(i).contact_surface() for i in range(results.num_hydroelastic_contacts()))
        return float(sum(s.num_faces() for s in surfaces))

    def height(self) -> float:
        """Of the bar's centre [m]."""
        return float(self._plant.EvalBodyPoseInWorld(self._context, self._bar).translation()[2])


def schemes() -> dict[str, int]:
    """Schemes by the names of the command line."""
    from dexstack.engines.hydroelastic.convex import LAGGED

    return {"lagged": LAGGED, "sap": SAP}
