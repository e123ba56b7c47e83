"""Checkpoints of rl_games are converted without torch."""

import collections
import io
import pickle
import sys
import types
import zipfile

import numpy as np
import onnxruntime
import pytest

from dexstack.errors import ConfigError
from experiments.judge import leap_sim

SIZES = (6, 5, 4, 3)
"""Observation, two hidden layers, action."""


class Stored:
    """A tensor as torch writes it: its numbers in a file of the archive, its shape in the pickle."""

    def __init__(self, array):
        self.array = np.ascontiguousarray(array, np.float32)

    def __reduce__(self):
        strides = tuple(s // self.array.itemsize for s in self.array.strides)
        return sys.modules["torch._utils"]._rebuild_tensor_v2, (self, 0, self.array.shape, strides, False, {})


def write_checkpoint(path, model):
    """Write arrays as the model of a checkpoint."""
    module = types.ModuleType("torch._utils")
    exec("def _rebuild_tensor_v2(*_): pass", module.__dict__)
    torch = types.ModuleType("torch")
    exec("class FloatStorage: pass", torch.__dict__)
    arrays, text = {}, io.BytesIO()

    class Pickler(pickle.Pickler):
        inside = False

        def persistent_id(self, one):
            if isinstance(one, Stored) and id(one) in arrays:
                return ("storage", torch.FloatStorage, str(id(one)), "cpu", one.array.size)
            if isinstance(one, Stored):  # its storage is named on the second visit
                arrays[id(one)] = one.array
            return None

    sys.modules |= {"torch": torch, "torch._utils": module}
    try:
        tensors = collections.OrderedDict((name, Stored(x)) for name, x in model.items())
        Pickler(text, 2).dump({"model": tensors, "last_mean_rewards": np.float32(3.0)})
    finally:
        del sys.modules["torch"], sys.modules["torch._utils"]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("net/data.pkl", text.getvalue())
        for key, array in arrays.items():
            archive.writestr(f"net/data/{key}", array.tobytes())


def network(rng):
    model = {
        "running_mean_std.running_mean": rng.normal(size=SIZES[0]),
        "running_mean_std.running_var": rng.uniform(0.5, 2.0, SIZES[0]),
    }
    names = ["actor_mlp.0", "actor_mlp.2", "mu"]
    for name, inputs, outputs in zip(names, SIZES, SIZES[1:], strict=False):
        model[f"a2c_network.{name}.weight"] = rng.normal(size=(outputs, inputs))
        model[f"a2c_network.{name}.bias"] = rng.normal(size=outputs)
    return model


def expected(model, x):
    x = (x - model["running_mean_std.running_mean"]) / np.sqrt(
        model["running_mean_std.running_var"] + leap_sim.EPSILON
    )
    x = np.clip(x, -leap_sim.CLIP, leap_sim.CLIP)
    for name in ("actor_mlp.0", "actor_mlp.2", "mu"):
        x = model[f"a2c_network.{name}.weight"] @ x + model[f"a2c_network.{name}.bias"]
        x = x if name == "mu" else np.where(x > 0.0, x, np.expm1(x))
    return x


def test_the_network_is_that_of_the_checkpoint(tmp_path):
    rng = np.random.default_rng(0)
    model = network(rng)
    write_checkpoint(tmp_path / "net.pth", model)
    leap_sim.convert(tmp_path / "net.pth", tmp_path / "net.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    for scale in (1.0, 100.0):
        x = scale * rng.normal(size=SIZES[0])
        found = session.run(None, {"seen": np.float32(x[None])})[0][0]
        np.testing.assert_allclose(found, expected(model, x), rtol=1e-4, atol=1e-4)


def test_another_file_is_refused_by_name(tmp_path):
    (tmp_path / "net.pth").write_text("<html>")
    with pytest.raises(ConfigError, match=r"net\.pth is no checkpoint of rl_games"):
        leap_sim.convert(tmp_path / "net.pth", tmp_path / "net.onnx")
