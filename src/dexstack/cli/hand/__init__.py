"""``dexstack hand``: make a hand from a robot file, and export it for other ROS packages."""

from __future__ import annotations

from dexstack.cli.subcommands import group

add_parser, run = group(
    __name__,
    "make a hand from a robot file; its files for ros2_control and MoveIt",
    __doc__,
    ("add", "export"),
)
