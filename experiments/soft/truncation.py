"""Error of the wrench of patches against the dense formulation, where a sphere touches a T's outline, inner corners included."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from dexstack.cli import arguments
from dexstack.cli.output import table
from dexstack.process.compilation import jit
from experiments.harness import Outcome, run
from experiments.soft import systems
from experiments.soft.speed import TIGHT, Near

EXACT = 1e-8
"""Largest relative error with the sizes that are meant to be exact, :data:`~experiments.soft.speed.TIGHT`; the others are reported."""


def errors(points: int, sizes: Sequence[Near], states: int, seed: int) -> list[np.ndarray]:
    """Per size: sorted errors of the wrench against the dense formulation, relative, in float64.

    In states in which the pusher touches the T's outline, corners and the inner ones too, up to a millimetre deep.
    """
    rng, touching = np.random.default_rng(seed), []
    _, rectangles = systems.t_rectangles()
    while len(touching) < states:
        q, v = systems.pusher_start()
        low, high = rectangles[rng.integers(2)]
        on = rng.uniform(low, high)
        side = rng.integers(2)
        on[side] = (low, high)[rng.integers(2)][side]
        out = np.where(np.arange(2) == side, np.sign(on - (low + high) / 2), 0.0)
        q[:2] = on + out * (systems.PUSHER_RADIUS - rng.uniform(0.0, 1e-3))
        v[:] = 0.1 * rng.normal(size=8)
        beyond = [np.linalg.norm(np.maximum(np.maximum(low - q[:2], q[:2] - high), 0.0)) for low, high in rectangles]
        if min(beyond) >= systems.PUSHER_RADIUS - 1e-3:  # a side of one rectangle may lie within the other
            touching.append((q, v))
    with jax.enable_x64(True):

        def wrenches(patch: int | None, planes: int | None, core: int | None, places: int) -> np.ndarray:
            system = systems.pusher_system(points, patch=patch, planes=planes, core=core, places=places)
            data = jax.device_put(system.data)
            f = jit(lambda d, q, v: system.contact(d, system.tree.motion(d.numbers, q, v)).wrench[0])
            return np.array([f(data, *map(jnp.asarray, state)) for state in touching])

        dense = wrenches(None, None, None, 1)
        felt = np.abs(dense[:, :3]).max(axis=1) > 1e-3
        return [np.sort(np.abs(wrenches(*s) - dense)[felt].max(axis=1) / np.abs(dense[felt]).max(axis=1)) for s in sizes]


def truncation(args: argparse.Namespace) -> Outcome:
    """Patches of 32, 64 and 128, and the tight ones."""
    sizes = [(p, None, None, 1) for p in (32, 64, 128)] + [TIGHT]
    rows = [
        [*near, float(np.median(e)), float((e <= EXACT).mean()), float(e.max())]
        for near, e in zip(sizes, errors(4000, sizes, args.states, args.seed), strict=True)
    ]
    listed = [dict(zip(("patch", "planes", "core", "places", "median", "within_1e-8", "worst"), row, strict=True)) for row in rows]
    results = {"states": args.states, "cases": listed, "passed": listed[-1]["worst"] <= EXACT}
    columns = ("patch", "planes a point", "core", "places", "median", "share within 1e-8", "worst")
    title = "error of the wrench against the dense formulation, relative, 4000 points"
    lines = [table(title, columns, rows), "asked for: every state within 1e-8 with the last sizes"]
    return Outcome(results, None, lines, args.seed)


def _arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--states", type=arguments.positive_int, default=100, metavar="N", help="how many")
    p.add_argument("--seed", type=arguments.natural, default=0, metavar="S", help="draws the states")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; its exit code."""
    return run(__spec__.name, __doc__, truncation, argv, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
