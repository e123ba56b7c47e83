"""The base of every node: lifecycle, parameters, diagnostics, one working thread, and an orderly
end.

A node runs three threads: the main thread waits for the end, an executor serves parameters,
lifecycle and diagnostics, and, while the node is active, a worker calls :meth:`StackNode.work`
again and again. Control data goes through the worker only (:mod:`.wire`), so that no control loop
waits for an executor.

With the parameter ``autostart`` (the default) a node configures and activates itself, which is also
how a node that was restarted after a crash comes back; without it a lifecycle manager does so.
"""

from __future__ import annotations

import contextlib
import dataclasses
import faulthandler
import gc
import math
import os
import queue
import signal
import sys
import threading
import time
import traceback
import typing
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.client import Client
from rclpy.clock import Clock, ClockType
from rclpy.exceptions import (
    InvalidParameterTypeException,
    InvalidParameterValueException,
    ParameterUninitializedException,
)
from rclpy.executors import Executor, ExternalShutdownException, SingleThreadedExecutor
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.logging import LoggingSeverity
from rclpy.parameter import Parameter
from rclpy.publisher import Publisher
from rclpy.service import Service
from rclpy.signals import SignalHandlerOptions
from rclpy.subscription import Subscription

from dexstack.config import make_params, param
from dexstack.errors import ConfigError
from dexstack.nodes.silence import QUIET, silence
from dexstack.nodes.wire import REPORTS, BadMessage, Newest, set_stamp

P = TypeVar("P")
V = TypeVar("V")

NICENESS = 10
"""Of nodes on which no motion waits."""
PATIENCE = 0.1
"""Longest time one turn of :meth:`StackNode.work` may wait for a message [s]; bounds how long a
node takes to stop."""
START = 4.0
"""Others may take so long to come up before their silence is worth a warning [s]."""
EXIT_FAILED = 1
EXIT_CONFIG = 2

WARNING, SEVERE = LoggingSeverity.WARN, LoggingSeverity.ERROR
OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR


@dataclasses.dataclass(frozen=True)
class NodeParams:
    """Parameters every node has."""

    autostart: bool = param(True, "configure and activate on start, without a lifecycle manager")


class _Errand:
    """Something the worker does for somebody who waits for it, but not for ever."""

    def __init__(self, action: Callable[[], Any], undo: Callable[[], Any] | None) -> None:
        self._action, self._undo = action, undo
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._abandoned = False

    def wait(self, timeout: float) -> bool:
        if self._done.wait(timeout):
            return True
        with self._lock:
            self._abandoned = not self._done.is_set()
            return not self._abandoned

    def run(self) -> None:
        with self._lock:
            if self._abandoned:
                return
        self._action()
        with self._lock:
            self._done.set()
            abandoned = self._abandoned
        if abandoned and self._undo is not None:
            self._undo()


