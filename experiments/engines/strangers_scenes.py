"""Scenes with closed-form or conserved truth: one truth and one tolerance for all engines, and the
scenes that each engine claims.

All of it was written down before the first run, for some scenes with the errors of earlier versions
known. Tolerances follow three rules:

- speeds, ways and accelerations: 3 % of the truth;
- places at rest: 2 % of the least half extent for each contact below, 1 mm of creep for a body of
  0.1 m;
- outcomes (stays or falls): the outcome.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ellipk

from dexengines import ENGINES
from experiments.engines.strangers_mjcf import (
    LYING,
    MOTORS,
    U_MESH,
    G,
    Stranger,
    bin_of_27,
    braking,
    crept,
    drifted,
    fallen,
    far_from,
    floor,
    free,
    geom,
    lost,
    mjcf,
    momentum_lost,
    numbers,
    off_circle,
    pendulum,
    pyramid,
    quarter,
    tilted,
    way,
)

RELATIVE = 0.03
"""Tolerance of ways, speeds and accelerations over the truth."""
SUNK = 0.02
"""Tolerance of a place at rest over the least half extent, for each contact below."""
CREEP = 1e-3
"""Tolerance of a body of 0.1 m that sticks [m]."""
PILE = 5e-3
"""Tolerance of a pile's place [m]."""


def near(truth: float) -> tuple[float, float]:
    """Return a truth and the tolerance of ways, speeds and accelerations."""
    return truth, RELATIVE * abs(truth)


# --- kinds of scenes ---


def slope(name: str, tilt: float, mu: float, kind: str = "box", seconds: float = 0.6) -> Stranger:
    """A body on a slope: it sticks, rolls or slips by Coulomb's law."""
    inertia = {"box": np.inf, "sphere": 0.4, "cylinder": 0.5}[kind]  # over m r²
    size = {"box": (0.05,) * 3, "sphere": 0.05, "cylinder": (0.05, 0.1)}[kind]
    shape = geom(kind, size, mu, 'mass="0.5"')
    turned = LYING if kind == "cylinder" else (1.0, 0.0, 0.0, 0.0)
    s, c = np.sin(np.radians(tilt)), np.cos(np.radians(tilt))
    rolls = s / c <= mu * (1.0 + 1.0 / inertia)
    truth = 0.5 * seconds**2 * (G * s / (1.0 + inertia) if rolls else G * (s - mu * c))
    xml = mjcf(floor(mu) + free((0.0, 0.0, 0.05), shape, turned), gravity=tilted(tilt))
    return Stranger(
        name, f"way of a {kind} down {tilt:g}°, μ {mu:.3g}, in {seconds:g} s [m]", xml, seconds,
        lambda m, st: way(st), truth, max(RELATIVE * truth, CREEP),
    )  # fmt: skip


def slide(
    name: str, speed: float, mu: float, half: float = 0.05, dt: float = 1e-3,
    heading: float = 0.0, at: tuple[float, float] = (0.0, 0.0),
) -> Stranger:  # fmt: skip
    """A cube thrown along the floor: v²/2μg."""
    xml = mjcf(floor(mu) + free((*at, half), geom("box", (half,) * 3, mu, 'density="1000"')), dt)
    c, s = np.cos(np.radians(heading)), np.sin(np.radians(heading))
    return Stranger(
        name, f"way of a cube of {2 * half:g} m thrown at {speed:g} m/s, {1e3 * dt:g} ms steps [m]",
        xml, 1.2 * speed / (mu * G), lambda m, st: way(st), *near(speed**2 / (2.0 * mu * G)),
        v={0: speed * c, 1: speed * s},
    )  # fmt: skip


def stack(
    name: str, masses: tuple[float, ...], half: float = 0.05, dt: float = 1e-3, seconds: float = 1.0,
    at: tuple[float, float] = (0.0, 0.0), drop: float = 0.02,
) -> Stranger:  # fmt: skip
    """Cubes that fall by a share of their half size onto each other: the top one's place."""
    bodies = "".join(
        free((*at, half * (2 * k + 1 + drop * (k + 1))), geom("box", (half,) * 3, 0.5, f'mass="{m:g}"'))
        for k, m in enumerate(masses)
    )
    n = len(masses)
    return Stranger(
        name, f"distance of the top of {n} cubes of {2 * half:g} m from its place, {1e3 * dt:g} ms steps [m]",
        mjcf(floor() + bodies, dt), seconds, far_from(7 * (n - 1), (*at, half * (2 * n - 1))),
        0.0, SUNK * half * n,
    )  # fmt: skip


