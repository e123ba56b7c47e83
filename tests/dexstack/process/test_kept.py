"""What is kept between processes: found again where nothing has changed, and only there."""

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


def test_what_nobody_can_say_the_content_of_has_no_digest():
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


def test_a_folder_that_cannot_be_written_keeps_nothing_and_breaks_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert kept_arrays("numbers", "key", lambda: {"a": np.arange(2)})["a"].size == 2


def test_what_nobody_reads_goes_when_something_is_written(cache):
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
