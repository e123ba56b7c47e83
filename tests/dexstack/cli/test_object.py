"""``dexstack object``: what the commands print and write."""

import pytest
import trimesh

from dexstack.cli.main import main


@pytest.fixture
def made(tmp_path, monkeypatch, outcome):
    """A box that was added, its results, and the folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    trimesh.creation.box((60, 50, 40)).export(tmp_path / "my box.stl")
    command = "object", "add", tmp_path / "my box.stl", "-o", tmp_path / "made", "--mass", "0.1"
    code, results = outcome(main, *command)
    assert code == 0
    return results, tmp_path / "made"


@pytest.mark.slow
def test_add_check_and_show(made, capsys, tmp_path, outcome):
    added, folder = made
    assert (
        added["name"] == "my_box"
        and added["unit"] == "mm"
        and added["repair"]["steps"] == []
        and added["mass_kg"] == 0.1
    )
    assert sorted(p.name for p in folder.iterdir()) == [
        "my_box-rests.png",
        "my_box.obj",
        "my_box.yaml",
        "tags.yaml",
    ]
    assert list(added["tags"].values()) == [0.04, 0.04, 0.032, 0.032, 0.032, 0.032]
    code, checked = outcome(main, "object", "check", folder / "my_box.yaml")
    assert code == 0 and checked["parts"] == {
        "count": 1,
        "limit": 16,
        "hausdorff_m": pytest.approx(0.0, abs=1e-9),
    }
    assert (
        sum(kind["probability"] for kind in checked["rest_kinds"]) == pytest.approx(1.0)
        and len(checked["rests"]) == 6
    )
    assert "60 x 50 x 40 mm" in capsys.readouterr().out
    assert main(["object", "show", str(folder / "my_box.yaml"), "-o", str(tmp_path / "box.png")]) == 0
    assert (tmp_path / "box.png").read_bytes().startswith(b"\x89PNG")


def test_check_an_object_of_the_package(outcome):
    code, checked = outcome(main, "object", "check", "cube")
    assert code == 0 and checked["parts"]["count"] == 1 and checked["parts"]["hausdorff_m"] < 1e-7
    assert [axis["order"] for axis in checked["symmetry"]["of_shape"]] == [4, 4] and checked["symmetry"][
        "used"
    ] == []
    assert checked["rest_kinds"] == [
        {"kind": 0, "probability": pytest.approx(1.0), "poses": 6, "height_m": pytest.approx(0.028)}
    ]


def test_a_unit_in_doubt_is_refused_where_nobody_can_be_asked(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    trimesh.creation.box((5, 5, 5)).export(tmp_path / "five.stl")
    assert main(["object", "add", str(tmp_path / "five.stl"), "-o", str(tmp_path)]) == 2
    assert "--unit" in capsys.readouterr().err
