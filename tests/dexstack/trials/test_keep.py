"""Atomic writes."""

from __future__ import annotations

import pytest

from dexstack.errors import ConfigError
from dexstack.trials.keep import whole


def test_an_interrupted_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "made" / "row.json"
    with whole(path) as file:
        file.write(b"first")
    with pytest.raises(KeyboardInterrupt), whole(path) as file:
        file.write(b"sec")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"first"


def test_a_path_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"cannot write .*row\.json"), whole(tmp_path / "file" / "row.json"):
        pass
