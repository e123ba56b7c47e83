"""Nodes run as a command that joins a graph, for `dexstack record`, `replay` and `monitor`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from dexstack.cli.output import note
from dexstack.cli.supervisor import End, NodeSupervisor
from dexstack.errors import USAGE_ERROR
from dexstack.graph.modes import NodeDescription


def run_nodes(nodes: Sequence[NodeDescription], environment: Mapping[str, str]) -> int:
    """Run nodes until the one that ends the run has ended, or the user stops them.

    Returns:
        0 if it ended well or was stopped, 1 if a node failed, 2 if a node rejects its parameters.
    """
    with tempfile.TemporaryDirectory(prefix="dexstack-") as logs:
        end: End = NodeSupervisor(nodes, environment, Path(logs), view=sys.stderr).run()
        if end.exit_code:
            note(
                "".join(log.read_text(encoding="utf-8", errors="replace") for log in Path(logs).glob("*.log"))
            )
    if end.failure:
        note(end.failure)
        return USAGE_ERROR if end.unusable else 1
    return end.exit_code
