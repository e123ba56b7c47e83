"""``dexstack hand``: a robot file becomes a hand, and what other ROS packages want to know of
one."""

from __future__ import annotations

from dexstack.cli.subcommands import group

add_parser, run = group(
    __name__,
    "make a hand from a robot file; its files for ros2_control and MoveIt",
    __doc__,
    ("add", "export"),
)
