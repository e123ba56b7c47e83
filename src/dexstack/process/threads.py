"""One thread per process: what libraries would otherwise start for matrices as small as ours only
takes the core from somebody else."""

import os
from collections.abc import Mapping

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MUJOCO_GL": "off"}
"""Environment of a process with numpy in it. None of them draws with MuJoCo, whose import otherwise
starts a process that asks for a window system."""
XLA_ONE_THREAD = {**ONE_THREAD, "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "JAX_PLATFORMS": "cpu"}
"""The same with JAX."""


def prefer(variables: Mapping[str, str]) -> None:
    """Set variables of this process's environment that nobody has set; before the libraries are
    loaded that look at them."""
    for name, value in variables.items():
        os.environ.setdefault(name, value)
