"""Objects that a hand cannot turn on its palm, told before any trial.

Two conditions are necessary, whatever the planner does:

- Weight: two fingertips must overcome the friction on the palm, see :mod:`dexstack.model.strength`.
- Reach: a turn about the vertical takes a moment, which fingers exert by horizontal forces on the
  object's sides. At least two fingertips must be able to touch a side of the object at its start.

An object that meets both may still fall or roll away: only trials tell.
"""

from __future__ import annotations

import numpy as np

from dexstack.errors import ConfigError
from dexstack.geometry.decomposition import plane_sets
from dexstack.geometry.rotations import rotation_matrix
from dexstack.model.hand import ALLEGRO, HandModel, load_hand
from dexstack.model.objects import ObjectModel, Start
from dexstack.model.strength import check_weight
from dexstack.onboarding.reaching import tip_clouds

UPRIGHT = 0.7
"""Largest vertical component of the unit normal of a side."""
NEAR = 0.003
"""Distance within which a sampled fingertip counts as touching [m]."""
PLANES = 64
FEWEST = 2


def obstacle(hand: HandModel, obj: ObjectModel) -> str:
    """Return why the hand cannot turn the object from its start in this hand; empty if nothing is
    known against it.

    Raises:
        ConfigError: the object has no start for this hand.
    """
    try:
        check_weight(hand, obj)
    except ConfigError as error:
        return str(error)
    reaching = fingers_at_sides(hand, obj, obj.start(hand.family, hand.side))
    if reaching.sum() >= FEWEST:
        return ""
    size = " x ".join(f"{1e3 * x:.0f}" for x in obj.size)
    return (
        f"the object '{obj.name}' of {size} mm is out of reach for the hand '{hand.name}': only "
        f"{reaching.sum()} of {len(reaching)} fingertips can touch its sides, and a turn takes {FEWEST}"
    )


def obstacle_in_allegro(obj: ObjectModel) -> str:
    """Return :func:`obstacle` for the right Allegro hand; empty for an object without a start there."""
    return obstacle(load_hand("right"), obj) if ALLEGRO in obj.starts else ""


def fingers_at_sides(hand: HandModel, obj: ObjectModel, start: Start) -> np.ndarray:
    """Return for each finger (F,) whether its tip can touch a side of the object at ``start``,
    regardless of contacts of its other links."""
    planes = plane_sets(obj.parts, PLANES)
    R_WO, p_WO = rotation_matrix(start.pose_WO[3:]), start.pose_WO[:3]
    bottom = float((obj.surface.vertices @ R_WO.T)[:, 2].min()) + p_WO[2]
    found = []
    for tips_W in tip_clouds(hand):
        x_O = (tips_W - p_WO) @ R_WO
        depths = [np.max(x_O @ n.T + b, axis=1) for n, b in zip(planes.nhat_B, planes.offset, strict=True)]
        near = np.flatnonzero(
            (np.abs(np.min(depths, axis=0) - hand.fingertip_radius) < NEAR) & (tips_W[:, 2] > bottom)
        )
        part = np.argmin(depths, axis=0)[near]
        planes_of = np.einsum("kpi,ki->kp", planes.nhat_B[part], x_O[near]) + planes.offset[part]
        normals_W = planes.nhat_B[part, np.argmax(planes_of, axis=1)] @ R_WO.T
        found.append(bool((np.abs(normals_W[:, 2]) < UPRIGHT).any()))
    return np.array(found)
