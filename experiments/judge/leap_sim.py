"""A public policy of another simulator: turns of a can in the LEAP hand, in four engines.

The policy is a checkpoint that LEAP_Hand_Sim (Isaac Gym with PhysX, learner rl_games) writes: a network of
fully connected layers that sees joint positions, targets and a phase, neither object nor goal. It is
converted to ONNX and connected by ``policies/leap_sim.yaml``; the hand begins in the pose of its training
with the object of its training. Checkpoint and mesh are not part of this repository, e.g. those of
github.com/Geeksongs/LEAP_Hand_Sim at 96ef26b: ``leapsim/runs/LeapHand_2025-08-21_22-07-37/nn/LeapHand.pth``
and ``assets/010_potted_meat_can_berkeley_meshes/010_potted_meat_can/poisson/nontextured.stl``.

Counted is how far the object turns about the vertical in a minute, until it is dropped. Required
beforehand: in MuJoCo it turns by a quarter or more in half of the trials.
"""

from __future__ import annotations

import argparse
import collections
import io
import pickle
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import trimesh
from onnx import TensorProto, helper, numpy_helper

from dexstack.cli.arguments import natural, positive_int
from dexstack.cli.output import note, table
from dexstack.errors import ConfigError
from dexstack.geometry.support_planes import fibonacci_directions
from dexstack.graph.settings import Spec
from dexstack.model.hand import load_hand
from dexstack.plants import PLANTS
from dexstack.report.statistics import wilson
from dexstack.trials.keep import BatchTrial
from dexstack.trials.sweep import Cell, Run, run_trials
from experiments.harness import Findings, experiment

MAPPING = Path(__file__).parent / "policies" / "leap_sim.yaml"
GRASP = [
    [0.1458, -1.047, 1.7247, -0.2187],
    [-0.1054, 0.029, 1.6039, 0.1227],
    [-0.1084, 0.9652, 1.7317, 0.1071],
    [1.2985, 1.6139, 0.9757, 1.0728],
]
"""The canonical pose of the training, a finger a row [rad]."""
ORIGIN_WO = np.array([0.0291, 0.0027, 0.0333])
"""Mean place of the mesh's origin in the training's starts [m], 2 mm higher, where it touches nothing."""
MASS, SECONDS, QUARTER, SHARE = 0.08, 60.0, np.pi / 2, 0.5
DIRECTIONS = 300
"""Of the corners of the object's hull that are kept."""
EPSILON, CLIP = 1e-5, 5.0
"""Of the normalisation of observations in rl_games."""
OBJECT = """\
name: can
mesh: can.obj
mass: {mass}
friction: {{sliding: 0.5, torsional: 0.005, rolling: 0.0001}}
contact_dimension: 6
start:
  leap: {{position: {position}, yaw: 0.0, noise_position: 0.002, noise_yaw: 0.1, hand_pose: grasp}}
"""


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", type=Path, required=True, metavar="FILE", help="of rl_games (.pth)")
    parser.add_argument("--mesh", type=Path, required=True, metavar="FILE", help="the object of the training")
    parser.add_argument("--plants", nargs="+", choices=PLANTS, default=list(PLANTS), metavar="NAME")
    parser.add_argument("--trials", type=positive_int, default=20, metavar="N", help="in each engine")
    parser.add_argument("--seed", type=natural, default=840000, metavar="S", help="of the first trial")


