"""Fixtures of the perception tests."""

import sys
from collections.abc import Iterator
from pathlib import Path

import cv2
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for the studio
from studio import Studio


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    yield
    cv2.setNumThreads(threads)


@pytest.fixture(scope="session")
def studio() -> Studio:
    return Studio()
