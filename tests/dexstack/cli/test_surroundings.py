"""Commands that read and write files, in other folders, homes and locales, give the same results."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import trimesh

from tests.dexstack.model.generated_hand import write_hand

COMMAND = """
import locale, sys
locale.setlocale(locale.LC_ALL, "")  # as programs with a user interface do
from dexstack.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
SURROUNDINGS = {
    "no home": {"HOME": None, "XDG_CACHE_HOME": None},
    "a home that is no folder": {"HOME": "/dev/null/home", "XDG_CACHE_HOME": "/dev/null/cache"},
    "ASCII": {"LC_ALL": "C"},
    "decimal comma": {"LC_ALL": "de_DE.UTF-8"},
    "decimal comma, ISO 8859-1": {"LC_ALL": "de_DE.ISO-8859-1"},
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with spaces and other letters in its name, with a mesh and a robot."""
    folder = tmp_path_factory.mktemp("Zoë's things")
    trimesh.creation.box((50.5, 60, 50)).export(folder / "crème box.stl")
    write_hand(folder, (2, 2, 2))
    (folder / "hand.urdf").rename(folder / "main à trois.urdf")
    return folder


@pytest.fixture(scope="module")
def locales(tmp_path_factory):
    """A folder of locales with decimal commas."""
    folder = tmp_path_factory.mktemp("locales")
    if shutil.which("localedef") is None:
        pytest.skip("localedef is not installed")
    for charmap in ("UTF-8", "ISO-8859-1"):
        made = ["localedef", "-i", "de_DE", "-f", charmap, str(folder / f"de_DE.{charmap}")]
        if subprocess.run(made, capture_output=True).returncode:
            pytest.skip("the sources of the locale de_DE are not installed")
    return folder


def run(*argv, cwd, **changed):
    environment = {k: v for k, v in (os.environ | changed).items() if v is not None}
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *map(str, argv), "--json", "results.json"],
        cwd=cwd,
        env=environment,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return json.loads((cwd / "results.json").read_text(encoding="utf-8"))["results"]


@pytest.mark.slow
@pytest.mark.parametrize("name", SURROUNDINGS)
def test_objects_and_hands_are_added_alike_everywhere(name, files, locales, tmp_path):
    there = SURROUNDINGS[name] | {"LOCPATH": str(locales)}
    added = run("object", "add", files / "crème box.stl", "-o", "böx", "--name", "box", cwd=tmp_path, **there)
    np.testing.assert_allclose(sorted(added["size_m"]), [0.05, 0.0505, 0.06], atol=1e-9)
    assert added["cannot_turn"] is None and added["name"] == "box"
    checked = run("object", "check", "böx/box.yaml", cwd=tmp_path, **there)
    assert checked["mass_kg"] == pytest.approx(500.0 * 0.05 * 0.0505 * 0.06, rel=1e-5)
    hand = run("hand", "add", files / "main à trois.urdf", "-o", "main", cwd=tmp_path, **there)
    assert all(limits == [-1.2, 1.2] for limits in hand["joints"].values()) and len(hand["joints"]) == 6
    assert Path(tmp_path, hand["picture"]).read_bytes().startswith(b"\x89PNG")
