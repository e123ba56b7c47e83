"""Messages as numpy arrays, qualities of service, and subscriptions that a node's own thread reads.

A :class:`Newest` subscription leaves messages in the middleware and is never seen by an executor: a
message that is not read is not deserialised, and one that is read costs no executor turn (a quarter
of the processor time at 333 Hz). Decoders check everything that could harm later stages and raise
:class:`BadMessage` with one clause that says what is wrong.
"""

from __future__ import annotations

import math
import struct
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from numpy.typing import ArrayLike
from rclpy.callback_groups import CallbackGroup
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from rclpy.subscription import Subscription
from sensor_msgs.msg import JointState, PointCloud2, PointField
from std_srvs.srv import Trigger

from dexstack.perception.se3 import largest_deviations
from dexstack.process.history import JointSample, is_limp

T = TypeVar("T")
M = TypeVar("M")

SENSOR = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
SERVO = QoSProfile(depth=4, reliability=ReliabilityPolicy.BEST_EFFORT)
"""For feedback and torque; deep enough that a stray message cannot displace the expected one."""
RECENT = QoSProfile(depth=200, reliability=ReliabilityPolicy.BEST_EFFORT)
"""For readers that need all recent samples, not only the newest."""
COMMAND = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
STATE = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
"""For joint_states, which foreign nodes read too: a reliable writer serves readers of either kind."""
LATCHED = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)
STATIC = QoSProfile(
    depth=100, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)
"""For readers of a latched topic with many writers (``/tf_static``)."""
REPORTS = QoSProfile(depth=50, reliability=ReliabilityPolicy.RELIABLE)
"""For topics with several writers at a low rate (``/diagnostics``)."""

WORLD = "world"
NANOSECONDS = 1_000_000_000


class BadMessage(ValueError):
    """A message that must not be used, with the reason."""


class PoseSample(NamedTuple):
    """A pose (x, y, z [m], quaternion wxyz of unit length) in the world frame."""

    t: float
    pose: np.ndarray
    spread: tuple[float, float] = (0.0, 0.0)
    """Largest standard deviations of position [m] and rotation [rad]; zero: not given."""


class ContactSample(NamedTuple):
    """Arrays of a contact set (see :class:`dexstack.contact.contact.Contacts`) without padding."""

    t: float
    p_W: np.ndarray
    nhat_W: np.ndarray
    phi: np.ndarray
    link: np.ndarray


# --- subscriptions -------------------------------------------------------------------------------

# rclpy has no public functions to take a message or to wait outside an executor: take() and WaitSet
# use what its own wait_for_message() uses.


def take(subscription: Subscription) -> tuple[Any, dict[str, Any]] | None:
    """Return the oldest waiting message and its metadata; None if there is none.

    The message is ``bytes`` if the subscription was created with ``raw=True``.
    """
    return subscription.handle.take_message(subscription.msg_type, subscription.raw)


class WaitSet:
    """Wait of one thread for any of several :class:`Newest` subscriptions."""

    def __init__(self, node: Node, *subscriptions: Newest) -> None:
        self._handles = [one.handle for s in subscriptions for one in s.subscriptions]
        self._set = rclpy_implementation.WaitSet(len(self._handles), 0, 0, 0, 0, 0, node.context.handle)

    def wait(self, timeout: float) -> bool:
        """Return True as soon as a message is there, False after ``timeout`` [s]."""
        self._set.clear_entities()
        for handle in self._handles:
            self._set.add_subscription(handle)
        self._set.wait(max(0, int(timeout * NANOSECONDS)))
        return bool(self._set.get_ready_entities("subscription"))


def owned_subscription(
    node: Node, msg_type: type, topic: str, qos: QoSProfile, *, raw: bool = False
) -> Subscription:
    """Return a subscription whose owner calls :func:`take`; no executor handles it or its events."""
    return node.create_subscription(msg_type, topic, _unreachable, qos, callback_group=_Owned(), raw=raw)


class _Owned(CallbackGroup):
    """Callback group that no executor may execute.

    An executor that waits for an event of a subscription also wakes while a message lies there, and
    would never sleep.
    """

    def can_execute(self, entity: Any) -> bool:
        return False


