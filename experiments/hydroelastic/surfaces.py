"""Contact surfaces of a reference file: answers checked, and the time per query compared with
Drake's in the same run.

Compares net force, torque and polygon count on the meshes and poses of the file, and processor
times of queries in one process on one core, poses taking turns. Required: every check holds and, if
Drake is installed (extra 'peers'), the time limits are kept.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dexengines.hydroelastic.fields import CompliantMesh, RigidMesh
from dexengines.hydroelastic.surface import ContactSurface, Workspace, query
from dexstack.cli import arguments
from dexstack.cli.output import note, table
from dexstack.errors import ConfigError
from dexstack.report.statistics import times
from experiments.harness import Findings, experiment
from experiments.hydroelastic.forces import polygon_wrench

REFERENCE = Path(__file__).with_name("reference.json")
TOLERANCE = 1e-9
BLOCK = 10
"""Rounds of one engine before the other's turn."""
LEVER = 1e-4
"""Errors of moments are relative to at least this times force times lever arm: near balance only
rounding remains."""

Pose = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""R_WA, p_WA, R_WB, p_WB."""


@dataclass
class Check:
    """Number of comparisons, number above the tolerance, and the largest error."""

    tolerance: float = TOLERANCE
    checked: int = 0
    failed: int = 0
    worst: float = 0.0

    def add(self, error: float) -> None:
        """Count one comparison; NaN fails."""
        self.checked += 1
        self.failed += not error <= self.tolerance
        self.worst = max(self.worst, error if error == error else math.inf)

    def as_dict(self) -> dict[str, Any]:
        """Return the check for the JSON output."""
        return {
            "checked": self.checked,
            "failed": self.failed,
            "worst": self.worst,
            "tolerance": self.tolerance,
        }


@dataclass
class Case:
    """Two bodies with poses and reference answers."""

    name: str
    a: CompliantMesh | RigidMesh
    b: CompliantMesh | RigidMesh
    poses: list[Pose]
    answers: list[dict[str, Any]]
    spec: dict[str, Any]
    ours_s: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """(rounds,) processor time of a query, mean over the poses"""
    peer_s: np.ndarray | None = None
    peer_note: str = ""


def read_reference(path: str | Path) -> list[Case]:
    """Read a reference file: per case two meshes, poses and Drake's answers.

    Raises:
        ConfigError: the file is missing or not of that format.
    """
    path = Path(path)
    if not path.is_file():
        raise ConfigError(f"there is no reference file {path}")
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read the reference file {path}: {error}") from None
    try:
        cases = [
            Case(
                str(case["name"]),
                *(_mesh(case[body], f"{case['name']}/{body}") for body in "AB"),
                [(*_pose(pose["X_WA"]), *_pose(pose["X_WB"])) for pose in case["poses"]],
                [pose["polygon"] for pose in case["poses"]],
                {body: {k: v for k, v in case[body].items() if k != "mesh"} for body in "AB"},
            )
            for case in data["cases"]
        ]
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise ConfigError(f"the reference file {path} lacks or garbles {error}") from None
    if not cases or not all(case.poses for case in cases):
        raise ConfigError(f"the reference file {path} holds no poses")
    for case in cases:
        if isinstance(case.a, RigidMesh) and isinstance(case.b, RigidMesh):
            raise ConfigError(f"both bodies of {case.name} in {path} are rigid")
    return cases


def _mesh(spec: dict[str, Any], name: str) -> CompliantMesh | RigidMesh:
    mesh = spec["mesh"]
    vertices = np.array(mesh["vertices"], float)
    if mesh["type"] == "surface":
        return RigidMesh(name, vertices, np.array(mesh["triangles"]))
    return CompliantMesh(
        name,
        vertices,
        np.array(mesh["tets"]),
        np.array(mesh["pressure"], float),
        float(spec["hydroelastic_modulus"]),
    )


def _pose(spec: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    from scipy.spatial.transform import Rotation

    w, x, y, z = (float(q) for q in spec["quat_wxyz"])
    return np.ascontiguousarray(Rotation.from_quat([x, y, z, w]).as_matrix()), np.array(spec["p"], float)


def ask(case: Case, pose: Pose, out: Workspace) -> tuple[ContactSurface, float]:
    """Return the surface of a case's bodies, and the sign that turns a force on the query's first
    body into one on the case's A."""
    if isinstance(case.a, RigidMesh):
        return query(case.b, case.a, pose[2], pose[3], pose[0], pose[1], out), -1.0
    return query(case.a, case.b, *pose, out), 1.0


