"""Poses of an object's tags from pictures of it, by bundle adjustment.

    min over tag poses X_OT and camera poses X_CO,k of   Σ_k Σ_tags Σ_corners ρ( ‖u − f π(X_CO,k
    X_OT p_T)‖ / σ )

The pictures determine the tags' relative poses. The object's frame is the one in which the tags lie
nearest to the nominal bundle, or in which one chosen tag has its nominal pose. Sizes must be known,
since a camera does not observe scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares
from scipy.sparse import lil_matrix

from dexstack.errors import ConfigError
from dexstack.perception.bundle import Tag, TagBundle
from dexstack.perception.camera import CameraModel
from dexstack.perception.pose import corner_sigma, solve_bundle
from dexstack.perception.se3 import Transform, difference, exp
from dexstack.perception.tags import Detection


class Layout(NamedTuple):
    """Result of :func:`learn_layout`."""

    bundle: TagBundle
    pictures: int
    """Number of pictures used."""
    residual: float
    """Root mean square residual of a corner's coordinate [px]."""
    moved: dict[int, tuple[float, float]]
    """Distance of each tag from its nominal pose [m, rad]."""


def learn_layout(
    pictures: Sequence[Sequence[Detection]],
    nominal: TagBundle,
    camera: CameraModel,
    anchor: int | None = None,
) -> Layout:
    """Return the poses of all tags of ``nominal`` that the pictures connect.

    Args:
        nominal: sizes, and initial poses (within a centimetre and 20 degrees).
        anchor: the tag that keeps its nominal pose; None: best fit of all.

    Raises:
        ConfigError: too few pictures, or none shows the anchor together with other tags.
    """
    if anchor is not None and anchor not in nominal.tags:
        raise ConfigError(f"the bundle '{nominal.name}' has no tag {anchor} to keep in place")
    shots = [[d for d in picture if d.tag in nominal.tags and d.clear.all()] for picture in pictures]
    shots = [shot for shot in shots if len(shot) >= 2]
    tags = _connected(shots)
    if len(tags) < 2:
        raise ConfigError("no picture shows two tags of the object at once, as their relative poses require")
    shots = [[d for d in shot if d.tag in tags] for shot in shots]
    shots = [shot for shot in shots if len(shot) >= 2]
    if len(shots) < 5:
        raise ConfigError(
            f"{len(shots)} pictures show two tags at once; five are needed, better thirty from all sides"
        )
    X_CO = _first_guess(shots, nominal, camera)
    X_OT = {t: nominal.tags[t].X_OT for t in tags}
    X_OT, residual = _adjust(shots, X_OT, X_CO, nominal, camera)
    X_OT = _into_frame(X_OT, nominal, anchor)
    learned = {t: Tag(t, tag.edge, X_OT[t]) for t, tag in nominal.tags.items() if t in X_OT}
    moved = {}
    for t in tags:
        way = difference(learned[t].X_OT, nominal.tags[t].X_OT)
        moved[t] = (float(np.linalg.norm(way[:3])), float(np.linalg.norm(way[3:])))
    return Layout(TagBundle(nominal.name, learned), len(shots), residual, moved)


def _connected(shots: Sequence[Sequence[Detection]]) -> list[int]:
    """Return the largest set of tags that are connected by common pictures."""
    groups: list[set[int]] = []
    for shot in shots:
        together = {d.tag for d in shot}
        touching = [g for g in groups if g & together]
        groups = [g for g in groups if not g & together] + [together.union(*touching)]
    return sorted(max(groups, key=len, default=set()))


def _first_guess(
    shots: Sequence[Sequence[Detection]], nominal: TagBundle, camera: CameraModel
) -> list[Transform]:
    """Return the camera pose of each picture from the nominal layout, or from the best single tag
    where its tags disagree."""
    guesses = []
    for shot in shots:
        seen = solve_bundle(shot, nominal, camera)
        if seen is None or len(seen.tags) < 2:
            alone = [s for d in shot if (s := solve_bundle([d], nominal, camera)) is not None]
            both = [x for s in alone for x in (s.X_CO, s.other) if x is not None]
            if not both:
                raise ConfigError("a picture shows tags in a way that no pose explains")
            guesses.append(min(both, key=lambda X: _misfit(X, shot, nominal, camera)))
        else:
            guesses.append(seen.X_CO)
    return guesses


