"""Fixtures of the node tests, which need rclpy."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dexstack.cli.supervisor import graph_environment

sys.path.insert(0, str(Path(__file__).parent))  # for the harness
if importlib.util.find_spec("rclpy") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    import rclpy
    from harness import Pair, Run, put, spinning

    from tests.acceptance.probe import Probe


@pytest.fixture(scope="module")
def domain() -> Iterator[int]:
    """A ROS domain that is unused on this machine and stays on it."""
    before = dict(os.environ)
    os.environ.pop("ROS_DOMAIN_ID", None)
    with graph_environment() as environment:
        os.environ.update(environment)
        yield int(environment["ROS_DOMAIN_ID"])
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def probe(domain: int) -> Iterator[Probe]:
    probe = Probe(domain)
    yield probe
    probe.close()


@pytest.fixture
def pair(domain: int) -> Iterator[Callable[..., Pair]]:
    """Make pairs of a node with these parameters and a peer."""
    with contextlib.ExitStack() as stack:

        def make(kind: type, **parameters: object) -> Pair:
            made = Pair(*stack.enter_context(spinning(domain, kind, lambda: rclpy.create_node("peer"))))
            put(made.node, **parameters)
            return made

        yield make


@pytest.fixture
def start(domain: int, tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Start runs in the domain of the test; they end with it."""
    runs: list[Run] = []

    def make(*arguments: str, mode: str = "sim") -> Run:
        runs.append(Run(tmp_path / f"run{len(runs)}", *arguments, mode=mode, domain=domain))
        return runs[-1]

    yield make
    for run in runs:
        run.close()
