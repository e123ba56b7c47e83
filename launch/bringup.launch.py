"""What a robot is: hand, camera and what makes sense of them, or their simulation. It stays up;
``task.launch.py`` runs tasks on it."""

from dexstack.graph.launching import part_of_a_graph


def generate_launch_description():
    return part_of_a_graph("robot")
