"""``dexstack diagnose``: check the layers of a device, stop at the first broken one, print its remedy."""

from __future__ import annotations

from dexstack.cli.subcommands import group

add_parser, run = group(
    __name__, "walk through the layers under a device and stop at the first broken one", __doc__, ("hand",)
)
