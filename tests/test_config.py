"""Parameter files as ROS 2 reads them: wildcards and names, the more particular section wins."""

import pytest

from dexstack.config import read_parameter_file
from dexstack.errors import ConfigError


def write(path, **sections):
    lines = []
    for key, values in sections.items():
        lines += [f"{key}:", "  ros__parameters:", *(f"    {name}: {value}" for name, value in values.items())]
    path.write_text("\n".join(lines))
    return path


def test_every_way_to_name_a_node_counts_and_the_most_particular_wins(tmp_path):
    file = write(
        tmp_path / "p.yaml",
        **{"mpc": {"d": 4}, "/mpc": {"c": 3, "d": 3}, "/**/mpc": {"b": 2, "c": 2}, "/**": {"a": 1, "b": 1}, "/**/hand": {"a": 9}},
    )
    assert read_parameter_file(file, "mpc") == {"a": 1, "b": 2, "c": 3, "d": 4}
    assert read_parameter_file(file, "hand") == {"a": 9, "b": 1}


def test_a_section_without_parameters_is_refused(tmp_path):
    (tmp_path / "p.yaml").write_text("/**/mpc:\n  horizon: 4\n")
    with pytest.raises(ConfigError, match=r"'/\*\*/mpc'.*ros__parameters"):
        read_parameter_file(tmp_path / "p.yaml", "mpc")
