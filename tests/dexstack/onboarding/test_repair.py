"""Repair of meshes: one closed body or one sentence."""

import importlib.util

import numpy as np
import pytest
import trimesh

from dexstack.errors import ConfigError
from dexstack.onboarding import repair as module
from dexstack.onboarding.repair import (
    ENOUGH_FACES,
    FORMATS,
    plausible_units,
    read_mesh,
    repair,
    repair_within,
    repaired_arrays,
)
from dexstack.process.bounded import Ended

CUBE = 0.05


def box(size=CUBE, at=(0.0, 0.0, 0.0)):
    return trimesh.creation.box((size,) * 3).apply_translation(at)


def together(*meshes):
    return trimesh.util.concatenate(meshes)


def test_a_sound_mesh_is_not_changed():
    mesh = trimesh.creation.torus(0.03, 0.01)
    found = repair(mesh)
    assert found.steps == () and found.added == found.lost == found.removed == 0.0
    assert len(found.mesh.faces) == len(mesh.faces) and found.mesh.volume == pytest.approx(mesh.volume)


def test_a_cavity_is_kept():
    hollow = box(0.03)
    hollow.invert()
    assert repair(together(box(), hollow)).mesh.volume == pytest.approx(0.05**3 - 0.03**3)


def test_a_hole_is_closed():
    mesh = trimesh.creation.icosphere(subdivisions=3, radius=0.03)
    volume = mesh.volume
    mesh.update_faces(np.arange(len(mesh.faces)) % 50 != 0)
    found = repair(mesh)
    assert found.mesh.is_watertight and found.mesh.volume == pytest.approx(volume, rel=0.01)
    assert "closed holes" in found.steps[0] and 0.0 < found.added < 0.002 and found.lost < 0.001


def test_a_missing_side_is_closed_and_its_depth_is_reported():
    mesh = box()
    mesh.update_faces(~(mesh.face_normals[:, 2] > 0.5))
    found = repair(mesh)
    assert found.mesh.volume == pytest.approx(CUBE**3)
    assert found.added == pytest.approx(CUBE / 2, rel=0.35)  # the lid's middle is half a side from the rim


@pytest.mark.parametrize("which", (slice(None), slice(None, None, 5)))
def test_faces_are_turned_outward(which):
    mesh = trimesh.creation.icosphere(subdivisions=2, radius=0.03)
    volume = mesh.volume
    mesh.faces[which] = mesh.faces[which][:, ::-1]
    assert repair(mesh).mesh.volume == pytest.approx(volume, rel=1e-6)


def test_bodies_that_overlap_are_united():
    found = repair(together(box(), box(at=(0.03, 0.01, 0.02))))
    assert found.mesh.volume == pytest.approx(2 * CUBE**3 - 0.02 * 0.04 * 0.03)
    assert found.added < 1e-9 and found.lost <= 1e-4  # surface inside the other body is not lost


def test_separate_bodies_are_rejected_with_their_places_and_crumbs_dropped():
    with pytest.raises(
        ConfigError,
        match=r"2 bodies that do not touch: around \[0\.0, 0\.0, 0\.0\] and \[80\.0, 0\.0, 0\.0\] mm",
    ):
        repair(together(box(), box(at=(0.08, 0, 0))))
    found = repair(together(box(), box(0.003, (0.06, 0, 0))))
    assert found.mesh.volume == pytest.approx(CUBE**3) and "dropped 1" in found.steps[0]


def test_a_fine_mesh_is_simplified():
    mesh = trimesh.creation.icosphere(subdivisions=6, radius=0.03)
    found = repair(mesh)
    assert len(mesh.faces) > 80_000 and len(found.mesh.faces) <= ENOUGH_FACES
    assert found.mesh.is_watertight and max(found.added, found.removed) < 0.005 * 0.06


