"""Parameters of every node: description, type, range, and the rejection of values out of range."""

from __future__ import annotations

import dataclasses

import pytest
from harness import NODES, node_class, spinning
from rclpy.parameter import Parameter

from dexstack.nodes.common import StackNode

OTHERS = ("servo", "learner", "recorder", "player", "monitor", "robot_state", "camera", "pose_estimator")


@pytest.fixture(scope="module", params=(*NODES, *OTHERS))
def node(request, domain):
    with spinning(domain, node_class(f"dexstack.nodes.{request.param}")) as (made,):
        yield made


def fields(node: StackNode):
    return [f for block in node.blocks() for f in dataclasses.fields(block)]


def test_every_parameter_is_described(node):
    names = [f.name for f in fields(node)]
    assert "autostart" in names and len(set(names)) == len(names)
    for described in node.describe_parameters(names):
        assert len(described.description) > 10, described.name


def test_wrong_values_are_rejected_and_change_nothing(node):
    tried = 0
    for field in fields(node):
        wrong = ["many", float("nan")] if isinstance(field.default, float) else []
        if not isinstance(field.default, tuple | str):
            bounds = ((field.metadata["lo"], -1), (field.metadata["hi"], 1))
            beyond = [type(field.default)(limit + step) for limit, step in bounds if limit is not None]
            tried, wrong = tried + len(beyond), wrong + beyond
        before = node.get_parameter(field.name).value
        for value in wrong:
            (result,) = node.set_parameters([Parameter(field.name, value=value)])
            assert not result.successful and result.reason, (field.name, value)
            assert node.get_parameter(field.name).value == before
    assert tried >= 1


def test_a_good_value_reaches_the_node(node):
    field = next(f for f in fields(node) if isinstance(f.default, float) and f.metadata["hi"] is not None)
    value = 0.5 * (field.default + field.metadata["hi"])
    (result,) = node.set_parameters([Parameter(field.name, value=value)])
    assert result.successful
    block = next(b for b in node.blocks() if field.name in b.__dataclass_fields__)
    assert getattr(node.params(block), field.name) == value