def thrown(name: str, kind: str, spin: float, seconds: float = 0.5) -> Stranger:
    """A ball or a cylinder thrown at 1 m/s, spinning by ``spin`` times v/r: its rolling speed."""
    inertia, size = {"sphere": (0.4, 0.05), "cylinder": (0.5, (0.05, 0.1))}[kind]
    turned = LYING if kind == "cylinder" else (1.0, 0.0, 0.0, 0.0)
    rate = spin / 0.05
    return Stranger(
        name, f"final speed of a {kind} thrown at 1 m/s with spin {spin:g} v/r [m/s]",
        mjcf(floor() + free((0.0, 0.0, 0.05), geom(kind, size, 0.5, 'mass="0.5"'), turned)), seconds,
        lambda m, s: float(s.v[-1, 0]), *near((1.0 + inertia * spin) / (1.0 + inertia)),
        v={0: 1.0, 5 if kind == "cylinder" else 4: -rate if kind == "cylinder" else rate},
    )  # fmt: skip


def groove(name: str, mu: float, tilt: float = 0.0) -> Stranger:
    """A capsule that slides, or a ball that rolls down, in a right-angled groove along y."""
    s, c, r = np.sin(np.pi / 8), np.cos(np.pi / 8), 0.02
    walls = "".join(
        geom("box", (0.2, 0.6, 0.05), mu, f'pos="{numbers((-x * 0.2 / 2**0.5, 0.0, 0.1 / 2**0.5))}" '
             f'quat="{numbers((c, 0.0, x * s, 0.0))}"')
        for x in (1.0, -1.0)
    )  # fmt: skip
    place = (0.0, -0.3, r * 2**0.5)
    if tilt:
        g, t = tilted(tilt), 0.6
        body = free(place, geom("sphere", r, mu, 'mass="1"'))
        return Stranger(
            name, f"way of a ball down a groove of {tilt:g}° in {t:g} s [m]",
            mjcf(walls + body, gravity=(0.0, g[0], g[2])), t, lambda m, st: way(st),
            *near(0.5 * t**2 * g[0] / 1.8),
        )  # fmt: skip
    body = free(place, geom("capsule", (r, 0.1), mu, 'mass="1"'), LYING)
    return Stranger(
        name, f"deceleration of a capsule in a groove, μ {mu:g} [m/s²]", mjcf(walls + body), 0.1,
        braking(1, 0.1), *near(2**0.5 * mu * G), v={1: 1.0},
    )  # fmt: skip


def turntable(name: str, rate: float, slips: bool) -> Stranger:
    """A box on a turntable, 0.2 m from the axis: it stays while ω² r < μ g."""
    box = free((0.2, 0.0, 0.05), geom("box", (0.03,) * 3, 0.6, 'mass="0.5"'))
    return Stranger(
        name, f"distance from the axis of a box on a turntable of {rate:g} rad/s, over 0.25 m or not"
        if slips else f"distance from the axis of a box on a turntable of {rate:g} rad/s [m]",
        mjcf(_DISC + box), 1.0,
        lambda m, s: float(np.hypot(*s.q[-1, 1:3]) > 0.25) if slips else float(np.hypot(*s.q[-1, 1:3])),
        1.0 if slips else 0.2, 0.0 if slips else CREEP,
        v={0: rate, 2: 0.2 * rate, 6: rate},
    )  # fmt: skip


def ladder(name: str, mu: float, falls: bool) -> Stranger:
    """A rod of 1 m at 60° on a rough floor and a smooth wall: it stays where μ > 1/(2 tan 60°)."""
    r, half, a = 0.005, 0.5, np.radians(60.0)
    wall = geom("box", (0.1, 1.0, 1.0), mu, 'pos="0.1 0 1" condim="1" priority="1"')
    at = (-half * np.cos(a) - r, 0.0, half * np.sin(a) + r)
    turn = 0.5 * (0.5 * np.pi - a)
    rod = free(at, geom("capsule", (r, half), mu, 'mass="1"'), (np.cos(turn), 0.0, np.sin(turn), 0.0))
    return Stranger(
        name, "a ladder's middle ends lower than 0.3 m" if falls else "way of a ladder's middle [m]",
        mjcf(floor(mu) + wall + rod), 1.2, fallen(0, 0.3) if falls else crept(0),
        float(falls), 0.0 if falls else CREEP,
    )  # fmt: skip


