"""The acceleration-aware force law: rest at long implicit steps whatever the mass, momentum,
derivatives, what it has not."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from dexengines.soft import cloud
from dexengines.soft.scm import ContactParams
from dexengines.soft.system import Ground, Meeting, Surface
from dexstack.errors import ConfigError
from dexstack.process.compilation import jit
from experiments.soft.aware import AwareSystem

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("x64")]

LAW = ContactParams(eps1=4e-6, eps2=5e-4, eps3=2e-4, v_s=1e-3)


def box_on_the_ground(**times):
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body name="box" pos="0 0 .05"><freejoint/><geom type="box" size=".05 .05 .05" mass="1"/></body>'
        "</worldbody></mujoco>"
    )
    return AwareSystem(
        model, [], [Ground(Surface("box", "box", cloud.box((0.05, 0.05, 0.05), 0.02)), LAW)], **times
    )


def free_pair():
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><option gravity="0 0 0"/><worldbody><body name="a"><freejoint/><geom type="box" size=".03 .02 .04" mass=".3"/></body>'
        '<body name="b"><freejoint/><geom size=".03" mass=".2"/></body></worldbody></mujoco>'
    )
    a, b = Surface("a", "a", cloud.box((0.03, 0.02, 0.04), 0.01)), Surface("b", "b", cloud.sphere(0.03, 0.01))
    return AwareSystem(model, [Meeting([a], [b], None, params=LAW)])


def test_a_box_comes_to_rest_at_steps_of_16_ms_and_sinks_alike_whatever_its_mass():
    system = box_on_the_ground(time_constant=0.032, stick_time=0.016)
    step = jit(lambda data, q, v: system.implicit(data, q, v, jnp.zeros(6), 0.016))
    depths = []
    for scale in (1.0, 50.0):
        numbers = system.data.numbers
        data = system.data._replace(
            numbers=numbers._replace(mass=scale * numbers.mass, inertia=scale * numbers.inertia)
        )
        q, v = jnp.array([0.0, 0.0, 0.052, 1.0, 0.0, 0.0, 0.0]), jnp.zeros(6).at[0].set(0.3)
        for _ in range(120):
            q, v = step(data, q, v)
        assert float(jnp.abs(v).max()) < 2e-3
        assert 0.0 < float(q[0]) < 0.05  # pushed off at 0.3 m/s, stopped by friction: v²/2μg is 9 mm
        depths.append(0.05 - float(q[2]))
    assert 0.0 < depths[0] < 9.81 * (0.95 * 0.032) ** 2  # the sag of its spring
    assert depths[1] == pytest.approx(depths[0], rel=1e-6)


def test_forces_on_a_free_pair_sum_to_nothing_and_follow_finite_differences():
    system = free_pair()
    q = jnp.array([0, 0, 0, 1.0, 0, 0, 0, 0.0597, 0.005, 0.004, 1.0, 0, 0, 0])
    v = jnp.asarray(0.2 * np.random.default_rng(0).normal(size=12)).at[6].set(-0.3)

    def wrenches(s):
        _, _, force, contact = system._forces(
            system.data, q.at[7:10].add(s[:3]), v.at[6:9].add(s[3:]), jnp.zeros(12)
        )
        return contact.wrench[0], force

    wrench, force = jit(wrenches)(jnp.zeros(6))
    assert float(jnp.linalg.norm(wrench[:3])) > 1.0
    np.testing.assert_allclose(force[:3] + force[6:9], 0.0, atol=1e-10)
    of = lambda s: wrenches(s)[0]  # noqa: E731
    J, f = jit(jax.jacrev(of))(jnp.zeros(6)), jit(of)
    assert bool(jnp.isfinite(jit(jax.jacfwd(jax.jacrev(of)))(jnp.zeros(6))).all())
    for k in range(6):
        e = jnp.eye(6)[k] * (1e-7 if k < 3 else 1e-5)
        slope = (8 * (f(e) - f(-e)) - (f(2 * e) - f(-2 * e))) / (12 * float(e.max()))
        np.testing.assert_allclose(J[:, k], slope, atol=1e-6 * float(jnp.abs(J).max()))


def test_what_it_has_not_is_said():
    system = box_on_the_ground()
    with pytest.raises(ConfigError, match="no inverse dynamics"):
        system.inverse(system.data, jnp.zeros(7), jnp.zeros(6), jnp.zeros(6))
    with pytest.raises(ConfigError, match="must be positive"):
        box_on_the_ground(stick_time=0.0)
