"""Fixtures for every test."""

from collections.abc import Iterator

import pytest


@pytest.fixture
def x64() -> Iterator[None]:
    """JAX in float64 for one test: derivatives and closed forms are compared to more digits than float32 has."""
    import jax

    with jax.enable_x64(True):
        yield