def _misfit(X: Transform, shot: Sequence[Detection], nominal: TagBundle, camera: CameraModel) -> float:
    expected = (camera.project(X.apply(nominal.tags[d.tag].corners)) for d in shot)
    misses = (uv - d.corners for uv, d in zip(expected, shot, strict=True))
    return float(sum(np.linalg.norm(miss, axis=1).mean() for miss in misses))


def _adjust(
    shots: Sequence[Sequence[Detection]],
    X_OT: dict[int, Transform],
    X_CO: list[Transform],
    nominal: TagBundle,
    camera: CameraModel,
) -> tuple[dict[int, Transform], float]:
    """Adjust all poses but the first tag's; return the tags' poses and the root mean square residual
    [px]."""
    tags = sorted(X_OT)
    column = {t: 6 * k for k, t in enumerate(tags[1:])}
    first_camera = 6 * (len(tags) - 1)
    seen = [
        (k, d, camera.normalised(d.corners), corner_sigma(d.corners))
        for k, shot in enumerate(shots)
        for d in shot
    ]
    shapes = {t: nominal.tags[t].X_OT.inverse.apply(nominal.tags[t].corners) for t in tags}
    sparsity = lil_matrix((8 * len(seen), first_camera + 6 * len(shots)), dtype=int)
    for i, (k, d, _, _) in enumerate(seen):
        sparsity[8 * i : 8 * i + 8, first_camera + 6 * k : first_camera + 6 * k + 6] = 1
        if d.tag in column:
            sparsity[8 * i : 8 * i + 8, column[d.tag] : column[d.tag] + 6] = 1

    def moved(X: Transform, step: np.ndarray) -> Transform:
        return Transform(X.R @ exp(step[3:]), X.p + step[:3])

    def bodies(x: np.ndarray) -> dict[int, Transform]:
        return X_OT | {t: moved(X_OT[t], x[k : k + 6]) for t, k in column.items()}

    def residuals(x: np.ndarray) -> np.ndarray:
        X_OT = bodies(x)
        cameras = [moved(X, x[first_camera + 6 * k : first_camera + 6 * k + 6]) for k, X in enumerate(X_CO)]
        out = np.empty((len(seen), 4, 2))
        for i, (k, d, uv, sigma) in enumerate(seen):
            p_C = cameras[k].apply(X_OT[d.tag].apply(shapes[d.tag]))
            out[i] = (p_C[:, :2] / p_C[:, 2:] - uv) * (camera.focal / sigma)
        return out.ravel()

    result = least_squares(
        residuals,
        np.zeros(sparsity.shape[1]),
        jac_sparsity=sparsity,
        loss="soft_l1",
        f_scale=3.0,
        x_scale="jac",
        max_nfev=60,
    )
    sigma = np.repeat([s for *_, s in seen], 8)
    residual = float(np.sqrt(((residuals(result.x) * sigma) ** 2).mean()))
    return bodies(result.x), residual


def _into_frame(X_OT: dict[int, Transform], nominal: TagBundle, anchor: int | None) -> dict[int, Transform]:
    """Move all tags together, so that the anchor has its nominal pose, or that the corners lie
    nearest to their nominal places (Kabsch)."""
    if anchor is not None:
        if anchor not in X_OT:
            raise ConfigError(f"no picture shows the tag {anchor} together with others")
        shift = nominal.tags[anchor].X_OT.compose(X_OT[anchor].inverse)
    else:
        now = np.concatenate([Tag(t, nominal.tags[t].edge, X).corners for t, X in X_OT.items()])
        then = np.concatenate([nominal.tags[t].corners for t in X_OT])
        U, _, Vt = np.linalg.svd((then - then.mean(axis=0)).T @ (now - now.mean(axis=0)))
        R = U @ np.diag([1.0, 1.0, np.linalg.det(U @ Vt)]) @ Vt
        shift = Transform(R, then.mean(axis=0) - R @ now.mean(axis=0))
    return {t: shift.compose(X) for t, X in X_OT.items()}