class StackNode(LifecycleNode):
    """One node; subclasses write :meth:`configure`, :meth:`work` and what else they need.

    Args:
        name: default node name.
        blocks: parameter dataclasses (see :mod:`dexstack.config`) whose fields become ROS
            parameters of the same name.
    """

    EXECUTOR: Callable[[], Executor] = SingleThreadedExecutor
    """What serves parameters, lifecycle and diagnostics."""
    LIVE: frozenset[str] = frozenset()
    """Parameters that may change after the node was configured."""

    def __init__(self, name: str, *blocks: type) -> None:
        super().__init__(name)
        self._blocks: dict[type, Any] = {}
        self._declare(NodeParams, *blocks)
        self.dropped: Counter[str] = Counter()
        self._last_drop: dict[str, str] = {}
        self._warned: dict[str, float] = {}
        self._dropped_at: dict[str, float] = {}
        self._lacks, self._active_since = "", math.inf
        self.time = 0.0
        """Newest time seen in messages [s]; stamps the diagnostics."""
        self.ended = threading.Event()
        """Set to end the process."""
        self.exit_code = 0
        self._configured: list[Publisher | Subscription | Service | Client] = []
        self._stop = threading.Event()
        self._worker: threading.Thread | None = None
        self._errands: queue.SimpleQueue[_Errand] = queue.SimpleQueue()
        self._unsaid: queue.SimpleQueue[tuple[LoggingSeverity, str]] = queue.SimpleQueue()
        self._speak_up = self.create_guard_condition(self._speak)
        self._report_to = self.create_publisher(DiagnosticArray, "/diagnostics", REPORTS)
        self.create_timer(1.0, self._report, clock=Clock(clock_type=ClockType.STEADY_TIME))
        self.add_on_set_parameters_callback(self._on_parameters)

    # --- what subclasses write ----------------------------------------------------------------------------------------------------

    def configure(self) -> None:
        """Build what the node needs; may take long.

        Raises:
            ConfigError: the parameters cannot be used.
        """

    def begin(self) -> None:
        """Called before the worker starts: forget what an earlier activation left."""

    def work(self) -> None:
        """One turn of the worker; waits for messages for at most :data:`PATIENCE`."""
        raise NotImplementedError

    def finish(self) -> None:
        """Called in the worker after the last :meth:`work`, whatever ended it: leave everything
        safe."""

    def apply(self, block: Any) -> None:
        """A parameter block changed after :meth:`configure`; the new one replaces the old if this
        does not raise.

        Raises:
            ConfigError: the change cannot be made now.
        """

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        """Diagnostics: level, one line, values."""
        return OK, "", {}

    def idle_status(self) -> tuple[bytes, str, dict[str, Any]]:
        """The same while the node is not active."""
        return WARN, "", {}

    def hardware_id(self) -> str:
        """Serial number of the device behind the node; empty where there is none."""
        return ""

    # --- services to subclasses ---------------------------------------------------------------------------------------------------

    def say(self, severity: LoggingSeverity, text: str, about: str = "") -> None:
        """Log from a control loop: the executor writes it. rclpy's first word in a process looks
        through all modules for who said it, for 30 ms and more, and a log may be a pipe that nobody
        empties. What is ``about`` the same is said once in 5 s at most."""
        if about:
            now = time.monotonic()
            if now - self._warned.get(about, -math.inf) < 5.0:
                return
            self._warned[about] = now
        self._unsaid.put((severity, text))
        self._speak_up.trigger()

    def params(self, block: type[P]) -> P:
        """The current values of one parameter block."""
        return self._blocks[block]

    def newest(self, msg_type: type, topic: str, qos: Any, decode: Callable[[Any], V]) -> Newest[V]:
        """A subscription for the worker to take from; what ``decode`` refuses is counted and
        reported."""
        return Newest(self, msg_type, topic, qos, decode, self.drop)

    def drop(self, topic: str, reason: str) -> None:
        """Count a message that was not used; warn at most once in 5 s per topic."""
        self.dropped[topic] += 1
        self._last_drop[topic] = reason
        self._dropped_at[topic] = time.monotonic()
        self.say(
            WARNING, f"dropped a message on {topic}: {reason} ({self.dropped[topic]} so far)", about=topic
        )

    def silent(self, *inputs: Newest[Any]) -> str:
        """Why nothing comes on the first of some inputs that is silent; empty where all were heard
        of late. Warns once of each."""
        lacking = next(((one.topic, why) for one in inputs if (why := silence(self, one))), None)
        if lacking is None:
            return ""
        topic, reason = lacking
        if time.monotonic() - self._dropped_at.get(topic, -math.inf) < QUIET:
            return (
                f"every message on {topic} is dropped: {self._last_drop[topic]}"  # which drop() has warned of
            )
        if reason != self._lacks and time.monotonic() - self._active_since > START:
            self._lacks = reason
            self.say(WARNING, reason)
        return reason

    @property
    def stopping(self) -> bool:
        """Whether the worker has to come to an end."""
        return self._stop.is_set()

    def end(self, exit_code: int) -> None:
        """End the process from any thread."""
        self.exit_code = exit_code
        self.ended.set()

    def in_worker(
        self, action: Callable[[], Any], timeout: float = 2.0, undo: Callable[[], Any] | None = None
    ) -> bool:
        """Let the worker run ``action`` between two turns, and wait; False when the node is not
        active (or hangs).

        What has not begun after ``timeout`` [s] never will; what has begun by then is followed by
        ``undo``.
        """
        if self._worker is None:
            return False
        errand = _Errand(action, undo)
        self._errands.put(errand)
        return errand.wait(timeout)

    # --- parameters ---------------------------------------------------------------------------------------------------------------

    def _declare(self, *blocks: type) -> None:
        for block in blocks:
            values = {}
            for field in dataclasses.fields(block):
                kind = _ros_type(block, field)
                self.declare_parameter(field.name, _ros_value(field.default), descriptor(field, kind))
                values[field.name] = self.get_parameter(field.name).value
            self._blocks[block] = make_params(block, values)

    def _exchange(self, old: type, new: type) -> None:
        """Declare the parameters of one block in place of another's; may be called by
        :meth:`apply`.

        Raises:
            ConfigError: a value given for the new ones cannot be used; the old ones are there as
                before.
        """
        before = self._blocks.pop(old)
        for field in dataclasses.fields(old):
            self.undeclare_parameter(field.name)
        try:
            self._declare(new)
        except Exception as error:
            for field in dataclasses.fields(new):
                if self.has_parameter(field.name):
                    self.undeclare_parameter(field.name)
            for field in dataclasses.fields(old):
                value = _ros_value(getattr(before, field.name))
                self.declare_parameter(
                    field.name, value, descriptor(field, _ros_type(old, field)), ignore_override=True
                )
            self._blocks[old] = before
            raise ConfigError(" ".join(str(error).split())) from None

    def _on_parameters(self, changes: Sequence[Parameter]) -> SetParametersResult:
        new = {p.name: p.value for p in changes}
        changed: dict[type, Any] = {}
        configured = self._state_machine.current_state[1] != "unconfigured"
        try:
            for block, old in list(self._blocks.items()):
                mine = {f.name: new[f.name] for f in dataclasses.fields(block) if f.name in new}
                if not mine or (wanted := make_params(block, {**dataclasses.asdict(old), **mine})) == old:
                    continue
                fixed = [
                    name
                    for name in mine
                    if name not in self.LIVE and getattr(wanted, name) != getattr(old, name)
                ]
                if configured and fixed:
                    raise ConfigError(
                        f"parameter '{fixed[0]}' can only change while the node is unconfigured"
                    )
                if configured:
                    self.apply(wanted)
                changed[block] = wanted
        except ConfigError as error:
            return SetParametersResult(successful=False, reason=str(error))
        self._blocks = {**self._blocks, **changed}
        return SetParametersResult(successful=True)

    # --- lifecycle ----------------------------------------------------------------------------------------------------------------

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        before = {id(entity) for entity in self._entities()}
        result = self._transition(self.configure)
        self._configured = [entity for entity in self._entities() if id(entity) not in before]
        if result != TransitionCallbackReturn.SUCCESS:
            self._discard()
        return result

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        result = self._transition(self.begin)
        if result != TransitionCallbackReturn.SUCCESS:
            return result
        self._stop.clear()
        self._lacks, self._active_since = "", time.monotonic()
        self._worker = threading.Thread(target=self._run_worker, name="worker")
        self._worker.start()
        return TransitionCallbackReturn.SUCCESS

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        self.stop_worker()
        return TransitionCallbackReturn.SUCCESS

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._discard()
        return TransitionCallbackReturn.SUCCESS

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        self.stop_worker()
        self.ended.set()
        return TransitionCallbackReturn.SUCCESS

    def _entities(self) -> list[Publisher | Subscription | Service | Client]:
        return [*self.publishers, *self.subscriptions, *self.services, *self.clients]

    def _discard(self) -> None:
        """Undo what :meth:`configure` created, so that it can run again."""
        for entity in self._configured:
            kind = next(k for k in (Publisher, Subscription, Service, Client) if isinstance(entity, k))
            getattr(self, f"destroy_{kind.__name__.lower()}")(entity)
        self._configured = []

    def stop_worker(self) -> None:
        """Stop and join the worker."""
        self._stop.set()
        if self._worker is not None and self._worker is not threading.current_thread():
            self._worker.join()
            self._worker = None

    def _transition(self, action: Callable[[], None]) -> TransitionCallbackReturn:
        try:
            action()
        except ConfigError as error:
            self.get_logger().fatal(str(error))
            self.exit_code = EXIT_CONFIG
        except Exception:
            self.get_logger().fatal(traceback.format_exc())
            self.exit_code = EXIT_FAILED
        else:
            return TransitionCallbackReturn.SUCCESS
        return TransitionCallbackReturn.FAILURE

    def _run_worker(self) -> None:
        try:
            while not self._stop.is_set():
                while not self._errands.empty():
                    self._errands.get().run()
                self.work()
        except Exception:
            if self.context.ok():  # a crash is for the supervisor to restart, not for the node to hide
                self.get_logger().fatal(traceback.format_exc())
                self.end(EXIT_FAILED)
        finally:
            try:
                self.finish()
            except Exception:
                self.get_logger().error(traceback.format_exc())

    def _speak(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                severity, text = self._unsaid.get_nowait()
                if severity is WARNING:  # two places: rclpy wants one severity of each
                    self.get_logger().warning(text)
                else:
                    self.get_logger().error(text)

    def destroy_node(self) -> None:
        """Also the state machine, which rclpy leaves to a collection that the end of a process does
        not wait for: while it is there so is the node's part in the domain, with its shared
        memory."""
        self._speak()  # what the executor did not come to
        super().destroy_node()
        self._state_machine.destroy_when_not_in_use()

    def autostart(self) -> bool:
        """Configure and activate; False when that failed."""
        return (
            self.trigger_configure() == TransitionCallbackReturn.SUCCESS
            and self.trigger_activate() == TransitionCallbackReturn.SUCCESS
        )

    # --- diagnostics --------------------------------------------------------------------------------------------------------------

    def _report(self) -> None:
        state = self._state_machine.current_state[1]
        level, text, values = self.status() if state == "active" else self.idle_status()
        values["pid"] = os.getpid()
        for topic, count in self.dropped.items():
            values[f"dropped {topic}"] = count
            values[f"last dropped {topic}"] = self._last_drop[topic]
        message = DiagnosticArray()
        set_stamp(message.header.stamp, self.time)
        message.status = [
            DiagnosticStatus(
                level=level,
                name=self.get_fully_qualified_name(),
                message=text or state,
                hardware_id=self.hardware_id(),
                values=[
                    KeyValue(key=str(k), value=f"{v:.6g}" if isinstance(v, float) else str(v))
                    for k, v in values.items()
                ],
            )
        ]
        self._report_to.publish(message)


_ROS_TYPE = {
    bool: Parameter.Type.BOOL,
    int: Parameter.Type.INTEGER,
    float: Parameter.Type.DOUBLE,
    str: Parameter.Type.STRING,
}
_ROS_ARRAY = {
    Parameter.Type.INTEGER: Parameter.Type.INTEGER_ARRAY,
    Parameter.Type.DOUBLE: Parameter.Type.DOUBLE_ARRAY,
    Parameter.Type.STRING: Parameter.Type.STRING_ARRAY,
}


def _ros_type(block: type, field: dataclasses.Field) -> Parameter.Type:
    annotation = typing.get_type_hints(block)[field.name]
    if typing.get_origin(annotation) is tuple:
        return _ROS_ARRAY[_ROS_TYPE[typing.get_args(annotation)[0]]]
    return _ROS_TYPE[annotation]


def _ros_value(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def descriptor(field: dataclasses.Field, kind: Parameter.Type) -> ParameterDescriptor:
    """ROS descriptor of a field made with :func:`dexstack.config.param`: description, type and
    range."""
    lo, hi = field.metadata.get("lo"), field.metadata.get("hi")
    result = ParameterDescriptor(name=field.name, type=kind.value, description=field.metadata["doc"])
    if lo is None and hi is None:
        return result
    if kind == Parameter.Type.DOUBLE:
        low, high = (
            (-sys.float_info.max if lo is None else float(lo)),
            (sys.float_info.max if hi is None else float(hi)),
        )
        result.floating_point_range = [FloatingPointRange(from_value=low, to_value=high)]
    elif kind == Parameter.Type.INTEGER:
        low, high = (-(2**63) if lo is None else int(lo)), (2**63 - 1 if hi is None else int(hi))
        result.integer_range = [IntegerRange(from_value=low, to_value=high)]
    else:  # ROS has no ranges for lists; the set-parameters callback checks every entry
        result.additional_constraints = f"entries in [{lo}, {hi}]"
    return result


def yield_to_others() -> None:
    """Lower the priority of this process; to be called first, because threads inherit it. For nodes
    on which no motion waits."""
    if hasattr(os, "setpriority"):
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)


def run_node(make: Callable[[], StackNode]) -> int:
    """Run one node until SIGINT, SIGTERM, a shutdown transition or a failure.

    Returns:
        The exit code: 0 after a signal, 2 when the parameters cannot be used, 1 after a crash.
    """
    faulthandler.enable()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)  # TERM must run the same orderly end as Ctrl-C
    node: StackNode | None = None
    executor: Executor | None = None
    spinner: threading.Thread | None = None
    try:
        # Not rclpy's handlers: they shut the context down before the worker could say its last word
        # (zero torque).
        rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
        node = make()
        executor = node.EXECUTOR()
        executor.add_node(node)
        spinner = threading.Thread(target=_spin, args=(executor, node), name="executor")
        spinner.start()
        if node.get_parameter("autostart").value:
            if node.autostart():
                gc.freeze()  # libraries hold a million long-lived objects; a collection that visits them would stall a control loop
            else:
                node.end(node.exit_code or EXIT_FAILED)
        while not node.ended.wait(3600.0):
            pass
        return node.exit_code
    except KeyboardInterrupt:
        return 0
    except (
        ConfigError,
        InvalidParameterTypeException,
        InvalidParameterValueException,
        ParameterUninitializedException,
    ) as error:
        print(f"{' '.join(str(error).split())}", file=sys.stderr)
        return EXIT_CONFIG
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        if node is not None:
            node.stop_worker()
        if executor is not None:
            executor.shutdown()
        rclpy.try_shutdown()
        if spinner is not None:
            spinner.join()
        if node is not None:
            node.destroy_node()


def _spin(executor: Executor, node: StackNode) -> None:
    try:
        executor.spin()
    except ExternalShutdownException:
        pass
    except Exception:
        node.get_logger().fatal(traceback.format_exc())
        node.end(EXIT_FAILED)


__all__ = [
    "ERROR",
    "OK",
    "PATIENCE",
    "SEVERE",
    "WARN",
    "WARNING",
    "BadMessage",
    "NodeParams",
    "StackNode",
    "run_node",
]
