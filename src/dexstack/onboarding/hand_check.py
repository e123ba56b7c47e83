"""Fitness of a hand: inertias, limits, self-contact, reach, strength, and the servo's response in every
plant against that of the linear model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import mujoco
import numpy as np
from scipy.linalg import expm
from scipy.spatial import cKDTree

from dexstack.errors import ConfigError
from dexstack.hand.servo import ServoLaw, ServoParams
from dexstack.hand.watch import UNWATCHED, WatchParams
from dexstack.model.gravity import GravityCompensation
from dexstack.model.hand import Body, HandModel
from dexstack.model.objects import load_object
from dexstack.model.scene import JointLayout
from dexstack.model.strength import finger_forces, heaviest
from dexstack.onboarding.reaching import Finger, tip_clouds
from dexstack.onboarding.resting import Figure
from dexstack.plants import make_plant, plant_params
from dexstack.plants.mujoco import MujocoPlant

STEP, SECONDS = 0.05, 0.5
"""Change of every joint's target [rad], and time of the response [s]."""
RESPONSE = 0.05
"""Largest root-mean-square deviation of a joint from the linear response, over the step."""
TURN = 2.0 * np.pi
"""Largest plausible range of a joint [rad]."""
STRONGEST = 100.0
"""Largest plausible force of a stretched finger [N]; a person's presses with about 60 N."""
TOUCHING = 1e-3
"""Overlap of links that counts as contact [m]."""
AWAY = np.array([5.0, 0.0, 5.0, 1.0, 0.0, 0.0, 0.0])
"""Pose of the object, out of the hand's way."""


class HandCheck(NamedTuple):
    """Result of :func:`check_hand`."""

    figures: dict[str, Any]
    """For JSON."""
    findings: list[str]
    """What is implausible, one sentence each; empty if nothing is."""


def check_hand(
    hand: HandModel, plants: Sequence[str], progress: Callable[[str], None] = lambda message: None
) -> HandCheck:
    """Check a hand.

    Args:
        plants: engines in which the servo's response is simulated.
    """
    findings = [*masses(hand), *limits(hand), *strengths(hand)]
    progress("self-contact and reach")
    home, bent = self_contacts(hand)
    if home:
        findings.append(f"at rest these links are inside each other: {_pairs(home)}")
    reach, gaps = reaches(hand)
    if apart := [f"{finger} ({1e3 * gap:.0f} mm)" for finger, gap in gaps.items() if gap > 0.0]:
        findings.append(f"the thumb's tip does not touch: {', '.join(apart)}")
    responses = {}
    expected = linear_response(hand)
    for name in plants:
        progress(f"response of the servo in {name}")
        try:
            deviation = np.sqrt(np.mean((response(hand, name) - expected) ** 2, axis=0)) / STEP
        except ConfigError as error:
            findings.append(f"the plant {name} cannot simulate it: {error}")
            continue
        worst = int(np.argmax(deviation))
        responses[name] = {"deviation": deviation.tolist(), "worst": float(deviation[worst])}
        if deviation[worst] > RESPONSE:
            findings.append(
                f"in {name} the joint '{hand.joint_names[worst]}' deviates from the linear response by "
                f"{100 * deviation[worst]:.0f} % of a step{_met(hand)}"
            )
    followers = {
        b.hinge: hand.joint_names[b.joint] for b in hand.bodies[1:] if b.hinge not in hand.joint_names
    }
    figures = {
        "name": hand.name,
        "side": hand.side,
        "fingers": list(hand.chains),
        "joints": {
            name: {"lower": low, "upper": high, "effort": effort, "velocity": speed}
            for name, low, high, effort, speed in zip(
                hand.joint_names, hand.lower, hand.upper, hand.effort, hand.velocity, strict=True
            )
        },
        "followers": followers,
        "mass_kg": float(sum(body.mass for body in hand.bodies)),
        "self_contacts": {"at_rest": home, "bent": bent},
        "reach_m": reach,
        "thumb_gap_m": gaps,
        "tip_force_n": finger_forces(hand).tolist(),
        "heaviest_kg": heaviest(hand, load_object("cube")),
        "responses": responses,
        "findings": findings,
    }
    return HandCheck(figures, findings)


def masses(hand: HandModel) -> list[str]:
    """Return what is implausible about the masses and inertias of moving links.

    A rigid body's principal moments satisfy I₁ + I₂ ≥ I₃, and its radius of gyration is at most the
    largest distance of its matter from its centre of mass.
    """
    found = []
    for body in hand.bodies[1:]:
        if not body.mass > 0.0:
            found.append(f"the link '{body.name}' has no mass")
            continue
        moments = np.linalg.eigvalsh(body.inertia)
        if moments[0] <= 0.0 or moments[0] + moments[1] < 0.999 * moments[2]:
            listed = ", ".join(f"{m:.2g}" for m in moments)
            found.append(
                f"the inertia of '{body.name}' is of no rigid body: principal moments {listed} kg m²"
            )
        gyration, extent = float(np.sqrt(moments[2] / body.mass)), _extent(body)
        if extent and gyration > extent:
            found.append(
                f"the radius of gyration of '{body.name}', {1e3 * gyration:.0f} mm, is larger than the link "
                f"({1e3 * extent:.0f} mm from its centre of mass)"
            )
    return found


def _extent(body: Body) -> float:
    """Return a bound of the distance of a link's shapes from its centre of mass [m]; 0 without
    shapes."""
    size = {"box": np.linalg.norm, "sphere": np.sum, "capsule": np.sum, "cylinder": np.linalg.norm}
    reaches = [np.linalg.norm(s.p - body.com) + size[s.kind](s.size) for s in body.shapes if s.kind in size]
    return float(max(reaches, default=0.0))


