"""Many scenes at once: steps per second of 1 to 4096 scenes, compared with MuJoCo's threaded
rollout and MJX in the same run.

Cubes of :data:`KINDS` sizes and frictions are thrown along a floor, each rollout at a different
speed. Each row also reports the largest distance of the cubes from MuJoCo's. A cell runs parts of
:data:`PART` steps until its time is over or :data:`STEPS` steps are done. JAX uses the device that
the output names; MJX is included if installed (extra 'peers').

Required: no cube farther from MuJoCo's than :data:`OFF`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import jax
import mujoco
import numpy as np
from mujoco.rollout import rollout as mujoco_rollout

from dexengines import ENGINES, load, rollout
from dexengines.compilation import joined
from dexengines.scene import Scene, State
from dexstack.cli import arguments
from dexstack.cli.output import note, table
from experiments.harness import Findings, experiment

COUNTS = tuple(4**k for k in range(7))
KINDS = 16
"""Number of different scenes; further rollouts share them."""
STEPS, PART = 300, 25
OFF = 5e-3
"""Largest distance from MuJoCo's position that passes [m]."""
JUDGED = 64
"""Number of rollouts that are compared with MuJoCo's."""
PEERS = ("MuJoCo's rollout", "MJX")
XML = """<mujoco><option timestep="0.001" cone="elliptic" impratio="10"/><worldbody>
  <geom name="floor" type="plane" size="0 0 1" friction="0.01"/>
  <body pos="0 0 {half}"><freejoint/><geom type="box" size="{half} {half} {half}" density="500"
  friction="{friction}"/></body>
  </worldbody></mujoco>"""

Go = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Function from q (N, nq) and v (N, nv) to those :data:`PART` steps later."""


def models() -> list[mujoco.MjModel]:
    """Return one model of each kind."""
    return [
        mujoco.MjModel.from_xml_string(
            XML.format(half=0.03 + 0.03 * k / KINDS, friction=0.2 + 0.3 * (5 * k % KINDS) / KINDS)
        )
        for k in range(KINDS)
    ]


def starts(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return q (n, 7) and v (n, 6) of the first n rollouts, the k-th of kind k modulo
    :data:`KINDS`."""
    v = np.zeros((n, 6))
    v[:, 0] = 1.0 + 0.5 * np.arange(n) / COUNTS[-1]
    return np.array([model.qpos0 for model in models()])[np.arange(n) % KINDS], v


