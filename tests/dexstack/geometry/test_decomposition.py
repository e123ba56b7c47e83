"""Objects that are not convex: parts, their distances against the mesh's, the cache, and contacts in
a hole."""

import builtins

import jax.numpy as jnp
import numpy as np
import pytest
import trimesh

from dexstack.contact.detector import ContactDetector, DetectorParams
from dexstack.errors import ConfigError
from dexstack.geometry import decomposition
from dexstack.geometry.decomposition import CONCAVITIES, convex_parts, plane_sets
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.plants import make_plant
from dexstack.process.bounded import Ended

CONCAVITY = CONCAVITIES[-1]
INNER, OUTER, HEIGHT, SECTIONS = 0.02, 0.035, 0.03, 24


def ring_distance(x_B):
    """Signed distance of points (n, 3) to the ring [m]."""
    r = np.linalg.norm(x_B[:, :2], axis=1)
    outside = np.column_stack([np.maximum(r - OUTER, INNER - r), np.abs(x_B[:, 2]) - HEIGHT / 2])
    return np.minimum(outside.max(axis=1), 0.0) + np.linalg.norm(np.maximum(outside, 0.0), axis=1)


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    """A user's object: a thick ring, standing on the palm as a cube of its height would."""
    folder = tmp_path_factory.mktemp("ring")
    trimesh.creation.annulus(INNER, OUTER, HEIGHT, sections=SECTIONS).export(folder / "ring.obj")
    (folder / "ring.yaml").write_text(
        "name: ring\nmesh: ring.obj\nmass: 0.1\nparts: 32\nfriction: {sliding: 0.5, torsional: 0.005, "
        "rolling: 0.0001}\n"
        "start:\n  allegro: {position: [0.0, 0.0, 0.0263], yaw: 0.0, noise_position: 0.0, noise_yaw: 0.0}\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        obj = load_object(folder / "ring.yaml")
        assert len(obj.parts) > 1  # decomposed here, into the cache of this test
        yield obj


def test_a_convex_mesh_is_its_own_part():
    for name in ("cube", "foambrick", "stick"):
        obj = load_object(name)
        assert len(obj.parts) == 1 and obj.parts[0].vertices is obj.surface.vertices


@pytest.mark.slow
def test_the_parts_are_convex_and_the_ring_within_the_stated_error(ring):
    planes = plane_sets(ring.parts, DetectorParams.num_planes)
    skin, _ = trimesh.sample.sample_surface(ring.mesh, 4000, seed=0)
    surface_error = np.abs(planes.distance(np.vstack([skin, ring.mesh.vertices]))).max()
    assert all(part.mesh().is_convex for part in ring.parts)
    assert 0 < surface_error < 2 * CONCAVITY
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, (3000, 3)) * [0.05, 0.05, 0.03]
    truth = ring_distance(points)
    near = np.abs(truth) < 0.002
    assert near.sum() > 50
    chord = OUTER * (1 - np.cos(np.pi / SECTIONS))  # the mesh's faces lie that far inside its circle
    # edges of the parts have few planes: the shortfall there is the planes' own, not the parts'
    assert np.abs(planes.distance(points) - truth)[near].max() < 2 * CONCAVITY + chord
    assert planes.distance(np.zeros((1, 3)))[0] == pytest.approx(INNER, abs=2 * CONCAVITY)  # not filled


def test_a_decomposition_is_made_once(ring):
    assert len(convex_parts(ring.mesh, 32, pytest.fail)) == len(ring.parts)


def test_a_short_time_makes_parts_coarser_and_never_rejects_an_object(tmp_path, ring, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(decomposition, "SECONDS", 0.01)
    monkeypatch.setattr(decomposition, "HASTY_SECONDS", 0.01)
    monkeypatch.setattr("dexstack.process.bounded.POLL", 0.01)
    said = []
    [hull] = convex_parts(ring.mesh, 16, said.append)
    assert hull.mesh().volume == pytest.approx(ring.mesh.convex_hull.volume)
    assert any("coarse for lack of time: 1 convex parts within" in line for line in said)
    assert len(convex_parts(ring.mesh, 16, pytest.fail)) == 1


def test_parts_farther_from_the_mesh_than_its_hull_are_not_taken(tmp_path, monkeypatch):
    """A block with a dent of 4 mm; its parts, merged down to the limit, miss a slice of 30 mm."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    block, notch = trimesh.creation.box((0.1, 0.1, 0.04)), trimesh.creation.box((0.06, 0.06, 0.008))
    dented = block.difference(notch.apply_translation((0.0, 0.0, 0.02)))
    piece = trimesh.creation.box((0.07, 0.1, 0.04)).apply_translation((-0.015, 0.0, 0.0))
    made = {"part_000/vertices": piece.vertices, "part_000/faces": piece.faces}
    monkeypatch.setattr(decomposition, "bounded", lambda *_: Ended([made], False, ""))
    [hull] = convex_parts(dented, 1, lambda _: None)
    assert hull.mesh().volume == pytest.approx(0.1 * 0.1 * 0.04)


def test_a_missing_library_is_named_with_the_command_that_installs_it(tmp_path, ring, monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name == "coacd":
            raise ModuleNotFoundError(name=name)
        return real(name, *args, **kwargs)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ConfigError, match=r"fills 6\d % of its convex hull.*dexstack\[objects\]"):
        convex_parts(ring.mesh)


def test_a_fingertip_in_the_hole_is_not_inside_the_object(ring):
    """The detector finds the wall of the hole, with the normal that points back into it."""
    hand = load_hand("right")
    detector = ContactDetector(hand, ring)
    q = hand.pose("home")
    tips = hand.kinematics()
    p_WTip = np.asarray(tips.fingertips(tips.poses(jnp.asarray(q, jnp.float32))))[0]
    radius = 0.012
    pose = np.array([*(p_WTip - [INNER - radius - 0.001, 0.0, 0.0]), 1.0, 0.0, 0.0, 0.0])
    found = detector.detect(pose, q)
    on_tip = found.active & (np.linalg.norm(found.p_W - p_WTip, axis=1) < 0.025)
    assert on_tip.any()
    phi = found.phi[on_tip]
    assert (
        phi.max() < 0.01 and phi.min() > -(OUTER - INNER) / 2
    )  # nothing lies deeper in the wall; a hull would put the tip 15 mm deep


def test_the_plant_collides_with_the_parts(ring):
    hand = load_hand("right")
    plant = make_plant("mujoco", hand, ring)
    geoms = plant.model.body_geomnum[plant.model.body("object").id]
    assert geoms >= len(ring.parts)
    start = ring.start("allegro")
    plant.reset(hand.pose(start.hand_pose), start.pose_WO)
    assert plant.model.body("object").mass[0] == pytest.approx(0.1)
    for _ in range(100):
        plant.step(np.zeros(16))
    assert np.linalg.norm(plant.pose_WO[:3] - start.pose_WO[:3]) < 0.02
