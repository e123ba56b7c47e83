"""Errors of one-step predictors on scoring transitions, and the contacts of their inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from dexstack.control.problem import ModelParams
from dexstack.learning.loss import Predict
from dexstack.learning.transitions import Transitions, rotation_between, take
from dexstack.process.compilation import jit
from experiments.contactsdf.pairs import PairContacts, PairDetector, object_pairs
from experiments.contactsdf.predictor import Predictor, PredictorTheta


class PredictionError(NamedTuple):
    """Errors of one predictor over K transitions, per transition."""

    position: np.ndarray
    """[m]"""
    orientation: np.ndarray
    """Geodesic [rad]."""
    joints: np.ndarray
    """Norm over the joints [rad]."""


def score(pose: np.ndarray, q: np.ndarray, data: Transitions) -> PredictionError:
    """Return the errors of predicted object poses (K, 7) and joint positions (K, N)."""
    return PredictionError(
        np.linalg.norm(pose[:, :3] - data.next_pose_WO[:, :3], axis=1),
        np.linalg.norm(
            rotation_between(np.asarray(pose[:, 3:], float), np.asarray(data.next_pose_WO[:, 3:], float)),
            axis=1,
        ),
        np.linalg.norm(q - data.next_q, axis=1),
    )


def stays(data: Transitions) -> PredictionError:
    """Return the errors of the baseline: nothing moves."""
    return score(data.pose_WO, data.q, data)


def predict_all(
    predict: Predict, theta: ModelParams, data: Transitions, chunk: int = 200
) -> tuple[np.ndarray, np.ndarray]:
    """Return the predicted object poses (K, 7) and joint positions (K, N)."""
    batched: Callable = jit(jax.vmap(predict, in_axes=(None, 0)))
    poses, joints = [], []
    for first in range(0, data.count, chunk):
        index = np.arange(first, min(first + chunk, data.count))
        pose, q = batched(theta, take(data, np.resize(index, chunk)))
        poses.append(np.asarray(pose)[: len(index)])
        joints.append(np.asarray(q)[: len(index)])
    return np.concatenate(poses), np.concatenate(joints)


def predict_in_parts(
    predictor: Predictor,
    theta: PredictorTheta,
    data: Transitions,
    detector: PairDetector,
    parts: int,
    chunk: int = 200,
) -> tuple[np.ndarray, np.ndarray]:
    """Predict as :func:`predict_all`, with contacts detected again after each of ``parts`` equal parts of
    the step."""
    substeps = predictor.params.substeps // parts
    advance = jit(
        jax.vmap(
            lambda theta, state, at: predictor.advance(theta, state, at, at.contacts, substeps),
            in_axes=(None, 0, 0),
        )
    )
    poses, joints = [], []
    for first in range(0, data.count, chunk):
        index = np.arange(first, min(first + chunk, data.count))
        at = take(data, np.resize(index, chunk))
        state = jax.vmap(predictor.start)(at)
        for part in range(parts):
            if part:
                at = with_pairs(
                    at._replace(pose_WO=np.asarray(state.pose_WO), q=np.asarray(state.q)), detector
                )
            state = advance(theta, state, at)
        poses.append(np.asarray(state.pose_WO)[: len(index)])
        joints.append(np.asarray(state.q)[: len(index)])
    return np.concatenate(poses), np.concatenate(joints)


def relative(error: PredictionError, base: PredictionError) -> dict[str, float]:
    """Return the mean errors relative to those of the base."""
    return {
        name: float(np.mean(getattr(error, name)) / np.mean(getattr(base, name)))
        for name in PredictionError._fields
    }


def with_pairs(data: Transitions, detector: PairDetector, *, query_points: bool = False) -> Transitions:
    """Return the transitions with the contacts of a predictor.

    Args:
        query_points: keep the object's contacts in ``data``, from the planner's C-SDF query points, and
            add only those between fingers.
    """
    found = []
    for k in range(data.count):
        pairs = detector.detect(data.pose_WO[k], data.q[k])
        found.append(object_pairs(take(data, k).contacts, pairs) if query_points else pairs)
    return data._replace(contacts=PairContacts(*(np.stack(field) for field in zip(*found, strict=True))))
