"""``dexstack calibrate``: calibrate hand, camera and tags, and save the result."""

from __future__ import annotations

from dexstack.cli.subcommands import group

PARTS = ("hand", "camera", "hand-eye", "tags", "sheet")

add_parser, run = group(__name__, "calibrate hand, camera and tags", __doc__, PARTS)
