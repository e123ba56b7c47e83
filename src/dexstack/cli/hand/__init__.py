"""``dexstack hand``: what other ROS packages want to know of a hand."""

from __future__ import annotations

from dexstack.cli.subcommands import group

add_parser, run = group(__name__, "a hand's files for ros2_control and MoveIt", __doc__, ("export",))
