"""Fixtures for every test."""

from collections.abc import Iterator

import pytest
from jaxtyping import install_import_hook

# Shapes and types that annotations promise are checked in tests, and only there.
install_import_hook(
    ["dexstack.contact", "dexstack.control.models", "dexstack.control.problem", "dexstack.model.kinematics"], "beartype.beartype"
)


@pytest.fixture
def x64() -> Iterator[None]:
    """JAX in float64 for one test: derivatives and closed forms are compared to more digits than float32 has."""
    import jax

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
