"""Time, memory and truncation of the soft engine on a T that a sphere pushes, beside MJX on the same scene in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dexstack.engines.soft import cloud, scenes
from dexstack.engines.soft.system import Meeting, SoftSystem, Surface

DT = 0.002
SCAN = 250
"""Steps of one timed scan."""


Near = tuple[int | None, int | None, int | None, int]
"""Points in a patch (None: all), planes that each meets (None: the patch's), points that can feel a force (None: the patch), patches."""
TIGHT: Near = (48, 16, 32, 2)
"""The sizes for 1e-8."""


@dataclass
class Timing:
    """Processor times of one configuration."""

    name: str
    compile_s: float = 0.0
    scan_s: list[float] = field(default_factory=list)
    """Of one step inside a scan."""
    call_s: list[float] = field(default_factory=list)
    """Of one step called from Python."""


def mjx_version() -> str | None:
    """Of MJX; None where it is not installed."""
    try:
        return version("mujoco-mjx")
    except PackageNotFoundError:
        return None


def targets(steps: int) -> np.ndarray:
    """(steps, 2) where the pusher is sent: along the stem, in contact with its end nearly from the start."""
    return np.stack([np.zeros(steps), np.linspace(-0.155, -0.10, steps)], axis=1).astype(np.float32)


def start() -> tuple[np.ndarray, np.ndarray]:
    """q (9,) and v (8,): the pusher a millimetre from the end of the stem."""
    q, v = scenes.pusher_start()
    q[1] = -0.1585
    return q, v


class SoftCase:
    """The pushed T in the soft engine, float32, ready to be timed."""

    def __init__(self, points: int, near: Near, method: str) -> None:
        patch, planes, core, places = near
        sizes = (
            f"patches of {patch}" + (f", {planes} planes a point, core of {core}, {places} places" if planes else "") if patch else "dense"
        )
        self.timing = Timing(f"soft, {points} points, {method}, {sizes}")
        self.system = system = scenes.pusher_system(points, patch=patch, planes=planes, core=core, places=places)
        step = getattr(system, method)
        state = tuple(jnp.asarray(x, jnp.float32) for x in start())
        data = jax.device_put(system.data)

        def one(data: Any, state: Any, target: jax.Array) -> Any:
            return step(data, *state, scenes.pusher_force(*state, target), DT)

        self.scan, self.call, self.timing.compile_s, compiled = _compiled(one, data, state)
        self.temporaries = _temporaries(compiled)
        """Of one step [bytes]."""


class MjxCase:
    """The same scene in MJX with MuJoCo's default solver."""

    def __init__(self, rk4: bool) -> None:
        import mujoco
        from mujoco import mjx

        self.timing = Timing("MJX, " + ("rk4" if rk4 else "euler"))
        model = scenes.pusher_spec(DT, rk4=rk4).compile()
        data = mujoco.MjData(model)
        data.qpos[:] = start()[0]
        m, begin = mjx.put_model(model), mjx.put_data(model, data)

        def one(m: Any, d: Any, u: jax.Array) -> Any:
            return mjx.step(m, d.replace(ctrl=u))

        self.scan, self.call, self.timing.compile_s, _ = _compiled(one, m, begin)


def _compiled(one: Callable, numbers: Any, state: Any) -> tuple[Callable, Callable, float, Any]:
    """A scan, one step called from Python, the processor time that the scan took to compile [s], the compiled step.

    The step that is called has the system's numbers built in: every array that is handed over costs time. Its kernels are ordered for one
    thread, not for several: faster on one core.
    """
    path = jnp.asarray(targets(SCAN))

    def roll(numbers: Any, state: Any, path: jax.Array) -> Any:
        return jax.lax.scan(lambda s, u: (one(numbers, s, u), None), state, path)[0]

    begin = time.process_time()
    rolled = jax.jit(roll).lower(numbers, state, path).compile()
    took = time.process_time() - begin
    lowered, target = jax.jit(lambda s, u: one(numbers, s, u)).lower(state, path[0]), path[0]
    called = lowered.compile({"xla_cpu_enable_concurrency_optimized_scheduler": False})
    return lambda: rolled(numbers, state, path), lambda: called(state, target), took, called


def _temporaries(compiled: Any) -> int:
    return int(compiled.memory_analysis().temp_size_in_bytes)


def take_turns(cases: list[Any], rounds: int) -> None:
    """Time all cases in turns, so that what else the machine does hits all alike."""
    for case in cases:
        jax.block_until_ready((case.scan(), case.call()))
    for _ in range(rounds):
        for case in cases:
            begin = time.process_time()
            jax.block_until_ready(case.scan())
            case.timing.scan_s.append((time.process_time() - begin) / SCAN)
            begin = time.process_time()
            for _ in range(20):
                jax.block_until_ready(case.call())
            case.timing.call_s.append((time.process_time() - begin) / 20)


def gradient_cost(points: int, patch: int | None, steps: int = 50, repeats: int = 15) -> tuple[float, float, float]:
    """Processor time of a rollout of ``steps`` [s], forward alone and value with gradient by the whole sequence of targets; their ratio.

    Both take turns, and the ratio is the median of those of neighbours, so that what else the machine does hits both alike.
    """
    system = scenes.pusher_system(points, patch=patch)
    data = jax.device_put(system.data)
    q0, v0 = (jnp.asarray(x, jnp.float32) for x in start())

    def cost(path: jax.Array, data: Any) -> jax.Array:
        def step(state: Any, u: jax.Array) -> Any:
            return system.euler(data, *state, scenes.pusher_force(*state, u), DT), None

        (q, _), _ = jax.lax.scan(jax.checkpoint(step), (q0, v0), path)
        return jnp.sum((q[2:4] - jnp.array([0.0, 0.05])) ** 2)

    path = np.tile(np.float32([0.0, -0.12]), (steps, 1))
    functions = jax.jit(cost), jax.jit(jax.value_and_grad(cost))
    samples = np.empty((repeats, 2))
    for row in [np.empty(2), *samples]:  # the first compiles
        for k, f in enumerate(functions):
            begin = time.process_time()
            for _ in range(5):
                jax.block_until_ready(f(path, data))
            row[k] = (time.process_time() - begin) / 5
    forward, both = np.median(samples, axis=0)
    return float(forward), float(both), float(np.median(samples[:, 1] / samples[:, 0]))


def truncation(points: int, sizes: Sequence[Near], states: int, seed: int) -> list[np.ndarray]:
    """Per size: sorted errors of the wrench against the dense formulation, relative, in float64.

    In states in which the pusher touches the T's outline, corners and the inner ones too, up to a millimetre deep.
    """
    rng, touching = np.random.default_rng(seed), []
    _, rectangles = scenes.t_rectangles()
    while len(touching) < states:
        q, v = scenes.pusher_start()
        low, high = rectangles[rng.integers(2)]
        on = rng.uniform(low, high)
        side = rng.integers(2)
        on[side] = (low, high)[rng.integers(2)][side]
        out = np.where(np.arange(2) == side, np.sign(on - (low + high) / 2), 0.0)
        q[:2] = on + out * (scenes.PUSHER_RADIUS - rng.uniform(0.0, 1e-3))
        v[:] = 0.1 * rng.normal(size=8)
        beyond = [np.linalg.norm(np.maximum(np.maximum(low - q[:2], q[:2] - high), 0.0)) for low, high in rectangles]
        if min(beyond) >= scenes.PUSHER_RADIUS - 1e-3:  # a side of one rectangle may lie within the other
            touching.append((q, v))
    with jax.enable_x64(True):

        def wrenches(patch: int | None, planes: int | None, core: int | None, places: int) -> np.ndarray:
            system = scenes.pusher_system(points, patch=patch, planes=planes, core=core, places=places)
            data = jax.device_put(system.data)
            f = jax.jit(lambda d, q, v: system.contact(d, system.tree.motion(d.numbers, q, v)).wrench[0])
            return np.array([f(data, *map(jnp.asarray, state)) for state in touching])

        dense = wrenches(None, None, None, 1)
        felt = np.abs(dense[:, :3]).max(axis=1) > 1e-3
        return [np.sort(np.abs(wrenches(*s) - dense)[felt].max(axis=1) / np.abs(dense[felt]).max(axis=1)) for s in sizes]


def memory(points: int = 4000) -> tuple[int, int]:
    """Temporaries of one evaluation of contact [bytes] between two bodies of so many points each: patches of 64, dense."""
    import mujoco

    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body name="a"><freejoint/><geom size="0.03" mass="1"/></body>'
        '<body name="b"><freejoint/><geom size="0.03" mass="1"/></body></worldbody></mujoco>'
    )
    ball = cloud.sphere(0.03, 0.03 * np.pi / 2 / np.sqrt(points / 6))
    sizes = []
    for patch in (64, None):
        system = SoftSystem(model, [Meeting([Surface("a", "a", ball)], [Surface("b", "b", ball)], patch)])
        f = jax.jit(lambda d, q, v, s=system: s.contact(d, s.tree.motion(d.numbers, q, v)).wrench)
        sizes.append(_temporaries(f.lower(system.data, np.asarray(model.qpos0, np.float32), np.zeros(12, np.float32)).compile()))
    return sizes[0], sizes[1]