def engine(scenes: Sequence[Scene], n: int, threads: int) -> Go:
    """Return the rollout of an engine, given one scene of each kind."""
    many, controls = [scenes[k % KINDS] for k in range(n)], np.zeros((PART, 0))

    def go(q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = rollout(many, State(np.zeros(n), q, v, np.zeros((n, 0))), controls, threads=threads)
        return found.q[:, -1], found.v[:, -1]

    return go


def mujoco_peer(kinds: Sequence[mujoco.MjModel], n: int, threads: int) -> Go:
    """Return MuJoCo's rollout, called as in its documentation."""
    room = [mujoco.MjData(kinds[0]) for _ in range(threads)]
    many = [kinds[k % KINDS] for k in range(n)]

    def go(q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        last = mujoco_rollout(
            many, room, np.hstack([np.zeros((n, 1)), q, v]), nstep=PART, persistent_pool=True
        )[0][:, -1]
        return last[:, 1:8], last[:, 8:14]

    return go


def mjx_peer(kinds: Sequence[mujoco.MjModel], n: int, threads: int) -> Go:
    """Return MJX's rollout, in single precision, with a separate model for each rollout."""
    from mujoco import mjx

    every, kind = (
        [jax.tree.leaves(mjx.put_model(model)) for model in kinds[:n]],
        jax.tree.structure(mjx.put_model(kinds[0])),
    )
    whole = joined(every)
    shared = [x is first for x, first in zip(whole, every[0], strict=True)]
    many = [x if same else x[np.arange(n) % KINDS] for x, same in zip(whole, shared, strict=True)]
    blank = mjx.put_data(kinds[0], mujoco.MjData(kinds[0]))

    def one(leaves: list[jax.Array], q: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
        model = kind.unflatten(leaves)  # fields that are no leaves are the first model's: height fields
        end, _ = jax.lax.scan(
            lambda d, _: (mjx.step(model, d), None), blank.replace(qpos=q, qvel=v), None, PART
        )
        return end.qpos, end.qvel

    mapped = jax.jit(jax.vmap(one, in_axes=([None if same else 0 for same in shared], 0, 0)))

    def go(q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, ...]:
        with jax.numpy_rank_promotion("allow"):  # MJX needs it
            return tuple(
                np.asarray(x, float) for x in mapped(many, q.astype(np.float32), v.astype(np.float32))
            )

    return go


@dataclass(frozen=True)
class Limits:
    """Limits of a cell."""

    seconds: float
    threads: int


def cell(who: str, n: int, kinds: Sequence[Any], right: np.ndarray, limits: Limits) -> dict[str, Any]:
    """Return the row of one method at one count, given models or scenes; ``right`` (parts + 1,
    judged, 3) are MuJoCo's positions after each part."""
    begin = time.perf_counter()
    go = {PEERS[0]: mujoco_peer, PEERS[1]: mjx_peer}.get(who, engine)(kinds, n, limits.threads)
    q, v = starts(n)
    go(q, v)  # compiles, outside what is timed
    ready, parts, spent = time.perf_counter() - begin, 0, 0.0
    while parts < STEPS // PART and spent < limits.seconds:
        begin = time.perf_counter()
        q, v = go(q, v)
        spent, parts = spent + time.perf_counter() - begin, parts + 1
    judged = min(n, JUDGED)
    off = float(np.linalg.norm(q[:judged, :3] - right[parts, :judged], axis=1).max())
    steps = parts * PART
    return {
        "who": who,
        "n": n,
        "steps": steps,
        "wall_s": spent,
        "steps_per_s": n * steps / spent,
        "off_m": off,
        "ready_s": ready,
    }


def batches(args: argparse.Namespace) -> Findings:
    """Run all methods at all counts."""
    kinds, counts = models(), [n for n in COUNTS if n <= args.largest]
    limits = Limits(args.seconds, args.threads or len(os.sched_getaffinity(0)))
    device = f"{jax.devices()[0].platform}, {jax.devices()[0].device_kind}"
    mjx = find_spec("mujoco.mjx") is not None
    note(
        f"JAX on {device}; {limits.threads} threads"
        + ("" if mjx else "; MJX is not installed (pip install 'dexstack[peers]')")
    )
    q, v = starts(min(JUDGED, max(counts)))
    right, go = [q[:, :3]], mujoco_peer(kinds, len(q), limits.threads)
    for _ in range(STEPS // PART):
        q, v = go(q, v)
        right.append(q[:, :3])
    rows = []
    for who in (*args.engines, PEERS[0], *(PEERS[1:] if mjx else ())):
        note(f"preparing {who}")
        made = [load(model, who) for model in kinds] if who in ENGINES else kinds
        for n in counts:
            if who == PEERS[1] and n > args.mjx_largest:
                continue
            note(f"{n} in {who}")
            rows.append(cell(who, n, made, np.array(right), limits))
    results = {
        "device": device,
        "threads": limits.threads,
        "seconds": args.seconds,
        "mjx": mjx,
        "rows": rows,
        "passed": all(row["off_m"] <= OFF for row in rows),
    }
    shown = [[r["who"], r["n"], r["steps"], r["steps_per_s"], 1e3 * r["off_m"], r["ready_s"]] for r in rows]
    columns = (
        "who",
        "scenes",
        "steps of each",
        "steps/s of all",
        "distance from MuJoCo's [mm]",
        "load and compile [s]",
    )
    title = f"JAX on {device}, {limits.threads} threads" + ("" if mjx else ", MJX not installed")
    return Findings(results, None, [table(title, columns, shown)])


def _arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--engines", nargs="*", choices=list(ENGINES), default=list(ENGINES), help="engines to run"
    )
    p.add_argument(
        "--largest",
        type=arguments.positive_int,
        default=COUNTS[-1],
        metavar="N",
        help="largest number of scenes",
    )
    p.add_argument(
        "--mjx-largest",
        type=arguments.positive_int,
        default=COUNTS[-1],
        metavar="N",
        help="largest number of scenes for MJX; a part of 4096 takes minutes",
    )
    p.add_argument(
        "--seconds",
        type=arguments.positive,
        default=5.0,
        metavar="S",
        help="time after which a cell starts no further part",
    )
    p.add_argument(
        "--threads", type=arguments.positive_int, metavar="N", help="threads (default: number of cores)"
    )


main = experiment(__spec__.name, __doc__, batches, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
