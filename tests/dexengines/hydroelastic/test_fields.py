"""Pressure fields: shapes, validation, filled meshes."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
import trimesh

from dexengines import load
from dexengines.errors import EngineError
from dexengines.hydroelastic import shapes
from dexengines.hydroelastic.fields import CompliantMesh, RigidMesh

E = 1e5
BUILT = {
    "sphere": shapes.sphere(0.05, E, size=0.02),
    "ellipsoid": shapes.ellipsoid((0.05, 0.03, 0.02), E, size=0.02),
    "box": shapes.box((0.1, 0.06, 0.04), E),
    "cube": shapes.box((0.1, 0.1, 0.1), E),
    "long cylinder": shapes.cylinder(0.02, 0.1, E, size=0.01),
    "flat cylinder": shapes.cylinder(0.02, 0.01, E, size=0.01),
    "equal cylinder": shapes.cylinder(0.02, 0.04, E, size=0.01),
    "capsule": shapes.capsule(0.02, 0.06, E, size=0.01),
    "convex": shapes.convex(np.random.default_rng(0).normal(size=(30, 3)), E),
}


@pytest.mark.parametrize("name", BUILT)
def test_tets_fill_a_shape_with_zero_pressure_on_its_surface_and_E_at_its_core(name: str) -> None:
    m = BUILT[name]
    surface = shapes.rigid(m)
    hull = trimesh.Trimesh(surface.vertices_B, surface.triangles, process=False)
    assert hull.is_watertight and hull.is_winding_consistent
    assert m.volumes.sum() == pytest.approx(hull.volume, rel=1e-12)
    assert (m.pressure[m.boundary_triangles] == 0).all() and m.pressure.max() == E
    assert set(m.packed.seed[:, 0]) == set(np.flatnonzero(m.pressure == E))


def test_the_pressure_of_a_box_is_its_depth_over_half_its_shortest_side() -> None:
    m = BUILT["box"]
    rng = np.random.default_rng(1)
    half = np.array([0.05, 0.03, 0.02])
    for x in rng.uniform(-half, half, (200, 3)):
        b = m.planes[:, :, :3] @ x + m.planes[:, :, 3]
        t = int(np.argmax(b.min(axis=1)))
        assert m.gradient_B[t] @ x + m.offset[t] == pytest.approx(
            E * (half - np.abs(x)).min() / 0.02, abs=1e-6 * E
        )


def test_bad_meshes_are_rejected() -> None:
    points = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    with pytest.raises(EngineError, match="inside out"):
        CompliantMesh("x", points, np.array([[0, 2, 1, 3]]), np.zeros(4), E)
    with pytest.raises(EngineError, match="finite vertices"):
        CompliantMesh("x", points * np.nan, np.array([[0, 1, 2, 3]]), np.zeros(4), E)
    with pytest.raises(EngineError, match="one finite pressure"):
        CompliantMesh("x", points, np.array([[0, 1, 2, 3]]), np.zeros(3), E)
    with pytest.raises(EngineError, match="does not have"):
        RigidMesh("x", points, np.array([[0, 1, 7]]))
    with pytest.raises(EngineError, match="no area"):
        RigidMesh("x", points, np.array([[0, 1, 1]]))
    with pytest.raises(EngineError, match="positive"):
        shapes.sphere(-1.0, E, size=0.1)


_BLOCKS = [
    trimesh.creation.box((0.1, 0.06, 0.04)),
    trimesh.creation.box((0.04, 0.04, 0.02)).apply_translation((0.2, 0, 0)),
]
FILLED = {  # greatest depth and size of the tets
    "ring": (trimesh.creation.torus(0.04, 0.015, major_sections=24, minor_sections=12), 0.015, 0.02),
    "thin ring": (trimesh.creation.torus(0.05, 0.005, major_sections=48, minor_sections=12), 0.005, 0.01),
    "sphere": (trimesh.creation.icosphere(3, 0.05), 0.05, 0.02),
    "tube": (trimesh.creation.annulus(0.03, 0.035, 0.04), 0.0025, 0.01),
    "two blocks": (trimesh.util.concatenate(_BLOCKS), 0.02, 0.02),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FILLED)
def test_the_field_of_a_filled_mesh_rises_with_depth(name: str) -> None:
    from dexengines.hydroelastic.meshing import compliant_mesh

    surface, depth, size = FILLED[name]
    for _ in range(2):  # the tets differ
        m = compliant_mesh(surface, E, size=size, name=name)
        assert m.volumes.sum() == pytest.approx(surface.volume, rel=0.02)
        assert (m.pressure[m.boundary_triangles] == 0).all() and m.pressure.max() == pytest.approx(E)
        assert (m.pressure[m.tets].max(axis=1) > 0).all()
        slope = np.linalg.norm(m.gradient_B[m.boundary[:, 0]], axis=1) * depth / E
        assert np.median(slope) == pytest.approx(1.0, rel=0.15) and slope.min() > 0.1


@pytest.mark.slow
def test_an_open_mesh_is_rejected() -> None:
    from dexengines.hydroelastic.meshing import compliant_mesh

    torus = FILLED["ring"][0]
    with pytest.raises(EngineError, match="watertight"):
        compliant_mesh(trimesh.Trimesh(torus.vertices, torus.faces[1:]), E, size=0.02)


@pytest.mark.slow
def test_a_ring_filled_with_tets_falls_over_a_post_on_which_its_hull_stops() -> None:
    ring = trimesh.creation.torus(0.05, 0.02, major_sections=24, minor_sections=12)
    points, faces = (" ".join(map(str, np.ravel(x))) for x in (ring.vertices, ring.faces))
    xml = f"""<mujoco><option timestep="0.001"/><asset><mesh name="ring" vertex="{points}" face="{faces}"/>
    </asset><worldbody>
      <geom name="floor" type="plane" size="1 1 1"/><geom name="post" type="capsule" fromto="0 0 0 0 0
      0.08" size="0.015"/>
      <body pos="0.005 0 0.15"><freejoint/><geom name="ring" type="mesh" mesh="ring" density="500"/></body>
      </worldbody></mujoco>"""
    ends = []
    for materials in ({"ring": {"tets": 0.02, "modulus": 1e6}}, {"ring": {"modulus": 1e6}}):
        scene = load(mujoco.MjModel.from_xml_string(xml), "hydroelastic", materials=materials)
        ends.append(scene.rollout(scene.reset(), np.zeros((400, 0))))
        assert not scene.system.unsolved
    filled, hull = (states.q[-1, 2] for states in ends)
    assert filled == pytest.approx(0.02, abs=5e-4) and np.abs(ends[0].v[-1]).max() < 1e-3
    assert hull > 0.05
