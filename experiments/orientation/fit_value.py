"""Fit a value function for reorient to logged trials: the time to a goal, scored on held-out trials.

For every state the time until the orientation error is below 0.4 rad is known, infinite before a drop.
Networks whose only input is the error are compared with those of the whole state, since a planner's
own cost knows the error too. Required: on held-out trials the whole state explains more of the variance
than the error alone, by twice the standard error of the difference.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dexstack.cli.arguments import natural, positive_int
from dexstack.cli.output import note, table
from dexstack.control.value import ERROR, REACHED, TIME, LearnedValue, features, networks, save_value
from dexstack.errors import ConfigError
from dexstack.model.hand import HandModel, load_hand
from dexstack.model.objects import load_object
from dexstack.trials.keep import load_outcome
from experiments.harness import Findings, experiment

EVERY = 5
"""Every n-th state is used, since neighbours are nearly equal."""
FOLDS = 4
NETWORKS, HIDDEN, BATCH = 5, 16, 256
RATE, DECAY = 2e-3, 3e-3
"""First learning rate and weight decay of AdamW."""


@dataclass(frozen=True)
class Log:
    """States (S, …) of one trial that lead to a goal or a drop."""

    pose_WO: np.ndarray
    q: np.ndarray
    goal_WO: np.ndarray
    left_s: np.ndarray
    """(S,) time until the goal is reached; infinite before a drop [s]."""


def read_logs(folder: Path, obj: str, hand: HandModel) -> Iterator[Log]:
    """Yield the trials of `dexstack eval reorient --keep` in a folder, those of the hand's other side
    mirrored.

    Raises:
        ConfigError: there are none, or they are of another object or hand family.
    """
    try:
        spec = json.loads((folder / "plan.json").read_text())["cells"][0]["spec"]
    except (OSError, ValueError, LookupError):
        raise ConfigError(
            f"{folder} has no trials: give a folder of `dexstack eval reorient --keep`"
        ) from None
    whose, symmetry = load_hand(spec["hand"]), load_object(spec["object"]).symmetry
    if (load_object(spec["object"]).name, whose.family) != (obj, hand.family):
        raise ConfigError(
            f"{folder} has trials of {spec['object']} in {whose.name}, not of {obj} in {hand.name}"
        )
    for path in sorted(folder.glob("trial-*.npz")):
        trial = load_outcome(path)
        r = trial.recording
        left = time_left(r["t"], r["error"], r["goal_WO"], trial.dropped)
        chosen = np.flatnonzero(~np.isnan(left))[::EVERY]
        pose_WO, q, goal_WO = (np.array(r[name][chosen], float) for name in ("pose_WO", "q", "goal_WO"))
        for pose, goal in zip(pose_WO, goal_WO, strict=True):
            goal[3:] = symmetry.nearest(pose[3:], goal[3:])
        if whose.side != hand.side:
            q[:, hand.swing_joints] *= -1.0
            for pose in (pose_WO, goal_WO):
                pose[:, [1, 4, 6]] *= -1.0
        yield Log(pose_WO, q, goal_WO, left[chosen])


def time_left(t: np.ndarray, error: np.ndarray, goal_WO: np.ndarray, dropped: bool) -> np.ndarray:
    """Return the time (S,) until the current goal is reached, 0 while it is [s]; NaN if unknown."""
    left = np.full(len(t), np.nan)
    changes = 1 + np.flatnonzero(np.any(np.diff(goal_WO, axis=0) != 0.0, axis=1))
    for begin, end in zip([0, *changes], [*changes, len(t)], strict=True):
        # the sample after the last one of a goal already has the next goal
        last = t[end] if end < len(t) else np.inf if dropped else np.nan
        for k in reversed(range(begin, end)):
            last = t[k] if error[k] < REACHED else last
            left[k] = last - t[k]
    return left


_featured = jax.jit(jax.vmap(features))


def _joined(logs: Sequence[Log]) -> tuple[np.ndarray, np.ndarray]:
    """Return the features (S, F) of all states and the target values (S,)."""
    parts = (np.concatenate([getattr(log, name) for log in logs]) for name in ("pose_WO", "q", "goal_WO"))
    return np.asarray(_featured(*parts)), 1.0 - np.exp(-np.concatenate([log.left_s for log in logs]) / TIME)


def fit(logs: Sequence[Log], epochs: int, seed: int, seen: Sequence[int] | None = None) -> Any:
    """Fit networks to logs; return mean and standard deviation of the features (F,) and the layers.

    Args:
        seen: indices of the features that are used; None: all.
    """
    import optax

    rng = np.random.default_rng(seed)
    x, y = _joined(logs)
    mean, scale = x.mean(axis=0), x.std(axis=0) + 1e-3
    if seen is not None:
        scale[np.setdiff1d(np.arange(len(scale)), seen)] = 1e9
    x, steps, sizes = (x - mean) / scale, len(y) // BATCH, (x.shape[1], HIDDEN, HIDDEN, 1)
    layers = [
        (jnp.asarray(rng.normal(size=(NETWORKS, a, b)) * np.sqrt(2.0 / a)), jnp.zeros((NETWORKS, 1, b)))
        for a, b in itertools.pairwise(sizes)
    ]
    adam = optax.adamw(optax.cosine_decay_schedule(RATE, epochs * steps), weight_decay=DECAY)

    def loss(layers: Any, x: Any, y: Any) -> Any:
        return jnp.sum(jnp.mean((networks(layers, x) - y[None]) ** 2, axis=1))

    @jax.jit
    def epoch(layers: Any, state: Any, x: Any, y: Any) -> Any:
        def step(carry: Any, batch: Any) -> Any:
            change, state = adam.update(jax.grad(loss)(carry[0], *batch), carry[1], carry[0])
            return (optax.apply_updates(carry[0], change), state), None

        return jax.lax.scan(step, (layers, state), (x, y))[0]

    state = adam.init(layers)
    for _ in range(epochs):
        order = rng.permutation(len(y))[: steps * BATCH].reshape(steps, BATCH)
        layers, state = epoch(layers, state, x[order], y[order])
    return mean, scale, layers


def _missed(logs: Sequence[Log], fitted: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the squared errors of fitted networks and of the logs' mean, summed over each trial (K,)."""
    (x, y), (mean, scale, layers) = _joined(logs), fitted
    ends = np.cumsum([len(log.left_s) for log in logs])[:-1]
    off = (np.asarray(networks(layers, (x - mean) / scale)).mean(axis=0) - y) ** 2
    return tuple(np.array([a.sum() for a in np.split(part, ends)]) for part in (off, (y - y.mean()) ** 2))