def tip(name: str, tilt: float, falls: bool) -> Stranger:
    """A box of 0.1 × 0.1 × 0.2 m on a rough slope: it tips beyond 26.6°."""
    xml = mjcf(floor(1.0) + free((0.0, 0.0, 0.1), geom("box", (0.05, 0.05, 0.1), 1.0, 'mass="0.5"')),
               gravity=tilted(tilt))  # fmt: skip
    return Stranger(
        name, f"a box of 1 : 2 on a slope of {tilt:g}° tips", xml, 1.5, fallen(0, 0.07), float(falls), 0.0
    )


def overhang(name: str, inside: float, falls: bool) -> Stranger:
    """A box whose centre is before or beyond the edge of a table."""
    table = geom("box", (0.3, 0.3, 0.05), 0.8)
    box = free((0.3 - inside, 0.0, 0.07), geom("box", (0.1, 0.05, 0.02), 0.8, 'mass="0.5"'))
    return Stranger(name, f"a box {1e3 * inside:g} mm inside a table's edge falls", mjcf(table + box), 1.5,
                    fallen(0, 0.0), float(falls), 0.0)  # fmt: skip


def grip(name: str, share: float) -> Stranger:
    """A box of 1 kg between two fingers that press with a share of what its weight needs."""
    fingers = "".join(
        f'<body pos="{x * 0.0701} 0 0.5"><joint name="{name}" type="slide" axis="{-x} 0 0"/>'
        + geom("box", (0.02, 0.04, 0.04), 0.5, 'mass="0.2"')
        + "</body>"
        for name, x in (("jl", -1.0), ("jr", 1.0))
    )
    body = free((0.0, 0.0, 0.5), geom("box", (0.05,) * 3, 0.5, 'mass="1"'))
    slip = 0.5 * G * (1.0 - share) * (0.5**2 - 0.1**2)
    return Stranger(
        name, f"slip from 0.1 to 0.5 s of a box held by {share:g} of what it needs [m]",
        mjcf(fingers + body, after=MOTORS), 0.5,
        lambda m, s: float(np.interp(0.1, s.time, s.q[:, 4]) - s.q[-1, 4]), max(slip, 0.0),
        max(RELATIVE * slip, CREEP), control=(share * G, share * G),
    )  # fmt: skip


def logs(name: str, mu: float, falls: bool) -> Stranger:
    """Three cylinders in a pile: it stands where μ > tan 15°."""
    places = ((-0.05, 0.0, 0.05), (0.05, 0.0, 0.05), (0.0, 0.0, 0.05 + 0.1 * 0.75**0.5))
    bodies = "".join(free(p, geom("cylinder", (0.05, 0.1), mu, 'mass="0.5"'), LYING) for p in places)
    return Stranger(
        name,
        "the upper of three logs ends below 0.1 m" if falls else "distance of the upper log from its place",
        mjcf(floor(mu) + bodies), 1.0, fallen(14, 0.1) if falls else far_from(14, places[2]),
        float(falls), 0.0 if falls else 2 * SUNK * 0.05,
    )  # fmt: skip


def stop(name: str, speed: float, mass: float) -> Stranger:
    """A sliding body that a motor pushes into its stop: the greatest overshoot."""
    body = (
        '<body><joint name="j" type="slide" axis="1 0 0" limited="true" range="-1 0.1"/>'
        + geom("box", (0.05,) * 3, 0.5, f'mass="{mass:g}" contype="0" conaffinity="0"')
        + "</body>"
    )
    return Stranger(
        name, f"overshoot of {mass:g} kg at {speed:g} m/s into its stop [m]",
        mjcf(body, after='<actuator><motor joint="j"/></actuator>'), 0.5,
        lambda m, s: max(0.0, float(s.q[:, 0].max() - 0.1)), 0.0, CREEP, v={0: speed}, control=(mass * G,),
    )  # fmt: skip


