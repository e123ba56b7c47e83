"""Soft systems of one structure and different numbers as one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import numpy as np

from dexstack.engines.soft import lookup
from dexstack.engines.soft.lookup import Clouds
from dexstack.engines.soft.system import MeetingData, SystemData


def stack(systems: Sequence[SystemData]) -> SystemData:
    """Systems of equal kinematics and pairs, each with its own geometry and numbers, as one pytree for ``jax.vmap``.

    Smaller tables are filled up.
    """

    def meeting(*group: MeetingData) -> MeetingData:
        filled = [d._replace(a=a, b=b) for d, a, b in zip(group, *(_alike([getattr(d, k) for d in group]) for k in "ab"), strict=True)]
        return jax.tree.map(lambda *x: np.stack(x), *filled)

    meetings = tuple(meeting(*group) for group in zip(*(s.meetings for s in systems), strict=True))
    rest = jax.tree.map(lambda *x: np.stack(x), *(s._replace(meetings=()) for s in systems))
    return rest._replace(meetings=meetings)


def _alike(clouds: Sequence[Clouds]) -> list[Clouds]:
    """The same with rows, scouts, lists and voxels up to the largest of each; what is filled in is absent or never looked up."""

    def longest(of: Callable[[Clouds], np.ndarray], axis: int) -> int:
        return max(of(c).shape[axis] for c in clouds)

    def filled(x: np.ndarray | None, count: int) -> np.ndarray | None:
        """Up to ``count`` along the second axis."""
        return None if x is None else np.pad(x, [(0, count - n) if axis == 1 else (0, 0) for axis, n in enumerate(x.shape)])

    points, scouts, voxels = longest(lambda c: c.rows, 1), longest(lambda c: c.scouts, 2), longest(lambda c: c.finder.table, 1)
    result = []
    for c in clouds:
        absent = lookup.absent(len(c.rows), points - c.rows.shape[1])
        nobody = np.tile(lookup.NOBODY, (len(c.rows), 1, scouts - c.scouts.shape[2]))
        result.append(
            Clouds(
                np.concatenate([c.rows, absent], axis=1),
                np.concatenate([c.scouts, nobody], axis=2),
                c.box,
                c.finder._replace(table=filled(c.finder.table, voxels)),
                filled(c.patches, points),
                filled(c.lists, points),
            )
        )
    return result