def flatness(repeats: int = 7) -> list[tuple[int, float]]:
    """Contacts that are active, and time of a step [s], for 1, 2, 4 and 8 of eight spheres on a box touching it."""
    import mujoco

    bodies = "".join(f'<body name="b{k}"><freejoint/><geom size="0.02" mass="0.1"/></body>' for k in range(8))
    model = mujoco.MjModel.from_xml_string(f'<mujoco><option gravity="0 0 0"/><worldbody>{bodies}</worldbody></mujoco>')
    table = Surface("table", "world", cloud.box((0.3, 0.3, 0.02), 0.01))
    balls = [Surface(f"b{k}", f"b{k}", cloud.sphere(0.02, 0.004)) for k in range(8)]
    system = SoftSystem(model, [Meeting([table], balls, 64)])
    data = jax.device_put(system.data)

    def roll(data: Any, q: jax.Array, v: jax.Array) -> Any:
        def step(s: Any, _: Any) -> Any:
            return system.euler(data, *s, jnp.zeros(48, jnp.float32), 1e-7), None

        return jax.lax.scan(step, (q, v), None, length=50)[0]

    compiled, starts = None, []
    for active in (1, 2, 4, 8):
        q = np.tile(np.float32([0, 0, 0, 1, 0, 0, 0]), (8, 1))
        q[:, 0] = np.linspace(-0.25, 0.25, 8)
        q[:, 2] = np.where(np.arange(8) < active, 0.0398, 0.2)
        starts.append((active, q.ravel()))
    v = np.zeros(48, np.float32)
    compiled = jax.jit(roll).lower(data, starts[0][1], v).compile()
    best = {active: np.inf for active, _ in starts}
    for _ in range(repeats):
        for active, q in starts:
            begin = time.process_time()
            jax.block_until_ready(compiled(data, q, v))
            best[active] = min(best[active], (time.process_time() - begin) / 50)
    return list(best.items())
