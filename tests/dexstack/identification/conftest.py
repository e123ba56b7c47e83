"""Fixtures of the identification tests."""

import pytest

from dexstack.graph.settings import Spec, make_task, read_settings
from dexstack.identification.rollouts import servo_of


@pytest.fixture(scope="session")
def palm():
    """The palm task and its servo's parameters."""
    settings = read_settings(Spec())
    task = make_task(Spec(), settings)
    return task, servo_of(task, settings)