def check_answers(cases: list[Case], out: Workspace) -> dict[str, Check]:
    """Compare polygon count, force and moments with the file's, pose by pose."""
    checks = {"polygons": Check(0.0), "force": Check(), "torque": Check()}
    for case in cases:
        for pose, answer in zip(case.poses, case.answers, strict=True):
            surface, sign = ask(case, pose, out)
            checks["polygons"].add(abs(surface.n - int(answer["num_faces"])))
            if not answer["num_faces"]:
                continue
            force0 = np.array(answer["force_on_A_W"], float)
            scale = float(np.linalg.norm(force0))
            for about, key in (
                (pose[1], "torque_on_A_about_A_origin_W"),
                (np.zeros(3), "torque_on_A_about_world_origin_W"),
            ):
                wrench = sign * polygon_wrench(surface, about)
                torque0 = np.array(answer[key], float)
                lever = float(np.abs(surface.centroid_W - about).max()) if surface.n else 0.0
                floor = max(float(np.linalg.norm(torque0)), LEVER * scale * lever)
                checks["torque"].add(_relative(wrench[:3] - torque0, floor))
            checks["force"].add(_relative(wrench[3:] - force0, scale))
    return checks


def _relative(difference: np.ndarray, scale: float) -> float:
    error = float(np.linalg.norm(difference))
    return error / scale if scale > 0 else (0.0 if error == 0 else math.inf)


def drake_version() -> str | None:
    """Return Drake's version, or None if it is not installed."""
    try:
        import pydrake.geometry  # noqa: F401

        return importlib.metadata.version("drake")
    except ImportError:
        return None


class DrakePair:
    """The two bodies in Drake, built from the file's shapes."""

    def __init__(self, spec: dict[str, Any], poses: list[Pose]) -> None:
        from pydrake.geometry import (
            FramePoseVector,
            GeometryFrame,
            GeometryInstance,
            HydroelasticContactRepresentation,
            SceneGraph,
        )
        from pydrake.math import RigidTransform, RotationMatrix

        self._polygons = HydroelasticContactRepresentation.kPolygon
        self._graph = SceneGraph()
        source = self._graph.RegisterSource("bench")
        frames, ids = [], []
        for name in "AB":
            frame = self._graph.RegisterFrame(source, GeometryFrame(name))
            instance = GeometryInstance(RigidTransform(), _drake_shape(spec[name]["shape"]), name)
            instance.set_proximity_properties(_drake_properties(spec[name]))
            frames.append(frame)
            ids.append(self._graph.RegisterGeometry(source, frame, instance))
        self._contexts, self._queries = [], []
        for pose in poses:
            context = self._graph.CreateDefaultContext()
            vector = FramePoseVector()
            for frame, R, p in zip(frames, pose[::2], pose[1::2], strict=True):
                vector.set_value(frame, RigidTransform(RotationMatrix.ProjectToRotationMatrix(R), p))
            self._graph.get_source_pose_port(source).FixValue(context, vector)
            query_object = self._graph.get_query_output_port().Eval(context)
            query_object.GetPoseInWorld(
                ids[0]
            )  # brings Drake's own poses up to date, so that only the query is timed
            self._contexts.append(context)
            self._queries.append(query_object)

    def ask_all(self) -> None:
        """Query every pose once."""
        for query_object in self._queries:
            query_object.ComputeContactSurfaces(self._polygons)

    def __len__(self) -> int:
        return len(self._queries)

    def polygons(self) -> list[int]:
        """Return the number of polygons at every pose."""
        return [sum(s.num_faces() for s in q.ComputeContactSurfaces(self._polygons)) for q in self._queries]


def _drake_shape(shape: list[Any]) -> Any:
    from pydrake import geometry

    names = {
        "sphere": "Sphere",
        "box": "Box",
        "cylinder": "Cylinder",
        "capsule": "Capsule",
        "ellipsoid": "Ellipsoid",
    }
    if shape[0] not in names:
        raise ConfigError(f"no such shape for the comparison with Drake: {shape[0]}")
    return getattr(geometry, names[shape[0]])(*(float(x) for x in shape[1:]))


def _drake_properties(spec: dict[str, Any]) -> Any:
    from pydrake.geometry import (
        AddCompliantHydroelasticProperties,
        AddRigidHydroelasticProperties,
        ProximityProperties,
    )

    properties = ProximityProperties()
    if spec["kind"] == "rigid":
        AddRigidHydroelasticProperties(float(spec["resolution_hint"]), properties)
    else:
        AddCompliantHydroelasticProperties(
            float(spec["resolution_hint"]), float(spec["hydroelastic_modulus"]), properties
        )
    return properties


