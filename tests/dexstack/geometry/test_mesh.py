"""The mesh loader: closed meshes in metres are read, others rejected with the reason."""

import pytest
import trimesh

from dexstack.errors import ConfigError
from dexstack.geometry.mesh import load_mesh


@pytest.mark.parametrize("suffix", ("obj", "stl", "ply"))
def test_a_closed_mesh_is_read(tmp_path, suffix):
    path = tmp_path / f"box.{suffix}"
    trimesh.creation.box((0.02, 0.04, 0.06)).export(path)
    mesh = load_mesh(path)
    assert mesh.is_watertight and len(mesh.vertices) == 8
    assert mesh.volume == pytest.approx(48e-6, rel=1e-5)


def test_inward_faces_are_turned_outward(tmp_path):
    box = trimesh.creation.box((0.02, 0.04, 0.06))
    box.invert()
    box.export(tmp_path / "box.obj")
    assert load_mesh(tmp_path / "box.obj").volume > 0


def open_box() -> trimesh.Trimesh:
    box = trimesh.creation.box((0.05, 0.05, 0.05))
    return trimesh.Trimesh(box.vertices, box.faces[:-1])


@pytest.mark.parametrize(
    ("name", "mesh", "message"),
    [
        ("bad.obj", trimesh.creation.box((56, 56, 56)), "is 56 m wide; meshes are in metres"),
        ("bad.obj", trimesh.creation.box((1e-5, 1e-5, 1e-5)), "is 1e-05 m wide; meshes are in metres"),
        ("bad.obj", open_box(), "not watertight"),
        ("bad.obj", "# nothing\n", None),
        (
            "bad.obj",
            "v 0 0 0\nv 0 0 nan\nv 0 1 0\nv 1 0 0\nf 1 2 3\nf 1 2 4\nf 2 3 4\nf 1 3 4\n",
            "not finite",
        ),
        (
            "bad.obj",
            "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
            "git-lfs pointer",
        ),
        ("bad.txt", "not a mesh", "^cannot read the mesh"),
        ("bad.obj", None, "^there is no mesh file"),
    ],
)
def test_an_unusable_file_is_rejected(tmp_path, name, mesh, message):
    path = tmp_path / name
    if mesh is not None:
        path.write_text(mesh) if isinstance(mesh, str) else mesh.export(path)
    with pytest.raises(ConfigError, match=message) as caught:
        load_mesh(path)
    assert name in str(caught.value) and "\n" not in str(caught.value)


def test_a_vertex_that_no_face_uses_is_dropped(tmp_path):
    box = trimesh.creation.box((0.02, 0.04, 0.06)).export(file_type="obj")
    (tmp_path / "box.obj").write_text(f"{box}\nv 0 0 0.5\n")
    mesh = load_mesh(tmp_path / "box.obj")
    assert len(mesh.vertices) == 8 and mesh.vertices.max() == pytest.approx(0.03)


def test_a_closed_mesh_may_touch_itself_along_an_edge(tmp_path):
    boxes = [trimesh.creation.box((0.02, 0.02, 0.02)) for _ in range(2)]
    boxes[1].apply_translation([0.02, 0.02, 0.0])
    trimesh.util.concatenate(boxes).export(tmp_path / "touching.obj")
    mesh = load_mesh(tmp_path / "touching.obj")
    assert mesh.volume == pytest.approx(2 * 0.02**3)
    assert mesh.is_watertight
