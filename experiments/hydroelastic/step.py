"""Time of one whole step compared with Drake's: a gripper and a bar, on the same meshes, with the
same scheme, in turns on one core.

Processor time of one 1 ms step: contact surfaces, convex solve, integration. Drake's discrete plant
runs its own approximation of the same name, lagged or SAP. The grip is settled, or the bar is
dragged through it, or the fingers close on it from both sides; the last two begin again before
every block of steps. Required: every step solved, and the limit on the share of Drake's time kept
in all three.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dexengines.hydroelastic import shapes
from dexengines.hydroelastic.system import HydroelasticSystem
from dexstack.cli import arguments
from dexstack.cli.output import note, table
from dexstack.errors import ConfigError
from dexstack.report.statistics import times
from experiments.harness import Findings, experiment
from experiments.hydroelastic import systems
from experiments.hydroelastic.systems import SCHEMES

DT = 1e-3
LEVELS = ((0.08, 10.0), (0.04, 5.0), (0.04, 10.0), (0.02, 10.0), (0.01, 10.0), (0.005, 4.0))
"""Longest edges of the fingers' meshes [m] and grip forces [N]: 48, 62, 86, 150, 316 and 486
faces."""
MOST = 0.12
"""Largest share of Drake's time."""
SETTLING = 200
"""Initial steps in which both grippers close; not counted."""
BLOCK = 50
"""Counted steps of one engine before the other's turn."""
WARM_UP = 10
"""Steps after the other's turn that warm the caches; not counted."""


class Motion(NamedTuple):
    """Motion of the gripper and bar at the start of a block."""

    opening: float
    """Opening of each finger [m]."""
    speed: float
    """Speed of the bar along its axis [m/s]; a force compensates friction."""


MOTIONS = {"settled": None, "sliding": Motion(0.0, 0.3), "closing": Motion(0.002, 0.0)}


@dataclass(frozen=True)
class Level:
    """Processor times per step [s] of one level, one sample per block, and its simulation."""

    motion: str
    size: float
    force: float
    ours: np.ndarray
    peer: np.ndarray
    faces: float
    peer_faces: float
    iterations: float
    worst_residual: float
    unsolved: int
    height_difference: float
    """Final distance of the two bars [m]."""


