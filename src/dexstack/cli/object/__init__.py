"""``dexstack object``: make objects that a hand can turn from mesh files."""

SUBCOMMANDS = ("add", "check", "show", "place")
