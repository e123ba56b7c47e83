"""Does θ learned on one plant help on another? θ from rollouts on one plant or several, and trials
with each θ on every plant.

Every source learns offline from rollouts of the same policy, the task's own, and from equally many
of them: a mixture takes an equal share of each of its plants. Trials on those plants decide how
much of the learned θ is used (:mod:`experiments.identification.transfer_shares`). Rollouts, θ and
trials are kept in one folder as they are made, so that an interrupted run continues.
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from dexstack.bags.recordings import read_recording
from dexstack.control.theta_file import ThetaFile, save_theta
from dexstack.errors import writing
from dexstack.graph.settings import Spec
from dexstack.learning.loss import between
from dexstack.learning.on_policy import collect, learn_from, learner_of, split, stack_recordings
from dexstack.learning.transitions import cut
from dexstack.report.statistics import errors, wilson
from dexstack.trials.keep import claim, whole
from dexstack.trials.overlap import Overlap
from dexstack.trials.pool import in_processes, on_ray
from dexstack.trials.sweep import Run, loop_of, run_one
from experiments.identification import transfer_shares
from experiments.identification.transfer_shares import OWN, SHARES, Candidate, ShareResult
from experiments.identification.worlds import randomised

DEFAULTS, ALL = "defaults", "all"
ROLLOUTS, CHOOSING = 1_000_000, 2_000_000
"""Offsets of the seeds of rollouts, and of the trials that choose a share, from those of the
cells."""
KEEPS = 0.95
"""Share of the success of a plant's own θ that a θ from another plant must keep."""


@dataclass(frozen=True)
class Source:
    """Origin of a θ."""

    name: str
    plants: tuple[str, ...]
    """Plants whose rollouts it is learned from; empty: θ of the models."""
    on: tuple[str, ...]
    """Plants that it is tried on."""


def sources(plants: Sequence[str]) -> list[Source]:
    """Return the models' θ, each plant alone, all plants, and all but one, tried on the one left
    out."""
    every = tuple(plants)
    several = [Source(ALL, every, every)] if len(every) > 1 else []
    if len(every) > 2:
        several += [Source(f"all but {p}", tuple(q for q in every if q != p), (p,)) for p in every]
    return [Source(DEFAULTS, (), every), *(Source(p, (p,), every) for p in every), *several]


@dataclass(frozen=True)
class Plan:
    """Numbers of one matrix."""

    spec: Spec
    """Task, object, hand and planner; plant and θ are set by the cells."""
    plants: tuple[str, ...]
    steps: int
    """Model steps of 0.1 s that each θ is learned from."""
    trials: int
    """Trials of each cell; a folder with fewer is continued."""
    seed: int
    seconds: float
    """Longest time of a trial [s]."""
    randomised: bool = False
    """True to run trial k as :func:`experiments.identification.worlds.randomised` with seed + k,
    alike in every cell."""
    share: float | None = None
    """Share of the learned θ that is used, one of
    :data:`~experiments.identification.transfer_shares.SHARES`; None: decided by trials."""