class _Ignored:
    """Stands for objects of classes that are not read."""

    def __init__(self, *_: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass


class _Weights(pickle.Unpickler):
    """Reads the arrays of a checkpoint of torch without torch, and nothing that could run."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive, self._root = archive, archive.namelist()[0].split("/")[0]
        super().__init__(io.BytesIO(archive.read(f"{self._root}/data.pkl")))

    def find_class(self, module: str, name: str) -> Any:
        if name == "_rebuild_tensor_v2":
            return lambda data, offset, shape, stride, *_: np.lib.stride_tricks.as_strided(
                data[offset:], shape, [s * data.itemsize for s in stride]
            ).copy()
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        return name if name.endswith("Storage") else _Ignored

    def persistent_load(self, pid: Any) -> np.ndarray:
        kind = {"FloatStorage": np.float32, "DoubleStorage": np.float64, "LongStorage": np.int64}[pid[1]]
        return np.frombuffer(self._archive.read(f"{self._root}/data/{pid[2]}"), kind)


def convert(checkpoint: Path, path: Path) -> None:
    """Write the deterministic policy of a checkpoint of rl_games as ONNX.

    Raises:
        ConfigError: the file is no such checkpoint.
    """
    try:
        with zipfile.ZipFile(checkpoint) as archive:
            weights = _Weights(archive).load()["model"]
        mean, variance = (weights[f"running_mean_std.running_{x}"] for x in ("mean", "var"))
        layers = sorted(k[:-7] for k in weights if "actor_mlp" in k and k.endswith("weight"))
        layers.append("a2c_network.mu")
    except (OSError, zipfile.BadZipFile, pickle.UnpicklingError, KeyError, TypeError) as error:
        raise ConfigError(f"{checkpoint} is no checkpoint of rl_games: {error!r}") from None
    constants = {"mean": mean, "std": np.sqrt(variance + EPSILON), "low": -CLIP, "high": CLIP}
    nodes = [
        helper.make_node("Sub", ["seen", "mean"], ["centred"]),
        helper.make_node("Div", ["centred", "std"], ["scaled"]),
        helper.make_node("Clip", ["scaled", "low", "high"], ["x0"]),
    ]
    for k, layer in enumerate(layers):
        constants |= {f"w{k}": weights[f"{layer}.weight"], f"b{k}": weights[f"{layer}.bias"]}
        last = k == len(layers) - 1
        out = "action" if last else f"h{k}"
        nodes.append(helper.make_node("Gemm", [f"x{k}", f"w{k}", f"b{k}"], [out], transB=1))
        nodes += [] if last else [helper.make_node("Elu", [out], [f"x{k + 1}"])]
    sizes = {"seen": mean.size, "action": constants[f"b{len(layers) - 1}"].size}
    ends = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, s])] for n, s in sizes.items()]
    arrays = [numpy_helper.from_array(np.float32(v), n) for n, v in constants.items()]
    graph = helper.make_graph(nodes, "policy", *ends, arrays)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def _files(args: argparse.Namespace, folder: Path) -> tuple[str, str, str]:
    """Write policy, hand and object into a folder; return their paths."""
    policy, hand, body = (folder / name for name in ("policy.onnx", "hand.yaml", "can.yaml"))
    convert(args.checkpoint, policy)
    policy.with_suffix(".yaml").write_text(MAPPING.read_text())
    urdf = load_hand("leap_right").urdf_path
    text = urdf.with_suffix(".yaml").read_text().replace(urdf.name, str(urdf))
    hand.write_text(text.rstrip() + "\n  grasp:\n" + "".join(f"    - {finger}\n" for finger in GRASP))
    corners = np.asarray(trimesh.load(args.mesh).convex_hull.vertices)
    kept = np.unique(np.argmax(fibonacci_directions(DIRECTIONS) @ corners.T, axis=1))
    hull = trimesh.convex.convex_hull(corners[kept])
    centre = np.array(hull.center_mass)
    hull.apply_translation(-centre)
    hull.export(folder / "can.obj")
    body.write_text(OBJECT.format(mass=MASS, position=[float(x) for x in np.round(ORIGIN_WO + centre, 4)]))
    return str(policy), str(hand), str(body)


def turned(trial: BatchTrial) -> float:
    """Return the turn about the vertical from start to end [rad]."""
    w, x, y, z = trial.recording["pose_WO"][:, 3:].T
    yaw = np.unwrap(np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z)))
    return float(yaw[-1] - yaw[0])


def leap_sim(args: argparse.Namespace) -> Findings:
    """Run the policy."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="dexstack-") as folder:
        policy, hand, body = _files(args, Path(folder))
        overrides = (("planner", policy),)
        cells = [Cell(p, Spec("continuous", body, hand, overrides=overrides, plant=p)) for p in args.plants]
        outcomes = run_trials(cells, Run(SECONDS), args.trials, args.seed)
        for cell in cells:
            trials = [next(outcomes) for _ in range(args.trials)]
            turns = np.degrees([turned(trial) for trial in trials])
            good = int((np.abs(turns) >= np.degrees(QUARTER)).sum())
            rows.append(
                {
                    "plant": cell.name,
                    "trials": args.trials,
                    "quarter_turns": good,
                    "interval": wilson(good, args.trials),
                    "dropped": sum(trial.dropped for trial in trials),
                    "turned_deg": {"median": np.median(turns), "min": turns.min(), "max": turns.max()},
                    "seconds": sum(trial.seconds for trial in trials),
                    "trouble": sum(bool(trial.trouble) for trial in trials),
                }
            )
            note(
                f"{cell.name}: a quarter in {good} of {args.trials}, {np.round(turns).astype(int).tolist()}°"
            )
    asked = [row["quarter_turns"] >= SHARE * args.trials for row in rows if row["plant"] == "mujoco"]
    columns = ("plant", "trials", "quarter_turns", "dropped")
    shown = table("A policy of LEAP_Hand_Sim", columns, [[row[c] for c in columns] for row in rows])
    return Findings({"rows": rows, "passed": all(asked)}, lines=[shown], seed=args.seed)


main = experiment("experiments.judge.leap_sim", __doc__, leap_sim, arguments=_arguments)

if __name__ == "__main__":
    sys.exit(main())
