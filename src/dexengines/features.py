"""Features of models that not every engine supports; engines refuse models with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import mujoco
import numpy as np

from dexengines.collision import Collision, body_name
from dexengines.couplings import changes_with_the_pose, proportional
from dexengines.errors import EngineError

NONE = Collision((), ())


def _joints(model: mujoco.MjModel, which: Iterable) -> list[str]:
    return [
        model.joint(int(j)).name or f"of {body_name(model, int(model.jnt_bodyid[j]))}"
        for j in np.flatnonzero(which)
    ]


def _equalities(model: mujoco.MjModel, which: Iterable) -> list[str]:
    return [model.equality(int(e)).name or f"number {e}" for e in np.flatnonzero(which)]


def _tendons(model: mujoco.MjModel, which: Iterable) -> list[str]:
    return [model.tendon(int(t)).name or f"number {t}" for t in np.flatnonzero(which)]


def _kind(kind: str) -> Callable[[mujoco.MjModel, Collision], list[str]]:
    return lambda model, collision: [g.name for g in collision.geoms if g.kind == kind]


FEATURES: dict[str, Callable[[mujoco.MjModel, Collision], list[str]]] = {
    "ball joint": lambda m, c: _joints(m, m.jnt_type == mujoco.mjtJoint.mjJNT_BALL),
    "ball joint with a stop": lambda m, c: _joints(
        m, (m.jnt_type == mujoco.mjtJoint.mjJNT_BALL) & (m.jnt_limited > 0)
    ),
    "equality constraint": lambda m, c: _equalities(m, (np.asarray(m.eq_active0) > 0) & ~proportional(m)),
    "joint coupling": lambda m, c: _equalities(m, proportional(m)),
    "tendon with a stop": lambda m, c: _tendons(m, m.tendon_limited),
    "dry tendon friction": lambda m, c: _tendons(m, m.tendon_frictionloss),
    "dry joint friction": lambda m, c: sorted(
        set(_joints(m, [np.any(m.dof_frictionloss[m.dof_jntid == j]) for j in range(m.njnt)]))
    ),
    "joint spring": lambda m, c: _joints(m, m.jnt_stiffness),
    "tendon force": lambda m, c: _tendons(m, (m.tendon_stiffness != 0.0) | (m.tendon_damping != 0.0)),
    "inertia that changes with the pose": lambda m, c: changes_with_the_pose(m),
    "gravity compensation": lambda m, c: [body_name(m, int(b)) for b in np.flatnonzero(m.body_gravcomp)],
    "adhesion": lambda m, c: [
        m.actuator(int(k)).name for k in np.flatnonzero(m.actuator_trntype == mujoco.mjtTrn.mjTRN_BODY)
    ],
    "flexible body": lambda m, c: [m.flex(k).name for k in range(m.nflex)],
    "body moved from outside": lambda m, c: [
        body_name(m, int(b))
        for b in np.flatnonzero(m.body_mocapid >= 0)
        if any(m.body_rootid[m.geom_bodyid[g.id]] == b for g in c.geoms)  # a marker collides with nothing
    ],
    "height field": _kind("height field"),
    "signed distance field": _kind("signed distance field"),
    "ellipsoid": _kind("ellipsoid"),
    "moving plane": lambda m, c: [g.name for g in c.geoms if g.kind == "plane" and g.body],
    "tilted plane": lambda m, c: [g.name for g in c.geoms if g.kind == "plane" and g.R[2, 2] < 1.0 - 1e-9],
}
"""Function that names the elements of a model with a feature, by the feature's name."""

FORCES = ("joint spring", "tendon force", "gravity compensation", "joint coupling", "dry joint friction")
"""Features that scenes apply as forces in engines without them: see
:class:`dexengines.forces.Forces`."""


def missing(model: mujoco.MjModel, lacks: Sequence[str], collision: Collision = NONE) -> dict[str, list[str]]:
    """Return the features among ``lacks`` that the model has, with the names of the elements."""
    return {feature: names for feature in lacks if (names := FEATURES[feature](model, collision))}


def refuse(engine: str, model: mujoco.MjModel, lacks: Sequence[str], collision: Collision = NONE) -> None:
    """Reject a model that has a feature among ``lacks``.

    Raises:
        EngineError: names the first such feature and up to three elements.
    """
    for feature, names in missing(model, lacks, collision).items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        shown = ", ".join(f"'{name}'" for name in names[:3]) + more
        raise EngineError(f"the {engine} engine does not take the feature '{feature}': {shown}")
