"""Does what was learned on one plant hold on another? θ from rollouts on one plant or several,
trials with each θ on every plant.

Every source learns offline from rollouts of the same policy, the task's own, and from as many of
them: a mixture takes an equal share of each of its plants. How much of what was learned stays,
trials on those plants say (:mod:`dexstack.trials.choosing`). A trial ends where its goals are
reached, so that a matrix costs what its turns take. Everything is kept in one folder as it is made,
rollouts, θ and trials, so that a matrix that was cut goes on.
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dexstack.errors import writing
from dexstack.report.statistics import errors, wilson
from dexstack.trials import choosing
from dexstack.trials.choosing import OWN, SHARES, Candidate, Judged
from dexstack.trials.keep import claim, whole
from dexstack.trials.overlap import Overlap
from dexstack.trials.pool import in_processes, on_ray
from dexstack.trials.sweep import Run, loop_of, run_one
from dexstack.trials.worlds import randomised

if TYPE_CHECKING:
    from dexstack.graph.settings import Spec
    from dexstack.sim.loop import Loop

DEFAULTS, ALL = "defaults", "all"
ROLLOUTS, CHOOSING = 1_000_000, 2_000_000
"""Seeds of rollouts, and of the trials that choose, start so far above those of the cells."""
KEEPS = 0.95
"""So much of the success of a plant's own θ there must a θ from elsewhere keep."""


@dataclass(frozen=True)
class Source:
    """Where a θ comes from."""

    name: str
    plants: tuple[str, ...]
    """Whose rollouts teach it; none: θ of the models."""
    on: tuple[str, ...]
    """Where it is tried."""


def sources(plants: Sequence[str]) -> list[Source]:
    """Nothing learned, each plant alone, all, and all but one, which is tried on the one left
    out."""
    every = tuple(plants)
    several = [Source(ALL, every, every)] if len(every) > 1 else []
    but_one = (
        [Source(f"all but {p}", tuple(q for q in every if q != p), (p,)) for p in every]
        if len(every) > 2
        else []
    )
    return [Source(DEFAULTS, (), every), *(Source(p, (p,), every) for p in every), *several, *but_one]


@dataclass(frozen=True)
class Plan:
    """One matrix."""

    spec: Spec
    """Task, object, hand and planner; its plant and θ are those of the cells."""
    plants: tuple[str, ...]
    steps: int
    """Model steps of 0.1 s that each θ is learned from."""
    trials: int
    """Of each cell; a folder of fewer goes on."""
    seed: int
    seconds: float
    """That a trial has, at most."""
    randomised: bool = False
    """Whether trial k runs as :func:`dexstack.trials.worlds.randomised` has it with seed + k, the
    same in every cell."""
    share: float | None = None
    """How much of what is learned stays, in every θ: all of it, or half
    (:data:`~dexstack.trials.choosing.SHARES`); None: trials say."""


