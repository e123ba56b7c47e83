"""Tag bundles: rigid bodies with tags at known places, as YAML files.

.. code-block:: yaml

    name: cube
    tags:                          # family 36h11
      - id: 0
        edge: 0.040                # m, side of the black square
        centre: [0, 0, 0.028]      # m, in the body's frame
        normal: [0, 0, 1]          # out of the print, body's frame
        up: [0, 1, 0]              # direction of the tag's upper edge, body's frame
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from dexstack.errors import ConfigError
from dexstack.files import write_text
from dexstack.model.description import data_dir, number_list, read_yaml
from dexstack.perception.se3 import Transform
from dexstack.perception.tags import COUNT

CORNERS = np.array([[-0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.5, -0.5, 0.0], [-0.5, -0.5, 0.0]])
"""Corners of a tag of edge 1 in its own frame, in the order of
:class:`dexstack.perception.tags.Detection`."""


@dataclass(frozen=True)
class Tag:
    """One tag on a body."""

    tag: int
    edge: float
    """[m]"""
    X_OT: Transform
    """Pose on the body: origin in the tag's centre, x right, y up, z out of the print."""

    @property
    def corners(self) -> np.ndarray:
        """(4, 3) corners in the body's frame [m], in the order of a detection's."""
        return self.X_OT.apply(self.edge * CORNERS)

    @property
    def normal(self) -> np.ndarray:
        """(3,) unit vector out of the print, body's frame."""
        return self.X_OT.R[:, 2]


@dataclass(frozen=True)
class TagBundle:
    """A body and its tags by number."""

    name: str
    tags: dict[int, Tag]

    @property
    def points(self) -> np.ndarray:
        """(4 n, 3) all corners, body's frame [m]."""
        return np.concatenate([tag.corners for tag in self.tags.values()])


def load_bundle(path: str | Path) -> TagBundle:
    """Read a bundle.

    Raises:
        ConfigError: a missing or malformed file, a duplicate tag, a normal not perpendicular to up.
    """
    path = Path(path)
    document = read_yaml(path, ("name", "tags"))
    if not isinstance(document["tags"], list) or not document["tags"]:
        raise ConfigError(f"{path}: 'tags' must be a list of tags")
    tags: dict[int, Tag] = {}
    for k, entry in enumerate(document["tags"]):
        tag = _tag(path, f"tags[{k}]", entry)
        if tag.tag in tags:
            raise ConfigError(f"{path}: the tag {tag.tag} is listed twice")
        tags[tag.tag] = tag
    return TagBundle(str(document["name"]), tags)


def _tag(path: Path, where: str, entry: Any) -> Tag:
    keys = ("id", "edge", "centre", "normal", "up")
    if not isinstance(entry, dict) or set(entry) != set(keys):
        raise ConfigError(f"{path}: '{where}' must have exactly the entries {', '.join(keys)}")
    number = entry["id"]
    if type(number) is not int or not 0 <= number < COUNT:
        raise ConfigError(
            f"{path}: '{where}.id' must be a whole number from 0 to {COUNT - 1}, got {number!r}"
        )
    edge = float(number_list(path, f"{where}.edge", [entry["edge"]], 1)[0])
    if not 0.001 <= edge <= 1.0:
        raise ConfigError(f"{path}: '{where}.edge' must lie in [0.001, 1] m, got {edge:g}")
    normal, up = (number_list(path, f"{where}.{key}", entry[key], 3) for key in ("normal", "up"))
    lengths = np.linalg.norm(normal), np.linalg.norm(up)
    if min(lengths) < 1e-3 or abs(normal @ up) > 0.02 * lengths[0] * lengths[1]:
        raise ConfigError(
            f"{path}: '{where}.normal' and '{where}.up' must be perpendicular, got {entry['normal']} and "
            f"{entry['up']}"
        )
    z = normal / lengths[0]
    y = up - (up @ z) * z
    y /= np.linalg.norm(y)
    centre = number_list(path, f"{where}.centre", entry["centre"], 3)
    return Tag(number, edge, Transform(np.column_stack([np.cross(y, z), y, z]), centre))


def save_bundle(path: str | Path, bundle: TagBundle, comment: str) -> None:
    """Write a bundle for :func:`load_bundle`.

    Raises:
        ConfigError: the file cannot be written.
    """

    def numbers(v: np.ndarray) -> list[float]:
        return [round(float(x), 7) + 0.0 for x in v]

    tags = [
        {
            "id": t.tag,
            "edge": t.edge,
            "centre": numbers(t.X_OT.p),
            "normal": numbers(t.normal),
            "up": numbers(t.X_OT.R[:, 1]),
        }
        for t in bundle.tags.values()
    ]
    text = yaml.safe_dump({"name": bundle.name, "tags": tags}, sort_keys=False, default_flow_style=None)
    write_text(path, f"# {comment}\n{text}")


def object_bundle(name: str | Path) -> TagBundle:
    """Read the tags of an object from ``tags.yaml`` in the folder of the object's YAML.

    Raises:
        ConfigError: a missing or malformed file.
    """
    folder = (
        Path(name).parent if Path(name).suffix in (".yaml", ".yml") else data_dir() / "objects" / str(name)
    )
    if not folder.is_dir():
        raise ConfigError(f"unknown object '{name}'")
    path = folder / "tags.yaml"
    if not path.is_file():
        raise ConfigError(f"the object '{name}' has no tags: there is no {path}; see docs/perception.md")
    return load_bundle(path)


def base_bundle() -> TagBundle:
    """Read the tags on the hand's base, in the palm frame."""
    return load_bundle(data_dir() / "hands" / "base_tags.yaml")
