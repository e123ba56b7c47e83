"""Launch the robot: hand, camera and perception, or their simulation; ``task.launch.py`` runs tasks on it."""

from dexstack.graph.launching import part_of_a_graph


def generate_launch_description():
    return part_of_a_graph("robot")
