"""``dexstack capture``: record the traffic of a device's bus, for bug reports and tests."""

SUBCOMMANDS = ("hand",)
