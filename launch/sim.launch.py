"""Launch the graph of the simulation (see :mod:`dexstack.graph.modes`)."""

from dexstack.graph.launching import launch_description


def generate_launch_description():
    return launch_description("sim")
