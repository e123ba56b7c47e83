"""Fixtures of the experiments' tests."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def outcome(tmp_path: Path) -> Callable[..., tuple[int, dict[str, Any]]]:
    """A function that runs an experiment's ``main`` and returns its exit code and results."""

    def of(main: Callable[[list[str]], int], *argv: str) -> tuple[int, dict[str, Any]]:
        file = tmp_path / "outcome.json"
        code = main([*argv, "--json", str(file)])
        return code, json.loads(file.read_text())["results"]

    return of
