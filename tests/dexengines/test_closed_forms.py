"""Scenes with a closed form, some of those that each engine claims, at its defaults: as the truth says and
without trouble. ``python -m experiments.engines.strangers`` runs all."""

import pytest

from experiments.engines.strangers import RIGHT, judged
from experiments.engines.strangers_scenes import SCENES

CHOSEN = {
    "mujoco": ("stack_100", "cube_4mm", "logs_stay", "logs_fall", "stop"),
    "hydroelastic": (
        *("slide", "belt", "ball_roll", "cyl_roll", "overhang_in", "overhang_out", "far_plane"),
        *("cube_4mm", "ball_2m", "stop"),
    ),
    "lcp": ("belt", "bullet"),
    "soft": ("slope_30", "slope_40_sticks"),
}


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        pytest.param(engine, name, marks=[pytest.mark.slow] if engine == "soft" else [])
        for engine, names in CHOSEN.items()
        for name in names
    ],
)
def test_a_scene_ends_as_its_closed_form_says(engine, name):
    row = judged(SCENES[name], engine)
    assert (row["claimed"], row["verdict"], row["said"]) == (True, RIGHT, ""), row
