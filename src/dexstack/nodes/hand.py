"""The hand node: one driver (:class:`dexstack.hand.driver.HandDriver`) behind topics, for a
simulated, an emulated and a real hand.

With the parameter ``interface`` empty the hand is simulated: joint angles come on
``hand/feedback``, torques go to ``hand/torque``. Otherwise it is on a bus, CAN or a serial line
(:mod:`dexstack.hand.links`). Everything else is the same: servo law, limits, watchdogs, topics,
services, diagnostics. The worker is paced by the hand's feedback. However it ends, the hand is left
limp; on a bus that is zero torque and servo off.

Of several publishers on ``joint_command`` one owns the joints (:mod:`.joint_commands`).

States and consent: :mod:`dexstack.hand.states`. The node is active only with a hand, and then it is
READY. On hardware it waits there for the service ``~/enable``; an emulated or simulated hand is
enabled automatically, once per run of the graph. ``~/stop`` acts in the servo turn in which it
arrives. A fault switches the servo off and deactivates the node; ``~/enable`` activates it again,
runs the whole start-up and answers why it fails. When the rollout has reached its goal the hand
holds with reduced torque until ``hold_time`` or ``hold_temperature``, and is limp then. A hand that
is enabled automatically and rests after ``hold_time`` is enabled by the next rollout.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.executors import MultiThreadedExecutor
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger

from dexstack.errors import ConfigError
from dexstack.hand.allegro.names import vendor_names
from dexstack.hand.commissioning import check_commissioned
from dexstack.hand.driver import Command, HandDriver
from dexstack.hand.link import FaultKind, HandFault, Link
from dexstack.hand.links import Settings, link_to, wiring_of
from dexstack.hand.params import BusParams, CanHandParams, HandParams, MotorParams, needs_person
from dexstack.hand.servo import ServoLaw, ServoMode, ServoParams, first_widened_limit
from dexstack.hand.states import HandState, StateFile, StateStore
from dexstack.hand.watch import UNWATCHED, WatchParams
from dexstack.model.gravity import GravityCompensation
from dexstack.model.hand import load_hand
from dexstack.nodes.common import ERROR, EXIT_CONFIG, OK, PATIENCE, SEVERE, WARN, WARNING, StackNode, run_node
from dexstack.nodes.joint_commands import JointCommands
from dexstack.nodes.topic_link import TopicLink
from dexstack.nodes.wire import (
    LATCHED,
    SENSOR,
    STATE,
    BadMessage,
    JointWriter,
    answered,
)

RETRY = 0.5
"""Wait between two attempts to start a hand that does not answer yet [s]."""
FAULT_CHECK = 0.2
"""Time between two checks whether the worker ended because of a fault [s]."""
PHASE_EVERY = 16
"""Turns between two checks of the state of the rollout."""
GRAVITY_EVERY = 16
"""Turns between two looks for the direction of gravity."""
ADJUST_TIMEOUT = 1.0
STOP_TIMEOUT = 1.0
ENABLE_TIMEOUT = 5.0


class HandNode(StackNode):
    """See the module's docstring."""

    # a stop does not wait for a running enable
    EXECUTOR = functools.partial(MultiThreadedExecutor, num_threads=3)
    LIVE = frozenset(
        {
            "applied_command_every",
            "hold_time",
            "hold_temperature",
            *(f.name for b in (ServoParams, WatchParams) for f in fields(b)),
        }
    )

    def __init__(self) -> None:
        super().__init__("hand", HandParams, ServoParams, WatchParams, BusParams, CanHandParams, MotorParams)
        self._driver: HandDriver | None = None
        self._left = False
        self.create_timer(
            FAULT_CHECK, self._deactivate_after_fault, clock=Clock(clock_type=ClockType.STEADY_TIME)
        )

    def configure(self) -> None:
        p, bus = self.params(HandParams), self.params(BusParams)
        self._by_person = needs_person(p, bus)
        self._hand = load_hand(p.hand)
        names = self._hand.joint_names
        self._gravity = GravityCompensation(self._hand, p.gravity)
        self._upright = self.gravity_source(p)
        vendor = vendor_names(self._hand) if p.vendor_names else {}
        self._commands = JointCommands(
            self,
            names,
            p.command_owners.split(),
            self.params(ServoParams).command_timeout,
            {theirs: own for own, theirs in vendor.items()},
        )
        self._phases = self.newest(String, "rollout/state", LATCHED, read_phase)
        watch = self._watch(self.params(WatchParams))
        servo = ServoLaw(self._hand, self.params(ServoParams), self._gravity, watch)
        self._driver = HandDriver(self._link(names), servo, self._take_command)
        self._state = JointWriter(names, "position", "velocity", "effort")
        self._applied = JointWriter(names, "position")
        self._to_state = self.create_publisher(JointState, "joint_states", STATE)
        self._vendor_names, self._to_vendor = list(vendor.values()), None
        if vendor:
            self._to_vendor = self.create_publisher(JointState, "vendor/joint_states", STATE)
        self._to_applied = self.create_publisher(JointState, "hand/applied_command", SENSOR)
        self.create_service(Trigger, "~/enable", self._on_enable)
        self.create_service(
            Trigger,
            "~/hold",
            lambda _, response: self._answer(response, lambda: self._hold("hold requested")),
        )
        self.create_service(Trigger, "~/stop", self._on_stop, callback_group=MutuallyExclusiveCallbackGroup())
        self.begin()

    def apply(self, block: Any) -> None:
        if not isinstance(block, ServoParams | WatchParams):
            return
        state = self._driver.state
        if state in (HandState.ENABLED, HandState.HOLD) and (
            name := first_widened_limit(self.params(type(block)), block)
        ):
            raise ConfigError(
                f"'{name}' can only be tightened while the hand is {state.value}; call hand/stop first"
            )
        if isinstance(block, WatchParams):
            block = self._watch(block)
        else:
            self._commands.arbiter.lease = block.command_timeout
        servo = self._driver.servo
        if not self.in_worker(lambda: servo.adjust(block), ADJUST_TIMEOUT):
            servo.adjust(block)  # without a worker

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Find the hand; without one the node stays inactive."""
        try:
            self._find_hand()
        except HandFault as fault:
            if fault.kind is FaultKind.WRONG_HAND:
                self._refuse(fault.advice)
            self.get_logger().warning(f"the hand does not start: {fault.advice}", throttle_duration_sec=5.0)
            return TransitionCallbackReturn.FAILURE
        except ConfigError as error:
            self._refuse(str(error))
            return TransitionCallbackReturn.FAILURE
        return super().on_activate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._driver = None
        return super().on_cleanup(state)

    def autostart(self) -> bool:
        """Configure, and wait for a hand to activate with."""
        if self.trigger_configure() != TransitionCallbackReturn.SUCCESS:
            return False
        while not self.ended.is_set():
            if self.trigger_activate() == TransitionCallbackReturn.SUCCESS:
                return True
            self.ended.wait(RETRY)
        return False

    def begin(self) -> None:
        self._moved = self._left = False
        self._try_at = 0.0
        self._reported: HandFault | None = None
        self._ticks = 0
        self._ticks_reported = 0
        self._has_feedback = False
        self._mode = ServoMode.LIMP
        self._hold_until = 0.0
        self._rests = False

    def work(self) -> None:
        driver = self._driver
        if self._enables_itself and time.monotonic() >= self._try_at:
            self._start()
        turn = driver.turn(PATIENCE)
        self._has_feedback = turn is not None
        if driver.fault is not self._reported:
            self._note_fault(driver.fault)
        if driver.state is HandState.HOLD:
            self._check_hold()
        if turn is None:
            return
        if driver.refused is not None:
            self.drop("joint_command", driver.refused.value)
        (_, stamp, q), output = turn
        self.time, self._mode = stamp, output.mode
        self._moved |= output.mode is not ServoMode.LIMP
        state = self._state
        state.position[:], state.velocity[:], state.effort[:] = q, output.qd, output.tau
        message = state.at(stamp)
        self._to_state.publish(message)
        if self._to_vendor is not None:
            own, message.name = message.name, self._vendor_names
            self._to_vendor.publish(message)
            message.name = own
        if self._ticks % self.params(HandParams).applied_command_every == 0:
            self._applied.position[:] = output.q_applied
            self._to_applied.publish(self._applied.at(stamp))
        if self._ticks % GRAVITY_EVERY == 0 and self._upright.turns and self._upright.update(stamp):
            self._gravity.acceleration = self._upright.gravity
        if self._ticks % PHASE_EVERY == 0 and (phase := self._phases.take()) is not None:
            self._note_phase(phase)
        self._ticks += 1

    def finish(self) -> None:
        self._driver.close()

    def stop_worker(self) -> None:
        super().stop_worker()
        if self._driver is not None:  # also after a failed start, which leaves a bus and a guard open
            self._driver.close()

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        driver, servo = self._driver, self._driver.servo
        rate, self._ticks_reported = self._ticks - self._ticks_reported, self._ticks
        values: dict[str, Any] = {
            "state": driver.state.value,
            "mode": self._mode.name.lower(),
            "rate_hz": rate,
            "enabled": servo.enabled,
        }
        values["shutter_to_torque_s"] = driver.age
        values.update({f"fault {fault.value}": count for fault, count in servo.faults.items() if count})
        values.update({f"fault {kind}": count for kind, count in driver.fault_counts.items()})
        values.update(driver.link.status())
        values["command_owner"] = self._commands.name(self._commands.arbiter.owner)
        warnings = [
            w for w in (self._commands.conflict(self.time), values.get("warning"), self._upright.trouble) if w
        ]
        if driver.fault is not None:
            values.update({"fault": driver.fault.kind.value, "remedy": driver.fault.remedy})
            return (ERROR if driver.state is HandState.FAULT else WARN), str(driver.fault), values
        if driver.state is HandState.READY:
            return WARN, driver.why or f"ready; the service {self.get_name()}/enable switches it on", values
        if not self._has_feedback:
            return WARN, "no feedback from the hand", values
        if driver.state is HandState.HOLD:
            return (
                WARN,
                f"{driver.why}; limp in {max(0.0, self._hold_until - time.monotonic()):.0f} s",
                values,
            )
        mode = self._mode.name.lower()
        if warnings:
            return WARN, "; ".join((mode, *warnings)), values
        return (OK if self._mode is ServoMode.TRACK else WARN), mode, values

    def idle_status(self) -> tuple[bytes, str, dict[str, Any]]:
        return super().idle_status() if self._driver is None or self._driver.fault is None else self.status()

    def hardware_id(self) -> str:
        return "" if self._driver is None else str(self._driver.link.status().get("serial", ""))

    # --- inside

    def _watch(self, watch: WatchParams) -> WatchParams:
        """Return the limits of the watch for this hand. A simulated hand has no encoders that could
        freeze, and the angle of a blocked joint may be constant."""
        if self.params(BusParams).interface:
            return wiring_of(self._hand).watch(watch)
        return replace(watch, frozen_ticks=UNWATCHED)

    def _link(self, names: Sequence[str]) -> Link:
        bus = self.params(BusParams)
        if not bus.interface:
            return TopicLink(self, names)
        return link_to(self._hand, bus, Settings(self.params(CanHandParams), self.params(MotorParams)))

    def _refuse(self, text: str) -> None:
        self.get_logger().fatal(text)
        self.end(EXIT_CONFIG)

    def _find_hand(self) -> None:
        """Find the hand and decide who may enable it. Raises HandFault, ConfigError."""
        driver, bus = self._driver, self.params(BusParams)
        driver.store = StateStore()
        driver.ready()
        serial = driver.link.status().get("serial")
        self._enables_itself = not self._by_person
        if serial is None:
            return
        if self._by_person:
            check_commissioned(self.params(CanHandParams).calibration_dir, serial)
        store = StateFile(
            self.params(HandParams).state_dir, serial if bus.hardware else f"{serial}@{bus.where}"
        )
        kept = store.read()
        why = f"{kept.why or kept.state.value} before this process began" if kept and not store.fresh else ""
        self._enables_itself &= store.fresh
        driver.store, driver.why = store, why
        store.note(HandState.READY, why)
        if not self._enables_itself:
            self.get_logger().warning(
                f"the hand {serial} is ready; the service {self.get_name()}/enable switches it on. {why}"
            )

    def _start(self) -> None:
        """Enable a hand that needs no consent; try again later if that fails."""
        self._enables_itself = False
        try:
            self._enable()
        except HandFault as fault:
            if fault.kind is not FaultKind.STOPPED:
                self.say(WARNING, f"the hand does not start: {fault.advice}", about="start")
                self._enables_itself, self._try_at, self._reported = True, time.monotonic() + RETRY, fault

    def _note_fault(self, fault: HandFault | None) -> None:
        self._reported = fault
        self._rests = False
        if fault is None or fault.kind is FaultKind.STOPPED:
            return
        if not self._moved and not self._by_person:  # nothing has moved yet: start again
            self.say(WARNING, f"servo off: {fault}; starting the hand again")
            self._enables_itself, self._try_at = True, time.monotonic() + RETRY
            return
        self.say(
            SEVERE,
            f"servo off: {fault.advice}; then call the service {self.get_name()}/enable",
        )
        self._left = True
        self._stop.set()

    def _deactivate_after_fault(self) -> None:
        """Deactivate the node after a fault of the hand."""
        if self._left and self.lifecycle_state == "active":
            self._left = False
            self.trigger_deactivate()

    def _note_phase(self, phase: str) -> None:
        if phase in ("reached", "cancelled"):
            self._hold(f"the goal is {phase}")
        elif phase == "running" and not self._by_person and self._driver.state is HandState.HOLD:
            self._driver.release()
        elif phase == "running" and self._rests:  # neither stopped nor at fault
            self._enables_itself, self._try_at = True, time.monotonic()

    def _hold(self, why: str) -> None:
        driver, p = self._driver, self.params(HandParams)
        if driver.state is not HandState.ENABLED:
            return
        share = 100.0 * self.params(ServoParams).hold_torque
        driver.hold(f"{why}: holding with {share:.0f} % of the torque")
        if driver.state is HandState.HOLD:
            self._hold_until = time.monotonic() + p.hold_time
            self.say(WARNING, f"{driver.why}; limp in {p.hold_time:g} s, or at {p.hold_temperature} °C")

    def _check_hold(self) -> None:
        hottest = max(getattr(self._driver.link, "temperatures", [0]))
        limit = self.params(HandParams).hold_temperature
        if time.monotonic() > self._hold_until:
            self._driver.stop("hold_time is over: limp")
            self._rests = not self._by_person
        elif hottest >= limit:
            self._driver.stop(f"a motor is at {hottest} °C, holding ends at {limit} °C: limp")
        else:
            return
        self.say(WARNING, self._driver.why)

    def _take_command(self) -> Command | None:
        command = self._commands.take(self.time)
        # an unstamped command, as typed by a person, counts as new
        return None if command is None else (command.values, command.t or None)

    def _on_stop(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        """Have the servo's thread stop; runs concurrently with all other callbacks."""
        driver = self._driver
        self._rests = False
        driver.ask_stop("stopped by service")
        for _ in range(round(STOP_TIMEOUT / 0.002)):
            if driver.stopped or self._worker is None:
                break
            time.sleep(0.002)
        why_not = "the servo's thread does not answer; use the emergency stop"
        return answered(response, driver.stopped, why_not)

    def _on_enable(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._driver.allow()
        if self._left:
            self._deactivate_after_fault()
        if self.lifecycle_state == "inactive" and self.trigger_activate() != TransitionCallbackReturn.SUCCESS:
            fault = self._driver.fault
            return answered(response, False, fault.advice if fault is not None else "there is no hand")
        return self._answer(response, self._enable, lambda: self._driver.stop("enabled too late"))

    def _answer(
        self, response: Trigger.Response, action: Callable[[], None], undo: Callable[[], None] | None = None
    ) -> Trigger.Response:
        trouble: list[HandFault] = []

        def act() -> None:
            try:
                action()
            except HandFault as fault:
                trouble.append(fault)

        done = self.in_worker(act, ENABLE_TIMEOUT, undo) and not trouble
        return answered(response, done, trouble[0].advice if trouble else "the hand node is not active")

    def _enable(self) -> None:
        self._enables_itself = self._rests = False
        self._driver.enable()
        self._moved, self._reported = False, None


def read_phase(message: String) -> str:
    """Return the phase of the rollout."""
    try:
        return str(json.loads(message.data)["phase"])
    except (ValueError, KeyError, TypeError):
        raise BadMessage("not the state of a rollout") from None


main = partial(run_node, HandNode)