class Matrix:
    """Results of a plan in a folder, which is made if it is missing.

    Args:
        code: commit whose results the folder holds.

    Raises:
        ConfigError: the folder holds another plan's or another commit's results.
    """

    def __init__(self, plan: Plan, folder: Path, code: str | None = None) -> None:
        self.plan, self.folder, self.sources = plan, folder, sources(plan.plants)
        self.taught_by = {s.name: s.plants for s in self.sources if s.plants}
        self.trials_file, self.choosing_file, self._spent_file = (
            folder / f"{name}.jsonl" for name in ("trials", "choosing", "spent")
        )
        depends = {name: value for name, value in asdict(plan).items() if name != "trials"}
        claim(folder, depends | {"commit": code}, "a matrix")
        with writing(folder):
            (folder / "trials").mkdir(exist_ok=True)

    def cells(self) -> list[tuple[Source, str]]:
        """Return the pairs of θ and plant that are tried."""
        return [(source, plant) for source in self.sources for plant in source.on]

    def spec(self, source: Source, plant: str) -> Spec:
        """Return the spec of one cell."""
        share = self.share(source)
        theta = (("theta", str(self._theta_file(source.name, share).absolute())),) if share else ()
        own = tuple((name, value) for name, value in self.plan.spec.overrides if name != "theta")
        return replace(self.plan.spec, plant=plant, overrides=tuple(sorted(own + theta)))

    def share(self, source: Source) -> float:
        """Return the share of a source's learned θ that is used."""
        if not source.plants:
            return OWN
        if self.plan.share is not None:
            return self.plan.share
        return transfer_shares.best_share(self.shares()[source.name])

    def shares(self) -> dict[str, list[ShareResult]]:
        """Return the comparison of the shares of every source."""
        taken = {
            Candidate(*(row[name] for name in Candidate._fields)): row["seconds"]
            for row in _lines(self.choosing_file)
        }
        return transfer_shares.compare_shares(taken, self.taught_by)

    def run(self, jobs: int, *, ray: bool = False) -> Iterator[str]:
        """Run what is missing; yield a line for each part done."""
        begin, started = time.monotonic(), datetime.now(UTC).isoformat()
        for line in self._missing(
            on_ray if ray else in_processes, jobs
        ):  # written after every part: survives SIGKILL
            spent = {"started": started, "jobs": jobs, "ray": ray, "wall_s": time.monotonic() - begin}
            _append(self._spent_file, spent)
            yield line

    def _missing(self, spread: Callable[..., Iterator[Any]], jobs: int) -> Iterator[str]:
        p = self.plan
        rollouts = {plant: self.folder / f"rollouts-{Path(plant).stem}.npz" for plant in p.plants}
        rows = [
            (replace(p.spec, plant=plant), p.steps, p.seed + ROLLOUTS, str(path))
            for plant, path in rollouts.items()
            if not path.is_file()
        ]
        yield from _spread(spread, _collect, jobs, rows)
        paths = {plant: str(path) for plant, path in rollouts.items()}
        rows = [
            (
                p.spec,
                s.plants,
                paths,
                ({x: str(self._theta_file(s.name, x)) for x in SHARES}, str(losses)),
                p.seed,
            )
            for s in self.sources
            if not (losses := self.losses_file(s.name)).is_file()
        ]
        yield from _spread(spread, _learn, jobs, rows)
        if p.share is None:
            yield from self._choose(spread, jobs)
        done = {(row["source"], row["plant"], row["k"]) for row in self.rows()}
        specs = {(s.name, b): self.spec(s, b) for s, b in self.cells() if self._tried_as(s) == s.name}
        left = [(*cell, k) for cell in specs for k in range(p.trials) if (*cell, k) not in done]
        how = Run(p.seconds, record=str((self.folder / "trials").absolute()), until_reached=True)
        rows = [
            (self._in_world(specs[name, plant], p.seed + k), how, k, p.seed, _cell(name, plant))
            for name, plant, k in left
        ]
        for (name, plant, k), found in zip(left, _spread(spread, _try, jobs, rows), strict=True):
            _append(self.trials_file, {"source": name, "plant": plant, "k": k} | found)
            end = "reached" if found["succeeded"] else "not reached"
            yield f"{name} on {plant}, trial {k + 1} of {p.trials}: {end}"

    def _choose(self, spread: Callable[..., Iterator[Any]], jobs: int) -> Iterator[str]:
        """Try the learned θ, and half of it, on the plants that it was learned on."""
        done = {tuple(row[name] for name in Candidate._fields) for row in _lines(self.choosing_file)}
        left = [c for c in transfer_shares.candidates(self.taught_by) if c not in done]
        if not left:
            return
        nothing, seed = Source("", (), ()), self.plan.seed + CHOOSING
        rows = [
            (
                self._in_world(self.spec(nothing, c.plant), seed + c.k),
                str(self._theta_file(c.source, c.share).absolute()) if c.share else "",
                *(self.plan.seconds, c.k, seed),
            )
            for c in left
        ]
        times = _spread(spread, transfer_shares.time_taken, jobs, rows)
        for c, seconds in zip(left, times, strict=True):
            _append(self.choosing_file, {**c._asdict(), "seconds": seconds})
            what = f"{c.share:g} of the θ of {c.source}" if c.source else "the models' θ"
            yield f"{what} on {c.plant}, choosing trial {c.k + 1}: {seconds:.1f} s"
        for source, shares in self.shares().items():
            best = transfer_shares.best_share(shares)
            means = ", ".join(f"{j.share:g}: {j.seconds:.2f} s" for j in shares)
            yield f"θ of {source}: share {best:g} is used; mean time by share {means}"

    def rows(self) -> list[dict[str, Any]]:
        """Return the trials of the plan that are done."""
        return [row for row in _lines(self.trials_file) if row["k"] < self.plan.trials]

    def results(self) -> dict[str, Any]:
        """Return every cell and the comparison with what is asked."""
        rows, cells = self.rows(), []
        losses = {
            source.name: json.loads(self.losses_file(source.name).read_text()) for source in self.sources
        }
        for source, plant in self.cells():
            share, whose = self.share(source), self._tried_as(source)
            own = [row for row in rows if (row["source"], row["plant"]) == (whose, plant)]
            good = sum(row["succeeded"] for row in own)
            cells.append(
                {
                    "source": source.name,
                    "plant": plant,
                    "share": share,
                    "trials": len(own),
                    "succeeded": good,
                    "success_rate": good / len(own),
                    "success_interval": wilson(good, len(own)),
                    "dropped": sum(row["dropped"] for row in own),
                    "reached_s": errors(row["reached_s"] for row in own if row["reached_s"] is not None),
                    "orientation_error_rad": errors(row["orientation_error_rad"] for row in own),
                    "prediction_loss": losses[source.name][f"{share:g}"][plant],
                    "overlap_m": errors(row["overlap_m"] for row in own),
                }
            )
        runs = {run["started"]: run for run in _lines(self._spent_file)}  # the last line of each run
        spent = {"trials_wall_s": sum(row["wall_s"] for row in rows), "spent": list(runs.values())}
        choice = self.shares() if self.plan.share is None else {}
        chosen = [{"source": source} | j._asdict() for source, shares in choice.items() for j in shares]
        return {"cells": cells, "choosing": chosen, **spent, **self._judged(cells)}

    def worst(self, source: str, plant: str) -> Path:
        """Return the recording of the trial of a cell that ended farthest from its goal."""
        source = self._tried_as(next(s for s in self.sources if s.name == source))
        own = [row for row in self.rows() if (row["source"], row["plant"]) == (source, plant)]
        worst = max(own, key=lambda row: (row["dropped"], not row["succeeded"], row["orientation_error_rad"]))
        name = f"{_cell(source, plant)}-{worst['k']:03d}".replace(" ", "_")
        return self.folder / "trials" / name / "recording.npz"

    def _judged(self, cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Compare each plant's θ on the others with their own, and the mixtures, one left out
        included, with the best single θ there."""
        of = {(c["source"], c["plant"]): c for c in cells}
        rate = {cell: c["success_rate"] for cell, c in of.items()}
        plants = self.plan.plants
        crossed = [(a, b) for a in plants for b in plants if a != b]
        kept = sum(rate[a, b] >= KEEPS * rate[b, b] for a, b in crossed)
        mixed = [(name, b) for b in plants for name in (ALL, f"all but {b}") if (name, b) in rate]
        best = {b: max((of[a, b] for a in plants), key=lambda c: c["success_rate"]) for b in plants}
        as_good = sum(rate[name, b] >= best[b]["success_rate"] for name, b in mixed)
        worse = sum(of[name, b]["success_interval"][1] < best[b]["success_interval"][0] for name, b in mixed)
        return {
            "crossed": len(crossed),
            "crossed_kept": kept,
            "mixed": len(mixed),
            "mixed_as_good": as_good,
            "mixed_surely_worse": worse,
            "passed": kept == len(crossed) and as_good == len(mixed),
        }

    def _in_world(self, spec: Spec, seed: int) -> Spec:
        return randomised(spec, seed) if self.plan.randomised else spec

    def _tried_as(self, source: Source) -> str:
        """Return the source whose trials count: where no share is used, those of the models' θ,
        which are the same."""
        return source.name if self.share(source) else DEFAULTS

    def _theta_file(self, source: str, share: float) -> Path:
        return self.folder / f"theta-{source.replace(' ', '-')}-{share:g}.yaml"

    def losses_file(self, source: str) -> Path:
        """Return the file with the losses of a source's θ, by share and plant."""
        return self.folder / f"losses-{source.replace(' ', '-')}.json"


def _cell(source: str, plant: str) -> str:
    return f"{source} on {Path(plant).stem}"


def _spread(
    spread: Callable[..., Iterator[Any]], function: Callable[..., Any], jobs: int, rows: Sequence[tuple]
) -> Iterator[Any]:
    return spread(function, jobs, *map(list, zip(*rows, strict=True))) if rows else iter(())


def _lines(path: Path) -> list[dict[str, Any]]:
    """Read what :func:`_append` wrote, without lines that an interruption cut short."""
    found = []
    for line in path.read_text().splitlines() if path.is_file() else ():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def _append(path: Path, row: Mapping[str, Any]) -> None:
    """Append one line, on a line of its own also after one that was cut short.

    Raises:
        ConfigError: the file cannot be written.
    """
    with writing(path), path.open("ab+") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
        end = b"\n" if file.read() not in (b"", b"\n") else b""
        file.write(end + json.dumps(row).encode() + b"\n")


def _try(spec: Spec, run: Run, k: int, seed: int, cell: str) -> dict[str, Any]:
    """Run one trial; return its row."""
    outcome = run_one(spec, run, k, seed, cell)
    return {
        "seed": outcome.seed,
        "succeeded": outcome.succeeded,
        "dropped": outcome.dropped,
        "reached_s": outcome.reached_at[0] if outcome.reached_at else None,
        "orientation_error_rad": outcome.orientation_error,
        "position_error_m": outcome.position_error,
        "overlap_m": _overlap_of(spec).deepest_of(outcome.recording),
        "stalls": outcome.stalls,
        "trouble": outcome.trouble,
        "wall_s": outcome.wall_s,
    }


@functools.lru_cache(maxsize=1)
def _overlap_of(spec: Spec) -> Overlap:
    return Overlap(loop_of(spec).actual)


def _collect(spec: Spec, steps: int, seed: int, path: str) -> str:
    """Write rollouts of the policy on a plant into a file."""
    data, recordings, _ = collect(loop_of(spec), steps, seed)
    with whole(Path(path)) as file:
        np.savez_compressed(file, **stack_recordings(recordings))
    return f"{data.count} steps on {spec.plant}"


def _learn(
    spec: Spec,
    plants: Sequence[str],
    rollouts: Mapping[str, str],
    files: tuple[Mapping[float, str], str],
    seed: int,
) -> str:
    """Learn θ from some plants' rollouts; write a θ for each share, and their losses on the
    held-out part of every plant's rollouts."""
    loop = loop_of(replace(spec, plant="mujoco"))  # for its planner and detector: no rollouts are made
    robot, obj, _ = loop.setup
    read = {plant: read_recording(Path(path), robot.joint_names) for plant, path in rollouts.items()}
    thetas = {OWN: loop.planner.theta}
    if plants:
        parts = {plant: _first(read[plant], len(plants)) for plant in plants}
        *_, (point, data, _) = learn_from(loop, thetas[OWN], parts, seed=seed, score_with=lambda _: [])
        origin = {
            "transitions": data.count,
            "sha256": data.digest(),
            "source": f"rollouts on {', '.join(plants)}",
        }
        date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for share, path in files[0].items():
            theta = thetas[share] = between(thetas[OWN], point.theta, share)
            about = (obj.name, robot.name, loop.model, loop.controller.step, seed, date)
            save_theta(Path(path), ThetaFile(theta, *about, origin | {"share": share}))
    cover = np.asarray(loop.planner.theta.cover)
    held_out = {
        plant: cut(split(recording)[1], loop.controller.step, cover, loop.detector.detect)
        for plant, recording in read.items()
    }
    losses = {}
    for share, theta in thetas.items():
        learner = learner_of(loop, theta)
        losses[f"{share:g}"] = {plant: learner.data_loss(data) for plant, data in held_out.items()}
    with writing(files[1]):
        Path(files[1]).write_text(json.dumps(losses))
    of_last = ", ".join(f"{loss:.3g} on {plant}" for plant, loss in losses[f"{max(thetas):g}"].items())
    return f"θ of {', '.join(plants) or 'the models'}: held-out loss {of_last}"


def _first(recording: Mapping[str, np.ndarray], parts: int) -> dict[str, np.ndarray]:
    """Return the first of ``parts`` equal parts of a recording's rollouts."""
    last = max(1, round((recording["rollout"].max() + 1) / parts))
    return {name: array[recording["rollout"] < last] for name, array in recording.items()}
