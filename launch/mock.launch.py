"""Launch the graph of an emulated hand on its bus (see :mod:`dexstack.graph.modes`)."""

from dexstack.graph.launching import launch_description


def generate_launch_description():
    return launch_description("mock")
