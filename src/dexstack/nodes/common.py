"""Base of every node: lifecycle, diagnostics, one worker thread, and an orderly shutdown.

A node runs three threads: the main thread waits for the end, an executor serves parameters,
lifecycle and diagnostics, and, while the node is active, a worker calls :meth:`StackNode.work` in a
loop. Control data goes through the worker only (:mod:`.wire`), so no control loop waits for an
executor.

With the parameter ``autostart`` (the default) a node configures and activates itself, also when it
is restarted after a crash; otherwise a lifecycle manager does so.
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
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from rclpy.client import Client
from rclpy.clock import Clock, ClockType
from rclpy.exceptions import (
    InvalidParameterTypeException,
    InvalidParameterValueException,
    ParameterUninitializedException,
)
from rclpy.executors import Executor, ExternalShutdownException, SingleThreadedExecutor
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from rclpy.logging import LoggingSeverity
from rclpy.publisher import Publisher
from rclpy.service import Service
from rclpy.signals import SignalHandlerOptions
from rclpy.subscription import Subscription

from dexstack.config import param
from dexstack.errors import ConfigError
from dexstack.model.mount import GravityParams
from dexstack.nodes.blocks import BlockNode
from dexstack.nodes.frames import FrameListener, GravitySource
from dexstack.nodes.silence import QUIET, silence
from dexstack.nodes.wire import REPORTS, WORLD, BadMessage, Kept, Newest, PoseSample, read_any_pose, set_stamp
from dexstack.perception.se3 import Transform

V = TypeVar("V")

NICENESS = 10
"""Niceness of nodes with ``BACKGROUND``."""
PATIENCE = 0.1
"""Longest wait for a message in one call of :meth:`StackNode.work` [s]; bounds the time to stop."""
START = 4.0
"""Time after activation before a silent input is worth a warning [s]."""
REPEAT = 5.0
"""Shortest time between two log messages about the same subject [s]."""
EXIT_FAILED = 1
EXIT_CONFIG = 2

WARNING, SEVERE = LoggingSeverity.WARN, LoggingSeverity.ERROR
OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR


@dataclasses.dataclass(frozen=True)
class NodeParams:
    """Parameters of every node."""

    autostart: bool = param(True, "configure and activate on start, without a lifecycle manager")


class _WorkerTask:
    """A call that the worker makes for another thread, which waits for it with a timeout."""

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


class StackNode(BlockNode):
    """Base class of a node; subclasses define :meth:`configure`, :meth:`work` and further hooks.

    Args:
        name: default node name.
        blocks: parameter dataclasses (see :class:`.blocks.BlockNode`).
    """

    EXECUTOR: Callable[[], Executor] = SingleThreadedExecutor
    """Executor of parameters, lifecycle and diagnostics."""
    BACKGROUND = False
    """True if no motion depends on the node, so that its process has a lower priority."""

    def __init__(self, name: str, *blocks: type) -> None:
        super().__init__(name, NodeParams, *blocks)
        self.dropped: Counter[str] = Counter()
        self._drops: dict[str, tuple[float, str]] = {}
        """Time and reason of the last dropped message by topic."""
        self._logged: dict[str, float] = {}
        self._silence, self._active_since = "", math.inf
        self._frames: FrameListener | None = None
        self.time = 0.0
        """Newest time seen in messages [s]; stamp of the diagnostics."""
        self.ended = threading.Event()
        """Ends the process when set."""
        self.exit_code = 0
        self._configured: list[Publisher | Subscription | Service | Client] = []
        self._stop = threading.Event()
        self._worker: threading.Thread | None = None
        self._tasks: queue.SimpleQueue[_WorkerTask] = queue.SimpleQueue()
        self._log: queue.SimpleQueue[tuple[LoggingSeverity, str]] = queue.SimpleQueue()
        self._log_pending = self.create_guard_condition(self._write_log)
        self._to_diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", REPORTS)
        self.create_timer(1.0, self._report, clock=Clock(clock_type=ClockType.STEADY_TIME))

    # --- hooks of subclasses ---------------------------------------------------------------------

    def configure(self) -> None:
        """Create what the node needs; may take long.

        Raises:
            ConfigError: the parameters cannot be used.
        """

    def begin(self) -> None:
        """Reset the state of an earlier activation; called before the worker starts."""

    def work(self) -> None:
        """Run one iteration of the worker, with waits of at most :data:`PATIENCE`."""
        raise NotImplementedError

    def finish(self) -> None:
        """Leave everything in a safe state; called in the worker after the last :meth:`work`, also
        after an exception."""

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        """Return the diagnostics of the active node: level, one line, values."""
        return OK, "", {}

    def idle_status(self) -> tuple[bytes, str, dict[str, Any]]:
        """Return the diagnostics of a node that is not active."""
        return WARN, "", {}

    def hardware_id(self) -> str:
        """Return the serial number of the node's device; empty without one."""
        return ""

    # --- services to subclasses ------------------------------------------------------------------

    def say(self, severity: LoggingSeverity, text: str, about: str = "") -> None:
        """Log from a control loop without blocking it: the executor writes the message.

        The first log call of a process takes rclpy 30 ms and more, and output to a full pipe blocks.

        Args:
            about: subject; messages on one subject are logged at most once per :data:`REPEAT`.
                Empty: always.
        """
        if about:
            now = time.monotonic()
            if now - self._logged.get(about, -math.inf) < REPEAT:
                return
            self._logged[about] = now
        self._log.put((severity, text))
        self._log_pending.trigger()

    def newest(self, msg_type: type, topic: str, qos: Any, decode: Callable[[Any], V]) -> Newest[V]:
        """Return a subscription for the worker; messages that ``decode`` rejects are counted and
        reported."""
        return Newest(self, msg_type, topic, qos, decode, self.drop)

    def kept(self, msg_type: type, topic: str, qos: Any) -> Newest[Kept]:
        """Return a subscription for the worker to messages that are decoded when they are needed."""
        return Newest(self, msg_type, topic, qos, Kept.of, self.drop, raw=True)

    def read_pose(self, message: PoseStamped | PoseWithCovarianceStamped) -> PoseSample:
        """Return a pose in the world frame with a unit quaternion, converted from any frame on ``/tf``
        at the pose's stamp. The first message in another frame starts to listen there.

        Raises:
            BadMessage: an invalid pose, or a frame whose pose at that time is not known.
        """
        sample, frame = read_any_pose(message), message.header.frame_id.lstrip("/")
        if frame in (WORLD, ""):
            return sample
        try:
            self._frames = self._frames or FrameListener(self)
            X_WF = self._frames.pose(WORLD, frame, sample.t)
        except ConfigError as error:
            raise BadMessage(f"frame '{frame[:40]}', '{WORLD}' expected: {error}") from None
        return sample._replace(pose=X_WF.compose(Transform.of_pose(sample.pose)).pose)

    def gravity_source(self, params: GravityParams) -> GravitySource:
        """Return the source of gravity, which listens to ``/tf`` if the parameters name a frame.

        Raises:
            ConfigError: they do, and tf2_msgs is not installed.
        """
        if params.gravity_frame:
            self._frames = self._frames or FrameListener(self)
        return GravitySource(params, self._frames)

    def drop(self, topic: str, reason: str) -> None:
        """Count and log a message that was not used."""
        self.dropped[topic] += 1
        self._drops[topic] = time.monotonic(), reason
        self.say(
            WARNING, f"dropped a message on {topic}: {reason} ({self.dropped[topic]} so far)", about=topic
        )

    def silent(self, *inputs: Newest[Any]) -> str:
        """Return why the first silent input has no messages, and log each reason once.

        Returns:
            One sentence; empty if all inputs had messages recently.
        """
        topic, reason = next(((one.topic, why) for one in inputs if (why := silence(self, one))), ("", ""))
        dropped_at, why_dropped = self._drops.get(topic, (-math.inf, ""))
        if time.monotonic() - dropped_at < QUIET:
            return f"every message on {topic} is dropped: {why_dropped}"  # logged by drop()
        if reason and reason != self._silence and time.monotonic() - self._active_since > START:
            self._silence = reason
            self.say(WARNING, reason)
        return reason

    @property
    def stopping(self) -> bool:
        """True once the worker has to end."""
        return self._stop.is_set()

    def end(self, exit_code: int) -> None:
        """End the process; callable from any thread."""
        self.exit_code = exit_code
        self.ended.set()

    def in_worker(
        self, action: Callable[[], Any], timeout: float = 2.0, undo: Callable[[], Any] | None = None
    ) -> bool:
        """Run ``action`` in the worker between two iterations and wait for it.

        Args:
            timeout: longest wait [s]; an action that has not begun by then never runs.
            undo: called after an action that began in time but ended late.

        Returns:
            False if the node is not active or the wait timed out.
        """
        if self._worker is None:
            return False
        task = _WorkerTask(action, undo)
        self._tasks.put(task)
        return task.wait(timeout)

    # --- lifecycle -------------------------------------------------------------------------------

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
        self._silence, self._active_since = "", time.monotonic()
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
        """Destroy what :meth:`configure` created, so that it can run again."""
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
                while not self._tasks.empty():
                    self._tasks.get().run()
                self.work()
        except Exception:
            if self.context.ok():  # end the process: the supervisor restarts a crashed node
                self.get_logger().fatal(traceback.format_exc())
                self.end(EXIT_FAILED)
        finally:
            try:
                self.finish()
            except Exception:
                self.get_logger().error(traceback.format_exc())

    def _write_log(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                severity, text = self._log.get_nowait()
                if severity is WARNING:  # rclpy allows one severity per call site
                    self.get_logger().warning(text)
                else:
                    self.get_logger().error(text)

    def destroy_node(self) -> None:
        """Destroy the node and its state machine.

        rclpy leaves the state machine to the garbage collector, which the end of a process does not
        wait for; until then the node's participant and its shared memory stay.
        """
        self._write_log()
        super().destroy_node()
        self._state_machine.destroy_when_not_in_use()  # rclpy has no public function for this

    def autostart(self) -> bool:
        """Configure and activate; return False if that failed."""
        return (
            self.trigger_configure() == TransitionCallbackReturn.SUCCESS
            and self.trigger_activate() == TransitionCallbackReturn.SUCCESS
        )

    # --- diagnostics -----------------------------------------------------------------------------

    def _report(self) -> None:
        state = self.lifecycle_state
        level, text, values = self.status() if state == "active" else self.idle_status()
        values["pid"] = os.getpid()
        for topic, count in self.dropped.items():
            values[f"dropped {topic}"] = count
            values[f"last dropped {topic}"] = self._drops[topic][1]
        status = DiagnosticStatus(
            level=level,
            name=self.get_fully_qualified_name(),
            message=text or state,
            hardware_id=self.hardware_id(),
            values=[
                KeyValue(key=str(k), value=f"{v:.6g}" if isinstance(v, float) else str(v))
                for k, v in values.items()
            ],
        )
        message = DiagnosticArray(status=[status])
        set_stamp(message.header.stamp, self.time)
        self._to_diagnostics.publish(message)


def run_node(make: type[StackNode]) -> int:
    """Run one node until SIGINT, SIGTERM, a shutdown transition or a failure.

    Returns:
        The exit code: 0 after a signal, 2 when the parameters cannot be used, 1 after a crash.
    """
    faulthandler.enable()
    if make.BACKGROUND:
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)  # before any thread starts, which inherits it
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)  # SIGTERM shuts down as Ctrl-C does
    node: StackNode | None = None
    executor: Executor | None = None
    spinner: threading.Thread | None = None
    try:
        # rclpy's own handlers shut the context down before the worker has sent its last message
        # (zero torque).
        rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
        node = make()
        executor = node.EXECUTOR()
        executor.add_node(node)
        spinner = threading.Thread(target=_spin, args=(executor, node), name="executor")
        spinner.start()
        if node.params(NodeParams).autostart:
            if node.autostart():
                gc.freeze()  # a collection that visits the libraries' million objects would stall control
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
        print(" ".join(str(error).split()), file=sys.stderr)
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