def drop(
    name: str, kind: str, half: float, height: float, dt: float = 1e-3, seconds: float = 1.0
) -> Stranger:
    """A body of water's density dropped on the floor: its height at rest over its half size."""
    size = (half,) * 3 if kind == "box" else half
    body = free((0.0, 0.0, half + height), geom(kind, size, 0.5, 'density="1000"'))
    return Stranger(
        name, f"height at rest of a {kind} of {2 * half:g} m over its half size, {1e3 * dt:g} ms steps",
        mjcf(floor() + body, dt), seconds,
        lambda m, s: float(s.q[-1, 2] / half) if s.q[:, 2].max() < half + 1.2 * height else np.inf,
        1.0, SUNK,
    )  # fmt: skip


def bounce(name: str, restitution: float, seconds: float, after: float) -> Stranger:
    """A ball dropped by 0.2 m with a coefficient of restitution: the greatest height after a time."""
    own = f'<custom><numeric name="contact_restitution" data="{restitution:g}"/></custom>'
    return Stranger(
        name, f"greatest height of a ball of e {restitution:g} after {after:g} s [m]",
        mjcf(floor() + free((0.0, 0.0, 0.25), geom("sphere", 0.05, 0.5, 'mass="0.5"')), after=own), seconds,
        lambda m, s: float(s.q[s.time > after, 2].max() - 0.05),
        *near(0.2 if restitution == 1.0 else 0.2 * restitution**2),
    )  # fmt: skip


def collision(name: str, mass: float, aside: float, turned: tuple[float, ...]) -> Stranger:
    """A box hits another one in free space."""
    bodies = free((-0.15, aside, 0.0), geom("box", (0.04,) * 3, 0.4, f'mass="{mass:g}"'), turned) + free(
        (0.0, 0.0, 0.0), geom("box", (0.06, 0.05, 0.04), 0.4, 'mass="1"')
    )
    return Stranger(
        name, f"change of momentum as a box of {mass:g} kg hits one of 1 kg, relative",
        mjcf(bodies, gravity=(0.0, 0.0, 0.0)), 0.3, momentum_lost, 0.0, 0.01,
        v={0: 1.0, 1: 0.2, 3: 1.0},
    )  # fmt: skip


# --- scenes of their own ---

_BAR = geom("capsule", (0.01, 0.2), 0.5, f'quat="{numbers(LYING)}"')
_U_OF_BOXES = (
    geom("box", (0.06, 0.02, 0.01), 0.5, 'pos="0 0 0.01" mass="0.1"')
    + geom("box", (0.01, 0.02, 0.04), 0.5, 'pos="-0.05 0 -0.04" mass="0.1"')
    + geom("box", (0.01, 0.02, 0.04), 0.5, 'pos="0.05 0 -0.04" mass="0.1"')
)
_RAMP = (np.cos(np.radians(10.0)), 0.0, np.sin(np.radians(10.0)), 0.0)
_DOWN = np.array([np.cos(np.radians(20.0)), 0.0, -np.sin(np.radians(20.0))])


def _ramp(name: str, kind: str, mu: float, truth: float) -> Stranger:
    """Return a round body on a ramp of 20° that is a box."""
    start = (-1.093429130610523, 0.0, 0.5043934340693933)
    size = 0.05 if kind == "sphere" else (0.05, 0.1)
    body = free(
        start, geom(kind, size, mu, 'mass="0.5"'), LYING if kind == "cylinder" else (1.0, 0.0, 0.0, 0.0)
    )
    ramp = geom("box", (2.0, 0.5, 0.05), mu, f'quat="{numbers(_RAMP)}"')
    says = f"way of a {kind} down a ramp of 20°, μ {mu:g}, in 0.8 s [m]"
    return Stranger(name, says, mjcf(ramp + body), 0.8,
                    lambda m, s: float((s.q[-1, :3] - s.q[0, :3]) @ _DOWN), *near(truth))  # fmt: skip


def _hung(name: str, body: str, at: float, before: str = "") -> Stranger:
    xml = mjcf(_BAR + free((0.0, 0.0, at), body), before=before)
    return Stranger(name, "way that a U over a bar falls [m]", xml, 1.0,
                    lambda m, s: float(s.q[0, 2] - s.q[-1, 2]), 0.0005, CREEP)  # fmt: skip