def time_cases(cases: list[Case], out: Workspace, rounds: int, *, peer: bool) -> None:
    """Measure ``ours_s`` and, if Drake can build the bodies and finds as many polygons, ``peer_s``.

    In every round all poses of all cases take their turn: repeating one pose would flatter the
    caches. The engines alternate every ten rounds, so that both see the same machine. The clock is
    read once per case and round: reading it costs as much as a small query.
    """
    pairs: list[DrakePair | None] = []
    for case in cases:
        pair = None
        if peer:
            try:
                pair = DrakePair(case.spec, case.poses)
            except (ConfigError, KeyError) as error:
                case.peer_note = str(error)
        if pair is not None:
            found, ours = pair.polygons(), [ask(case, pose, out)[0].n for pose in case.poses]
            if found != ours:
                case.peer_note = (
                    f"Drake builds other meshes of these shapes: {found} polygons, {ours} on the file's"
                )
                pair = None
        pairs.append(pair)
    ours_s: list[list[float]] = [[] for _ in cases]
    peer_s: list[list[float]] = [[] for _ in cases]
    for _ in range(math.ceil(rounds / BLOCK)):
        for turn in range(
            -1, BLOCK
        ):  # the first turn after the other engine's warms the caches and does not count
            for case, samples in zip(cases, ours_s, strict=True):
                start = time.process_time_ns()
                for pose in case.poses:
                    ask(case, pose, out)
                elapsed = time.process_time_ns() - start
                if turn >= 0:
                    samples.append(1e-9 * elapsed / len(case.poses))
        for turn in range(-1, BLOCK):
            for pair, samples in zip(pairs, peer_s, strict=True):
                if pair is None:
                    continue
                start = time.process_time_ns()
                pair.ask_all()
                elapsed = time.process_time_ns() - start
                if turn >= 0:
                    samples.append(1e-9 * elapsed / len(pair))
    for case, pair, own, other in zip(cases, pairs, ours_s, peer_s, strict=True):
        case.ours_s = np.array(own)
        case.peer_s = np.array(other) if pair is not None else None


def checks_table(checks: dict[str, Check]) -> Any:
    """Return a table of checks."""
    rows = [[name, c.checked, c.failed, c.worst, c.tolerance] for name, c in checks.items()]
    return table("checks", ("check", "checked", "failed", "worst", "tolerance"), rows)


def surfaces(args: argparse.Namespace) -> Findings:
    """Check the answers, then measure the times."""
    cases = read_reference(args.reference)
    version = drake_version()
    out = Workspace()
    note(f"core {args.core}: compiling the kernels")
    checks = check_answers(cases, out)
    note(
        f"{args.rounds} rounds over {sum(len(c.poses) for c in cases)} poses"
        + (f" and Drake {version}" if version else "")
    )
    time_cases(cases, out, args.rounds, peer=version is not None)
    rows, listed, ratios = [], [], []
    for case in cases:
        ours = float(np.median(case.ours_s))
        entry: dict[str, Any] = {"name": case.name, "poses": len(case.poses), "ours_s": times(case.ours_s)}
        peer = None if case.peer_s is None else float(np.median(case.peer_s))
        if peer is not None:
            ratios.append(ours / peer)
            entry |= {"peer_s": times(case.peer_s), "ratio": peer / ours}
        if case.peer_note:
            entry["note"] = case.peer_note
        listed.append(entry)
        rows.append(
            [
                case.name,
                len(case.poses),
                1e6 * ours,
                None if peer is None else 1e6 * peer,
                None if peer is None else ours / peer,
            ]
        )
    mean = math.exp(sum(math.log(r) for r in ratios) / len(ratios)) if ratios else None
    fast = mean is None or (mean <= args.mean_limit and max(ratios) <= args.case_limit)
    failed = sum(check.failed for check in checks.values())
    results = {
        "core": args.core,
        "peer": {"name": "drake", "version": version},
        "checked": sum(check.checked for check in checks.values()),
        "failed": failed,
        "worst": max(check.worst for check in checks.values()),
        "checks": {name: check.as_dict() for name, check in checks.items()},
        "cases": listed,
        "ratio": None if mean is None else 1 / mean,
        "limits": {"mean": 1 / args.mean_limit, "case": 1 / args.case_limit},
        "passed": not failed and fast,
    }
    if mean is None:
        verdict = (
            "Drake is not installed (pip install 'dexstack[peers]')"
            if version is None
            else "Drake could build none of these bodies alike"
        )
        verdict += ": the comparison of times was skipped"
    else:
        verdict = (
            f"time over Drake's: geometric mean {mean:.3f} (limit {args.mean_limit:g}), "
            f"worst case {max(ratios):.3f} (limit {args.case_limit:g}): " + ("kept" if fast else "not kept")
        )
    lines = [
        table(
            f"contact surface, core {args.core}",
            ("case", "poses", "ours µs", "Drake µs", "ours / Drake"),
            rows,
        ),
        checks_table(checks),
        *(f"{case.name}: not compared, {case.peer_note}" for case in cases if case.peer_note),
        verdict,
    ]
    return Findings(results, None, lines)


def _arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--reference", default=str(REFERENCE), metavar="FILE", help="meshes, poses and Drake's answers (JSON)"
    )
    p.add_argument(
        "--rounds", type=arguments.positive_int, default=200, metavar="N", help="queries of each pose"
    )
    p.add_argument(
        "--mean-limit",
        type=arguments.positive,
        default=0.12,
        metavar="X",
        help="largest geometric mean of our time over Drake's",
    )
    p.add_argument(
        "--case-limit",
        type=arguments.positive,
        default=0.30,
        metavar="X",
        help="largest time over Drake's of one case",
    )


main = experiment(__spec__.name, __doc__, surfaces, arguments=_arguments, pinned=True)


if __name__ == "__main__":
    sys.exit(main())
