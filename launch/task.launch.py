"""Launch a task on the robot of ``bringup.launch.py``: planner, contacts, goals and console; ends with
the task."""

from dexstack.graph.launching import part_of_a_graph


def generate_launch_description():
    return part_of_a_graph("planner")