_DISC = '<body><joint axis="0 0 1"/>' + geom("cylinder", (0.5, 0.02), 0.6, 'mass="1000"') + "</body>"
_BALL_ON_TABLE = _DISC + free((0.2, 0.0, 0.07), geom("sphere", 0.05, 0.6, 'mass="0.5"'))
_BELT = (
    '<body><joint type="slide" axis="1 0 0"/>'
    + geom("box", (2.0, 0.3, 0.05), 0.3, 'mass="1000"')
    + "</body>"
    + free((0.0, 0.0, 0.1), geom("box", (0.05,) * 3, 0.3, 'mass="0.5"'))
)
_CORNER = geom("box", (0.2, 0.2, 0.05), 0.3, 'pos="0 0 -0.05"') + geom(
    "box", (0.2, 0.05, 0.2), 0.3, 'pos="0 -0.0501 0.2"'
)
_FLAT = geom("box", (0.05, 0.05, 0.0005), 0.5, 'density="2700"')
_BRICK = geom("box", (0.1, 0.05, 0.02), 0.5, 'mass="1"')
_BOB = (
    '<body pos="0 0 1"><joint axis="0 1 0"/>'
    + geom("sphere", 0.05, 0.5, 'pos="0 0 -0.5" mass="1"')
    + "</body>"
)
_COIN = geom("cylinder", (0.05, 0.005), 0.2, 'mass="0.1"')
_BULLET = geom("sphere", 0.01, 0.5, 'mass="0.05"')
_CRITICAL = np.degrees(np.arctan(0.5))

