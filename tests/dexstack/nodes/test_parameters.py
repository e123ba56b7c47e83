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


def test_values_out_of_range_are_rejected_and_change_nothing(node):
    tried = 0
    for field in fields(node):
        before = node.get_parameter(field.name).value
        for bound, beyond in (("lo", -1), ("hi", 1)):
            limit = field.metadata[bound]
            if limit is None or isinstance(field.default, tuple | str):
                continue
            tried += 1
            wrong = type(field.default)(limit + beyond)
            (result,) = node.set_parameters([Parameter(field.name, value=wrong)])
            assert not result.successful and result.reason, field.name
            assert node.get_parameter(field.name).value == before
    assert tried >= 1


def test_wrong_types_and_non_finite_values_are_rejected(node):
    for field in fields(node):
        if isinstance(field.default, float):
            for wrong in ("many", float("nan")):
                (result,) = node.set_parameters([Parameter(field.name, value=wrong)])
                assert not result.successful, (field.name, wrong)


def test_a_good_value_reaches_the_node(node):
    field = next(f for f in fields(node) if isinstance(f.default, float) and f.metadata["hi"] is not None)
    value = 0.5 * (field.default + field.metadata["hi"])
    (result,) = node.set_parameters([Parameter(field.name, value=value)])
    assert result.successful
    block = next(b for b in node.blocks() if field.name in b.__dataclass_fields__)
    assert getattr(node.params(block), field.name) == value
