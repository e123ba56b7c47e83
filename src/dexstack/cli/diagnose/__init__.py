"""``dexstack diagnose``: check the layers of a device, stop at the first broken one, print its remedy."""

SUBCOMMANDS = ("hand",)
