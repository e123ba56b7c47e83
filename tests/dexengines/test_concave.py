"""Meshes that are not convex, loaded from files and specs."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
import trimesh

from dexengines import load


def hook_xml(extra: str = "") -> str:
    """A U of three boxes as one mesh, hung over a bar."""
    bars = [((0.12, 0.04, 0.02), (0, 0, 0.01)), ((0.02, 0.04, 0.08), (-0.05, 0, -0.04))]
    bars.append(((0.02, 0.04, 0.08), (0.05, 0, -0.04)))
    boxes = [trimesh.creation.box(size).apply_translation(at) for size, at in bars]
    body = trimesh.boolean.union(boxes, engine="manifold")
    vertex, face = (" ".join(map(str, np.ravel(x))) for x in (body.vertices, body.faces))
    return f"""<mujoco><asset><mesh name="u" vertex="{vertex}" face="{face}" inertia="exact"/></asset>
      <worldbody><geom name="bar" type="capsule" size=".01 .2" euler="90 0 0" friction=".5"/>
      <body pos="0 0 .0103"><freejoint/><geom name="u" type="mesh" mesh="u" mass=".3" friction=".5"/></body>
      </worldbody>{extra}</mujoco>"""


@pytest.fixture(scope="module")
def hook() -> mujoco.MjSpec:
    return mujoco.MjSpec.from_string(hook_xml())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "how"), [("mujoco", "convex parts"), ("hydroelastic", "filled with tets")]
)
def test_a_hook_hangs_on_its_bar_and_the_scene_says_how_it_collides(hook, engine, how):
    made = load(hook, engine)
    start = made.reset()
    q = made.rollout(start, np.zeros((300, 0))).q
    assert abs(q[-1, 2] - start.q[2]) < 2e-3
    (note,) = made.notes
    assert "'u'" in note and how in note and made.trouble() == ""


def test_parts_keep_mass_and_material_and_leave_the_spec_alone(hook):
    made = load(hook, "mujoco", materials={"u": {"restitution": 0.5}})
    whole = hook.compile()
    np.testing.assert_allclose(made.model.body_mass, whole.body_mass)
    np.testing.assert_allclose(made.model.body_inertia, whole.body_inertia, rtol=1e-6)
    parts = [g for g in made.collision.geoms if g.kind == "mesh"]
    assert len(parts) >= 3 and all(g.material.restitution == 0.5 for g in parts)
    assert whole.ngeom == hook.compile().ngeom == 2


def test_parts_of_a_turned_mesh_of_the_world_fill_its_place(hook):
    """More than one part, and bodies after the world's, whose geoms have later numbers."""
    turned = hook.copy()
    turned.worldbody.add_geom(
        name="v", type=mujoco.mjtGeom.mjGEOM_MESH, meshname="u", quat=[0, 1, 0, 0], pos=[0.3, 0, 0]
    )
    m = load(turned, "mujoco").model
    data = mujoco.MjData(m)
    mujoco.mj_forward(m, data)
    for name, low, high in (("u#", -0.0697, 0.0303), ("v#", -0.02, 0.08)):
        parts = [g for g in range(m.ngeom) if m.geom(g).name.startswith(name)]
        z = [
            m.mesh_vert[start : start + m.mesh_vertnum[k]] @ data.geom_xmat[g][6:] + data.geom_xpos[g, 2]
            for g in parts
            for k, start in [(m.geom_dataid[g], m.mesh_vertadr[m.geom_dataid[g]])]
        ]
        assert len(parts) >= 3
        assert min(map(np.min, z)) == pytest.approx(low, abs=5e-4)
        assert max(map(np.max, z)) == pytest.approx(high, abs=5e-4)


def test_a_compiled_model_is_left_alone_and_its_hull_noted(hook):
    made = load(hook.compile(), "mujoco")
    assert made.model.ngeom == 2 and "its hull" in made.notes[0]


def test_convex_meshes_are_not_noted():
    points = " ".join(str(x) for x in np.ravel(trimesh.creation.icosphere(2, 0.05).vertices))
    xml = f"""<mujoco><asset><mesh name="m" vertex="{points}"/></asset><worldbody><body><freejoint/>
      <geom type="mesh" mesh="m"/></body><geom type="plane" size="0 0 1"/></worldbody></mujoco>"""
    assert load(mujoco.MjSpec.from_string(xml), "mujoco").notes == ()
