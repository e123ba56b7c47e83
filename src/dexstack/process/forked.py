"""A program started by a fork of this process, which has imported already what the program imports.

Imports are most of what a small node's start costs, and several nodes of one graph import the same.
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
"""Time between two looks at a process that somebody waits for [s]."""
PR_SET_NAME = 15


class Forked:
    """``python -m module arguments``, as far as its starter is concerned: ``pid``, ``poll`` and
    ``wait`` are those of ``subprocess.Popen``.

    The module's ``main()`` runs in a session of its own, and ends with the process that started it.
    What reads the environment while a library is loaded (OpenBLAS, MuJoCo's choice of OpenGL, JAX's
    of a platform) reads the starter's; everything later reads its own. For a process without
    threads that hold locks: JAX must not have computed anything yet.

    Args:
        module: imported here, so that the next program finds it; what fails, fails in the program.
        arguments: ``sys.argv[1:]``.
        environment: all of it.
        stdout, stderr: files to write to.
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
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # the threads here are LTTng's, which ROS loads; they hold nothing
            self.pid = os.fork()
        if not self.pid:
            _become(module, arguments, environment, (stdout.fileno(), stderr.fileno()))

    def poll(self) -> int | None:
        """The exit code, a signal's number negative; None while it runs."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def wait(self, timeout: float = float("inf")) -> int:
        """The exit code, once there is one.

        Raises:
            subprocess.TimeoutExpired: there is none yet.
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
    """In the child: run the program; what the starter had open, its handlers and its exit are not
    the child's."""
    code = 1
    try:
        os.setsid()
        die_with_parent()
        ctypes.CDLL(None).prctl(
            PR_SET_NAME, module.rpartition(".")[2].encode()[:15], 0, 0, 0
        )  # what ps and top show
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
    except BaseException:  # as the interpreter does with what nobody caught
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code or 0)
