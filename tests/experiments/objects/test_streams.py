"""The things that are turned to any orientation."""

import json

import pytest

from dexstack.errors import ConfigError
from experiments.objects.streams import smallest


def test_the_smallest_things_that_can_be_turned_are_chosen(tmp_path):
    rows = [
        {"name": "can", "size_mm": [66.0, 66.0, 90.0], "told": None, "refused": None},
        {"name": "lemon", "size_mm": [50.0, 50.0, 70.0], "told": None, "refused": None},
        {"name": "bread", "size_mm": [40.0, 40.0, 45.0], "told": None, "refused": "holes"},
        {"name": "mug", "size_mm": [60.0, 60.0, 60.0], "told": "too wide", "refused": None},
    ]
    for row in rows:
        (tmp_path / row["name"]).mkdir()
        (tmp_path / row["name"] / "row.json").write_text(json.dumps(row))
    assert smallest(tmp_path, 2) == ["lemon", "can"]
    with pytest.raises(ConfigError, match="has 2 things that were turned, 3 needed"):
        smallest(tmp_path, 3)
