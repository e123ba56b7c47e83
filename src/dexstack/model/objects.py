"""Objects for a hand: one folder each, with a YAML and a mesh; a new object needs no code."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dexstack.errors import ConfigError
from dexstack.geometry.decomposition import PARTS, Surface, convex_parts, hull_vertices
from dexstack.geometry.symmetry import ANY, HIGHEST_ORDER, NONE, Axis, Symmetry
from dexstack.model.description import data_dir, number_list, read_yaml
from dexstack.model.urdf import check_inertia
from dexstack.process.kept import digest, kept_arrays, sources

if TYPE_CHECKING:
    import trimesh

_SINGLE_FILE = (".obj", ".stl", ".ply", ".off")
"""Mesh formats that refer to no other file that is read."""
MOST_PARTS = 256
_START = ("position", "yaw", "noise_position", "noise_yaw")
_OPTIONAL = {"hand_pose", "planner"}
UNTUNED = "sampling"
"""Default planner for objects and hands that no parameters were tuned for; it takes far more
processor time than the tasks' default."""


@dataclass(frozen=True)
class Start:
    """Start of the object in a task, and its disturbance in a trial."""

    pose_WO: np.ndarray
    """(7,) position [m] and quaternion wxyz in the world."""
    noise_position: float
    """Standard deviation of x and of y [m]."""
    noise_yaw: float
    """Largest turn about world z in either direction [rad]."""
    hand_pose: str
    """Name of the hand's pose, see :meth:`dexstack.model.hand.HandModel.pose`."""
    planner: str = ""
    """Planner for this start; empty: the task's."""


@dataclass(frozen=True)
class ObjectModel:
    """A rigid object. Its frame O has the axes of the mesh file, and its origin in the centre of mass
    at uniform density."""

    name: str
    mesh_path: Path
    surface: Surface
    """In frame O [m]."""
    mass: float
    """[kg]"""
    inertia: np.ndarray
    """(3, 3) about the centre of mass, axes of O, at uniform density [kg m²]."""
    size: np.ndarray
    """(3,) extents of the mesh along the axes of O [m]."""
    friction: np.ndarray
    """(3,) sliding [-], torsional [m], rolling [m]."""
    contact_dimension: int
    """3: sliding friction only; 4: with torsional; 6: with rolling."""
    starts: dict[str, Start]
    """Start by task, or by hand family for turning on a palm."""
    max_parts: int = PARTS
    """Largest number of convex parts."""
    symmetry: Symmetry = NONE
    """Rotations that goals, errors and costs ignore."""
    com: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Centre of mass in frame O [m]; not zero only in a plant, unknown to the controller."""
    contact_stiffness: float = 1.0
    """Factor on the stiffness of a plant's contacts, unknown to the controller."""

    @functools.cached_property
    def mesh(self) -> trimesh.Trimesh:
        """The surface for trimesh, which takes half a second to import."""
        return self.surface.mesh()

    @functools.cached_property
    def parts(self) -> tuple[Surface, ...]:
        """Convex parts that make up the object, in frame O: the surface alone if it is convex.

        Raises:
            ConfigError: the mesh is not convex, and CoACD is not installed or fails.
        """
        return convex_parts(self.surface, self.max_parts)

    @functools.cached_property
    def hull_vertices(self) -> np.ndarray:
        """(H, 3) corners of the convex hull, frame O [m]."""
        return hull_vertices(self.surface)

    def start(self, task: str, side: str = "right") -> Start:
        """Return the start for ``task`` in a hand of a ``side``: in a left hand at −y of its place
        in a right one.

        Raises:
            ConfigError: the object has no start for the task.
        """
        return _start(self.name, self.starts, task, side)