class Matrix:
    """What is kept of a plan in a folder, and what is still to be done.

    Args:
        folder: made if it is missing.
        code: whose results the folder holds, as a commit.

    Raises:
        ConfigError: the folder holds another plan's, or other code's.
    """

    def __init__(self, plan: Plan, folder: Path, code: str | None = None) -> None:
        self.plan, self.folder, self.sources = plan, folder, sources(plan.plants)
        claim(
            folder,
            {name: value for name, value in asdict(plan).items() if name != "trials"} | {"commit": code},
            "a matrix",
        )
        with writing(folder):
            (folder / "trials").mkdir(exist_ok=True)

    def cells(self) -> list[tuple[Source, str]]:
        """Which θ is tried on which plant."""
        return [(source, plant) for source in self.sources for plant in source.on]

    def spec(self, source: Source, plant: str) -> Spec:
        """Of one cell."""
        share = self.share(source)
        theta = (("theta", str(self._theta(source.name, share).absolute())),) if share else ()
        own = tuple((name, value) for name, value in self.plan.spec.overrides if name != "theta")
        return replace(self.plan.spec, plant=plant, overrides=tuple(sorted(own + theta)))

    def share(self, source: Source) -> float:
        """How much of what a source's rollouts taught stays in its θ; see
        :mod:`dexstack.trials.choosing`."""
        if not source.plants:
            return OWN
        return choosing.stays(self._choice()[source.name]) if self.plan.share is None else self.plan.share

    def run(self, jobs: int, *, ray: bool = False) -> Iterator[str]:
        """Do what is missing; yields a line for each thing that is done."""
        begin, started = time.monotonic(), datetime.now(UTC).isoformat()
        for line in self._do(
            jobs, ray
        ):  # what is spent is kept with every thing that is done: a kill asks nobody
            _append(
                self._spent,
                {"started": started, "jobs": jobs, "ray": ray, "wall_s": time.monotonic() - begin},
            )
            yield line

    def _do(self, jobs: int, ray: bool) -> Iterator[str]:
        spread = on_ray if ray else in_processes
        p = self.plan
        missing = [plant for plant in p.plants if not self._rollouts(plant).is_file()]
        if missing:
            rows = [
                (replace(p.spec, plant=plant), p.steps, p.seed + ROLLOUTS, str(self._rollouts(plant)))
                for plant in missing
            ]
            yield from spread(_collect, jobs, *_columns(rows))
        theirs = {plant: str(self._rollouts(plant)) for plant in p.plants}
        to_learn = [s for s in self.sources if not self._losses(s.name).is_file()]
        if to_learn:
            files = [
                ({share: str(self._theta(s.name, share)) for share in SHARES}, str(self._losses(s.name)))
                for s in to_learn
            ]
            yield from spread(
                _learn,
                jobs,
                *_columns(
                    [(p.spec, s.plants, theirs, f, p.seed) for s, f in zip(to_learn, files, strict=True)]
                ),
            )
        yield from self._choose(spread, jobs)
        done = {(row["source"], row["plant"], row["k"]) for row in self.rows()}
        tried = [(s, plant) for s, plant in self.cells() if self._tried_as(s) == s.name]
        left = [
            (s, plant, k) for s, plant in tried for k in range(p.trials) if (s.name, plant, k) not in done
        ]
        if not left:
            return
        where = Run(p.seconds, record=str((self.folder / "trials").absolute()), until_reached=True)
        specs = {(s.name, plant): self.spec(s, plant) for s, plant in tried}
        rows = [
            (self._in_world(specs[s.name, plant], p.seed + k), where, k, p.seed, _cell(s.name, plant))
            for s, plant, k in left
        ]
        for (s, plant, k), found in zip(left, spread(_try, jobs, *_columns(rows)), strict=True):
            row = {"source": s.name, "plant": plant, "k": k} | found
            _append(self._kept, row)
            yield f"{s.name} on {plant}, trial {k + 1} of {p.trials}: " + (
                "reached" if row["succeeded"] else "not reached"
            )

    def _choose(self, spread: Any, jobs: int) -> Iterator[str]:
        """Try what was learned, and half of it, where it was learned."""
        p, done = self.plan, self._times()
        left = [c for c in choosing.candidates(self._taught_by) if c not in done]
        if not left or p.share is not None:
            return
        nothing, seed = Source("", (), ()), p.seed + CHOOSING
        specs = [self._in_world(self.spec(nothing, c.plant), seed + c.k) for c in left]
        thetas = [str(self._theta(c.source, c.share).absolute()) if c.share else "" for c in left]
        columns = [p.seconds] * len(left), [c.k for c in left], [seed] * len(left)
        for c, seconds in zip(left, spread(choosing.time_taken, jobs, specs, thetas, *columns), strict=True):
            _append(self._choosing, {**c._asdict(), "seconds": seconds})
            what = f"{c.share:g} of the θ of {c.source}" if c.source else "the models' θ"
            yield f"{what} on {c.plant}, trial {c.k + 1} of those that choose: {seconds:.1f} s"
        for source, shares in self._choice().items():
            said = ", ".join(f"{j.share:g} of it {j.seconds:.2f} s" for j in shares)
            yield f"θ of {source}: {choosing.stays(shares):g} of it stays; mean time with {said}"

    def rows(self) -> list[dict[str, Any]]:
        """The trials of the plan that are done; a line that a kill cut short does not count."""
        return [row for row in _lines(self._kept) if row["k"] < self.plan.trials]

    def results(self) -> dict[str, Any]:
        """Every cell, and what of it keeps what is asked."""
        rows, cells = self.rows(), []
        losses = {source.name: json.loads(self._losses(source.name).read_text()) for source in self.sources}
        for source, plant in self.cells():
            share, whose = self.share(source), self._tried_as(source)
            own = [row for row in rows if (row["source"], row["plant"]) == (whose, plant)]
            good = sum(row["succeeded"] for row in own)
            cells.append({
                "source": source.name, "plant": plant, "share": share, "trials": len(own), "succeeded": good,
                "success_rate": good / len(own),
                "success_interval": wilson(good, len(own)), "dropped": sum(row["dropped"] for row in own),
                "reached_s": errors(row["reached_s"] for row in own if row["reached_s"] is not None),
                "orientation_error_rad": errors(row["orientation_error_rad"] for row in own),
                "prediction_loss": losses[source.name][f"{share:g}"][plant], "overlap_m": errors(row["overlap_m"] for row in own),
            })  # fmt: skip
        spent = {"trials_wall_s": sum(row["wall_s"] for row in rows), "spent": self._runs()}
        choice = self._choice() if self.plan.share is None else {}
        chosen = [{"source": source} | j._asdict() for source, shares in choice.items() for j in shares]
        return {"cells": cells, "choosing": chosen, **spent, **self._judged(cells)}

    def worst(self, source: str, plant: str) -> Path:
        """The recording of a cell's trial that ended farthest from its goal."""
        source = self._tried_as(next(s for s in self.sources if s.name == source))
        own = [row for row in self.rows() if (row["source"], row["plant"]) == (source, plant)]
        k = max(own, key=lambda row: (row["dropped"], not row["succeeded"], row["orientation_error_rad"]))[
            "k"
        ]
        return self.folder / "trials" / f"{_cell(source, plant)}-{k:03d}".replace(" ", "_") / "recording.npz"

    def _judged(self, cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Each plant's θ on the others against their own; the mixtures, one left out included,
        against the best single θ there."""
        of = {(c["source"], c["plant"]): c for c in cells}
        rate = {cell: c["success_rate"] for cell, c in of.items()}
        plants = self.plan.plants
        crossed = [(a, b) for a in plants for b in plants if a != b]
        kept = sum(rate[a, b] >= KEEPS * rate[b, b] for a, b in crossed)
        mixed = [(ALL, b) for b in plants if (ALL, b) in rate] + [
            (f"all but {b}", b) for b in plants if (f"all but {b}", b) in rate
        ]
        best = {b: max((of[a, b] for a in plants), key=lambda c: c["success_rate"]) for b in plants}
        as_good = sum(rate[name, b] >= best[b]["success_rate"] for name, b in mixed)
        worse = sum(of[name, b]["success_interval"][1] < best[b]["success_interval"][0] for name, b in mixed)
        return {
            "crossed": len(crossed), "crossed_kept": kept, "mixed": len(mixed), "mixed_as_good": as_good, "mixed_surely_worse": worse,
            "passed": kept == len(crossed) and as_good == len(mixed),
        }  # fmt: skip

    def _in_world(self, spec: Spec, seed: int) -> Spec:
        return randomised(spec, seed) if self.plan.randomised else spec

    @property
    def _taught_by(self) -> dict[str, tuple[str, ...]]:
        return {s.name: s.plants for s in self.sources if s.plants}

    def _times(self) -> dict[Candidate, float]:
        """What the trials that choose took [s]."""
        return {
            Candidate(*(row[name] for name in Candidate._fields)): row["seconds"]
            for row in _lines(self._choosing)
        }

    def _choice(self) -> dict[str, list[Judged]]:
        return choosing.judged(self._times(), self._taught_by)

    def _tried_as(self, source: Source) -> str:
        """Whose trials count for a source: where nothing of what was learned stays, those of the
        models' θ, which are the same."""
        return source.name if self.share(source) else DEFAULTS

    def _runs(self) -> list[dict[str, Any]]:
        """How long each run over the folder went on, from its start to the last thing that it did
        [s]."""
        return list({run["started"]: run for run in _lines(self._spent)}.values())

    @property
    def _kept(self) -> Path:
        return self.folder / "trials.jsonl"

    @property
    def _spent(self) -> Path:
        return self.folder / "spent.jsonl"

    def _rollouts(self, plant: str) -> Path:
        return self.folder / f"rollouts-{Path(plant).stem}.npz"

    @property
    def _choosing(self) -> Path:
        return self.folder / "choosing.jsonl"

    def _theta(self, source: str, share: float) -> Path:
        return self.folder / f"theta-{source.replace(' ', '-')}-{share:g}.yaml"

    def _losses(self, source: str) -> Path:
        return self.folder / f"losses-{source.replace(' ', '-')}.json"


def _cell(source: str, plant: str) -> str:
    return f"{source} on {Path(plant).stem}"


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _lines(path: Path) -> list[dict[str, Any]]:
    """What :func:`_append` wrote; a line that a kill cut short does not count."""
    if not path.is_file():
        return []
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def _append(path: Path, row: Mapping[str, Any]) -> None:
    """One line more; one that was cut before it stays alone.

    Raises:
        ConfigError: it cannot be written.
    """
    with writing(path), path.open("ab+") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
        alone = b"\n" if file.read() not in (b"", b"\n") else b""
        file.write(alone + json.dumps(row).encode() + b"\n")


def _try(spec: Spec, run: Run, k: int, seed: int, cell: str) -> dict[str, Any]:
    """One trial, and what is kept of it."""
    outcome = run_one(spec, run, k, seed, cell)
    overlap = _overlap_of(spec).deepest_of(outcome.recording)
    return {
        "seed": outcome.seed, "succeeded": outcome.succeeded, "dropped": outcome.dropped,
        "reached_s": outcome.reached_at[0] if outcome.reached_at else None, "orientation_error_rad": outcome.orientation_error,
        "position_error_m": outcome.position_error, "overlap_m": overlap,
        "stalls": outcome.stalls, "trouble": outcome.trouble, "wall_s": outcome.wall_s,
    }  # fmt: skip


@functools.lru_cache(maxsize=1)
def _overlap_of(spec: Spec) -> Overlap:
    return Overlap(loop_of(spec).actual)


def _collect(spec: Spec, steps: int, seed: int, path: str) -> str:
    """Rollouts of the policy on a plant, into a file."""
    from dexstack.learning.on_policy import collect, stack_recordings

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
    """θ from some plants' rollouts, one for each share, and their losses on what of every plant's
    nobody learns from, into files."""
    from dexstack.learning.loss import between
    from dexstack.learning.on_policy import learn_from, learner_of
    from dexstack.learning.recordings import read_recording

    loop = loop_of(replace(spec, plant="mujoco"))  # for its planner and detector: no rollouts are made
    read = {
        plant: read_recording(Path(path), loop.scene.robot.joint_names) for plant, path in rollouts.items()
    }
    thetas = {OWN: loop.planner.theta}
    if plants:
        shares = {plant: _share(read[plant], len(plants)) for plant in plants}
        *_, (point, data, _) = learn_from(loop, thetas[OWN], shares, seed=seed, score_with=lambda _: [])
        thetas |= {share: between(thetas[OWN], point.theta, share) for share in SHARES}
        about = {
            "transitions": data.count,
            "sha256": data.digest(),
            "source": f"rollouts on {', '.join(plants)}",
        }  # type: ignore[union-attr]
        for share, path in files[0].items():
            _save(Path(path), loop, thetas[share], seed, about | {"share": share})
    held_out = {plant: _held_out(recording, loop) for plant, recording in read.items()}
    losses = {}
    for share, theta in thetas.items():
        learner = learner_of(loop, theta)
        losses[f"{share:g}"] = {plant: learner.data_loss(data) for plant, data in held_out.items()}
    with writing(files[1]):
        Path(files[1]).write_text(json.dumps(losses))
    return f"θ of {', '.join(plants) or 'the models'}: held-out loss " + ", ".join(
        f"{loss:.3g} on {plant}" for plant, loss in losses[f"{max(thetas):g}"].items()
    )


def _share(recording: Mapping[str, np.ndarray], parts: int) -> dict[str, np.ndarray]:
    """The first rollouts of a recording, one part of them."""
    last = max(1, round((recording["rollout"].max() + 1) / parts))
    return {name: array[recording["rollout"] < last] for name, array in recording.items()}


def _held_out(recording: Mapping[str, np.ndarray], loop: Loop) -> Any:
    from dexstack.learning.on_policy import split
    from dexstack.learning.transitions import cut

    return cut(
        split(recording)[1], loop.controller.step, np.asarray(loop.planner.theta.cover), loop.detector.detect
    )


def _save(path: Path, loop: Loop, theta: Any, seed: int, data: Mapping[str, Any]) -> None:
    from dexstack.control.theta_file import ThetaFile, save_theta

    robot, obj, _ = loop.scene
    date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    save_theta(
        path, ThetaFile(theta, obj.name, robot.name, loop.model, loop.controller.step, seed, date, data)
    )
