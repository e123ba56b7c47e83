"""Parameter dataclasses of a node as ROS parameters: declaration, types, ranges and changes."""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Sequence
from typing import Any, TypeVar

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.lifecycle import LifecycleNode
from rclpy.parameter import Parameter

from dexstack.config import make_params
from dexstack.errors import ConfigError

P = TypeVar("P")

_TYPES = {
    bool: Parameter.Type.BOOL,
    int: Parameter.Type.INTEGER,
    float: Parameter.Type.DOUBLE,
    str: Parameter.Type.STRING,
}
_ARRAYS = {
    int: Parameter.Type.INTEGER_ARRAY,
    float: Parameter.Type.DOUBLE_ARRAY,
    str: Parameter.Type.STRING_ARRAY,
}


class BlockNode(LifecycleNode):
    """A lifecycle node whose parameters are the fields of dataclasses (see :mod:`dexstack.config`).

    Args:
        name: default node name.
        blocks: parameter dataclasses; each field becomes a ROS parameter of the same name.
    """

    LIVE: frozenset[str] = frozenset()
    """Parameters that may change after the node was configured."""

    def __init__(self, name: str, *blocks: type) -> None:
        super().__init__(name)
        self._blocks: dict[type, Any] = {}
        for block in blocks:
            self.declare_block(block)
        self.add_on_set_parameters_callback(self._on_parameters)

    @property
    def lifecycle_state(self) -> str:
        """State of the lifecycle: unconfigured, inactive, active, finalized, or a transition."""
        return self._state_machine.current_state[1]  # rclpy has no public accessor

    def params(self, block: type[P]) -> P:
        """Return the current values of one parameter block."""
        return self._blocks[block]

    def blocks(self) -> dict[type, Any]:
        """Return the current values of all parameter blocks."""
        return dict(self._blocks)

    def apply(self, block: Any) -> None:
        """React to a change of a parameter block after the node was configured.

        The new block replaces the old one unless this raises.

        Raises:
            ConfigError: the change cannot be made now.
        """

    def declare_block(self, block: type) -> None:
        """Declare the parameters of a block unless they are declared already."""
        if block in self._blocks:
            return
        values = {}
        for field in dataclasses.fields(block):
            self.declare_parameter(field.name, _ros_value(field.default), _descriptor(block, field))
            values[field.name] = self.get_parameter(field.name).value
        self._blocks[block] = make_params(block, values)

    def exchange_block(self, old: type, new: type) -> None:
        """Declare the parameters of one block in place of another's; :meth:`apply` may call this.

        Raises:
            ConfigError: a value given for the new block cannot be used; the old block is kept.
        """
        before = self._blocks.pop(old)
        for field in dataclasses.fields(old):
            self.undeclare_parameter(field.name)
        try:
            self.declare_block(new)
        except Exception as error:
            for field in dataclasses.fields(new):
                if self.has_parameter(field.name):
                    self.undeclare_parameter(field.name)
            for field in dataclasses.fields(old):
                value = _ros_value(getattr(before, field.name))
                self.declare_parameter(field.name, value, _descriptor(old, field), ignore_override=True)
            self._blocks[old] = before
            raise ConfigError(" ".join(str(error).split())) from None

    def _on_parameters(self, changes: Sequence[Parameter]) -> SetParametersResult:
        new = {p.name: p.value for p in changes}
        changed: dict[type, Any] = {}
        configured = self.lifecycle_state != "unconfigured"
        try:
            for block, old in list(self._blocks.items()):
                mine = {f.name: new[f.name] for f in dataclasses.fields(block) if f.name in new}
                if not mine or (wanted := make_params(block, {**dataclasses.asdict(old), **mine})) == old:
                    continue
                if configured:
                    self._check_live(old, wanted, mine)
                    self.apply(wanted)
                changed[block] = wanted
        except ConfigError as error:
            return SetParametersResult(successful=False, reason=str(error))
        self._blocks = {**self._blocks, **changed}
        return SetParametersResult(successful=True)

    def _check_live(self, old: Any, new: Any, names: typing.Iterable[str]) -> None:
        for name in names:
            if name not in self.LIVE and getattr(new, name) != getattr(old, name):
                raise ConfigError(f"parameter '{name}' can only change while the node is unconfigured")


def _ros_value(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _descriptor(block: type, field: dataclasses.Field) -> ParameterDescriptor:
    """Return type, description and range of a field made with :func:`dexstack.config.param`."""
    annotation = typing.get_type_hints(block)[field.name]
    is_list = typing.get_origin(annotation) is tuple
    kind = _ARRAYS[typing.get_args(annotation)[0]] if is_list else _TYPES[annotation]
    lo, hi = field.metadata.get("lo"), field.metadata.get("hi")
    result = ParameterDescriptor(name=field.name, type=kind.value, description=field.metadata["doc"])
    if lo is None and hi is None:
        return result
    if kind == Parameter.Type.DOUBLE:
        low = -sys.float_info.max if lo is None else float(lo)
        high = sys.float_info.max if hi is None else float(hi)
        result.floating_point_range = [FloatingPointRange(from_value=low, to_value=high)]
    elif kind == Parameter.Type.INTEGER:
        low, high = (-(2**63) if lo is None else int(lo)), (2**63 - 1 if hi is None else int(hi))
        result.integer_range = [IntegerRange(from_value=low, to_value=high)]
    else:  # ROS has no ranges for lists; the set-parameters callback checks every entry
        result.additional_constraints = f"entries in [{lo}, {hi}]"
    return result