def limits(hand: HandModel) -> list[str]:
    """Return what is implausible about the joint limits."""
    rows = zip(hand.joint_names, hand.lower, hand.upper, strict=True)
    return [
        f"the range of '{name}' is {np.degrees(high - low):.0f}°; are its limits in degrees?"
        for name, low, high in rows
        if high - low > TURN
    ]


def strengths(hand: HandModel) -> list[str]:
    """Return which fingers are implausibly strong: many files have placeholders for torque limits."""
    return [
        f"the finger of '{hand.bodies[tip.body].name}' presses with {force:.0f} N; "
        "are its joints' effort limits placeholders?"
        for tip, force in zip(hand.fingertips, finger_forces(hand), strict=True)
        if force > STRONGEST
    ]


def self_contacts(hand: HandModel) -> tuple[list[list[str]], list[list[str]]]:
    """Return the pairs of links inside each other at rest, and those in any of the configurations
    with one joint at a limit and the others at rest."""
    figure = Figure(hand)
    bent: set[tuple[str, str]] = set()
    for joint in range(len(hand.home)):
        for limit in (hand.lower, hand.upper):
            q = np.array(hand.home)
            q[joint] = limit[joint]
            bent |= set(figure.touching(q, TOUCHING))
    home = set(figure.touching(hand.home, TOUCHING))
    return [list(pair) for pair in sorted(home)], [list(pair) for pair in sorted(bent - home)]


def _met(hand: HandModel) -> str:
    """Return which links meet in the step, if any do."""
    met = Figure(hand).touching(_stepped(hand))
    return f", in which {_pairs([list(pair) for pair in met])} meet" if met else ""


def _pairs(pairs: list[list[str]]) -> str:
    return ", ".join(" and ".join(pair) for pair in pairs)


def reaches(hand: HandModel) -> tuple[dict[str, float], dict[str, float]]:
    """Return for each finger the largest distance of its tip from its first joint [m], and for each
    but the thumb the smallest gap between its tip's sphere and the thumb's, over configurations [m]."""
    clouds = tip_clouds(hand)
    names = [hand.bodies[tip.body].name for tip in hand.fingertips]
    reach = {
        name: float(np.linalg.norm(cloud - Finger(hand, f).knuckle, axis=1).max())
        for f, (name, cloud) in enumerate(zip(names, clouds, strict=True))
    }
    thumb = cKDTree(clouds[-1])
    gaps = {
        name: max(0.0, float(thumb.query(cloud)[0].min()) - 2.0 * hand.fingertip_radius)
        for name, cloud in zip(names[:-1], clouds[:-1], strict=True)
    }
    return reach, gaps


def _stepped(hand: HandModel) -> np.ndarray:
    """Return the target (N,) [rad]: the rest, each joint by :data:`STEP` towards its middle."""
    return hand.home + STEP * np.where(hand.home < 0.5 * (hand.lower + hand.upper), 1.0, -1.0)


def linear_response(hand: HandModel) -> np.ndarray:
    """Return the linear response (K, N) to the step, at the servo's ticks, as the share of the step
    of each joint times :data:`STEP` [rad].

    M q̈ + (D + k_d) q̇ + k_p (q − r(t)) = 0 with the mass matrix M at rest, gravity being
    compensated, and the target r slewed at the servo's initial rate.
    """
    plant, p = MujocoPlant(hand, load_object("cube")), ServoParams()
    plant.reset(hand.home, AWAY)
    model, data, layout, n = plant.model, plant.scene.data, JointLayout(plant.model), len(hand.home)
    full = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, full)
    C = layout.rates(np.eye(n)).T
    hinges = len(C)
    M = C.T @ full[:hinges, :hinges] @ C
    D = C.T @ np.diag(model.dof_damping[:hinges]) @ C + p.kd * np.eye(n)
    A = np.block([[np.zeros((n, n)), np.eye(n)], [-p.kp * np.linalg.inv(M), -np.linalg.solve(M, D)]])
    B = np.concatenate([np.zeros((n, n)), p.kp * np.linalg.inv(M)])
    step = expm(np.block([[A, B], [np.zeros((n, 3 * n))]]) * p.period)
    sign = np.sign(_stepped(hand) - hand.home)
    x, found = np.zeros(2 * n), []
    for k in range(round(SECONDS / p.period)):
        found.append(x[:n].copy())
        r = sign * min(STEP, p.startup_slew_rate * p.period * (k + 1))
        x = step[: 2 * n] @ np.concatenate([x, r])
    return np.array(found)


def response(hand: HandModel, plant_name: str) -> np.ndarray:
    """Return the simulated response (K, N) of the joints from rest to the step [rad].

    Raises:
        ConfigError: the plant rejects the hand.
    """
    plant = make_plant(plant_name, hand, load_object("cube"), plant_params(plant_name)())
    watch = WatchParams(doubtful_runaway=WatchParams.runaway, frozen_ticks=UNWATCHED)
    servo = ServoLaw(hand, ServoParams(), GravityCompensation(hand), watch)
    plant.reset(hand.home, AWAY)
    servo.enable()
    rows, tau, target = [], np.zeros(len(hand.home)), _stepped(hand)
    period = servo.params.period
    for k in range(round(SECONDS / plant.dt)):
        t = k * plant.dt
        if t >= len(rows) * period - 1e-9:
            q = np.array(plant.joint_position)
            rows.append(q - hand.home)
            servo.set_command(target, t)
            tau = servo.step(q, t).tau
        plant.step(tau)
    return np.array(rows)
