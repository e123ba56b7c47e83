"""``dexstack hand``: make a hand from a robot file, check it, and export it for other ROS packages."""

from __future__ import annotations

from dexstack.cli.subcommands import group

add_parser, run = group(
    __name__,
    "add a hand from a robot file, check it, export its description",
    __doc__,
    ("add", "check", "export"),
)
