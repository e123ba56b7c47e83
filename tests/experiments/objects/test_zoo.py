"""The zoo's bodies are bodies, the same from the same seed; one of them is added."""

import numpy as np
import pytest

from experiments.objects import zoo


@pytest.mark.parametrize("name", zoo.BODIES)
def test_every_body_is_closed_and_drawn_from_the_seed(name):
    _, shape = zoo.BODIES[name]
    mesh, again = (shape(np.random.default_rng([0, 1])) for _ in range(2))
    assert mesh.is_watertight and mesh.volume > 0.0
    np.testing.assert_array_equal(mesh.vertices, again.vertices)


@pytest.mark.slow
def test_a_wedge_becomes_an_object(tmp_path, monkeypatch, outcome):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    code, results = outcome(zoo.main, "--only", "wedge", "--to", tmp_path)
    [row] = results["objects"]
    assert (
        code == 0
        and row["parts"] == 1
        and row["error_mm"] < 1e-6
        and (tmp_path / "wedge" / "wedge.yaml").is_file()
    )
