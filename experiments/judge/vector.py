"""Throughput of a vector of environments beside that of its plants alone, in turns.

The vector is ``gymnasium.make_vec("dexstack/PalmTurn-v0", vectorization_mode="async")``, whose environments
take steps with actions drawn around the rest. The plants alone run in as many processes; each applies the
torques that its environment's servo applied in the same rollout, so that both simulate the same motion, which
is checked to the bit. Counted are simulated seconds per second, without start-up: of wall time, and of
processor time of all processes. Required: in every engine the vector reaches 90 % of the plants' throughput
by wall time.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from multiprocessing.connection import Connection
from typing import Any

import gymnasium
import numpy as np

import dexstack.environments
from dexstack.cli.arguments import positive_int
from dexstack.cli.output import note, table
from dexstack.plants import PLANTS
from experiments.harness import Findings, experiment

SHARE = 0.9
"""Required share of the plants' throughput."""
SPREAD = 0.05
"""Largest distance of a target from the rest [rad]."""
WARM_UP = 5
"""Steps before the first that counts; what is compiled or imported at the first one counts for neither."""
RATE = 20.0
"""Steps a second of simulated time [Hz]."""


class Recorder:
    """A plant that remembers the torques of its steps."""

    def __init__(self, plant: Any) -> None:
        self._plant = plant
        self.torques: list[np.ndarray] = []

    def step(self, tau: np.ndarray) -> None:
        self.torques.append(np.array(tau))
        self._plant.step(tau)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plant, name)


def _options(plant: str, steps: int) -> dict[str, Any]:
    return {"plant": plant, "rate": RATE, "seconds": (steps + 1) / RATE, "action": "target"}


def _actions(rest: np.ndarray, seed: int, steps: int) -> np.ndarray:
    """Return joint targets (steps, N) [rad]."""
    return rest + SPREAD * np.random.default_rng(seed).uniform(-1.0, 1.0, (steps, len(rest)))


def _alone(pipe: Connection, plant_name: str, seed: int, steps: int) -> None:
    """Record an environment's torques, then answer every message with the times of a replay on its plant."""
    env = gymnasium.make("dexstack/PalmTurn-v0", **_options(plant_name, steps)).unwrapped
    plant = env.simulation.plant
    env.simulation.plant = recorder = Recorder(plant)
    env.reset(seed=seed)
    q, pose_WO = np.array(plant.joint_position), plant.pose_WO
    for action in _actions(env.simulation.setup.rest, seed, steps):
        env.step(action)
    end = plant.pose_WO
    pipe.send(plant.dt * len(recorder.torques))
    while pipe.recv():
        plant.reset(q, pose_WO)
        begin = time.process_time()
        for tau in recorder.torques:
            plant.step(tau)
        pipe.send((time.process_time() - begin, bool(np.array_equal(plant.pose_WO, end))))


class Alone:
    """Plants in processes of their own.

    Args:
        plant: name of the engine.
        count: number of processes.
        steps: of the environments whose torques they apply.
    """

    def __init__(self, plant: str, count: int, steps: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes, self._processes = [], []
        for seed in range(count):
            mine, theirs = context.Pipe()
            self._processes.append(context.Process(target=_alone, args=(theirs, plant, seed, steps)))
            self._processes[-1].start()
            self._pipes.append(mine)
        self.simulated = sum(pipe.recv() for pipe in self._pipes)
        """Simulated time of one round [s]."""

    def round(self) -> dict[str, Any]:
        """Run all once; return wall and processor time [s], and whether the motion was the same."""
        begin = time.perf_counter()
        for pipe in self._pipes:
            pipe.send(True)
        answers = [pipe.recv() for pipe in self._pipes]
        wall = time.perf_counter() - begin
        return {"wall_s": wall, "cpu_s": sum(cpu for cpu, _ in answers), "same": all(s for _, s in answers)}

    def close(self) -> None:
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            pipe.send(False)
            process.join()


def _vector(plant: str, count: int, steps: int) -> dict[str, Any]:
    """Run one round of the vector; return wall and processor time [s] and the simulated time [s]."""
    many = gymnasium.make_vec(
        "dexstack/PalmTurn-v0", num_envs=count, vectorization_mode="async", **_options(plant, steps)
    )
    rest = dexstack.environments.hand.HandEnv(task="palm_turn").simulation.setup.rest
    actions = np.stack([_actions(rest, seed, steps) for seed in range(count)], axis=1)
    many.reset(seed=list(range(count)))
    for action in actions[:WARM_UP]:
        many.step(action)
    many.reset(seed=list(range(count)))
    used = [_cpu(pid) for pid in _pids(many)]
    begin, own = time.perf_counter(), time.process_time()
    ended = False
    for action in actions:
        _, _, terminated, truncated, _ = many.step(action)
        ended |= bool(terminated.any() or truncated.any())
    wall, own = time.perf_counter() - begin, time.process_time() - own
    cpu = own + sum(_cpu(pid) for pid in _pids(many)) - sum(used)
    many.close()
    return {"wall_s": wall, "cpu_s": cpu, "ended": ended}


def _pids(many: Any) -> list[int]:
    return [process.pid for process in many.processes]


def _cpu(pid: int) -> float:
    """Return the processor time of a process [s]."""
    import psutil

    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plants", nargs="+", default=list(PLANTS), choices=list(PLANTS), help="engines")
    parser.add_argument("--envs", type=positive_int, default=2, metavar="N", help="environments, and plants")
    parser.add_argument("--steps", type=positive_int, default=100, metavar="N", help="of a round")
    parser.add_argument("--rounds", type=positive_int, default=5, metavar="N", help="of each, in turns")


def _row(plant: str, args: argparse.Namespace) -> dict[str, Any]:
    alone = Alone(plant, args.envs, args.steps)
    vector, plants = [], []
    for k in range(args.rounds):
        note(f"{plant}: round {k + 1} of {args.rounds}")
        vector.append(_vector(plant, args.envs, args.steps))
        plants.append(alone.round())
    alone.close()
    shares = {
        key: np.array([p[key] / v[key] for p, v in zip(plants, vector, strict=True)])
        for key in ("wall_s", "cpu_s")
    }
    simulated = alone.simulated
    return {
        "plant": plant,
        "envs": args.envs,
        "plants_per_s": float(np.median([simulated / p["wall_s"] for p in plants])),
        "vector_per_s": float(np.median([simulated / v["wall_s"] for v in vector])),
        "share": _spread(shares["wall_s"]),
        "share_of_processor_time": _spread(shares["cpu_s"]),
        "same_motion": all(p["same"] for p in plants) and not any(v["ended"] for v in vector),
        "rounds": args.rounds,
    }


def _spread(values: np.ndarray) -> dict[str, float]:
    return {"median": float(np.median(values)), "min": float(values.min()), "max": float(values.max())}


def vector(args: argparse.Namespace) -> Findings:
    """Measure every engine."""
    rows = [_row(plant, args) for plant in args.plants]
    passed = all(row["same_motion"] and row["share"]["median"] >= SHARE for row in rows)
    shown = [
        [r["plant"], r["plants_per_s"], r["vector_per_s"], 100 * r["share"]["median"], r["same_motion"]]
        for r in rows
    ]
    columns = ("engine", "plants alone [s/s]", "vector [s/s]", "share [%]", "same motion")
    view = table(f"{args.envs} environments in processes", columns, shown)
    return Findings({"rows": rows, "required_share": SHARE, "passed": passed}, lines=[view])


main = experiment("experiments.judge.vector", __doc__, vector, arguments=_arguments)

if __name__ == "__main__":
    sys.exit(main())
