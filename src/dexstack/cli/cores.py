"""Which core a measurement runs on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from dexstack.errors import ConfigError


@contextmanager
def one_core(core: int | None) -> Iterator[int]:
    """Keep this process on one core; entered before JAX starts, so that its threads stay there too.

    Raises:
        ConfigError: the process may not use that core.
    """
    before = os.sched_getaffinity(0)
    chosen = max(before) if core is None else core
    if chosen not in before:
        raise ConfigError(f"--core {chosen} is not one of the cores this process may use: {sorted(before)}")
    os.sched_setaffinity(0, {chosen})
    try:
        yield chosen
    finally:
        os.sched_setaffinity(0, before)
