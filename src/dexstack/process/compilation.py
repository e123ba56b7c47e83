"""How JAX compiles here: with options of XLA, in several threads, and kept between processes: only
the first start is slow."""

from __future__ import annotations

import contextlib
import os
import pickle
import platform
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import scipy.linalg  # noqa: F401  JAX takes LAPACK from there when an executable is read: a node that is a copy of another finds it loaded
from jax.experimental import serialize_executable
from jax.experimental.compilation_cache import compilation_cache

from dexengines.compilation import OPTIONS
from dexengines.compilation import compiler_options as compiler_options
from dexengines.compilation import jit as jit
from dexstack.process.kept import cache_folder, digest, read_kept, sources, write_kept


def side_by_side(*functions: Callable[[], Any]) -> None:
    """Call what compiles something, each in a thread of its own: XLA works outside Python's lock.

    Raises:
        whatever one of them raises.
    """
    with ThreadPoolExecutor(len(functions)) as threads:
        for done in [threads.submit(function) for function in functions]:
            done.result()


def use_compilation_cache() -> Path:
    """Let JAX keep what it compiles in the user's cache folder; call it once at the start of a
    program, before anything is compiled.

    A folder named in ``JAX_COMPILATION_CACHE_DIR`` wins.
    """
    chosen = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    folder = Path(chosen) if chosen else cache_folder("jax")
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update(
        "jax_persistent_cache_min_compile_time_secs", 0.0
    )  # the sum of many small ones is what a start waits for
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return folder


class KeptFunction:
    """``jax.jit`` of a function whose executable is kept between processes: one that starts again
    neither traces nor compiles it.

    JAX's own cache is asked only after the function was traced and lowered, which takes ten times
    as long as reading the executable. Without :func:`use_compilation_cache`, and where nobody can
    say what the function depends on, this is :func:`jit`.
    """

    def __init__(self, function: Callable[..., Any], *closed: Any) -> None:
        """
        Args:
            function: of arrays.
            closed: all that it depends on beside its arguments and dexstack's code; see
                :func:`~dexstack.process.kept.digest`.
        """
        self._function, self._closed = function, closed
        self._ready: dict[tuple[Any, ...], Callable[..., Any]] = {}

    def __call__(self, *args: Any) -> Any:
        shapes = tuple((arg.shape, arg.dtype) for arg in args)
        if shapes not in self._ready:
            self._ready[shapes] = self._make(shapes, args)
        return self._ready[shapes](*args)

    def _make(self, shapes: tuple[Any, ...], args: tuple[Any, ...]) -> Callable[..., Any]:
        folder = jax.config.jax_compilation_cache_dir
        if not folder or jax.config.jax_disable_jit:
            return jit(self._function)
        try:
            setting = _setting()
            what = self._function.__qualname__, self._closed, str(shapes)
            file = Path(folder) / "executables" / digest(sources("dexstack"), *what, setting)
        except TypeError:
            return jit(self._function)
        with _tracing:
            if (ready := _restore(read_kept(file))) is not None:
                return ready
            jitted = jit(self._function)
            lowered = jitted.lower(*args)
        program = lowered.as_text()
        if any(not target.startswith("lapack_") for target in re.findall(r"custom_call @([\w.]+)", program)):
            return jitted  # nobody knows here what such a library function wants before it runs
        same = file.with_name(
            digest(program, setting)
        )  # dexstack's code has changed, this program perhaps not
        content = read_kept(same)
        if (ready := _restore(content)) is None:
            ready = _compile(lowered)
            content = _serialised(ready)
            write_kept(same, content)
        write_kept(file, content)
        return ready


_tracing = threading.Lock()
"""Tracing is Python's work, one function at a time, and first come, first served: XLA has the first
while the second is traced."""


def _compile(lowered: Any) -> Any:
    """Compile without JAX's cache, because an executable that comes from there cannot be written
    down again."""
    with _without_cache():
        return lowered.compile()


_users = [0]
"""How many threads want JAX's cache to be off."""
_using = threading.Lock()


@contextlib.contextmanager
def _without_cache() -> Iterator[None]:
    def count(change: int) -> None:
        with _using:
            _users[0] += change
            jax.config.update("jax_enable_compilation_cache", not _users[0])
            compilation_cache.reset_cache()  # it looks at the setting once

    count(1)
    try:
        yield
    finally:
        count(-1)


def _serialised(compiled: Any) -> bytes:
    try:
        return pickle.dumps(serialize_executable.serialize(compiled))
    except (ValueError, TypeError, pickle.PicklingError):  # not every backend hands its executables out
        return b""


def _restore(content: bytes | None) -> Callable[..., Any] | None:
    """The executable that was written down; None if there is none, or none that can be used."""
    if not content:
        return None
    # JAX makes LAPACK ready when it lowers something that calls it; an executable that comes from a
    # file would call nothing and crash.
    jax.jit(jax.numpy.linalg.cholesky).lower(jax.ShapeDtypeStruct((1, 1), jax.numpy.float32))
    with contextlib.suppress(Exception):  # whatever is wrong with a file, the function can be compiled
        return serialize_executable.deserialize_and_load(*pickle.loads(content))
    return None


def _setting() -> tuple[Any, ...]:
    """What an executable depends on beside its function: code, libraries, settings, processor."""
    import jaxlib

    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
        return (
            *(
                jax.__version__,
                jaxlib.__version__,
                platform.python_version(),
                jax.default_backend(),
                os.environ.get("XLA_FLAGS", ""),
            ),
            *(
                OPTIONS,
                jax.config.jax_enable_x64,
                jax.config.jax_debug_nans,
                jax.config.jax_default_matmul_precision,
                processor,
            ),
        )
    raise TypeError("the processor is not known")