SCENES = {
    scene.name: scene
    for scene in (
        # slopes
        _ramp("ball_roll", "sphere", 0.5, 5 / 14 * G * np.sin(np.radians(20.0)) * 0.64),
        _ramp("ball_slip", "sphere", 0.05,
              0.32 * G * (np.sin(np.radians(20.0)) - 0.05 * np.cos(np.radians(20.0)))),
        _ramp("cyl_roll", "cylinder", 0.5, G / 3 * np.sin(np.radians(20.0)) * 0.64),
        slope("slope_sticks", _CRITICAL - 1.0, 0.5),
        slope("slope_slips", _CRITICAL + 3.0, 0.5),
        slope("slope_30", 30.0, 0.3),
        slope("slope_40_sticks", 40.0, 1.0),
        slope("ball_slope_10", 10.0, 0.5, "sphere"),
        slope("ball_slope_slips", 40.0, 0.2, "sphere"),
        slope("cylinder_slope_slips", 40.0, 0.2, "cylinder"),
        Stranger(
            "slope_across", "speed plus speed downhill of a box thrown across a slope of tan 20° = μ [m/s]",
            mjcf(floor(np.tan(np.radians(20.0)))
                 + free((0.0, 0.0, 0.05), geom("box", (0.05,) * 3, np.tan(np.radians(20.0)), 'mass="0.5"')),
                 gravity=tilted(20.0)),
            0.5, lambda m, s: float(np.linalg.norm(s.v[-1, :2]) + s.v[-1, 0]), *near(1.0), v={1: 1.0},
        ),
        tip("tip_stays", 25.0, False),
        tip("tip_falls", 28.5, True),
        # slides
        slide("slide", 1.0, 0.4),
        slide("slide_fast", 3.0, 0.4),
        slide("slide_30deg", 1.0, 0.4, heading=30.0),
        slide("slide_45deg", 1.0, 0.4, heading=45.0),
        slide("slide_2mm", 0.1, 0.3, half=0.001, dt=2e-4),
        slide("slide_10m", 5.0, 0.5, half=5.0),
        slide("slide_step_10ms", 3.0, 0.4, dt=0.01),
        slide("slide_step_0.1ms", 0.5, 0.4, dt=1e-4),
        slide("slide_far", 1.0, 0.4, at=(1000.0, 1000.0)),
        Stranger("belt", "slip of a box put on a belt of 1 m/s [m]", mjcf(_BELT), 0.6,
                 lambda m, s: float(s.q[-1, 0] - s.q[-1, 1]), *near(1.0 / (0.6 * G)), v={0: 1.0}),
        # corners and grooves
        groove("vgroove_mu0.5", 0.5),
        groove("vgroove_mu0.2", 0.2),
        groove("vgroove_ball", 0.5, tilt=10.0),
        Stranger("wedge_45", "deceleration of a box along a corner, 2 μ g [m/s²]",
                 mjcf(_CORNER + free((-0.1, 0.05, 0.05), geom("box", (0.03, 0.05, 0.05), 0.3, 'mass="1"')),
                      gravity=(0.0, -G, -G)),
                 0.1, braking(0, 0.1), *near(0.6 * G), v={0: 1.0}),
        # turntables
        Stranger("turntable", "distance of a ball from its circle on a turntable after 2 s [m]",
                 mjcf(_BALL_ON_TABLE), 2.0, lambda m, s: off_circle(s), 0.0, 0.01,
                 v={0: 3.0, 2: 0.2, 4: 8.0, 6: 3.0}),
        turntable("turntable_box_stays", 4.0, False),
        turntable("turntable_box_slips", 6.5, True),
        # ladders, edges, grips
        ladder("ladder_stays", 0.35, False),
        ladder("ladder_falls", 0.24, True),
        overhang("overhang_in", 0.003, False),
        overhang("overhang_out", -0.003, True),
        grip("grip_095", 0.95),
        grip("grip_105", 1.05),
        # mass ratios
        Stranger("stack_100", "distance of 10 kg on 0.1 kg from its place [m]",
                 mjcf(floor(0.6) + free((0.0, 0.0, 0.05), geom("box", (0.05,) * 3, 0.6, 'mass="0.1"'))
                      + free((0.005, 0.0, 0.15), geom("box", (0.05,) * 3, 0.6, 'mass="10"'))),
                 2.0, far_from(7, (0.005, 0.0, 0.15)), 0.0, 2 * SUNK * 0.05),
        stack("stack_1000", (0.01, 10.0)),
        stack("stack_light", (10.0, 0.01)),
        stack("sandwich_1000", (0.01, 10.0, 0.01)),
        collision("collision", 1.0, 0.03, (0.9, 0.2, 0.3, 0.1)),
        collision("collision_1000", 0.001, 0.0, (0.9, 0.2, 0.3, 0.1)),
        # sizes, steps and places
        drop("cube_4mm", "box", 0.002, 0.0004, dt=0.002, seconds=0.5),
        drop("cube_1mm", "box", 0.0005, 0.0001, seconds=0.3),
        drop("ball_2mm", "sphere", 0.001, 0.0002, seconds=0.3),
        drop("ball_2m", "sphere", 1.0, 0.1),
        drop("huge_box", "box", 5.0, 1.0, seconds=3.0),
        drop("drop_1m", "box", 0.05, 1.0, seconds=1.5),
        stack("step_0.1ms", (0.5,), dt=1e-4, seconds=0.3),
        stack("step_5ms", (0.5, 0.5), dt=5e-3, seconds=2.0),
        stack("step_10ms", (0.5,), dt=0.01, seconds=2.0),
        Stranger("far_plane", "height of a box on a plane 42 m from its origin [m]",
                 mjcf(floor() + free((30.0, 30.0, 0.06), geom("box", (0.05,) * 3, 0.5, 'mass="0.5"'))), 1.0,
                 lambda m, s: float(s.q[-1, 2]), 0.05, SUNK * 0.05),
        stack("far_stack", (0.5, 0.5), at=(1000.0, -1000.0)),
        Stranger("thin_plate", "height at rest of a plate of 1 mm over its half thickness",
                 mjcf(floor() + free((0.0, 0.0, 0.001), _FLAT)), 0.3,
                 lambda m, s: float(s.q[-1, 2] / 0.0005), 1.0, SUNK),
        # stops
        Stranger("stop", "overshoot of a pendulum into its stop at 20° [°]",
                 pendulum('limited="true" range="-100 20"'), 2.0,
                 lambda m, s: max(0.0, float(np.degrees(s.q[:, 0].max()) - 20.0)), 0.0, 0.5,
                 q={0: np.radians(-80.0)}),
        stop("stop_slide", 1.0, 1.0),
        stop("stop_light", 1.0, 1e-3),
        # spins and rolling
        Stranger("disc_spin", "deceleration of a spinning disc, 4 μ g/3R [rad/s²]",
                 mjcf(floor(0.2) + free((0.0, 0.0, 0.005), _COIN)),
                 0.3, braking(5, 0.3), *near(4 * 0.2 * G / 0.15), v={5: 20.0}),
        Stranger("brick_tumbles", "change of a free brick's momentum, relative",
                 mjcf(free((0.0, 0.0, 0.0), _BRICK), gravity=(0.0, 0.0, 0.0)), 1.0, momentum_lost, 0.0, 0.01,
                 v={0: 1.0, 3: 0.1, 4: 8.0, 5: 0.1}),
        thrown("ball_thrown", "sphere", 0.0),
        thrown("cylinder_thrown", "cylinder", 0.0),
        thrown("ball_backspin", "sphere", -4.0, seconds=0.6),
        thrown("ball_topspin", "sphere", 3.0),
        Stranger("pendulum", "quarter period from 90° [s]", mjcf(_BOB), 0.6, quarter,
                 float(ellipk(0.5) * np.sqrt((0.25 + 0.4 * 0.05**2) / (G * 0.5))), 0.004, q={0: np.pi / 2}),
        # bounces and bullets
        bounce("elastic", 1.0, 20.0, 19.0),
        bounce("bounce_half", 0.5, 0.5, 0.25),
        Stranger("bullet", "a ball of 20 mm at 100 m/s passes a wall of 2 mm",
                 mjcf(geom("box", (0.001, 0.5, 0.5), 0.5) + free((-1.003, 0.0, 0.0), _BULLET),
                      gravity=(0.0, 0.0, 0.0)),
                 0.1, lambda m, s: float(s.q[-1, 0] > 0.0), 0.0, 0.0, v={0: 100.0}),
        # hooks
        _hung("hook", '<geom type="mesh" mesh="u" mass="0.3" friction="0.5"/>', 0.0105, U_MESH),
        _hung("hook_of_boxes", _U_OF_BOXES, 0.0105),
        Stranger("trough", "height at rest of a ball in a U-shaped mesh [m]",
                 mjcf('<geom type="mesh" mesh="u" quat="0 1 0 0" friction="0.5"/>'
                      + free((0.0, 0.0, 0.032), geom("sphere", 0.03, 0.5, 'mass="0.1"')), before=U_MESH),
                 0.6, lambda m, s: float(s.q[-1, 2]), 0.03, SUNK * 0.03),
        # piles
        logs("logs_stay", 0.4, False),
        logs("logs_fall", 0.2, True),
        stack("stack_5", (0.5,) * 5),
        Stranger("pyramid15", "greatest way of a box in a pyramid of 15 [m]",
                 mjcf(floor() + pyramid(), dt=0.002), 1.0, drifted, 0.0, PILE),
        Stranger("bin27", "bodies lost of 27 in a bin", mjcf(bin_of_27(), dt=0.002), 1.5, lost, 0.0, 0.0),
    )
}  # fmt: skip
"""All scenes by name."""


