"""Signals that stop a loop between two steps."""

import signal

import pytest

from dexstack.process.interrupts import stop_event


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_sets_the_event_and_a_second_one_interrupts(number):
    before = signal.getsignal(number)
    with stop_event() as stop:
        assert not stop.is_set()
        signal.raise_signal(number)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert signal.getsignal(number) is before
