"""``dexstack object``: make objects that a hand can turn from mesh files."""

from __future__ import annotations

from dexstack.cli.subcommands import group

add_parser, run = group(
    __name__,
    "make an object from a mesh file, check, draw and place it",
    __doc__,
    ("add", "check", "show", "place"),
)
