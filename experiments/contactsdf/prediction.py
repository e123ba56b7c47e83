"""Compare the one-step predictions of every model with "the object does not move".

Rollouts of the planner on the MuJoCo plant, replanned every model step, train every model; other
rollouts score it. Errors of one step are relative to those of "the object does not move". Required: the
learned predictor is within ``--require``, in position and in orientation.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from dexstack.cli import arguments
from dexstack.cli.output import note, table
from dexstack.control.factory import PlannerParams, make_model
from dexstack.control.models import MODELS
from dexstack.control.planners.gauss_newton import MpcParams
from dexstack.control.theta_file import make_theta
from dexstack.graph.settings import Spec
from dexstack.learning.loss import (
    Learner,
    LearnerParams,
    Predict,
    Reparametrisation,
    make_learner,
    model_prediction,
)
from dexstack.learning.on_policy import collect
from dexstack.learning.transitions import Transitions
from dexstack.model.gravity import GravityCompensation
from dexstack.process.compilation import use_compilation_cache
from dexstack.sim.loop import Loop
from dexstack.trials.sweep import loop_of
from experiments.contactsdf.pairs import PairDetector
from experiments.contactsdf.prediction_error import (
    PredictionError,
    predict_all,
    predict_in_parts,
    relative,
    score,
    stays,
    with_pairs,
)
from experiments.contactsdf.predictor import PREDICTOR_RANGES, Predictor, PredictorParams, predictor_theta
from experiments.harness import Outcome, experiment

JUDGED = "predictor, learned"
OWN_MODELS = Path(__file__).parents[2] / "examples" / "models"
HELD_OUT = 100_000
"""Offset of the seeds of the scoring rollouts from those of the training rollouts."""
PARTS = 6
"""Number of contact detections of the predictor in one step."""
LEARN_SUBSTEPS = 10
"""Substeps of the predictor in training; θ does not depend on their number."""
LEARN = LearnerParams(learning_rate=0.1, epochs=15)
LEARN_PREDICTOR = LearnerParams(learning_rate=0.005, epochs=4)
"""Fewer and shorter steps: training starts from data-sheet numbers, and gradients through stiff contacts
are noisy."""


class Row(NamedTuple):
    """One predictor."""

    name: str
    error: PredictionError
    theta: dict[str, Any] | None
    """Smallest and largest entry of each learned parameter; None if nothing was learned."""


class Study(NamedTuple):
    """Rows of the table, the first being "stays"."""

    rows: list[Row]
    train: int
    test: int


def study_prediction(
    spec: Spec, *, steps: int, test_steps: int, seed: int, say: Callable[[str], None]
) -> Study:
    """Collect rollouts of the planner on the plant, train every model on ``steps`` transitions and
    score it on ``test_steps`` others.

    Raises:
        ConfigError: see :class:`~dexstack.sim.loop.Loop`.
    """
    loop = loop_of(spec)
    train, _, _ = collect(loop, steps, seed)
    test, _, _ = collect(loop, test_steps, seed + HELD_OUT)
    rows = [Row("stays", stays(test), None)]
    for row in itertools.chain(
        _plant(loop, test), _planners(loop, train, test, seed), _predictors(loop, train, test, seed)
    ):
        say(
            f"{row.name}: position {1e3 * row.error.position.mean():.3f} mm, "
            f"orientation {row.error.orientation.mean():.4f} rad"
        )
        rows.append(row)
    return Study(rows, train.count, test.count)


def _learned(
    name: str, learner: Learner, predict: Predict, train: Transitions, test: Transitions, seed: int
) -> Row:
    learner.update(train, np.random.default_rng(seed))
    theta = learner.theta
    spans = {key: [float(np.min(value)), float(np.max(value))] for key, value in theta._asdict().items()}
    return Row(name, score(*predict_all(predict, theta, test), test), spans)


def _planners(loop: Loop, train: Transitions, test: Transitions, seed: int) -> Iterator[Row]:
    """Score the planner's models with its own θ and with the learned one."""
    h = loop.params[MpcParams].step
    own = {path.stem: str(path) for path in sorted(OWN_MODELS.glob("*.py"))}
    for name, model in {**{name: name for name in MODELS}, **own}.items():
        params = PlannerParams(model=model)
        model, theta = make_model(params), make_theta(loop.setup.robot, loop.setup.obj, params, h)
        predict = model_prediction(loop.setup.robot, model, h, LEARN.solver_calls)
        yield Row(f"{name}, planner's θ", score(*predict_all(predict, theta, test), test), None)
        yield _learned(f"{name}, learned", make_learner(predict, theta, LEARN), predict, train, test, seed)


def _predictors(loop: Loop, train: Transitions, test: Transitions, seed: int) -> Iterator[Row]:
    """Score the predictor, trained with the contacts of the start and used with contacts detected again
    during the step, and its ablations, which detect contacts once."""
    h, servo = loop.params[MpcParams].step, loop.servo.params
    first = predictor_theta(loop.setup.robot, loop.setup.obj, servo.kp, servo.kd)
    pairs = PairDetector(loop.setup.robot, loop.setup.obj)
    both = with_pairs(train, pairs), with_pairs(test, pairs)

    def make(**changes: Any) -> Predictor:
        params = PredictorParams(slew_rate=servo.slew_rate, **changes)
        return Predictor(loop.setup.robot, loop.setup.obj, h, params)

    full, coarse = make(), make(substeps=LEARN_SUBSTEPS)
    yield Row(
        "predictor, data-sheet numbers",
        score(*predict_in_parts(full, first, both[1], pairs, PARTS), test),
        None,
    )
    learner = Learner(Reparametrisation(first, PREDICTOR_RANGES), coarse, LEARN_PREDICTOR)
    once = _learned("predictor, learned", learner, full, *both, seed)
    yield once._replace(error=score(*predict_in_parts(full, learner.theta, both[1], pairs, PARTS), test))
    for name, changes in (
        ("… contacts found once", {}),
        ("… from rest", {"velocities": False}),
        ("… without finger–finger contacts", {"finger_contacts": False}),
        ("… one substep", {"substeps": 1}),
        ("… ten substeps", {"substeps": 10}),
    ):
        yield Row(name, score(*predict_all(make(**changes), learner.theta, both[1]), test), None)
    queries = with_pairs(train, pairs, query_points=True), with_pairs(test, pairs, query_points=True)
    learner = Learner(Reparametrisation(first, PREDICTOR_RANGES), coarse, LEARN_PREDICTOR)
    yield _learned("predictor on the planner's contacts, learned", learner, full, *queries, seed)


