"""Fixtures for every test."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from dexstack.process.threads import XLA_ONE_THREAD

# Before JAX is loaded: as every process of dexstack has it, so that all compute the same to the
# last bit.
os.environ.update(XLA_ONE_THREAD)

import jax
import numpy as np
import pytest
from jaxtyping import install_import_hook
from xdist.scheduler import LoadScopeScheduling

from tests import typecheck

# Shapes and types that annotations promise are checked in tests, and only there.
install_import_hook(typecheck.modules(), "tests.typecheck.check")

# No array is given a rank that the code does not give it.
jax.config.update("jax_numpy_rank_promotion", "raise")


def pytest_configure(config: pytest.Config) -> None:
    """Keep what JAX compiles for later tests, their subprocesses and the next run."""
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(config.cache.mkdir("jax"))
    from dexstack.process.compilation import use_compilation_cache

    use_compilation_cache()


REAL_TIME = ("tests/dexstack/nodes/", "tests/dexstack/hand/", "tests/acceptance/")
"""Folders of tests that must keep up with a clock: one such test runs at a time."""


class ByFile(LoadScopeScheduling):
    """Distribute files as a whole, so that a file's fixtures are made once, and those in real time to one
    worker."""

    def _split_scope(self, nodeid: str) -> str:
        name = nodeid.partition("::")[0]
        return "real time" if name.startswith(REAL_TIME) else name


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    """Return the scheduler; it cannot read marks, which pytest 9.2 keeps out of a test's name."""
    return ByFile(config, log)


def pytest_runtest_setup() -> None:
    typecheck.begin()


@pytest.fixture(scope="session")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[int, dict[str, Any]]]:
    """A function that runs the ``main`` of a command or an experiment and returns its exit code and
    results."""
    file = tmp_path_factory.mktemp("outcome") / "outcome.json"

    def of(main: Callable[[list[str]], int], *argv: object) -> tuple[int, dict[str, Any]]:
        code = main([*map(str, argv), "--json", str(file)])
        return code, json.loads(file.read_text())["results"]

    return of


if TYPE_CHECKING:
    from dexstack.contact.contact import Contacts
    from dexstack.contact.detector import ContactDetector
    from dexstack.model.hand import HandModel
    from dexstack.model.objects import ObjectModel


class Resting(NamedTuple):
    """State from which most tests of the controller start: the cube at rest on the palm, the fingers
    around it."""

    hand: HandModel
    obj: ObjectModel
    detector: ContactDetector
    pose_WO: np.ndarray
    q: np.ndarray
    contacts: Contacts


@pytest.fixture(scope="session")
def resting() -> Resting:
    from dexstack.contact.detector import ContactDetector
    from dexstack.model.hand import load_hand
    from dexstack.model.objects import load_object

    hand, obj = load_hand("right"), load_object("cube")
    detector = ContactDetector(hand, obj)
    start = obj.start("allegro")
    q = hand.pose(start.hand_pose)
    return Resting(hand, obj, detector, start.pose_WO, q, detector.detect(start.pose_WO, q))


@pytest.fixture(scope="session")
def pinocchio() -> ModuleType:
    """The module pinocchio, where the system has the library that its wheel lacks."""
    reason = "pinocchio cannot be loaded: its wheel wants the system's OpenMP library (Debian: libgomp1)"
    return pytest.importorskip("pinocchio", reason=reason, exc_type=ImportError)


@pytest.fixture
def x64() -> Iterator[None]:
    """JAX in float64 for one test: derivatives and closed forms are compared to more digits than
    float32 has."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def compilations() -> Iterator[list[str]]:
    """Grows by one entry whenever JAX compiles something."""
    import jax.monitoring

    seen: list[str] = []
    listening = True

    def listener(event: str, duration: float, **_: object) -> None:
        if listening and event.endswith("backend_compile_duration"):
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(listener)
    yield seen
    listening = False
