"""Contact parameters from weight and size, so that a scene behaves alike at 1 mm and at 10 m.

Of a pair of bodies, L is the size [m], W the weight that the contact may carry [N], g gravity:

    k = W/(DEPTH L),   ε3 = ONSET L,   ε2 = SPREAD L,   v_d = SEPARATION √(g L),   v_s = STICTION √(g L)

Lengths are then shares of L, forces of W, speeds of those that bodies reach as they fall by L. At
rest under W, φ = −ε3 log(e^(W/(k ε3)) − 1) is −0.93 DEPTH L.

The time step does not bound k in the linearly implicit step: for k → ∞, a body that is δ deep leaves
with v_d δ/(δ + v_d δt), slower than v_d, and so without gaining more height than L/2.
"""

from __future__ import annotations

from collections.abc import Iterable

import mujoco
import numpy as np

from dexengines.collision import Geom
from dexengines.soft.scm import ContactParams

DEPTH = 1 / 500
ONSET = 1 / 1000
SPREAD = 1 / 200
SEPARATION = 1.0
STICTION = 3.5e-5
GRAVITY = 9.81
"""Taken for scenes without gravity [m/s²]."""
FACET = 0.1
"""Spacing of the points on round shapes over their radius: √(2 SPREAD), at which a facet rises above
its middle by a quarter of ε2."""


def gravity(model: mujoco.MjModel) -> float:
    """Return gravity's magnitude [m/s²], :data:`GRAVITY` if there is none."""
    return float(np.linalg.norm(model.opt.gravity)) or GRAVITY


def size(geoms: Iterable[Geom]) -> float:
    """Return the least half extent of geoms that move, or of all if none does [m]."""
    solid = [g for g in geoms if g.kind != "plane"]
    return min(float(np.min(g.half)) for g in [g for g in solid if g.body] or solid)


def weight(model: mujoco.MjModel, geoms: Iterable[Geom]) -> float:
    """Return the weight that a contact of geoms may carry [N]: that of all free bodies, which may
    lie on each other, or that of the lighter mechanism if it is more."""
    roots = model.body_rootid
    free = {
        int(roots[model.jnt_bodyid[j]]) for j in np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE)
    }
    together = sum(float(model.body_subtreemass[b]) for b in free)
    lighter = min((float(model.body_subtreemass[g.body]) for g in geoms if g.body), default=0.0)
    return gravity(model) * max(together, lighter)


def law(model: mujoco.MjModel, geoms: Iterable[Geom]) -> ContactParams:
    """Return the parameters of a contact of geoms; ε1 and friction are those of no contact."""
    geoms = list(geoms)
    length = size(geoms)
    speed = np.sqrt(gravity(model) * length)
    return ContactParams(
        stiffness=weight(model, geoms) / (DEPTH * length),
        eps2=SPREAD * length,
        eps3=ONSET * length,
        v_d=SEPARATION * speed,
        v_s=STICTION * speed,
    )


def spacing(geom: Geom) -> float:
    """Return the spacing of the points on a geom [m]: its material's, else finer on round shapes."""
    if geom.material.resolution is not None or geom.kind == "plane":
        return geom.resolution
    if geom.kind in ("sphere", "capsule", "cylinder"):
        return FACET * float(geom.size[0])
    return 0.5 * float(np.min(geom.half))