_RESTITUTION = {"elastic", "bounce_half"}
_ROLLING = {
    "ball_roll", "cyl_roll", "ball_slope_10", "vgroove_ball", "turntable", "ball_thrown", "cylinder_thrown",
    "ball_backspin", "ball_topspin",
}  # fmt: skip
NOT_CLAIMED = {
    # no restitution; passes thin walls; brakes contacts that begin to slide fast for tenths of a second
    "mujoco": _RESTITUTION | {"bullet", "vgroove_mu0.5", "vgroove_mu0.2", "wedge_45", "disc_spin"},
    # no restitution; passes thin walls
    "hydroelastic": _RESTITUTION | {"bullet"},
    "lcp": frozenset(),
    # no restitution; passes thin walls; brakes rolling; edges; corners of two walls; few simple bodies
    "soft": _RESTITUTION
    | _ROLLING
    | {"bullet", "overhang_in", "overhang_out", "vgroove_mu0.5", "vgroove_mu0.2", "wedge_45"}
    | {"hook", "trough", "pyramid15", "bin27"},
}
"""Scenes that an engine does not claim, by what docs/engines.md says it does not reach."""
CLAIMS = {engine: [name for name in SCENES if name not in NOT_CLAIMED[engine]] for engine in ENGINES}
"""Names of the scenes that each engine claims."""
REQUIRED = {"mujoco": 0.90, "hydroelastic": 0.95, "lcp": 0.97, "soft": 0.85}
"""Share of what an engine claims that it has to get right."""
MOST = {"mujoco": 50, "hydroelastic": 55, "lcp": 55, "soft": 45}
"""Least number of scenes that an engine has to claim."""