def _unreachable(message: Any) -> None:
    raise AssertionError("an executor took a message that belongs to the node's own thread")


class Newest(Generic[T]):
    """A subscription of which the newest messages are decoded on request.

    With the quality of service :data:`LATCHED` it holds two subscriptions: a transient-local one for
    messages published earlier, and a volatile one for publishers that keep none, such as
    `ros2 topic pub`. A message that arrives on both counts once.

    Args:
        decode: converts a message to the value that :meth:`take` returns, or raises
            :class:`BadMessage`.
        raw: give ``decode`` the bytes of the message, such as :meth:`Kept.of`.
        dropped: called with (topic, reason) for every message that ``decode`` rejected.
    """

    def __init__(
        self,
        node: Node,
        msg_type: type,
        topic: str,
        qos: QoSProfile,
        decode: Callable[[Any], T],
        dropped: Callable[[str, str], None],
        raw: bool = False,
    ) -> None:
        self.topic = topic
        self._decode, self._dropped, self._msg_type = decode, dropped, msg_type
        self.heard = -math.inf
        """Time of the last good message on the clock of time.monotonic() [s]."""
        self.asked = [qos]
        if qos.durability == DurabilityPolicy.TRANSIENT_LOCAL:
            self.asked.append(QoSProfile(depth=qos.depth, reliability=qos.reliability))
        self.subscriptions = [owned_subscription(node, msg_type, topic, one, raw=raw) for one in self.asked]
        self._taken: dict[bytes, int] = {}
        """Source time stamp of the newest message by publisher; only with two subscriptions."""

    @property
    def type_name(self) -> str:
        """Message type as ``package/msg/Type``."""
        package, *_ = self._msg_type.__module__.partition(".")
        return f"{package}/msg/{self._msg_type.__name__}"

    def take(self) -> T | None:
        """Return the newest good message since the last call, or None."""
        return next(reversed(self.take_all()), None)

    def take_all(self) -> list[T]:
        """Return every good message since the last call that the middleware still holds, the newest
        last."""
        values = []
        for message, _ in self.take_raw():
            try:
                values.append(self._decode(message))
            except BadMessage as reason:
                self._dropped(self.topic, str(reason))
        if values:
            self.heard = time.monotonic()
        return values

    def take_raw(self) -> list[tuple[Any, dict[str, Any]]]:
        """Return messages without decoding, each with its metadata."""
        taken = [
            one for subscription in self.subscriptions for one in iter(lambda s=subscription: take(s), None)
        ]
        if len(self.subscriptions) == 1:
            return taken
        return [
            one for one in sorted(taken, key=lambda x: x[1]["received_timestamp"]) if self._is_new(one[1])
        ]

    def _is_new(self, info: dict[str, Any]) -> bool:
        publisher = info.get("publisher_gid", {}).get("data", b"")
        new = info["source_timestamp"] > self._taken.get(publisher, 0)
        if new:
            self._taken[publisher] = info["source_timestamp"]
        return new


class Kept(NamedTuple):
    """A message that begins with a header, not decoded yet: of a fast stream only the samples next to
    a time are needed, and decoding takes five times as long as taking the bytes."""

    t: float
    """Stamp [s]."""
    data: bytes
    """The message in CDR, as DDS carries it."""

    @classmethod
    def of(cls, data: bytes) -> Kept:
        """Read the stamp, the first field behind the four bytes of encapsulation.

        Raises:
            BadMessage: the message is too short for a stamp.
        """
        if len(data) < 12:
            raise BadMessage(f"{len(data)} bytes, a header expected")
        seconds, nanoseconds = struct.unpack_from("<iI" if data[1] & 1 else ">iI", data, 4)
        return cls(seconds + nanoseconds / NANOSECONDS, data)

    def message(self, msg_type: type[M]) -> M:
        """Return the message."""
        return deserialize_message(self.data, msg_type)


# --- time ----------------------------------------------------------------------------------------


def seconds(stamp: Any) -> float:
    """Return a stamp in seconds."""
    return stamp.sec + 1e-9 * stamp.nanosec


