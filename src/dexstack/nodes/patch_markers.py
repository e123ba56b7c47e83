"""Contact patches as rviz markers: the surface coloured by pressure, the force as an arrow."""

from __future__ import annotations

import numpy as np
from geometry_msgs.msg import Point
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from dexstack.nodes.wire import WORLD, set_stamp
from dexstack.plants.base import Patch
from dexstack.report.canvas import coloured

FORCE_LENGTH = 0.02
"""Length of an arrow [m/N]."""
LONGEST = 0.2
"""… and of the longest [m]."""


def patch_markers(t: float, patches: list[Patch]) -> MarkerArray:
    """One list of triangles and one arrow (the force on the patch's second body) per patch;
    whatever was shown before is deleted.

    Pressures share one scale: the brightest is the greatest of all patches.
    """
    markers = [Marker(action=Marker.DELETEALL)]
    for i, (patch, (corners, colours)) in enumerate(zip(patches, coloured(patches), strict=True)):
        markers += [_surface(i, corners, colours), _arrow(i, patch)]
    for marker in markers:
        marker.header.frame_id = WORLD
        marker.pose.orientation.w = 1.0
        set_stamp(marker.header.stamp, t)
    return MarkerArray(markers=markers)


def _surface(i: int, corners: np.ndarray, colours: np.ndarray) -> Marker:
    marker = Marker(ns="pressure", id=i, type=Marker.TRIANGLE_LIST, action=Marker.ADD)
    marker.scale.x = marker.scale.y = marker.scale.z = 1.0
    marker.color.a = 1.0
    marker.points = [Point(x=float(x), y=float(y), z=float(z)) for x, y, z in corners]
    marker.colors = [ColorRGBA(r=float(r), g=float(g), b=float(b), a=1.0) for r, g, b in colours]
    return marker


def _arrow(i: int, patch: Patch) -> Marker:
    marker = Marker(ns="force", id=i, type=Marker.ARROW, action=Marker.ADD)
    marker.scale.x, marker.scale.y, marker.scale.z = 0.002, 0.004, 0.0
    marker.color.r, marker.color.g, marker.color.a = 1.0, 0.5, 1.0
    size = float(np.linalg.norm(patch.force_W))
    tip = patch.point_W + patch.force_W * min(FORCE_LENGTH, LONGEST / size if size > 0.0 else FORCE_LENGTH)
    marker.points = [Point(x=float(x), y=float(y), z=float(z)) for x, y, z in (patch.point_W, tip)]
    return marker
