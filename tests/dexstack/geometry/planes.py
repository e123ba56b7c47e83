"""Errors of support planes, for the tests of planes, C-SDF and detector."""

from dataclasses import dataclass

import numpy as np
import trimesh
from scipy.spatial import HalfspaceIntersection, cKDTree

from dexstack.geometry.support_planes import REACH, choose_planes, normal_cones

NEAR = 0.002
"""Distance from the object below which bodies touch for a planner [m]."""


@dataclass(frozen=True)
class SupportPlanes:
    """Support planes of the convex hull of a mesh, in the mesh's frame B."""

    nhat_B: np.ndarray
    """(K, 3) unit outward normals."""
    offset: np.ndarray
    """(K,) b_i = −max over the hull of n_i · x [m]."""
    distance_error: float
    """Largest shortfall of the plane distance against the Euclidean one, over a dense sample of
    points up to REACH outside the hull [m]; it is largest off the corners, where few planes serve a
    wide range of directions."""
    contact_error: float
    """The same up to NEAR outside the hull, where contacts are made [m]."""
    hull_error: float
    """Largest distance of the planes' intersection beyond a face of the hull [m] (0 when every face
    has its plane)."""
    concavity: float
    """Largest distance of a point on the hull from the mesh surface [m]."""


def support_planes(mesh: trimesh.Trimesh, num_planes: int = 128) -> SupportPlanes:
    """Return the planes of :func:`choose_planes` with their errors."""
    chosen, offset = choose_planes(mesh, num_planes)
    hull = mesh.convex_hull
    vertices = np.asarray(hull.vertices, float)
    surface, outward = normal_cones(hull)

    def shortfall(reach: float) -> float:  # it grows along every normal, so it is largest at the end
        return float(reach - np.min(np.max((surface + reach * outward) @ chosen.T + offset, axis=1)))

    face_n, face_b = (
        np.asarray(hull.face_normals),
        np.einsum("fi,fi->f", hull.face_normals, hull.triangles[:, 0]),
    )
    corners = HalfspaceIntersection(
        np.column_stack([chosen, offset]), np.mean(vertices, axis=0)
    ).intersections
    skin, _ = trimesh.sample.sample_surface(hull, 4000, seed=0)
    samples, _ = trimesh.sample.sample_surface(mesh, 40000, seed=0)
    gap, _ = cKDTree(np.vstack([samples, mesh.vertices])).query(skin)
    spacing = np.sqrt(mesh.area / 40000)  # of the samples on the mesh
    return SupportPlanes(
        nhat_B=chosen,
        offset=offset,
        distance_error=shortfall(REACH),
        contact_error=shortfall(NEAR),
        hull_error=float(max(np.max(corners @ face_n.T - face_b), 0.0)),
        concavity=float(max(np.max(gap) - 3 * spacing, 0.0)),
    )
