"""Tasks: what a robot is to do with an object."""
