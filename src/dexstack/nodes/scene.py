"""Base of nodes that know the scene: the task, its robot, object and their start."""

from __future__ import annotations

from dexstack.graph.parameters import SceneParams
from dexstack.nodes.common import StackNode
from dexstack.tasks import load_task
from dexstack.tasks.base import Task


class SceneNode(StackNode):
    """A node with the parameters of its task in addition to its own."""

    def __init__(self, name: str, *blocks: type) -> None:
        super().__init__(name, SceneParams, *blocks)
        self.task_type: type[Task] = load_task(self.params(SceneParams).task)
        self.declare_block(self.task_type.Params)

    def make_task(self) -> Task:
        """Return the task with the parameters of this node.

        Raises:
            ConfigError: a parameter that the task does not take.
        """
        p = self.params(SceneParams)
        return self.task_type(self.params(self.task_type.Params), p.object, p.hand, p.gravity)
