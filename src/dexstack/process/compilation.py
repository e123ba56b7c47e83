"""JAX compilation: options of XLA, concurrent compilation, and executables cached between processes."""

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
import scipy.linalg  # noqa: F401  JAX loads LAPACK from it when it reads an executable; forked nodes find it loaded
from jax.experimental import serialize_executable
from jax.experimental.compilation_cache import compilation_cache

from dexengines.compilation import OPTIONS, compiler_options as compiler_options, jit as jit
from dexstack.process.kept import cache_folder, digest, read_kept, sources, usable, write_kept


def run_concurrently(*functions: Callable[[], Any]) -> None:
    """Call functions that compile, each in its own thread; XLA runs without Python's lock.

    An exception of any of them is raised.
    """
    with ThreadPoolExecutor(len(functions)) as threads:
        for done in [threads.submit(function) for function in functions]:
            done.result()


def use_compilation_cache() -> Path:
    """Enable JAX's persistent cache in the user's cache folder, before anything is compiled.

    ``JAX_COMPILATION_CACHE_DIR`` overrides the folder. A folder that cannot be written leaves the
    cache off.
    """
    chosen = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    folder = Path(chosen) if chosen else cache_folder("jax")
    jax.config.update("jax_compilation_cache_dir", str(folder) if usable(folder) else None)
    # 0: a start waits for the sum of many short compilations
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return folder


class KeptFunction:
    """``jax.jit`` of a function whose executable is cached, so that a restarted process neither
    traces nor compiles it.

    JAX's own cache needs the function traced and lowered, which takes ten times as long as reading
    the executable. Without :func:`use_compilation_cache`, and if the dependencies of the function
    have no digest, this is :func:`jit`.
    """

    def __init__(self, function: Callable[..., Any], *closed: Any) -> None:
        """
        Args:
            function: function of arrays.
            closed: everything it depends on except its arguments and dexstack's code; see
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
            return jitted  # such library functions may need initialisation that is unknown here
        # dexstack's code may have changed without changing this program
        same = file.with_name(digest(program, setting))
        content = read_kept(same)
        if (ready := _restore(content)) is None:
            ready = _compile(lowered)
            content = _serialised(ready)
            write_kept(same, content)
        write_kept(file, content)
        return ready


_tracing = threading.Lock()
"""Tracing is pure Python: one function at a time, so that XLA compiles the first meanwhile."""


def _compile(lowered: Any) -> Any:
    """Compile without JAX's cache, whose executables cannot be serialised again."""
    with _without_cache():
        return lowered.compile()


_users = [0]
"""Number of threads that need JAX's cache off."""
_using = threading.Lock()


@contextlib.contextmanager
def _without_cache() -> Iterator[None]:
    def count(change: int) -> None:
        with _using:
            _users[0] += change
            jax.config.update("jax_enable_compilation_cache", not _users[0])
            compilation_cache.reset_cache()  # the setting is read once

    count(1)
    try:
        yield
    finally:
        count(-1)


def _serialised(compiled: Any) -> bytes:
    try:
        return pickle.dumps(serialize_executable.serialize(compiled))
    except (ValueError, TypeError, pickle.PicklingError):  # not every backend supports it
        return b""


def _restore(content: bytes | None) -> Callable[..., Any] | None:
    """Return the executable in a cache file; None without a usable one."""
    if not content:
        return None
    # JAX initialises LAPACK when it lowers a call to it; a restored executable would crash without
    jax.jit(jax.numpy.linalg.cholesky).lower(jax.ShapeDtypeStruct((1, 1), jax.numpy.float32))
    with contextlib.suppress(Exception):  # a damaged file only costs a compilation
        return serialize_executable.deserialize_and_load(*pickle.loads(content))
    return None


def _setting() -> tuple[Any, ...]:
    """Return what an executable depends on besides its function: libraries, settings, processor."""
    import jaxlib

    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
        return (
            jax.__version__,
            jaxlib.__version__,
            platform.python_version(),
            jax.default_backend(),
            os.environ.get("XLA_FLAGS", ""),
            OPTIONS,
            jax.config.jax_enable_x64,
            jax.config.jax_debug_nans,
            jax.config.jax_default_matmul_precision,
            processor,
        )
    raise TypeError("the processor is unknown")
