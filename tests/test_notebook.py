"""The notebook runs from its first cell to its last."""

import os
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "first_hour.ipynb"


def test_it_is_short_and_kept_without_outputs():
    nbformat = pytest.importorskip("nbformat", reason="comes with the extra 'dev'")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert len(notebook.cells) == 10
    assert not any(cell.get("outputs") for cell in notebook.cells)


@pytest.mark.slow
def test_every_cell_runs(tmp_path, monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    source = Path(__file__).parents[1] / "src"
    client = NotebookClient(
        notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.km = client.create_kernel_manager()
    client.km.kernel_spec.argv[0] = sys.executable
    client.execute(env=os.environ | {"PYTHONPATH": str(source)})
    outputs = {
        cell.id: "".join(o.get("text", "") + "".join(o.get("data", {})) for o in cell.outputs)
        for cell in notebook.cells
        if cell.cell_type == "code"
    }
    assert "planned in" in outputs["plan"]
    assert "image/png" in outputs["curve"] and "image/gif" in outputs["film"]
    assert "turned to within 0.0" in outputs["own_object"]
    for engine in ("mujoco", "hydroelastic", "lcp", "soft"):
        (line,) = (row for row in outputs["engines"].splitlines() if row.startswith(engine))
        assert float(line.split("force ")[1].split()[0]) == pytest.approx(0.5 * 9.81, rel=0.05)
