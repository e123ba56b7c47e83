"""A device's stamps on the system's clock: drift, jitter, steps of either clock."""

import numpy as np
import pytest

from dexstack.perception.clock import STEP_SAMPLES, DeviceClock

LEAST_DELAY = 0.04


class World:
    """The system's two clocks, a device's clock, and pictures that arrive late."""

    def __init__(self, drift: float = 0.0, jitter: float = 0.005, seed: int = 0) -> None:
        self.true, self.drift, self.jitter = 0.0, drift, jitter
        self.system_offset, self.device_offset = 1.7e9, 123.0
        self._rng = np.random.default_rng(seed)
        self.now = 0.0
        self.clock = DeviceClock(lambda: self.now, lambda: self.now + self.system_offset)

    def picture(self) -> float:
        """Return the error of the next picture's stamp [s]; its least delay is not known."""
        self.true += 1.0 / 30.0
        self.now = self.true + LEAST_DELAY + self.jitter * self._rng.random()
        stamp = self.clock.system_time(self.true * (1.0 + self.drift) + self.device_offset)
        return stamp - (self.true + self.system_offset)


def errors(world: World, seconds: float) -> np.ndarray:
    return np.array([world.picture() for _ in range(round(30 * seconds))])


@pytest.mark.parametrize("drift", [0.0, 20e-6, -20e-6, 100e-6])
def test_drift_is_followed(drift):
    world = World(drift)
    late = errors(world, 900.0)[300:]
    assert np.all(late > LEAST_DELAY - 0.002) and np.all(late < LEAST_DELAY + 0.002)


def test_a_known_least_delay_is_subtracted():
    clock = DeviceClock(lambda: 5.0, lambda: 1005.0, least_delay=LEAST_DELAY)
    assert clock.system_time(123.0) == pytest.approx(1005.0 - LEAST_DELAY)


@pytest.mark.parametrize("step", [1.0, -1.0, 3600.0])
def test_a_step_of_the_systems_clock_takes_effect_at_once(step):
    world = World()
    errors(world, 20.0)
    world.system_offset += step
    assert np.abs(errors(world, 20.0) - LEAST_DELAY).max() < 0.006 and world.clock.steps == 0


@pytest.mark.parametrize("step", [5.0, -5.0])
def test_a_step_of_the_devices_clock_is_followed(step):
    world = World()
    errors(world, 20.0)
    world.device_offset += step
    after = errors(world, 20.0)
    assert np.abs(after[STEP_SAMPLES:] - LEAST_DELAY).max() < 0.006 and world.clock.steps == 1


def test_single_late_pictures_change_nothing():
    world = World()
    errors(world, 20.0)
    for _ in range(20):
        world.now += 1.0
        late = world.clock.system_time(world.true + world.device_offset)  # one second too late
        assert abs(late - world.system_offset - world.true - LEAST_DELAY) < 0.006
        errors(world, 1.0)
    assert world.clock.steps == 0
