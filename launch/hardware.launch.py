"""Launch the graph of the real hand (see :mod:`dexstack.graph.modes`)."""

from dexstack.graph.launching import launch_description


def generate_launch_description():
    return launch_description("hardware")
