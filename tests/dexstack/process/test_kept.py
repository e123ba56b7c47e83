"""The cache between processes: hits only for unchanged inputs, never an error."""

import os
import time
from dataclasses import dataclass

import numpy as np
import pytest

from dexengines.cache import KEPT, evict_unused
from dexstack.hand.servo import ServoParams
from dexstack.process.kept import (
    cache_folder,
    digest,
    kept_arrays,
    read_kept,
    usable,
    write_kept,
)


def test_equal_values_have_equal_digests_and_others_do_not():
    values = (1, 2.0, "a", None, np.arange(3.0), [1, (2, 3)], {"k": np.int32(1)}, ServoParams())
    assert digest(*values) == digest(*(v.copy() if isinstance(v, np.ndarray) else v for v in values))
    others = [
        1,
        1.0,
        "1",
        True,
        (1,),
        [1],
        np.array(1),
        np.array([1]),
        np.array([1.0]),
        {"1": 1},
        ServoParams(kp=1.5),
        ServoParams(),
    ]
    assert len({digest(other) for other in others}) == len(others)
    assert digest("ab", "c") != digest("a", "bc")


def test_foreign_objects_have_no_digest():
    @dataclass
    class Foreign:
        x: int = 1

    for thing in (Foreign(), lambda: 1, object(), np.array([object()])):
        with pytest.raises(TypeError, match="digest"):
            digest(thing)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return cache_folder("numbers")


def test_arrays_are_computed_once(cache):
    computed = []

    def compute():
        computed.append(1)
        return {"a": np.arange(4), "b": np.eye(2)}

    first, second = (kept_arrays("numbers", "key", compute) for _ in range(2))
    assert len(computed) == 1 and cache.is_dir()
    for name, array in first.items():
        np.testing.assert_array_equal(second[name], array)
    (cache / "key.npz").write_bytes(b"not an archive")
    kept_arrays("numbers", "key", compute)
    assert len(computed) == 2


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "HOME"])
def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch, variable):
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv(variable, str(tmp_path / "file"))
    assert not usable(cache_folder("numbers"))
    assert kept_arrays("numbers", "key", lambda: {"a": np.arange(2)})["a"].size == 2


def test_unused_files_are_evicted_on_write(cache):
    write_kept(cache / "old", b"1")
    write_kept(cache / "read", b"2")
    long_ago = time.time() - KEPT - 60.0
    for name in ("old", "read"):
        os.utime(cache / name, (long_ago, long_ago))
    assert read_kept(cache / "read") == b"2"
    write_kept(cache / "new", b"3")
    assert sorted(path.name for path in cache.iterdir()) == ["new", "read"]
    evict_unused(cache)
    assert read_kept(cache / "old") is None
