"""What nodes that know the scene have in common: the task, and through it robot, object and where
both start."""

from __future__ import annotations

import dataclasses
from typing import Any

from dexstack.graph.parameters import SceneParams
from dexstack.nodes.common import StackNode
from dexstack.tasks import load_task
from dexstack.tasks.base import Task


class SceneNode(StackNode):
    """A node with the parameters of its task beside its own."""

    def __init__(self, name: str, *blocks: type) -> None:
        super().__init__(name, SceneParams, *blocks)
        self.task_type: type[Task] = load_task(self.params(SceneParams).task)
        self.declare_block(self.task_type.Params)

    def declare_block(self, block: type) -> None:
        """Declare the parameters of a block that has fields and is not declared yet."""
        if dataclasses.fields(block) and block not in self._blocks:
            self._declare(block)

    def make_task(self) -> Task:
        """The task with the parameters of this node.

        Raises:
            ConfigError: a parameter that the task does not take.
        """
        p = self.params(SceneParams)
        return self.task_type(self.params(self.task_type.Params), p.object, p.hand)

    def blocks(self) -> dict[type, Any]:
        """The current values of all parameter blocks."""
        return dict(self._blocks)
