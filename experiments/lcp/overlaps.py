"""Random scenes that start with bodies inside each other, and how they end.

Boxes, cylinders, random hulls, angle irons and channels (concave, of convex parts) and stacks of
boxes overlap the floor and each other by 1 µm to 5 mm, a cube the Allegro hand that is to hold it.
A scene is watched until all pairs are apart, within the time given, and for :data:`AFTER` beyond.
It passes if they are apart at the end, the kinetic energy never exceeded that of the start and what
forces put in, by more than 1e-6 of it or 1e-6 J, and no pair was ever deeper than :data:`DEEPEST`.
A jammed box, in a slot narrower than it is, cannot come
out: that scene passes if it is refused by the names of box and walls.

What forces F put in is counted substep by substep. With h of a step left, contacts would leave
the velocity u at its end; a substep of length s moves bodies by s u, and takes their velocity from
v to v + s/h (u − v). That changes the kinetic energy by at most s/h of u·M(u − v), which is s F·u
and the work of contacts along u, of which there is none. At start and end of a whole step
velocities may be small that were not so in between, where a contact was met. The push moves bodies,
too, but is no part of u. The velocities of a step lag by half of it, and those at impacts do not:
the start's kinetic energy is counted with what gravity adds in half a step.

Scene i is drawn from the seed and i alone. With ``--kept FILE`` what was found so far is written
there after every batch, and a run with the same seed goes on from it; ``--minutes`` ends a run
before all scenes are done, and the result says how many were.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from enum import Enum
from functools import cache
from pathlib import Path

import mujoco
import numpy as np
import trimesh

from dexengines.errors import EngineError
from dexengines.lcp.record import BEGIN, MOVE
from dexengines.lcp.roll import gaps_at
from dexengines.lcp.shapes import Geometry, box, cylinder, plane
from dexengines.lcp.system import LcpSystem
from dexstack.cli.output import note
from dexstack.errors import ConfigError
from dexstack.geometry.decomposition import convex_parts
from dexstack.model.hand import load_hand
from dexstack.model.objects import Start, load_object
from dexstack.model.scene import OBJECT_BODY
from dexstack.plants.lcp import LcpPlant
from experiments.harness import Findings, experiment
from experiments.lcp import systems as scenes

KINDS = ("boxes", "cylinders", "hulls", "concave", "stack", "hand", "jammed")
SPREAD = 1e-6
"""Tolerance of the bound of the kinetic energy, absolute [J] and relative."""
DEEPEST = 0.01
"""Depth that no push allows [m]: twice the deepest start."""
AFTER = 0.1
"""Time for which a scene is watched once all pairs are apart [s], twice the time of the push from
the deepest start."""
LOOK = 0.01
"""Time between checks of all distances [s]; energies are checked in every step."""
BATCH = 350
"""Scenes between two lines of progress."""
SHOWN = 20
"""Most scenes that did not pass and are named."""


class End(Enum):
    """Result of a scene."""

    PARTED = "parted"
    REFUSED = "refused by name"
    ENERGY = "gained energy"
    FELL = "deeper than a push allows"
    FAILED = "step refused"


@cache
def _concave() -> list[list[np.ndarray]]:
    """Return corners of the convex parts of an angle iron and a channel."""
    angle = np.array([[0, 0], [0.08, 0], [0.08, 0.02], [0.02, 0.02], [0.02, 0.08], [0, 0.08]])
    channel = np.array(
        [[0, 0], [0.1, 0], [0.1, 0.07], [0.08, 0.07], [0.08, 0.02], [0.02, 0.02], [0.02, 0.07], [0, 0.07]]
    )
    found = []
    for outline, triangles in (
        (angle, [[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 4, 5]]),
        (channel, [[0, 1, 4], [1, 2, 3], [1, 3, 4], [0, 4, 5], [0, 5, 6], [0, 6, 7]]),
    ):
        mesh = trimesh.creation.extrude_triangulation(outline, np.array(triangles), 0.1)
        mesh.apply_translation(-mesh.bounds.mean(axis=0))
        found.append([np.asarray(part.convex_hull.vertices) for part in convex_parts(mesh)])
    return found


def _shape(kind: str, name: str, rng: np.random.Generator) -> list[Geometry]:
    if kind == "cylinders":
        return [cylinder(name, name, rng.uniform(0.04, 0.1), rng.uniform(0.04, 0.1), friction=0.5)]
    if kind == "hulls":
        corners = rng.normal(size=(12, 3))
        corners *= 0.08 / np.linalg.norm(corners, axis=1, keepdims=True)
        return [Geometry(name, name, corners, friction=0.5)]
    if kind == "concave":
        parts, scale = _concave()[rng.integers(2)], rng.uniform(0.7, 1.5)
        return [Geometry(f"{name}/{k}", name, scale * x, friction=0.5) for k, x in enumerate(parts)]
    return [box(name, name, rng.uniform(0.04, 0.1, 3), friction=0.5)]


def _depth(rng: np.random.Generator) -> float:
    return 10.0 ** rng.uniform(-6.0, np.log10(5e-3))


def _lower(system: LcpSystem, height: int, name: str, below: set[str], depth: float) -> None:
    """Lower coordinate ``height`` until body ``name`` is at a depth in one of ``below``."""
    bodies = [{x.split("/")[0] for x in pair} for pair in system.gaps()]
    watched = [k for k, pair in enumerate(bodies) if name in pair and pair & below]
    gaps = np.empty(len(bodies))
    for _ in range(1000):
        gaps_at(system.reference(), system.q, gaps)
        gap = gaps[watched].min()
        if abs(gap + depth) <= 1e-9 or gap < -depth:
            return
        system.q[height] -= gap + depth


def _jammed(rng: np.random.Generator) -> LcpSystem:
    """Return a box over a floor between two walls, each of which it overlaps."""
    half = rng.uniform(0.04, 0.1, 3)
    system, more = scenes.boxes(1, half, dt=0.005), {"friction": 0.5}
    walls = [
        box(f"wall{i}", "world", (0.1, 1.0, 1.0), (s * (0.1 + half[0] - _depth(rng)), 0.0, 0.0), **more)
        for i, s in enumerate((-1, 1))
    ]
    system = LcpSystem(system.model, [*system.geometries, *walls])
    system.q[2] = half[2] + 1e-5
    return system


@cache
def _plant() -> tuple[LcpPlant, np.ndarray, Start]:
    hand, obj = load_hand(), load_object("cube")
    start = obj.start("allegro")
    return LcpPlant(hand, obj), hand.pose(start.hand_pose), start


def _held(rng: np.random.Generator, depth: float) -> LcpSystem:
    """Return the Allegro hand in its holding pose, with the cube near by, turned and lowered into
    it."""
    plant, q_hand, start = _plant()
    pose = np.array(start.pose_WO)
    pose[:2] += rng.uniform(-0.02, 0.02, 2)
    pose[2] += 0.15
    quat = rng.normal(size=4)
    pose[3:] = quat / np.linalg.norm(quat)
    plant.reset(q_hand, pose)
    system = plant.scene.system
    fingers = {x.split("/")[0] for pair in system.gaps() for x in pair} - {OBJECT_BODY}
    _lower(system, q_hand.size + 2, OBJECT_BODY, fingers, depth)
    return system


def holding(system: LcpSystem) -> Callable[[], None]:
    """Return a function that sets ``tau`` so that the joints of a hand, if any, keep their
    positions."""
    hinges = np.flatnonzero(system.model.jnt_type == mujoco.mjtJoint.mjJNT_HINGE)  # they come first
    held = system.q[hinges].copy()

    def hold() -> None:
        system.tau[hinges] = 2.0 * (held - system.q[hinges]) - 0.05 * system.v[hinges]

    return hold


def draw(
    kind: str, rng: np.random.Generator, depth: Callable[[np.random.Generator], float] = _depth
) -> LcpSystem:
    """Return a scene of a kind: a floor and two bodies (three to five in a stack) that overlap by
    ``depth``, or have that gap where it is negative [m]; a hand or a jammed box."""
    if kind in ("hand", "jammed"):
        return _held(rng, depth(rng)) if kind == "hand" else _jammed(rng)
    count = rng.integers(3, 6) if kind == "stack" else 2
    names = [f"body{i}" for i in range(count)]
    model = scenes.free_bodies({n: (1.0, (3e-3, 4e-3, 5e-3)) for n in names}, dt=0.005)
    shapes = [g for n in names for g in _shape(kind, n, rng)]
    system = LcpSystem(model, [plane("floor", friction=0.5), *shapes])
    quats = rng.normal(size=(count, 4))
    if kind == "stack":
        quats[:, 1:3] = 0.0
    for i in range(count):
        system.q[7 * i + 3 : 7 * i + 7] = quats[i] / np.linalg.norm(quats[i])
        system.q[7 * i : 7 * i + 3] = 0.0, 0.0, 0.5 * (i + 1)
    for i in range(count):
        _lower(system, 7 * i + 2, names[i], {"floor", *names[:i]}, depth(rng))
    system.v[:] = 0.3 * rng.normal(size=system.v.size) if rng.uniform() < 0.5 else 0.0
    return system


def _work(system: LcpSystem, data: mujoco.MjData) -> float:
    """Return the work of gravity and ``tau`` in the last step [J]."""
    tape, left, work, weight = system.tape, 0.0, 0.0, np.empty(system.v.size)
    for k in range(tape.size[0]):
        if tape.op[k, 0] == BEGIN:
            left = tape.length[k]
        if tape.op[k, 0] != MOVE:
            continue
        data.qpos[:], s, v = tape.q[k - 1], tape.length[k], tape.v[k - 1]
        mujoco.mj_kinematics(system.model, data)
        mujoco.mj_comPos(system.model, data)
        mujoco.mj_comVel(system.model, data)
        mujoco.mj_rne(system.model, data, 0, weight)  # at rest
        work += float((system.tau - weight) @ (s * v + left * (tape.v[k] - v)))  # s F·u
        left -= s
    return work


def _momentum(system: LcpSystem) -> float:
    """Return the sum of the sizes of the vertical momenta of free bodies [kg m/s]."""
    model = system.model
    free = np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE)
    return float(np.abs(model.body_mass[model.jnt_bodyid[free]] * system.v[model.jnt_dofadr[free] + 2]).sum())


def part(system: LcpSystem, seconds: float) -> End:
    """Simulate a scene until it has been apart for :data:`AFTER`, at most for ``seconds``; joints
    of a hand are held."""
    dt, data, (bound, _) = system.model.opt.timestep, mujoco.MjData(system.model), system.energies()
    bound += 0.5 * dt * abs(float(system.model.opt.gravity[2] * _momentum(system)))
    gaps, often = np.empty(len(system.world.shapes.pairs)), round(LOOK / dt)
    hold, apart = holding(system), 0.0
    for k in range(1, 1 + round(seconds / dt)):
        hold()
        try:
            system.step()
        except FloatingPointError:
            return End.FAILED
        kinetic, _ = system.energies()
        bound += _work(system, data)
        if kinetic > bound * (1.0 + SPREAD) + SPREAD:
            return End.ENERGY
        if k % often:
            continue
        gaps_at(system.reference(), system.q, gaps)
        if gaps.min() < -DEEPEST:
            return End.FELL
        apart = apart + often * dt if gaps.min() > 0.0 else 0.0
        if apart >= AFTER:
            return End.PARTED
    try:
        system.settle(0.0)
    except EngineError:
        return End.REFUSED
    return End.PARTED


def _wanted(kind: str) -> End:
    return End.REFUSED if kind == "jammed" else End.PARTED


class Tally:
    """Results of scenes 0 … done − 1."""

    def __init__(self, seed: int, seconds: float, kept: Path | None) -> None:
        self.of, self.kept = {"seed": seed, "seconds": seconds}, kept
        self.done, self.counts, self.others = 0, Counter(), []
        if kept is not None and kept.exists():
            try:
                found = json.loads(kept.read_text())
                of, self.done, self.others = found["of"], found["done"], found["others"]
                self.counts.update(found["counts"])
            except (OSError, ValueError, KeyError) as error:
                raise ConfigError(f"'{kept}' holds no scenes to go on from: {error}") from None
            if of != self.of:
                raise ConfigError(f"'{kept}' holds scenes of {of}, asked for are {self.of}")

    def add(self, kind: str, end: End) -> None:
        self.counts[f"{kind} {end.name.lower()}"] += 1
        if end is not _wanted(kind) and len(self.others) < SHOWN:
            self.others.append({"scene": self.done, "kind": kind, "end": end.value})
        self.done += 1

    def keep(self) -> None:
        """Write the results atomically."""
        if self.kept is not None:
            fresh = self.kept.with_name(self.kept.name + ".new")
            try:
                fresh.write_text(
                    json.dumps(
                        {"of": self.of, "done": self.done, "counts": self.counts, "others": self.others}
                    )
                )
                fresh.replace(self.kept)
            except OSError as error:
                raise ConfigError(f"cannot write {self.kept}: {error.strerror}") from None


def overlaps(args: argparse.Namespace) -> Findings:
    """Simulate all scenes, the kinds in turn."""
    tally, begin = Tally(args.seed, args.seconds, args.kept), time.monotonic()
    tally.keep()
    while tally.done < args.scenes and time.monotonic() - begin < 60.0 * args.minutes:
        for i in range(tally.done, min(tally.done + BATCH, args.scenes)):
            kind = KINDS[i % len(KINDS)]
            tally.add(kind, part(draw(kind, np.random.default_rng([args.seed, i])), args.seconds))
        tally.keep()
        note(f"{tally.done} of {args.scenes} scenes, {len(tally.others)} not as asked")
    ends = {k: {o: tally.counts[f"{k} {o.name.lower()}"] for o in End} for k in KINDS}
    runs = {
        k: {"scenes": sum(row.values()), **{o.name.lower(): n for o, n in row.items()}}
        for k, row in ends.items()
    }
    passed = all(ends[k][_wanted(k)] == row["scenes"] for k, row in runs.items()) and tally.done >= len(KINDS)
    lines = [f"{k}: " + ", ".join(f"{n} {o.value}" for o, n in row.items()) for k, row in ends.items()]
    return Findings(
        {"scenes": tally.done, "runs": runs, "others": tally.others, "passed": passed}, None, lines, args.seed
    )


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scenes", type=int, default=1000, help="number of scenes")
    parser.add_argument("--seconds", type=float, default=0.3, help="simulated time of each, at most")
    parser.add_argument("--seed", type=int, default=0, help="seed of the scenes")
    parser.add_argument(
        "--minutes",
        type=float,
        default=float("inf"),
        help="longest run [min]",
    )
    parser.add_argument(
        "--kept",
        type=Path,
        metavar="FILE",
        help="continue from the results in this file, and write them there",
    )


main = experiment(__spec__.name, __doc__, overlaps, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