def set_stamp(stamp: Any, t: float) -> int:
    """Write ``t`` [s] into a stamp and return it in nanoseconds."""
    total = round(t * NANOSECONDS)
    stamp.sec, stamp.nanosec = divmod(total, NANOSECONDS)
    return total


# --- services ------------------------------------------------------------------------------------


def answered(response: Trigger.Response, success: bool, why_not: str) -> Trigger.Response:
    """Return the response of a service; ``why_not`` is its message without success."""
    response.success, response.message = success, "" if success else why_not
    return response


# --- joints --------------------------------------------------------------------------------------


class JointReader:
    """Decoder of one field of a JointState into the hand's joint order.

    Args:
        names: the hand's joint names.
        field: ``position``, ``velocity`` or ``effort``.
        finite: reject messages with a non-finite entry.
        aliases: other names of joints, with the hand's.
    """

    def __init__(
        self,
        names: Sequence[str],
        field: str,
        *,
        finite: bool = True,
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        self._names = list(names)
        self._aliases = aliases or {}
        self._field = field
        self._finite = finite
        self._seen: list[str] | None = self._names
        self._order: np.ndarray | None = None

    def __call__(self, message: JointState) -> JointSample:
        data = getattr(message, self._field)
        if message.name != self._seen:
            self._learn_order(list(message.name))
        if len(data) != len(self._names):
            raise BadMessage(f"{len(data)} entries in '{self._field}', {len(self._names)} expected")
        values = np.array(data)
        if self._finite and not np.isfinite(values).all():
            raise BadMessage(f"a non-finite entry in '{self._field}'")
        return JointSample(
            seconds(message.header.stamp),
            values if self._order is None else values[self._order],
            is_limp(message.effort),
        )

    def _learn_order(self, names: list[str]) -> None:
        own = [self._aliases.get(name, name) for name in names]
        place = {name: i for i, name in enumerate(own)}
        for name in own:
            if name not in self._names:
                raise BadMessage(f"unknown joint '{name[:40]}'")
        if len(place) != len(names) or len(names) != len(self._names):
            raise BadMessage(f"{len(names)} joint names, each of the hand's {len(self._names)} expected once")
        self._seen = names
        self._order = None if own == self._names else np.array([place[name] for name in self._names])


class JointWriter:
    """A JointState whose ``fields`` are arrays (N,) that share the message's memory.

    Args:
        sender: name of the publishing node, in ``header.frame_id``.
    """

    def __init__(self, names: Sequence[str], *fields: str, sender: str = "") -> None:
        self.message = JointState()
        self.message.header.frame_id = sender
        self.message.name = list(names)
        for field in fields:
            data = array("d", bytes(8 * len(names)))
            setattr(self.message, field, data)
            setattr(self, field, np.frombuffer(getattr(self.message, field)))

    position: np.ndarray
    velocity: np.ndarray
    effort: np.ndarray

    def at(self, t: float) -> JointState:
        """Return the message, stamped ``t`` [s]."""
        set_stamp(self.message.header.stamp, t)
        return self.message


# --- poses ---------------------------------------------------------------------------------------


def check_frame(message: Any) -> None:
    """Reject a message whose frame is neither the world nor empty."""
    if message.header.frame_id not in (WORLD, ""):
        raise BadMessage(f"frame '{message.header.frame_id[:40]}', '{WORLD}' expected")


def read_pose(message: PoseStamped | PoseWithCovarianceStamped) -> PoseSample:
    """Return a pose in the world frame with a unit quaternion."""
    check_frame(message)
    return read_any_pose(message)


def read_any_pose(message: PoseStamped | PoseWithCovarianceStamped) -> PoseSample:
    """Return a pose in the frame of its message with a unit quaternion."""
    pose = message.pose if isinstance(message, PoseStamped) else message.pose.pose
    p, q = pose.position, pose.orientation
    values = np.array([p.x, p.y, p.z, q.w, q.x, q.y, q.z])
    if not np.isfinite(values).all():
        raise BadMessage("a non-finite entry in the pose")
    norm = float(np.linalg.norm(values[3:]))
    if not 0.9 < norm < 1.1:
        raise BadMessage(f"a quaternion of length {norm:.3g}")
    values[3:] /= norm
    spread = (0.0, 0.0) if isinstance(message, PoseStamped) else _spread(message.pose.covariance)
    return PoseSample(seconds(message.header.stamp), values, spread)


def _spread(covariance: Any) -> tuple[float, float]:
    """Return the largest standard deviations of position [m] and rotation [rad]; infinite if the
    covariance is not finite."""
    P = np.reshape(covariance, (6, 6))
    if not P.any():
        return 0.0, 0.0
    if not np.isfinite(P).all():
        return np.inf, np.inf
    return largest_deviations(P)


def fill_pose(pose: Any, values: ArrayLike) -> None:
    """Write position and quaternion wxyz (7,) into a geometry_msgs Pose."""
    p, q = pose.position, pose.orientation
    p.x, p.y, p.z, q.w, q.x, q.y, q.z = (float(v) for v in values)


# --- contacts ------------------------------------------------------------------------------------

_CONTACT = {name: "<f4" for name in ("x", "y", "z", "nx", "ny", "nz", "distance")} | {"link": "<i4"}
"""Names and numpy types of the fields of a contact cloud."""
_CONTACT_TYPE = np.dtype(list(_CONTACT.items()))
_DATATYPES = {"<f4": PointField.FLOAT32, "<i4": PointField.INT32}
_CONTACT_FIELDS = [
    PointField(name=name, offset=4 * i, datatype=_DATATYPES[kind], count=1)
    for i, (name, kind) in enumerate(_CONTACT.items())
]


def contacts_message(
    t: float, p_W: np.ndarray, nhat_W: np.ndarray, phi: np.ndarray, link: np.ndarray
) -> PointCloud2:
    """Return n contacts as a cloud with the fields x y z nx ny nz distance link."""
    points = np.empty(len(phi), _CONTACT_TYPE)
    for i, axis in enumerate("xyz"):
        points[axis], points["n" + axis] = p_W[:, i], nhat_W[:, i]
    points["distance"], points["link"] = phi, link
    message = PointCloud2(
        fields=_CONTACT_FIELDS, height=1, width=len(points), point_step=_CONTACT_TYPE.itemsize, is_dense=True
    )
    message.header.frame_id = WORLD
    message.row_step = points.nbytes
    message.data = array("B", points.tobytes())
    set_stamp(message.header.stamp, t)
    return message


def read_contacts(message: PointCloud2) -> ContactSample:
    """Return the arrays of a contact cloud; further fields and any field order are allowed."""
    check_frame(message)
    offsets = {f.name: f.offset for f in message.fields if f.datatype == _DATATYPES.get(_CONTACT.get(f.name))}
    for name, kind in _CONTACT.items():
        if name not in offsets:
            raise BadMessage(f"no field '{name}' of type {'INT32' if kind == '<i4' else 'FLOAT32'}")
    count = message.width * message.height
    if (
        message.is_bigendian
        or max(offsets.values()) + 4 > message.point_step
        or count * message.point_step != len(message.data)
    ):
        raise BadMessage(f"{len(message.data)} bytes for {count} points of {message.point_step} bytes")
    layout = np.dtype(
        {
            "names": list(_CONTACT),
            "formats": list(_CONTACT.values()),
            "offsets": [offsets[name] for name in _CONTACT],
            "itemsize": message.point_step,
        }
    )
    points = np.frombuffer(message.data, layout, count) if count else np.empty(0, layout)
    p_W = np.stack([points["x"], points["y"], points["z"]], axis=1)
    nhat_W = np.stack([points["nx"], points["ny"], points["nz"]], axis=1)
    phi, link = points["distance"].copy(), points["link"].copy()
    if not (np.isfinite(p_W).all() and np.isfinite(nhat_W).all() and np.isfinite(phi).all()):
        raise BadMessage("a non-finite entry in the contacts")
    return ContactSample(seconds(message.header.stamp), p_W, nhat_W, phi, link)
