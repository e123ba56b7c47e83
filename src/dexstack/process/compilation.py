"""Compiled functions are kept between processes, so that only the first start of a controller is slow."""

from __future__ import annotations

import os
from pathlib import Path


def use_compilation_cache() -> Path:
    """Let JAX keep what it compiles in the user's cache folder; call it once at the start of a program, before anything is compiled.

    A folder named in ``JAX_COMPILATION_CACHE_DIR`` wins.
    """
    import jax

    chosen = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(chosen) if chosen else base / "dexstack" / "jax"
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # the sum of many small ones is what a start waits for
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return folder
