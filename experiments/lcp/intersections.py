"""Distances by coal at every substep of the experiments of this folder that move bodies.

With ``--configurations N`` random scenes follow until N configurations were checked: boxes,
cylinders, hulls, concave bodies, stacks, and a cube over the hand that is to hold it, 10 µm to 10
mm apart. They fall, tip, slide and come to rest.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np

from dexstack.cli import arguments
from dexstack.cli.output import note
from experiments.harness import Findings, experiment
from experiments.lcp.balls import balls
from experiments.lcp.bounce import bounce
from experiments.lcp.bowling import bowling
from experiments.lcp.check import SubstepCheck
from experiments.lcp.cubes import cubes
from experiments.lcp.overlaps import draw, holding
from experiments.lcp.plate import plate
from experiments.lcp.rest import rest

CHECKS: dict[str, Callable[[], Findings]] = {
    f.__name__: f for f in (balls, cubes, bounce, plate, bowling, rest)
}

KINDS = ("boxes", "cylinders", "hulls", "concave", "stack", "hand")
"""Kinds of random scenes."""
STEPS = 100
"""Steps of each random scene."""
EVERY = 60.0
"""Time between two lines of progress [s]."""


def _gap(rng: np.random.Generator) -> float:
    return -(10.0 ** rng.uniform(-5.0, -2.0))


def random_scenes(configurations: int, seed: int) -> dict[str, dict]:
    """Simulate random scenes, the kinds in turn, until a number of configurations were checked;
    return ``scenes``, ``checked``, ``failed`` and ``worst`` by kind."""
    found = {kind: {"scenes": 0, "checked": 0, "failed": 0, "worst": np.inf} for kind in KINDS}
    scene, total, said = 0, 0, time.monotonic()
    while total < configurations:
        kind = KINDS[scene % len(KINDS)]
        system = draw(kind, np.random.default_rng([seed, scene]), _gap)
        check, hold = SubstepCheck(system), holding(system)
        for _ in range(STEPS):
            hold()
            system.step()
            check.after_step()
        row = found[kind]
        row["scenes"] += 1
        row["checked"] += check.checked
        row["failed"] += int(check.smallest <= 0.0)
        row["worst"] = min(row["worst"], check.smallest)
        scene, total = scene + 1, total + check.checked
        if time.monotonic() - said > EVERY:
            said = time.monotonic()
            note(
                f"{total} of {configurations} configurations, {sum(r['failed'] for r in found.values())} "
                "scenes with intersections"
            )
    return {f"random {kind}": row for kind, row in found.items() if row["scenes"]}


def _counted(results: dict) -> list[tuple[int, int, float]]:
    """Return every ``intersections`` entry of nested results: configurations checked, failed,
    smallest distance."""
    found = []
    for key, value in results.items():
        if key == "intersections":
            found.append((value["checked"], value["failed"], value["worst"]))
        elif isinstance(value, dict):
            found += _counted(value)
    return found


def intersections(args: argparse.Namespace) -> Findings:
    """Run every check, then random scenes."""
    results = {}
    for name, make in CHECKS.items():
        counted = _counted(make().results)
        checked, failed, smallest = (
            sum(c[0] for c in counted),
            sum(c[1] for c in counted),
            min(c[2] for c in counted),
        )
        results[name] = {"scenes": len(counted), "checked": checked, "failed": failed, "worst": smallest}
    results |= random_scenes(args.configurations - sum(r["checked"] for r in results.values()), args.seed)
    lines = [
        f"{name}: {r['checked']} configurations, smallest distance {r['worst']:.1e} m"
        for name, r in results.items()
    ]
    total = sum(r["checked"] for r in results.values())
    passed = not any(r["failed"] for r in results.values()) and total >= args.configurations
    return Findings({"configurations": total, "checks": results, "passed": passed}, None, lines, args.seed)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--configurations",
        type=arguments.natural,
        default=0,
        metavar="N",
        help="least number of configurations",
    )
    parser.add_argument(
        "--seed", type=arguments.natural, default=0, metavar="S", help="seed of the random scenes"
    )


main = experiment(__spec__.name, __doc__, intersections, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
