"""Simulators of a tossed cube: the engines of :mod:`dexengines`, and Drake."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from dexengines import load, rollout
from dexengines.scene import State
from dexstack.errors import ConfigError
from experiments.engines.toss_data import INERTIA, MASS, RATE, WIDTH, Toss

SUBSTEPS = 4
"""Steps of a simulator per sample."""
XML = """<mujoco><option timestep="{dt}" cone="elliptic" impratio="10"/><worldbody>
  <geom name="table" type="plane" size="0 0 1" friction="{friction} 0 0" {contact}/>
  <body name="cube" pos="0 0 1"><freejoint/>
    <inertial pos="0 0 0" mass="{mass}" diaginertia="{inertia} {inertia} {inertia}"/>
    <geom name="cube" type="box" size="{half} {half} {half}" friction="{friction} 0 0" {contact}/></body>
  </worldbody></mujoco>"""


class Unknown(NamedTuple):
    """A parameter to fit."""

    name: str
    start: float
    low: float
    high: float
    log: bool = False
    """Search its logarithm."""


COMMON = (
    Unknown("friction", 0.18, 0.05, 0.6, log=True),
    Unknown("width", 1.0, 0.98, 1.02),
    Unknown("inertia", 1.0, 0.98, 1.02),
)
"""Parameters of all simulators; width and inertia as factors."""
OWN = {
    "mujoco": (
        Unknown("time_constant", 0.02, 0.004, 0.1, log=True),
        Unknown("damping_ratio", 1.0, 0.1, 3.0, log=True),
    ),
    "hydroelastic": (
        Unknown("modulus", 1e6, 1e4, 1e8, log=True),
        Unknown("relaxation_time", 0.005, 1e-4, 0.1, log=True),
    ),
    "lcp": (Unknown("restitution", 0.125, 0.0, 0.8),),
    "soft": (
        Unknown("stiffness", 5e3, 5e2, 1e5, log=True),
        Unknown("dissipation_speed", 0.7, 0.1, 10.0, log=True),
    ),
    "drake": (
        Unknown("stiffness", 1e4, 1e2, 1e7, log=True),
        Unknown("dissipation", 0.5, 0.0, 10.0),
    ),
}
"""Parameters of each simulator's contact."""
OPTIONS = {"lcp": {"directions": 8}}
"""Of engines. Friction of lcp's impacts is that of a polygon: a cube that tumbles strikes at an angle to
its slip."""
Simulate = Callable[[Mapping[str, float], Sequence[Toss]], list[np.ndarray]]
"""(parameters, tosses) → simulated poses (K, 7) of each toss, from its first state."""


def simulator(name: str) -> Simulate:
    """Return a simulator of :data:`OWN`.

    Raises:
        ConfigError: Drake is not installed.
    """
    return drake() if name == "drake" else engine(name)


def described(values: Mapping[str, float], contact: str) -> str:
    """Return the scene as MJCF, with the parameters :data:`COMMON` and attributes of its geoms."""
    return XML.format(
        dt=1.0 / (RATE * SUBSTEPS),
        friction=values["friction"],
        half=0.5 * WIDTH * values["width"],
        mass=MASS,
        inertia=INERTIA * values["inertia"],
        contact=contact,
    )


def engine(name: str) -> Simulate:
    """Return the simulation in an engine of :mod:`dexengines`."""

    def simulate(values: Mapping[str, float], tosses: Sequence[Toss]) -> list[np.ndarray]:
        own = {unknown.name: values[unknown.name] for unknown in OWN[name]}
        solref = f'solref="{own["time_constant"]} {own["damping_ratio"]}"' if name == "mujoco" else ""
        # the table is rigid in hydroelastic; in lcp and soft one value serves both surfaces
        materials = None if name == "mujoco" else {"cube" if name == "hydroelastic" else "default": own}
        model = mujoco.MjModel.from_xml_string(described(values, solref))
        scenes = [load(model, name, materials=materials, **OPTIONS.get(name, {}))] * len(tosses)
        q, v = np.array([toss.q[0] for toss in tosses]), np.array([toss.v for toss in tosses])
        states = State(np.zeros(len(tosses)), q, v, np.zeros((len(tosses), 0)))
        longest = max(len(toss.q) for toss in tosses)
        passed = rollout(scenes, states, np.zeros((SUBSTEPS * (longest - 1), 0)), threads=1)
        return [row[: len(toss.q)] for row, toss in zip(passed.q[:, ::SUBSTEPS], tosses, strict=True)]

    return simulate


def drake() -> Simulate:
    """Return the simulation in Drake: point contact with its discrete solver ``lagged``.

    Raises:
        ConfigError: Drake is not installed.
    """
    try:
        from pydrake.geometry import AddContactMaterial, Box, HalfSpace, ProximityProperties
        from pydrake.math import RigidTransform
        from pydrake.multibody.plant import AddMultibodyPlant, CoulombFriction, MultibodyPlantConfig
        from pydrake.multibody.tree import SpatialInertia, UnitInertia
        from pydrake.systems.analysis import Simulator
        from pydrake.systems.framework import DiagramBuilder
    except ImportError as error:
        raise ConfigError(f"{error}: pip install 'dexstack[peers]'") from None

    def made(values: Mapping[str, float]) -> tuple[Simulator, MultibodyPlant]:  # noqa: F821
        builder = DiagramBuilder()
        config = MultibodyPlantConfig(
            time_step=1.0 / (RATE * SUBSTEPS), discrete_contact_approximation="lagged"
        )
        plant, _ = AddMultibodyPlant(config, builder)
        inertia = UnitInertia.TriaxiallySymmetric(INERTIA * values["inertia"] / MASS)
        body = plant.AddRigidBody("cube", SpatialInertia(MASS, np.zeros(3), inertia))
        properties = ProximityProperties()
        AddContactMaterial(
            dissipation=values["dissipation"],
            point_stiffness=values["stiffness"],
            friction=CoulombFriction(values["friction"], values["friction"]),
            properties=properties,
        )
        shapes = (
            (plant.world_body(), HalfSpace(), "table"),
            (body, Box(*[WIDTH * values["width"]] * 3), "cube"),
        )
        for owner, shape, name in shapes:
            plant.RegisterCollisionGeometry(owner, RigidTransform(), shape, name, properties)
        plant.Finalize()
        return Simulator(builder.Build()), plant

    def simulate(values: Mapping[str, float], tosses: Sequence[Toss]) -> list[np.ndarray]:
        simulation, plant = made(values)
        root = simulation.get_mutable_context()
        context = plant.GetMyMutableContextFromRoot(root)
        found = []
        for toss in tosses:
            root.SetTime(0.0)
            omega_W = Rotation.from_quat(toss.q[0, 3:], scalar_first=True).apply(toss.v[3:])
            plant.SetPositions(context, np.roll(toss.q[0], 4))
            plant.SetVelocities(context, np.concatenate([omega_W, toss.v[:3]]))
            simulation.Initialize()
            rows = [toss.q[0]]
            for k in range(1, len(toss.q)):
                simulation.AdvanceTo(k / RATE)
                rows.append(np.roll(plant.GetPositions(context), -4))
            found.append(np.array(rows))
        return found

    return simulate
