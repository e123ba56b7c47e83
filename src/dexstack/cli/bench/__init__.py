"""``dexstack bench``: measure whether this machine is fast enough for the stack."""

from __future__ import annotations

from dexstack.cli.subcommands import group

PARTS = ("mpc", "hand", "pose-estimator")

add_parser, run = group(__name__, "measure whether this machine is fast enough", __doc__, PARTS)
