"""Fixtures of the perception tests."""

from collections.abc import Iterator

import cv2
import pytest

from tests.dexstack.perception.studio import Studio


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    yield
    cv2.setNumThreads(threads)


@pytest.fixture(scope="session")
def studio() -> Studio:
    return Studio()
