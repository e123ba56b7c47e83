"""ROS 2 parameter files: wildcards and names, the more specific section wins."""

import pytest

from dexstack.cli.arguments import setting
from dexstack.config import read_parameter_file
from dexstack.errors import ConfigError


def write(path, **sections):
    lines = []
    for key, values in sections.items():
        lines += [
            f"{key}:",
            "  ros__parameters:",
            *(f"    {name}: {value}" for name, value in values.items()),
        ]
    path.write_text("\n".join(lines))
    return path


def test_every_way_to_name_a_node_matches_and_the_most_specific_wins(tmp_path):
    file = write(
        tmp_path / "p.yaml",
        **{
            "mpc": {"d": 4},
            "/mpc": {"c": 3, "d": 3},
            "/**/mpc": {"b": 2, "c": 2},
            "/**": {"a": 1, "b": 1},
            "/**/hand": {"a": 9},
            "/left/mpc": {"e": 5},
            "left/**": {"a": 7},
        },
    )
    assert read_parameter_file(file, "mpc") == {"a": 1, "b": 2, "c": 3, "d": 4}
    assert read_parameter_file(file, "hand") == {"a": 9, "b": 1}
    left = {"a": 7, "b": 2, "c": 3, "d": 4, "e": 5}
    assert read_parameter_file(file, "mpc", "/left") == left


def test_a_section_without_parameters_is_refused(tmp_path):
    (tmp_path / "p.yaml").write_text("/**/mpc:\n  horizon: 4\n")
    with pytest.raises(ConfigError, match=r"'/\*\*/mpc'.*ros__parameters"):
        read_parameter_file(tmp_path / "p.yaml", "mpc")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(
            ("20e-6", 20e-6),
            ("1e-3", 1e-3),
            ("-2E5", -2e5),
            ("+1.e3", 1e3),
            (".5e+1", 5.0),
            ("1.5e-3", 1.5e-3),
        ),
        *(
            ("20", 20),
            ("0.5", 0.5),
            ("true", True),
            ("e-6", "e-6"),
            ("20e", "20e"),
            ("1e5x", "1e5x"),
            ("'1e-3'", "1e-3"),
            ("v4e1", "v4e1"),
        ),
        ("[1e-3, 2]", [1e-3, 2]),
    ],
)
def test_numbers_are_read_as_ros_2_reads_them(tmp_path, text, value):
    """On the command line and in files; YAML 1.1 takes 20e-6 for a word."""
    file = write(tmp_path / "p.yaml", **{"/**": {"x": text}})
    for read in (setting(f"x={text}")[1], read_parameter_file(file, "mpc")["x"]):
        assert read == value and type(read) is type(value)