def judged(logs: Sequence[Log], epochs: int, seed: int) -> dict[str, Any]:
    """Return the shares of the variance explained on held-out trials, and the gain of the whole state
    with its standard error."""
    order = np.random.default_rng(seed).permutation(len(logs))
    seen: dict[str, Sequence[int] | None] = {"the error alone": [ERROR], "the whole state": None}
    off: dict[str, list[np.ndarray]] = {name: [] for name in seen}
    spread = []
    for fold in range(FOLDS):
        out = [logs[k] for k in order[fold::FOLDS]]
        rest = [logs[k] for j in range(FOLDS) if j != fold for k in order[j::FOLDS]]
        for name in seen:
            missed, whole = _missed(out, fit(rest, epochs, seed, seen[name]))
            off[name].append(missed)
        spread.append(whole)
        note(
            f"fold {fold + 1} of {FOLDS}: "
            + ", ".join(f"{name} {1 - m[-1].sum() / whole.sum():.2f}" for name, m in off.items())
        )
    total = np.concatenate(spread).sum()
    alone, state = (np.concatenate(missed) for missed in off.values())
    return {
        "explained": {
            name: float(1.0 - np.concatenate(missed).sum() / total) for name, missed in off.items()
        },
        "gained": float((alone - state).sum() / total),
        "standard_error": float(np.sqrt(len(alone)) * (alone - state).std() / total),
    }


def learn(args: argparse.Namespace) -> Findings:
    """Cross-validate, then fit to all trials and save."""
    hand, obj = load_hand(args.hand), load_object(args.object).name
    logs = [log for folder in args.folders for log in read_logs(folder, obj, hand) if len(log.left_s)]
    if len(logs) < FOLDS:
        raise ConfigError(f"{len(logs)} trials are too few: at least {FOLDS} are needed")
    results = {
        "trials": len(logs),
        "states": sum(len(log.left_s) for log in logs),
        "drops": sum(np.isinf(log.left_s).any() for log in logs),
    }
    results = {name: int(n) for name, n in results.items()}
    note(", ".join(f"{n} {name}" for name, n in results.items()))
    results |= judged(logs, args.epochs, args.seed)
    if args.save:
        mean, scale, layers = fit(logs, args.epochs, args.seed)
        save_value(
            args.save,
            LearnedValue(
                obj, hand.name, mean, scale, layers, {**results, "epochs": args.epochs, "seed": args.seed}
            ),
        )
    shown = [(name, f"{share:.2f}") for name, share in results["explained"].items()]
    lines = [table("variance explained on held-out trials", ("input", "share"), shown)]
    passed = results["gained"] > 2.0 * results["standard_error"]
    return Findings(results | {"passed": passed}, None, lines, args.seed)


def _arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "folders",
        type=Path,
        nargs="+",
        metavar="FOLDER",
        help="folder of `dexstack eval reorient --keep FOLDER`",
    )
    p.add_argument(
        "--object", default="cube", help="object of the trials: a name, or the path of an object's YAML file"
    )
    p.add_argument(
        "--hand",
        default="right",
        help="hand of the value: a side of the Allegro hand, or the path of a hand's YAML file",
    )
    p.add_argument("--save", type=Path, metavar="FILE", help="write the networks to this .json file")
    p.add_argument("--epochs", type=positive_int, default=8, metavar="N", help="passes over all states")
    p.add_argument("--seed", type=natural, default=0, metavar="S", help="seed of folds, weights and batches")


main = experiment("experiments.orientation.fit_value", __doc__, learn, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
