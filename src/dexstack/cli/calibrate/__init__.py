"""``dexstack calibrate``: measure what differs from device to device, and keep it."""

from __future__ import annotations

from dexstack.cli.subcommands import group

add_parser, run = group(
    __name__,
    "measure what differs from device to device",
    __doc__,
    ("hand", "camera", "hand-eye", "tags", "sheet"),
)
