"""Fixtures of the node tests, which need rclpy."""

import contextlib
import importlib.util
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.programs import Program, own_domain, up

sys.path.insert(0, str(Path(__file__).parent))  # for the harness
if importlib.util.find_spec("rclpy") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    import rclpy
    from harness import Pair, put, spinning

    from tests.acceptance.probe import Probe


@pytest.fixture(scope="module")
def domain() -> Iterator[int]:
    with own_domain() as number:
        yield number


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
def start(domain: int, tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Start runs in the domain of the test; they end with it."""
    with contextlib.ExitStack() as stack:
        count = itertools.count()

        def make(*arguments: str, mode: str = "sim") -> Program:
            return stack.enter_context(up(mode, tmp_path / f"run{next(count)}", *arguments))

        yield make
