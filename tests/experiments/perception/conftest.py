"""Fixtures of the experiments with pictures."""

from tests.dexstack.perception.conftest import one_thread  # noqa: F401
