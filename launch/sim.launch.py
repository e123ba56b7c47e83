"""The simulated graph for ``ros2 launch``: arguments, nodes and all they need come from
:mod:`dexstack.graph.modes`."""

from dexstack.graph.launching import launch_description


def generate_launch_description():
    return launch_description("sim")
