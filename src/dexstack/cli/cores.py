"""The core that a measurement runs on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from dexstack.cli.options import option
from dexstack.errors import ConfigError

add_core_argument = option(
    "--core",
    type=int,
    metavar="K",
    help="core to run on (default: the last one this process may use)",
)
"""Add ``--core``."""


@contextmanager
def one_core(core: int | None) -> Iterator[int]:
    """Pin this process to one core, before JAX starts so that its threads are pinned too.

    Args:
        core: number of the core; None: the last one this process may use.

    Raises:
        ConfigError: this process may not use that core.
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
