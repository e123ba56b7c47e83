"""Your own object: a mesh and a YAML file in a folder, which any command takes by its path."""

import sys
from pathlib import Path

import trimesh

import dexstack

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "results/my_prism")
folder.mkdir(parents=True, exist_ok=True)

# Six-sided, 52 mm high, in metres. Any watertight mesh works; a non-convex one is decomposed (extra
# `decompose`).
trimesh.creation.cylinder(radius=0.03, height=0.052, sections=6).export(folder / "prism.obj")
(folder / "prism.yaml").write_text(
    """
name: prism
mesh: prism.obj
mass: 0.08              # kg
friction: {sliding: 0.6, torsional: 0.005, rolling: 0.0001}
start:
  allegro:              # where it lies on the palm of a hand
    position: [0.01, 0.0, 0.029]
    yaw: 0.0
    noise_position: 0.003
    noise_yaw: 0.1
"""
)

loop = dexstack.closed_loop("palm_turn", object=str(folder / "prism.yaml"))
trial = loop.run(k=0, seed=0, goals=iter([loop.task.at_yaw(0.6)]), seconds=5.0)
print(f"turned to within {trial.orientation_error:.3f} rad, {'dropped' if trial.dropped else 'in the hand'}")
print(f"the same in a graph of nodes: dexstack up sim --object {folder / 'prism.yaml'}")
