"""``dexstack capture``: record the traffic of a device's bus, for bug reports and tests."""

from __future__ import annotations

from dexstack.cli.subcommands import group

add_parser, run = group(
    __name__, "record the traffic of a device's bus, for bug reports and tests", __doc__, ("hand",)
)
