"""Environment for one thread per process: for small matrices more threads only compete for cores."""

import os
from collections.abc import Mapping

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MUJOCO_GL": "off"}
"""Environment of a process with NumPy. MuJoCo draws nothing here; importing it would otherwise start
a process that looks for a window system."""
XLA_ONE_THREAD = {**ONE_THREAD, "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "JAX_PLATFORMS": "cpu"}
"""The same with JAX."""


def prefer(variables: Mapping[str, str]) -> None:
    """Set unset variables of this process's environment, before libraries that read them load."""
    for name, value in variables.items():
        os.environ.setdefault(name, value)