def _level(motion: str, size: float, force: float, args: argparse.Namespace) -> Level:
    begin = MOTIONS[motion]
    system = systems.gripper(DT, SCHEMES[args.scheme], size=size)
    drag = 2.0 * force * systems.GRIP_FRICTION if begin and begin.speed else 0.0
    systems.press(system, force)
    peer = _DrakeGripper(size, force, args.scheme)
    for _ in range(SETTLING):
        system.step()
    held = system.data.qpos.copy()
    system.data.qfrc_applied[2] = drag
    peer.advance(SETTLING)
    peer.drag(drag)
    ours, theirs, iterations, faces = [], [], 0, 0
    for _ in range(max(1, args.steps // BLOCK)):
        if begin:
            system.data.qpos[:], system.data.qvel[:] = held, 0.0
            system.data.qpos[:2] -= begin.opening
            system.data.qvel[2] = begin.speed
        _advance(system, WARM_UP)
        ours.append(_timed(lambda: _advance(system, BLOCK)) / BLOCK)
        iterations += system.iterations
        faces += system.faces
        if begin:
            peer.begin(begin)
        peer.advance(WARM_UP)
        theirs.append(_timed(lambda: peer.advance(BLOCK)) / BLOCK)
    n = len(ours)
    return Level(
        motion=motion,
        size=size,
        force=force,
        ours=np.array(ours),
        peer=np.array(theirs),
        faces=faces / n,
        peer_faces=peer.faces(),
        iterations=iterations / n,
        worst_residual=system.worst_residual,
        unsolved=system.unsolved,
        height_difference=abs(peer.height() - system.data.qpos[4]),
    )


def _timed(action: Callable[[], Any]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def _advance(system: HydroelasticSystem, steps: int) -> None:
    for _ in range(steps):
        system.step()


def _write_bar(folder: Path) -> Path:
    """Write the bar's rigid mesh as an OBJ file and return its path."""
    mesh = shapes.rigid(shapes.cylinder(systems.BAR_RADIUS, systems.BAR_LENGTH, 1.0, size=0.005))
    lines = [f"v {x!r} {y!r} {z!r}" for x, y, z in mesh.vertices_B.tolist()]
    lines += [f"f {i + 1} {j + 1} {k + 1}" for i, j, k in mesh.triangles.tolist()]
    path = folder / "bar.obj"
    path.write_text("\n".join(lines) + "\n")
    return path


class _DrakeGripper:
    """:func:`~experiments.hydroelastic.systems.gripper` in Drake's discrete plant, with
    polygons."""

    def __init__(self, size: float, grip_force: float, scheme: str) -> None:
        """Build the plant, in one piece because its parts refer to each other."""
        try:
            from pydrake import all as drake
        except ImportError:
            raise ConfigError("the comparison needs Drake: pip install 'dexstack[peers]'") from None
        builder = drake.DiagramBuilder()
        plant, self._graph = drake.AddMultibodyPlantSceneGraph(builder, DT)
        plant.set_contact_model(drake.ContactModel.kHydroelastic)
        plant.set_contact_surface_representation(drake.HydroelasticContactRepresentation.kPolygon)
        approximations = {
            "lagged": drake.DiscreteContactApproximation.kLagged,
            "sap": drake.DiscreteContactApproximation.kSap,
        }
        plant.set_discrete_contact_approximation(approximations[scheme])

        def inertia(mass: float, moments: tuple[float, float, float]) -> Any:
            return drake.SpatialInertia(mass, np.zeros(3), drake.UnitInertia(*(m / mass for m in moments)))

        def material(relaxation: float) -> Any:
            properties = drake.ProximityProperties()
            friction = drake.CoulombFriction(systems.GRIP_FRICTION, systems.GRIP_FRICTION)
            drake.AddContactMaterial(friction=friction, properties=properties)
            properties.AddProperty("material", "relaxation_time", relaxation)
            return properties

        for name, side in (("left", -1.0), ("right", 1.0)):
            finger = plant.AddRigidBody(name, inertia(systems.FINGER_MASS, (1e-4, 1e-4, 1e-4)))
            frame = plant.AddFrame(
                drake.FixedOffsetFrame(
                    f"{name}_mount",
                    plant.world_frame(),
                    drake.RigidTransform([0.0, side * (systems.BAR_RADIUS + systems.FINGER_AXES[1]), 0.0]),
                )
            )
            plant.AddJoint(
                drake.PrismaticJoint(name, frame, finger.body_frame(), [0.0, -side, 0.0], damping=1.0)
            )
            properties = material(systems.GRIP_RELAXATION)
            drake.AddCompliantHydroelasticProperties(size, systems.FINGER_MODULUS, properties)
            plant.RegisterCollisionGeometry(
                finger, drake.RigidTransform(), drake.Ellipsoid(*systems.FINGER_AXES), name, properties
            )
        moments = systems.cylinder_inertia(0.1, systems.BAR_RADIUS, systems.BAR_LENGTH)
        bar = plant.AddRigidBody("bar", inertia(0.1, moments))
        properties = material(0.0)
        drake.AddRigidHydroelasticProperties(properties)
        with tempfile.TemporaryDirectory() as folder:
            path = _write_bar(Path(folder))
            plant.RegisterCollisionGeometry(
                bar, drake.RigidTransform(), drake.Mesh(str(path), 1.0), "bar", properties
            )
            plant.Finalize()
            diagram = builder.Build()
            self._simulator = drake.Simulator(diagram)
        self._plant, self._bar = plant, bar
        self._context = plant.GetMyMutableContextFromRoot(self._simulator.get_mutable_context())
        plant.SetFreeBodyPose(
            self._context,
            bar,
            drake.RigidTransform(drake.Quaternion(np.sqrt([0.5, 0.0, 0.5, 0.0])), np.zeros(3)),
        )
        self._force = np.zeros(plant.num_velocities())
        for name in ("left", "right"):
            self._force[plant.GetJointByName(name).velocity_start()] = grip_force
        self.drag(0.0)
        self._simulator.Initialize()
        self._steps, self._held = 0, plant.GetPositions(self._context)

    def drag(self, force: float) -> None:
        """Pull the bar along its axis [N], and store the state at which motions begin."""
        self._force[self._bar.floating_velocities_start_in_v() + 3] = force
        self._plant.get_applied_generalized_force_input_port().FixValue(self._context, self._force)
        self._held = self._plant.GetPositions(self._context)

    def begin(self, motion: Motion) -> None:
        """Restore the state at which motions begin."""
        self._plant.SetPositions(self._context, self._held)
        velocity = np.zeros(self._plant.num_velocities())
        velocity[self._bar.floating_velocities_start_in_v() + 3] = motion.speed
        self._plant.SetVelocities(self._context, velocity)
        for name in ("left", "right"):
            joint = self._plant.GetJointByName(name)
            joint.set_translation(self._context, joint.get_translation(self._context) - motion.opening)

    def advance(self, steps: int) -> None:
        """Advance by this many steps."""
        self._steps += steps
        self._simulator.AdvanceTo(self._steps * DT)

    def faces(self) -> float:
        """Return the current number of faces of the contact surfaces."""
        results = self._plant.get_contact_results_output_port().Eval(self._context)
        surfaces = (
            results.hydroelastic_contact_info(i).contact_surface()
            for i in range(results.num_hydroelastic_contacts())
        )
        return float(sum(s.num_faces() for s in surfaces))

    def height(self) -> float:
        """Return the position of the bar's centre [m]."""
        return float(self._plant.EvalBodyPoseInWorld(self._context, self._bar).translation()[2])


def _figures(level: Level) -> dict[str, Any]:
    ours, peer = float(np.median(level.ours)), float(np.median(level.peer))
    return {
        "motion": level.motion,
        "size_m": level.size,
        "grip_N": level.force,
        "faces": level.faces,
        "peer_faces": level.peer_faces,
        "step_s": times(level.ours),
        "ours_s": ours,
        "peer_s": peer,
        "ratio": peer / ours,
        "newton_iterations": level.iterations,
        "worst_residual": level.worst_residual,
        "unsolved": level.unsolved,
        "height_difference_m": level.height_difference,
    }


def step(args: argparse.Namespace) -> Findings:
    """Run all levels and judge them."""
    note(
        f"core {args.core}: {len(LEVELS)} levels, {args.steps} steps each; the first step compiles or loads "
        f"the kernels"
    )
    levels = [_level(motion, size, force, args) for motion in MOTIONS for size, force in LEVELS]
    figures = [_figures(level) for level in levels]
    results: dict[str, Any] = {
        "core": args.core,
        "scheme": args.scheme,
        "peer": {"name": f"Drake, {args.scheme}", "version": importlib.metadata.version("drake")},
        "levels": figures,
    }
    keys = ("motion", "mm", "grip_N", "faces", "ours", "peer", "share", "newton_iterations", "worst_residual")
    shown = [
        {
            "mm": 1e3 * f["size_m"],
            "ours": 1e6 * f["ours_s"],
            "peer": 1e6 * f["peer_s"],
            "share": f["ours_s"] / f["peer_s"],
        }
        | f
        for f in figures
    ]
    rows = [[row[key] for key in keys] for row in shown]
    worst = max(row[6] for row in rows)
    solved = all(level.unsolved == 0 for level in levels)
    kept = worst <= MOST
    results.update(worst_share=worst, passed=solved and kept)
    verdict = "every step solved" if solved else "some steps were not solved"
    verdict += f"; at most {worst:.3f} of Drake's time (limit {MOST:g}): {'kept' if kept else 'not kept'}"
    columns = [
        "motion",
        "mesh [mm]",
        "grip [N]",
        "faces",
        "ours [µs]",
        "Drake [µs]",
        "share",
        "Newton",
        "residual",
    ]
    return Findings(
        results, None, [table(f"one step of the gripper, core {args.core}", columns, rows), verdict]
    )


def _arguments(p: argparse.ArgumentParser) -> None:
    systems.add_scheme(p)
    p.add_argument(
        "--steps",
        type=arguments.positive_int,
        default=1000,
        metavar="N",
        help="counted steps per size and engine",
    )


main = experiment(__spec__.name, __doc__, step, arguments=_arguments, pinned=True)


if __name__ == "__main__":
    sys.exit(main())
