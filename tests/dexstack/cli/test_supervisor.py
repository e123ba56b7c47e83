"""Marks of running graphs."""

import pytest

from dexstack.cli.supervisor import only_graph
from dexstack.errors import ConfigError


def test_a_second_graph_in_a_domain_and_namespace_is_refused():
    with only_graph("250", "all", "left"):
        with only_graph("250", "all", "right"), only_graph("249", "all", "left"):
            pass
        with (
            pytest.raises(ConfigError, match="already runs in ROS domain 250"),
            only_graph("250", "all", "left"),
        ):
            pass
    with only_graph("250", "all", "left"):
        pass
