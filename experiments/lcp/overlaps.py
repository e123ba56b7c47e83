"""Random scenes that start with bodies inside each other: what becomes of them.

Boxes, cylinders, random hulls and stacks overlap the floor and each other by 1 µm to 5 mm. A scene passes if within the time given all
pairs are apart, the kinetic energy never exceeded that of the start and what gravity put in, by more than 1e-6 of it or 1e-6 J, and no
body is ever deeper in the floor than :data:`DEEPEST`. Gravity's work in a step is its force times the velocity, at the start of the step
or at its end, that is the greater downwards: the push moves bodies, too, but is no part of their velocity.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from enum import Enum

import numpy as np

from dexstack.engines.lcp.shapes import Geometry, box, cylinder, plane
from dexstack.engines.lcp.system import LcpSystem
from experiments.harness import Outcome, run
from experiments.lcp import systems as scenes

KINDS = ("boxes", "cylinders", "hulls", "stack")
SPREAD = 1e-6
"""What the kinetic energy may exceed its bound by, of 1 J and of itself."""

DEEPEST = 0.01
"""Depth that no push allows [m]: twice the deepest start."""


class End(Enum):
    """What became of a scene."""

    PARTED = "parted"
    OVERLAPS = "still overlaps"
    ENERGY = "gained energy"
    FELL = "fell through the floor"


def _shape(kind: str, name: str, rng: np.random.Generator) -> Geometry:
    if kind == "cylinders":
        return cylinder(name, name, rng.uniform(0.04, 0.1), rng.uniform(0.04, 0.1), friction=0.5)
    if kind == "hulls":
        corners = rng.normal(size=(12, 3))
        corners *= 0.08 / np.linalg.norm(corners, axis=1, keepdims=True)
        return Geometry(name, name, corners, friction=0.5)
    return box(name, name, rng.uniform(0.04, 0.1, 3), friction=0.5)


def draw(kind: str, rng: np.random.Generator) -> LcpSystem:
    """A floor and two bodies (three in a stack), each pair that is to overlap by 1 µm to 5 mm."""
    count = 3 if kind == "stack" else 2
    names = [f"body{i}" for i in range(count)]
    model = scenes.free_bodies({n: (1.0, (3e-3, 4e-3, 5e-3)) for n in names}, dt=0.005)
    shapes = [_shape(kind, n, rng) for n in names]
    system = LcpSystem(model, [plane("floor", friction=0.5), *shapes])
    quats = rng.normal(size=(count, 4))
    if kind == "stack":
        quats[:, 1:3] = 0.0
    for i in range(count):
        system.q[7 * i + 3 : 7 * i + 7] = quats[i] / np.linalg.norm(quats[i])
        system.q[7 * i : 7 * i + 3] = 0.0, 0.0, 0.5 * (i + 1)
    for i in range(count):  # down until it is as deep in what lies below as was drawn
        depth, below = 10.0 ** rng.uniform(-6.0, np.log10(5e-3)), ["floor", *names[:i]]
        for _ in range(60):
            gap = min(g for pair, g in system.gaps().items() if names[i] in pair and set(pair) & set(below))
            if abs(gap + depth) <= 1e-9 or gap < -depth:
                break
            system.q[7 * i + 2] -= gap + depth
    system.v[:] = 0.3 * rng.normal(size=system.v.size) if rng.uniform() < 0.5 else 0.0
    return system


def part(system: LcpSystem, seconds: float) -> End:
    """Simulate a scene for so long."""
    bound, _ = system.energies()
    falling, dt = system.v.reshape(-1, 6)[:, 2], system.model.opt.timestep
    weight = -system.parameters.mass[1:] * system.model.opt.gravity[2]
    for _ in range(round(seconds / dt)):
        before = falling.copy()
        system.step()
        kinetic, _ = system.energies()
        bound += dt * float(weight @ np.maximum(-before, -falling))
        if kinetic > bound * (1.0 + SPREAD) + SPREAD:
            return End.ENERGY
        if min(gap for pair, gap in system.gaps().items() if "floor" in pair) < -DEEPEST:
            return End.FELL
    return End.PARTED if min(system.gaps().values()) > 0.0 else End.OVERLAPS


def overlaps(args: argparse.Namespace) -> Outcome:
    """All scenes, the kinds in turn."""
    rng, counts = np.random.default_rng(args.seed), Counter()
    for i in range(args.scenes):
        kind = KINDS[i % len(KINDS)]
        counts[kind, part(draw(kind, rng), args.seconds)] += 1
    runs = {k: {"scenes": sum(counts[k, o] for o in End), **{o.name.lower(): counts[k, o] for o in End}} for k in KINDS}
    passed = all(row["parted"] == row["scenes"] for row in runs.values())
    lines = [f"{kind}: " + ", ".join(f"{counts[kind, o]} {o.value}" for o in End) for kind in KINDS]
    return Outcome({"runs": runs, "passed": passed}, None, lines, args.seed)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scenes", type=int, default=1000, help="how many")
    parser.add_argument("--seconds", type=float, default=0.3, help="simulated time of each")
    parser.add_argument("--seed", type=int, default=0, help="of the draws")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; its exit code."""
    return run(__spec__.name, __doc__, overlaps, argv, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
