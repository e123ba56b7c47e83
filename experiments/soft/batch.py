"""Batches of soft systems with one structure and different numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from dexengines.soft.system import MeetingData, SystemData
from dexengines.soft.tables import Clouds, absent


def stack(systems: Sequence[SystemData]) -> SystemData:
    """Stack systems of equal kinematics and pairs into one pytree for ``jax.vmap``; smaller tables
    are padded."""

    def meeting(*group: MeetingData) -> MeetingData:
        filled = [
            d._replace(a=a, b=b)
            for d, a, b in zip(group, *(_alike([getattr(d, k) for d in group]) for k in "ab"), strict=True)
        ]
        return jax.tree.map(lambda *x: np.stack(x), *filled)

    meetings = tuple(meeting(*group) for group in zip(*(s.meetings for s in systems), strict=True))
    rest = jax.tree.map(lambda *x: np.stack(x), *(s._replace(meetings=()) for s in systems))
    return rest._replace(meetings=meetings)


def _alike(clouds: Sequence[Clouds]) -> list[Clouds]:
    """Pad rows, leaves, voxels and lists of planes to the longest of each."""

    def filled(name: str, **kwargs: Any) -> list[np.ndarray | None]:
        """Pad to the longest along the second axis."""
        arrays = [getattr(c, name) for c in clouds]
        if arrays[0] is None:
            return arrays
        longest = max(x.shape[1] for x in arrays)
        return [
            np.pad(x, [(0, longest - n if axis == 1 else 0) for axis, n in enumerate(x.shape)], **kwargs)
            for x in arrays
        ]

    points = max(c.rows.shape[1] for c in clouds)
    rows = [
        np.concatenate([c.rows, np.tile(absent(points - c.rows.shape[1]), (len(c.rows), 1, 1))], axis=1)
        for c in clouds
    ]
    columns = (
        filled("balls", constant_values=-1.0),
        [c.grid for c in clouds],
        filled("start", mode="edge"),
        filled("items"),
        filled("low"),
    )
    return [Clouds(*parts) for parts in zip(rows, *columns, strict=True)]