def scaled(obj: ObjectModel, *, mass: float = 1.0, friction: float = 1.0, size: float = 1.0) -> ObjectModel:
    """Scale an object's mass, sliding friction and size; the gap to its support at the starts stays.

    Raises:
        ConfigError: a factor is not positive.
    """
    if min(mass, friction, size) <= 0.0 or not np.isfinite([mass, friction, size]).all():
        raise ConfigError(
            f"factors of an object's mass, friction and size must be positive, got {mass:g}, {friction:g}, "
            f"{size:g}"
        )
    surface = obj.surface._replace(vertices=size * obj.surface.vertices)
    raised = np.array([0.0, 0.0, (size - 1.0) * -obj.surface.vertices[:, 2].min(), 0.0, 0.0, 0.0, 0.0])
    return replace(
        obj,
        surface=surface,
        mass=mass * obj.mass,
        inertia=mass * size**2 * obj.inertia,
        size=size * obj.size,
        friction=obj.friction * [friction, 1.0, 1.0],
        starts={task: replace(start, pose_WO=start.pose_WO + raised) for task, start in obj.starts.items()},
    )


def object_names() -> tuple[str, ...]:
    """Return the names of the packaged objects."""
    return tuple(
        sorted(p.parent.name for p in (data_dir() / "objects").glob("*/*.yaml") if p.stem == p.parent.name)
    )


def load_object(name: str | Path) -> ObjectModel:
    """Load a packaged object by its name, or a user's object by the path of its YAML.

    Raises:
        ConfigError: an unknown name, a missing or malformed file, an unusable mesh, an impossible
            mass or inertia.
    """
    path, document = _read(name)
    mass = float(number_list(path, "mass", [document["mass"]], 1)[0])
    if mass <= 0.0:
        raise ConfigError(f"{path}: 'mass' must be positive, got {mass:g} kg")
    dimension = document.get("contact_dimension", 3)
    if dimension not in (3, 4, 6):
        raise ConfigError(f"{path}: 'contact_dimension' must be 3, 4 or 6, got {dimension!r}")
    parts = document.get("parts", PARTS)
    if type(parts) is not int or not 1 <= parts <= MOST_PARTS:
        raise ConfigError(f"{path}: 'parts' must be a whole number from 1 to {MOST_PARTS}, got {parts!r}")
    friction = _section(path, document, "friction", ("sliding", "torsional", "rolling"))
    if min(friction.values()) < 0.0:
        raise ConfigError(f"{path}: friction must not be negative")
    mesh_path = path.parent / str(document["mesh"])
    facts = _mesh_facts(mesh_path)
    inertia = mass / float(facts["volume"]) * facts["inertia"]
    inertia = (inertia + inertia.T) / 2.0
    check_inertia(f"object '{document['name']}' of {path}", mass, inertia)
    return ObjectModel(
        name=str(document["name"]),
        mesh_path=mesh_path,
        surface=Surface(facts["vertices"], facts["faces"]),
        mass=mass,
        inertia=inertia,
        size=np.ptp(facts["vertices"], axis=0),
        friction=np.array(list(friction.values())),
        contact_dimension=int(dimension),
        starts=_starts(path, document["start"]),
        max_parts=parts,
        symmetry=_symmetry(path, document.get("symmetry")),
    )


def object_name(name: str | Path) -> str:
    """Return the name in an object's YAML.

    Raises:
        ConfigError: an unknown name, or a malformed file.
    """
    return str(_read(name)[1]["name"])


def _mesh_facts(path: Path) -> dict[str, np.ndarray]:
    """Return vertices about the centre of mass, faces, volume, and inertia at density one. Cached by
    the file's content.

    Raises:
        ConfigError: see :func:`~dexstack.geometry.mesh.load_mesh`.
    """

    def compute() -> dict[str, np.ndarray]:
        from dexstack.geometry.mesh import load_mesh

        mesh = load_mesh(path)
        mesh.apply_translation(-mesh.center_mass)
        mesh.density = 1.0
        of_volume = {"volume": np.array(mesh.volume), "inertia": np.array(mesh.moment_inertia)}
        return {"vertices": np.array(mesh.vertices), "faces": np.array(mesh.faces), **of_volume}

    if path.suffix.lower() not in _SINGLE_FILE or not path.is_file():
        return compute()
    return kept_arrays(
        "meshes", digest(sources("dexstack.geometry"), path.suffix, path.read_bytes()), compute
    )


def load_start(name: str | Path, task: str, side: str = "right") -> Start | None:
    """Return :meth:`ObjectModel.start` without reading the mesh, or None if the object has no start
    for this task.

    Raises:
        ConfigError: an unknown name, or a malformed file.
    """
    path, document = _read(name)
    starts = _starts(path, document["start"])
    return _start(str(document["name"]), starts, task, side) if task in starts else None


