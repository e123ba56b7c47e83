"""Distances by coal."""

import coal
import numpy as np
import trimesh


def convex(mesh: trimesh.Trimesh) -> coal.Convex:
    """Return the convex hull of a mesh."""
    hull = mesh.convex_hull
    vertices, triangles = coal.StdVec_Vec3s(), coal.StdVec_Triangle()
    vertices.extend(np.asarray(hull.vertices))
    triangles.extend([coal.Triangle(*map(int, f)) for f in hull.faces])
    return coal.Convex(vertices, triangles)


def distance(a, X_WA: coal.Transform3s, b, X_WB: coal.Transform3s) -> float:
    """Return the signed distance of two shapes [m]."""
    return coal.distance(a, X_WA, b, X_WB, coal.DistanceRequest(), coal.DistanceResult())
