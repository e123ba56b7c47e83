"""The graph around an emulated hand on a CAN bus, for ``ros2 launch``: everything comes from
:mod:`dexstack.graph.modes`."""

from dexstack.graph.launching import launch_description


def generate_launch_description():
    return launch_description("mock")
