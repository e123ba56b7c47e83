"""``dexstack object``: bring a mesh, and it becomes an object that a hand can turn."""

from __future__ import annotations

from dexstack.cli.subcommands import group

add_parser, run = group(
    __name__,
    "make an object of a mesh file, check, draw and place it",
    __doc__,
    ("add", "check", "show", "place"),
)
