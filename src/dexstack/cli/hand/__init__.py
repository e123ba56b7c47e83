"""``dexstack hand``: make a hand from a robot file, check it, and export it for other ROS packages."""

SUBCOMMANDS = ("add", "check", "export")
