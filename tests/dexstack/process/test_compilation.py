"""Executables cached between processes, and numbers joined for one program."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from dexengines.compilation import joined

PROGRAM = """
import jax, jax.numpy as jnp, numpy as np
from dexstack.process import compilation

traced = []

def function(a, b):
    traced.append(1)
    return jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(a), b, lower=True) * {factor}

compilation.use_compilation_cache()
f = compilation.KeptFunction(function, {factor})
a, b = np.array([[4.0, 2.0], [2.0, 3.0]], np.float32), np.array([2.0, 3.0], np.float32)
print(np.asarray(f(a, b)).tolist(), np.asarray(f(a, b)).tolist(), len(traced))
"""


@pytest.fixture
def run(tmp_path):
    def run(factor: float) -> list[str]:
        command = [sys.executable, "-c", PROGRAM.format(factor=factor)]
        environment = {
            **os.environ,
            "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "jax"),
            "JAX_PLATFORMS": "cpu",
        }
        found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return found.stdout.split("\n")[0].rsplit(" ", 1)

    return run


def test_a_second_process_neither_traces_nor_compiles(run, tmp_path):
    first, traced = run(1.0)
    assert traced == "1"
    assert run(1.0) == [first, "0"]  # the restored executable calls LAPACK
    other, traced = run(2.0)
    assert traced == "1" and other != first
    for file in (tmp_path / "jax" / "executables").iterdir():
        file.write_bytes(b"torn")
    assert run(1.0) == [first, "1"]


def test_equal_leaves_are_joined_into_one():
    """Rows keep the order of the trees, also if few kinds are shared by many."""
    same, kinds = np.array([5.0, 6.0]), [np.array([1.0, 2.0]), jax.numpy.array([3.0, 4.0])]
    order = [0, 1, 1, 0, 1] * 1000
    shared, own = joined([(same if k else same.copy(), kinds[k]) for k in order])
    np.testing.assert_array_equal(shared, same)
    np.testing.assert_array_equal(own, [kinds[k] for k in order])
