"""Fixtures of the command tests."""

import json
import subprocess
import sys
from collections.abc import Callable

import pytest


@pytest.fixture(scope="session")
def dexstack() -> Callable[..., tuple[int, dict, str]]:
    """A function that runs a command in a process, which may change its scheduling, and returns exit
    code, results and stderr."""

    def call(*argv: str) -> tuple[int, dict, str]:
        done = subprocess.run(
            [sys.executable, "-m", "dexstack.cli.main", *argv, "--json", "-"], capture_output=True, text=True
        )
        return done.returncode, json.loads(done.stdout)["results"] if done.stdout else {}, done.stderr

    return call