def _read(name: str | Path) -> tuple[Path, dict[str, Any]]:
    """Return path and contents of an object's YAML."""
    if str(name) in object_names():
        path = data_dir() / "objects" / str(name) / f"{name}.yaml"
    elif Path(name).suffix in (".yaml", ".yml"):
        path = Path(name)
    else:
        raise ConfigError(
            f"unknown object '{name}'; known: {', '.join(object_names())}, or the path of an object's YAML "
            "file"
        )
    return path, read_yaml(
        path, ("name", "mesh", "mass", "friction", "start"), ("contact_dimension", "parts", "symmetry")
    )


def load_symmetry(name: str | Path) -> Symmetry:
    """Return :attr:`ObjectModel.symmetry` without reading the mesh.

    Raises:
        ConfigError: an unknown name, or a malformed file.
    """
    path, document = _read(name)
    return _symmetry(path, document.get("symmetry"))


def _symmetry(path: Path, section: Any) -> Symmetry:
    if section is None:
        return NONE
    if not isinstance(section, list) or not all(
        isinstance(axis, dict) and set(axis) == {"axis", "order"} for axis in section
    ):
        raise ConfigError(f"{path}: 'symmetry' must be a list of axes, each with the entries axis and order")
    axes = []
    for k, entry in enumerate(section):
        direction = number_list(path, f"symmetry[{k}].axis", entry["axis"], 3)
        order, length = entry["order"], float(np.linalg.norm(direction))
        if length < 1e-6:
            raise ConfigError(f"{path}: 'symmetry[{k}].axis' has no direction")
        if type(order) is not int or (order != ANY and not 2 <= order <= HIGHEST_ORDER):
            raise ConfigError(
                f"{path}: 'symmetry[{k}].order' must be 2 to {HIGHEST_ORDER}, or {ANY} for any angle, got "
                f"{order!r}"
            )
        axes.append(Axis(direction / length, order))
    try:
        return Symmetry(tuple(axes))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _start(name: str, starts: dict[str, Start], task: str, side: str) -> Start:
    if task not in starts:
        raise ConfigError(
            f"the object '{name}' has no start pose for the task '{task}'; it has {', '.join(starts)}"
        )
    start = starts[task]
    return start if side == "right" else replace(start, pose_WO=mirrored(start.pose_WO))


def mirrored(pose_WO: np.ndarray) -> np.ndarray:
    """Return the pose (7,) in the other hand: at −y, in the same orientation."""
    return pose_WO * [1.0, -1.0, 1.0, 1.0, 1.0, 1.0, 1.0]


def _section(path: Path, document: dict[str, Any], key: str, entries: tuple[str, ...]) -> dict[str, float]:
    section = document[key]
    if not isinstance(section, dict) or set(section) != set(entries):
        raise ConfigError(f"{path}: '{key}' must have exactly the entries {', '.join(entries)}")
    return {entry: float(number_list(path, f"{key}.{entry}", [section[entry]], 1)[0]) for entry in entries}


def _starts(path: Path, section: Any) -> dict[str, Start]:
    if not isinstance(section, dict) or not section:
        raise ConfigError(f"{path}: 'start' must give a pose for at least one task")
    starts = {}
    for task, entry in section.items():
        if not isinstance(entry, dict) or not set(entry) - _OPTIONAL == set(_START):
            raise ConfigError(
                f"{path}: 'start.{task}' must have the entries {', '.join(_START)} and may have "
                f"{' and '.join(sorted(_OPTIONAL))}"
            )
        position = number_list(path, f"start.{task}.position", entry["position"], 3)
        yaw, noise_position, noise_yaw = (
            float(number_list(path, f"start.{task}.{k}", [entry[k]], 1)[0]) for k in _START[1:]
        )
        if noise_position < 0.0 or noise_yaw < 0.0:
            raise ConfigError(f"{path}: the noise of 'start.{task}' must not be negative")
        pose_WO = np.concatenate([position, [np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)]])
        hand_pose, planner = str(entry.get("hand_pose", "home")), str(entry.get("planner", ""))
        starts[str(task)] = Start(pose_WO, noise_position, noise_yaw, hand_pose, planner)
    return starts
