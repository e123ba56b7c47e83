"""A task on the robot that ``bringup.launch.py`` keeps up: planner, contacts, goals and console. It
ends with the task."""

from dexstack.graph.launching import part_of_a_graph


def generate_launch_description():
    return part_of_a_graph("planner")