def test_a_mesh_without_volume_is_rejected():
    sheet = trimesh.Trimesh([[0, 0, 0], [0.05, 0, 0], [0.05, 0.05, 0], [0, 0.05, 0]], [[0, 1, 2], [0, 2, 3]])
    with pytest.raises(ConfigError, match=r"flat sheet .*square to \[0\.0, 0\.0, -?1\.0\]"):
        repair(sheet)
    with pytest.raises(ConfigError, match="no triangle with an area"):
        repair(trimesh.Trimesh([[0, 0, 0], [1, 0, 0], [2, 0, 0]], [[0, 1, 2]], process=False))


@pytest.mark.parametrize(
    ("longest", "units"),
    [
        (56.0, ["mm"]),
        (0.056, ["m"]),
        (1.2, ["in"]),
        (15.0, ["cm"]),
        (5.0, ["cm", "in"]),
        (0.5, []),
        (1000.0, []),
    ],
)
def test_units_are_inferred_from_the_size(longest, units):
    assert plausible_units(longest) == units


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d7a" * 16 + b"\nsize 123456\n"
PAGE = b"\n<!DOCTYPE html>\n<html><head><title>mug.stl</title></head></html>\n"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("noise.stl", bytes(range(256)) * 3, "noise.stl"),
        ("empty.obj", b"", "the file is empty"),
        ("thing.txt", b"hello", "thing.txt"),
        ("none.stl", None, "there is no mesh file .*none.stl"),
        ("nan.obj", b"v 0 0 0\nv 1 0 0\nv 0 nan 0\nf 1 2 3\n", "vertex 2 lies at"),
        ("beyond.obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 9\n", "beyond.obj"),
        *((f"pointer{suffix}", POINTER, "git-lfs pointer") for suffix in FORMATS),
        *((f"page{suffix}", PAGE, "HTML page") for suffix in FORMATS),
        ("cut.stl", trimesh.creation.box().export(file_type="stl")[:400], "cut short, 400 of 684 bytes"),
    ],
)
def test_a_file_without_a_mesh_is_described_in_one_sentence(name, content, said, tmp_path):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=said) as caught:
        read_mesh(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_missing_libraries_are_named_with_the_command_that_installs_them(monkeypatch):
    real = importlib.util.find_spec
    missing = ("manifold3d", "pymeshfix")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in missing else real(name))
    with pytest.raises(
        ConfigError, match=r"manifold3d and pymeshfix must be installed: pip install 'dexstack\[objects\]'"
    ):
        repair(box())


def ends(monkeypatch, *ends):
    """Let the process of a repair end in these ways, one after the other; return its calls."""
    left, calls = list(ends), []

    def bounded(target, arrays, seconds):
        calls.append(target)
        return left.pop(0)(arrays)

    monkeypatch.setattr(module, "bounded", bounded)
    return calls


def hung(arrays):
    return Ended([], True, "", hung=True)


def late(arrays):
    return Ended([], True, "")


def good(arrays):
    return Ended(list(repaired_arrays(arrays)), False, "")


def test_a_repair_that_hangs_is_tried_again(monkeypatch):
    box = trimesh.creation.box((0.04, 0.05, 0.06))
    calls = ends(monkeypatch, hung, good)
    assert repair_within(box, 1.0).steps == () and len(calls) == 2


@pytest.mark.parametrize("how", [(late,), (hung, late), (hung, hung)])
def test_a_repair_that_takes_too_long_gives_the_hull_and_says_so(how, monkeypatch):
    """Of two blocks with a gap of 20 mm, whose middle is 10 mm from both."""
    blocks = [trimesh.creation.box((0.03, 0.04, 0.05)) for _ in range(2)]
    blocks[1].apply_translation((0.05, 0.0, 0.0))
    ends(monkeypatch, *how)
    found = repair_within(trimesh.util.concatenate(blocks), 1.0)
    assert found.mesh.volume == pytest.approx(0.08 * 0.04 * 0.05)
    assert found.added == pytest.approx(0.01, abs=5e-4) and found.lost < 1e-3
    (step,) = found.steps
    assert "convex hull" in step and "1 s" in step
