"""Visualisation markers of contacts, contact patches, paths and objects, and their readers; all in the world
frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from geometry_msgs.msg import Point
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from dexstack.model.objects import ObjectModel
from dexstack.nodes.wire import WORLD, BadMessage, check_frame, set_stamp
from dexstack.plants.base import Patch
from dexstack.report.colours import Patches, distance_colours, patch_triangles

NORMAL_LENGTH = 0.02
"""Length of a contact normal [m]."""
FORCE_LENGTH = 0.02
"""Length of an arrow per force [m/N]."""
LONGEST = 0.2
"""Largest length of an arrow [m]."""


def contact_markers(t: float, p_W: np.ndarray, nhat_W: np.ndarray, phi: np.ndarray) -> MarkerArray:
    """Return the object's outward normals as lines, from red at contact to blue at a distance."""
    marker = _marker("contacts", 0, Marker.LINE_LIST, scale=(0.001, 0.0, 0.0), t=t)
    marker.points = _points(np.stack([p_W, p_W + NORMAL_LENGTH * nhat_W], axis=1))
    marker.colors = _colours(np.repeat(distance_colours(phi), 2, axis=0) / 255.0)
    return MarkerArray(markers=[marker])


def patch_markers(t: float, patches: list[Patch]) -> MarkerArray:
    """Return a list of triangles, coloured by pressure, and an arrow, the force on the second body,
    for each patch, after a marker that deletes all earlier ones."""
    clear = _marker("", 0, Marker.ARROW, rgba=(0.0, 0.0, 0.0, 0.0), scale=(0.0, 0.0, 0.0), t=t)
    clear.action = Marker.DELETEALL
    markers = [clear]
    for i, (patch, (corners, colours)) in enumerate(zip(patches, patch_triangles(patches), strict=True)):
        surface = _marker("pressure", i, Marker.TRIANGLE_LIST, t=t)
        surface.points, surface.colors = _points(corners), _colours(colours)
        arrow = _marker("force", i, Marker.ARROW, rgba=(1.0, 0.5, 0.0, 1.0), scale=(0.002, 0.004, 0.0), t=t)
        size = float(np.linalg.norm(patch.force_W))
        length = min(FORCE_LENGTH, LONGEST / size if size > 0.0 else FORCE_LENGTH)
        arrow.points = _points(np.stack([patch.point_W, patch.point_W + length * patch.force_W]))
        markers += [surface, arrow]
    return MarkerArray(markers=markers)


def path_marker(t: float, p_W: np.ndarray) -> MarkerArray:
    """Return the predicted path (n, 3) of the object as a line."""
    marker = _marker(
        "prediction", 0, Marker.LINE_STRIP, rgba=(0.0, 1.0, 0.0, 1.0), scale=(0.002, 0.0, 0.0), t=t
    )
    marker.points = _points(p_W)
    return MarkerArray(markers=[marker])


def object_marker(obj: ObjectModel, number: int, rgba: Sequence[float]) -> Marker:
    """Return the object's surface as triangles in its own frame; pose and stamp are left to set."""
    marker = _marker("object", number, Marker.TRIANGLE_LIST, rgba=rgba)
    marker.points = _points(obj.surface.vertices[obj.surface.faces])
    return marker


def read_path(message: MarkerArray) -> np.ndarray:
    """Return the points (n, 3) of the first line of markers."""
    for marker in message.markers:
        if marker.points:
            return _read_points(marker)
    raise BadMessage("no line")


def read_patches(message: MarkerArray) -> Patches:
    """Return the triangles, colours and arrows of :func:`patch_markers`."""
    surfaces = [m for m in message.markers if m.type == Marker.TRIANGLE_LIST and m.points]
    if any(len(m.colors) != len(m.points) or len(m.points) % 3 for m in surfaces):
        raise BadMessage("a surface without three coloured corners for each triangle")
    none = np.empty((0, 3))
    corners = [_read_points(m) for m in surfaces]
    colours = [np.array([(c.r, c.g, c.b) for c in m.colors]) for m in surfaces]
    arrows = [_read_points(m) for m in message.markers if m.type == Marker.ARROW and len(m.points) == 2]
    return Patches(
        np.concatenate([none, *corners]), np.concatenate([none, *colours]), np.reshape(arrows, (-1, 2, 3))
    )


def _marker(
    ns: str,
    number: int,
    kind: int,
    *,
    rgba: Sequence[float] = (0.0, 0.0, 0.0, 1.0),
    scale: Sequence[float] = (1.0, 1.0, 1.0),
    t: float = 0.0,
) -> Marker:
    marker = Marker(ns=ns, id=number, type=kind, action=Marker.ADD)
    marker.header.frame_id = WORLD
    set_stamp(marker.header.stamp, t)
    marker.pose.orientation.w = 1.0
    marker.scale.x, marker.scale.y, marker.scale.z = scale
    marker.color.r, marker.color.g, marker.color.b, marker.color.a = rgba
    return marker


def _points(points: np.ndarray) -> list[Point]:
    return [Point(x=x, y=y, z=z) for x, y, z in np.asarray(points, float).reshape(-1, 3).tolist()]


def _colours(rgb: np.ndarray) -> list[ColorRGBA]:
    return [ColorRGBA(r=r, g=g, b=b, a=1.0) for r, g, b in np.asarray(rgb, float).tolist()]


def _read_points(marker: Any) -> np.ndarray:
    """Return the points (n, 3) of a marker."""
    check_frame(marker)
    points = np.array([(p.x, p.y, p.z) for p in marker.points])
    if not np.isfinite(points).all():
        raise BadMessage("a non-finite point")
    return points
