"""Contact patches as rviz markers: the surface coloured by pressure, the force as an arrow."""

from __future__ import annotations

import numpy as np
from geometry_msgs.msg import Point
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from dexstack.engines.base import Patch
from dexstack.nodes.wire import WORLD, set_stamp

COLOURS = np.array([[0.27, 0.0, 0.33], [0.23, 0.32, 0.55], [0.13, 0.57, 0.55], [0.37, 0.79, 0.38], [0.99, 0.91, 0.14]])
"""From no pressure to the greatest."""
FORCE_LENGTH = 0.02
"""Length of an arrow [m/N]."""
LONGEST = 0.2
"""… and of the longest [m]."""


def patch_markers(t: float, patches: list[Patch]) -> MarkerArray:
    """One list of triangles and one arrow (the force on the patch's second body) per patch; whatever was shown before is deleted.

    Pressures share one scale: the brightest is the greatest of all patches.
    """
    markers = [Marker(action=Marker.DELETEALL)]
    greatest = max((float(p.pressure.max()) for p in patches if len(p.pressure)), default=0.0)
    for i, patch in enumerate(patches):
        markers += [_surface(i, patch, greatest), _arrow(i, patch)]
    for marker in markers:
        marker.header.frame_id = WORLD
        marker.pose.orientation.w = 1.0
        set_stamp(marker.header.stamp, t)
    return MarkerArray(markers=markers)


def _surface(i: int, patch: Patch, greatest: float) -> Marker:
    marker = Marker(ns="pressure", id=i, type=Marker.TRIANGLE_LIST, action=Marker.ADD)
    marker.scale.x = marker.scale.y = marker.scale.z = 1.0
    marker.color.a = 1.0
    corners = [Point(x=float(x), y=float(y), z=float(z)) for x, y, z in patch.vertex_W]
    where = (len(COLOURS) - 1) * np.clip(patch.pressure / greatest if greatest > 0.0 else patch.pressure, 0.0, 1.0)
    for f, rgb in enumerate(np.stack([np.interp(where, range(len(COLOURS)), c) for c in COLOURS.T], axis=1)):
        first, last = patch.start[f], patch.start[f + 1]
        for k in range(first + 1, last - 1):
            marker.points += [corners[first], corners[k], corners[k + 1]]
        colour = ColorRGBA(r=float(rgb[0]), g=float(rgb[1]), b=float(rgb[2]), a=1.0)
        marker.colors += [colour] * (3 * (last - first - 2))
    return marker


def _arrow(i: int, patch: Patch) -> Marker:
    marker = Marker(ns="force", id=i, type=Marker.ARROW, action=Marker.ADD)
    marker.scale.x, marker.scale.y, marker.scale.z = 0.002, 0.004, 0.0
    marker.color.r, marker.color.g, marker.color.a = 1.0, 0.5, 1.0
    size = float(np.linalg.norm(patch.force_W))
    tip = patch.point_W + patch.force_W * min(FORCE_LENGTH, LONGEST / size if size > 0.0 else FORCE_LENGTH)
    marker.points = [Point(x=float(x), y=float(y), z=float(z)) for x, y, z in (patch.point_W, tip)]
    return marker