def _plant(loop: Loop, test: Transitions) -> Iterator[Row]:
    """Score the plant itself from the same state, the upper bound."""
    for name, moving in (("MuJoCo from rest", 0.0), ("MuJoCo with velocities", 1.0)):
        yield Row(name, score(*replay(loop, test, moving), test), None)


def replay(loop: Loop, data: Transitions, moving: float) -> tuple[np.ndarray, np.ndarray]:
    """Return object poses (K, 7) and joint positions (K, N) that the plant reaches from each start, with
    the initial velocities times ``moving``."""
    plant, servo, gravity = loop.plant, loop.servo.params, GravityCompensation(loop.setup.robot)
    poses, joints = [], []
    for at in (jax.tree.map(lambda leaf, k=k: np.asarray(leaf[k], float), data) for k in range(data.count)):
        pose = np.concatenate([at.pose_WO[:3], at.pose_WO[3:] / np.linalg.norm(at.pose_WO[3:])])
        plant.reset(at.q, pose, moving * np.concatenate([at.qd, at.twist_WO]))
        target, ticks, tau = at.q_before.copy(), 0, np.zeros(len(at.q))
        for k in range(round(loop.params[MpcParams].step / plant.dt)):
            if k * plant.dt >= ticks * servo.period - 1e-9:
                ticks += 1
                target += np.clip(
                    at.q_command - target, -servo.slew_rate * servo.period, servo.slew_rate * servo.period
                )
                q, qd = plant.joint_position, plant.joint_velocity
                tau = servo.kp * (target - q) - servo.kd * qd + gravity(q)
            plant.step(np.clip(tau, -loop.setup.robot.effort, loop.setup.robot.effort))
        poses.append(plant.pose_WO)
        joints.append(plant.joint_position)
    return np.array(poses), np.array(joints)


def prediction(args: argparse.Namespace) -> Outcome:
    """Run the study."""
    use_compilation_cache()
    spec = arguments.spec_of(args, "palm_turn")
    study = study_prediction(spec, steps=args.steps, test_steps=args.test_steps, seed=args.seed, say=note)
    base = study.rows[0].error
    fields = PredictionError._fields
    shares = {row.name: relative(row.error, base) for row in study.rows}
    medians = {
        row.name: {f: float(np.median(getattr(row.error, f)) / np.median(getattr(base, f))) for f in fields}
        for row in study.rows
    }
    judged = shares[JUDGED]
    passed = max(judged["position"], judged["orientation"]) <= args.require
    results: dict[str, Any] = {
        "core": args.core,
        "object": args.object,
        "train": study.train,
        "test": study.test,
        "required": args.require,
        "passed": passed,
        "stays": {
            "position_m": base.position.mean(),
            "orientation_rad": base.orientation.mean(),
            "joints_rad": base.joints.mean(),
        },
        "models": [
            {
                "name": row.name,
                "relative": shares[row.name],
                "relative_median": medians[row.name],
                "theta": row.theta,
            }
            for row in study.rows
        ],
    }

    def percent(share: float) -> str:
        return f"{100 * share:.0f}"

    rows = [
        [
            r.name,
            *(percent(shares[r.name][f]) for f in fields),
            *(percent(medians[r.name][f]) for f in fields[:2]),
        ]
        for r in study.rows
    ]
    lines = [
        table(
            f"{args.object}: error of one step as % of 'stays' "
            f"({study.train} training, {study.test} scoring transitions)",
            ("predictor", "position", "rotation", "joints", "position, median", "rotation, median"),
            rows,
        ),
        f"'stays' is off by {1e3 * base.position.mean():.2f} mm, {base.orientation.mean():.4f} rad, "
        f"joints {base.joints.mean():.3f} rad",
        f"{JUDGED}: {percent(judged['position'])} % and {percent(judged['orientation'])} %, "
        + ("within" if passed else "more than")
        + f" the {100 * args.require:g} % required",
    ]
    return Outcome(results, None, lines, args.seed)


def _arguments(p: argparse.ArgumentParser) -> None:
    arguments.add_scene_arguments(p)
    arguments.add_planner_arguments(p)
    p.add_argument(
        "--steps", type=arguments.positive_int, default=1000, metavar="N", help="training transitions"
    )
    p.add_argument(
        "--test-steps", type=arguments.positive_int, default=600, metavar="N", help="scoring transitions"
    )
    p.add_argument(
        "--require",
        type=arguments.rate,
        default=0.6,
        metavar="SHARE",
        help="largest relative error, in position and in orientation",
    )
    p.add_argument("--seed", type=arguments.natural, default=0, metavar="S")


main = experiment(__spec__.name, __doc__, prediction, arguments=_arguments, pinned=True)


if __name__ == "__main__":
    sys.exit(main())
