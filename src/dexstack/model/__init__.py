"""Robots and objects. What commands say of hands is here, where it costs nothing to import."""

HANDS = {
    "right": "allegro_v4_right",
    "left": "allegro_v4_left",
    "leap_right": "leap_right",
    "leap_left": "leap_left",
}
"""File, in the package's data, of each hand that comes with dexstack."""
HAND_NAMES = f"{', '.join(HANDS)}, or the path of a hand's YAML"
"""What names a hand, in words."""
