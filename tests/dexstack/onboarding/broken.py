"""Good meshes, broken at random: what users bring."""

import numpy as np
import trimesh


def good(rng):
    """A body of 30 to 80 mm, in metres."""
    size = rng.uniform(0.03, 0.08, 3)
    return (
        lambda: trimesh.creation.box(size),
        lambda: trimesh.creation.icosphere(subdivisions=2, radius=size[0] / 2),
        lambda: trimesh.creation.cylinder(radius=size[0] / 2, height=size[1], sections=24),
        lambda: trimesh.creation.torus(0.03, 0.01, major_sections=24, minor_sections=12),
    )[rng.integers(4)]()


def _deleted(mesh, rng):
    mesh.update_faces(rng.random(len(mesh.faces)) > rng.choice([0.02, 0.2, 0.7]))


def _flipped(mesh, rng):
    which = rng.random(len(mesh.faces)) < rng.choice([0.05, 0.5, 1.0])
    mesh.faces[which] = mesh.faces[which][:, ::-1]


def _soup(mesh, rng):
    mesh.unmerge_vertices()
    mesh.vertices = mesh.vertices + rng.normal(0, rng.choice([0.0, 1e-7, 1e-4]), mesh.vertices.shape)


def _doubled(mesh, rng):
    mesh.faces = np.concatenate([mesh.faces, mesh.faces[rng.integers(0, len(mesh.faces), 5)]])


def _not_a_number(mesh, rng):
    mesh.vertices[rng.integers(len(mesh.vertices)), rng.integers(3)] = rng.choice([np.nan, np.inf, 1e30])


def _scaled(mesh, rng):
    mesh.vertices = mesh.vertices * 10.0 ** rng.uniform(-6, 6)


def _flat(mesh, rng):
    mesh.vertices = mesh.vertices * np.where(
        np.arange(3) == rng.integers(3), rng.choice([0.0, 1e-4, 0.05]), 1.0
    )


def _crossing(mesh, rng):
    mesh.vertices = mesh.vertices + rng.normal(0, rng.choice([0.002, 0.02]), mesh.vertices.shape)


def _two(mesh, rng):
    other = good(rng)
    other.apply_translation(rng.choice([0.01, 0.03, 0.2]) * np.eye(3)[rng.integers(3)])
    both = trimesh.util.concatenate([mesh, other])
    mesh.vertices, mesh.faces = both.vertices, both.faces


MUTATIONS = (_deleted, _flipped, _soup, _doubled, _not_a_number, _scaled, _flat, _crossing, _two)
BYTES = ("cut", "noise", "changed", "empty")


def mutated(seed):
    """A mesh with one to three faults."""
    rng = np.random.default_rng(seed)
    mesh = good(rng)
    mesh = trimesh.Trimesh(mesh.vertices, mesh.faces, process=False)
    for fault in rng.choice(len(MUTATIONS), rng.integers(1, 4), replace=False):
        if len(mesh.faces):
            MUTATIONS[fault](mesh, rng)
    return mesh


def write(folder, seed):
    """The file of a mutated mesh; every fourth with faults in its bytes."""
    rng = np.random.default_rng(10_000 + seed)
    suffix = (".stl", ".obj", ".ply", ".glb")[seed % 4]
    path = folder / f"broken{seed}{suffix}"
    mesh = mutated(seed) if seed % 4 != 3 or len(mutated(seed).faces) else good(rng)
    with np.errstate(all="ignore"):
        mesh.export(path)
    if rng.random() < 0.25:
        spoil(path, rng, 20)
    return path


def spoil(path, rng, changed):
    """Put a fault into the bytes of a file; of some kind ``changed`` bytes are others."""
    content = bytearray(path.read_bytes())
    kind = BYTES[rng.integers(len(BYTES))]
    if kind == "cut":
        content = content[: rng.integers(len(content))]
    elif kind == "noise":
        content = bytearray(rng.bytes(500))
    elif kind == "changed":
        for k in rng.integers(0, len(content), changed):
            content[k] = int(rng.integers(256))
    else:
        content = bytearray()
    path.write_bytes(content)
