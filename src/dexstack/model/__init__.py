"""Robots, objects and scenes. The names of hands are here, where they cost nothing to import."""

HANDS = {
    "right": "allegro_v4_right",
    "left": "allegro_v4_left",
    "leap_right": "leap_right",
    "leap_left": "leap_left",
}
"""File name, in the package's data, of each packaged hand."""
HAND_NAMES = f"{', '.join(HANDS)}, or the path of a hand's YAML"
"""Valid names of a hand, for help texts."""
