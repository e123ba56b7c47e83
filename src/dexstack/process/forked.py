"""Start a program by a fork of this process, which has already imported what the program imports.

Imports are most of the start-up time of a small node, and the nodes of a graph share them.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import os
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from typing import NoReturn, TextIO

from dexstack.process.orphans import die_with_parent

LOOK = 0.02
"""Time between two polls of a process in :meth:`Forked.wait` [s]."""
PR_SET_NAME = 15
"""Option of prctl(2) that sets the name shown by ps and top."""


class Forked:
    """``python -m module arguments`` as a fork, with ``pid``, ``poll`` and ``wait`` of
    ``subprocess.Popen``.

    The module's ``main()`` runs in its own session, and ends with the process that started it.
    Libraries that read the environment when they are loaded (OpenBLAS, MuJoCo's choice of OpenGL,
    JAX's of a platform) see the starter's; everything later sees ``environment``. No thread of this
    process may hold a lock: JAX must not have computed anything yet.

    Args:
        module: also imported here, so that the next program finds it; errors show in the program.
        arguments: ``sys.argv[1:]`` of the program.
        environment: its whole environment.
        stdout: file for its output.
        stderr: file for its errors.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        stdout: TextIO,
        stderr: TextIO,
    ) -> None:
        with contextlib.suppress(Exception):
            importlib.import_module(module)
        self._code: int | None = None
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        with warnings.catch_warnings():
            # the threads of this process are LTTng's, loaded by ROS, which hold no locks
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if not self.pid:
            _become(module, arguments, environment, (stdout.fileno(), stderr.fileno()))

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while the program runs."""
        if self._code is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # reaped by a library's thread: unknown, 0 as in subprocess
                self._code = 0
            else:
                self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def wait(self, timeout: float = float("inf")) -> int:
        """Wait for the exit code.

        Raises:
            subprocess.TimeoutExpired: the program still runs.
        """
        end = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() >= end:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(LOOK)
        return code


def _become(
    module: str, arguments: Sequence[str], environment: Mapping[str, str], output: tuple[int, int]
) -> NoReturn:
    """Run the program in the child, without the starter's files, signal handlers and exit functions.

    ``atexit`` has no public way to do this; ``multiprocessing`` does the same in its forks.
    """
    code = 1
    try:
        os.setsid()
        die_with_parent()
        ctypes.CDLL(None).prctl(PR_SET_NAME, module.rpartition(".")[2].encode()[:15], 0, 0, 0)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), *output)):
            os.dup2(file, number)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(line_buffering=True)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = [module, *arguments]
        atexit._clear()
        code = importlib.import_module(module).main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:  # as the interpreter does
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code or 0)
