"""What goes over the wire: messages to numpy and back, quality of service, and subscriptions that a
node's own thread takes from.

A :class:`Newest` subscription keeps the newest message inside the middleware and is never seen by
an executor, so a message nobody asks for is not even deserialised, and one that is asked for costs
no executor turn (a quarter of the processor time at 333 Hz). Decoders check everything that could
harm what follows and raise :class:`BadMessage` with one clause that says what is wrong.
"""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from numpy.typing import ArrayLike
from rclpy.callback_groups import CallbackGroup
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.subscription import Subscription
from sensor_msgs.msg import JointState, PointCloud2, PointField

from dexstack.process.history import JointSample, is_limp

T = TypeVar("T")

SENSOR = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
SERVO = QoSProfile(depth=4, reliability=ReliabilityPolicy.BEST_EFFORT)
"""For feedback and torque: deeper, so that a stray message cannot push out the one that is waited
for."""
RECENT = QoSProfile(depth=200, reliability=ReliabilityPolicy.BEST_EFFORT)
"""For readers that need every sample of the last moment, not only the newest."""
COMMAND = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
STATE = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
"""For joint_states, which others than dexstack's nodes read too: a reliable writer is heard by
readers of either kind."""
LATCHED = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)
STATIC = QoSProfile(
    depth=100, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)
"""For readers of a latched topic that many nodes write (``/tf_static``)."""
REPORTS = QoSProfile(depth=50, reliability=ReliabilityPolicy.RELIABLE)
"""For topics that several nodes write at a low rate (``/diagnostics``)."""

WORLD = "world"
NANOSECONDS = 1_000_000_000


class BadMessage(ValueError):
    """A message that must not be used; the text says why."""


class PoseSample(NamedTuple):
    """A pose (x, y, z [m], quaternion wxyz of unit length) in the world frame."""

    t: float
    pose: np.ndarray
    spread: tuple[float, float] = (0.0, 0.0)
    """Largest standard deviations of position [m] and rotation [rad]; zero where nothing is said of
    them."""


class ContactSample(NamedTuple):
    """The arrays of a contact set (see :class:`dexstack.contact.contact.Contacts`), as many as were
    sent."""

    t: float
    p_W: np.ndarray
    nhat_W: np.ndarray
    phi: np.ndarray
    link: np.ndarray


# --- taking messages --------------------------------------------------------------------------------------------------------------


class TakenByOwner(CallbackGroup):
    """Keeps an executor away from a subscription whose owner takes the messages itself, and from
    its events.

    An executor that waits for an event of a subscription wakes as long as a message lies there too,
    and so never sleeps.
    """

    def can_execute(self, entity: Any) -> bool:
        return False


class Newest(Generic[T]):
    """A subscription of which only the newest messages matter, decoded when asked for.

    A topic that is read with :data:`LATCHED` has two: one gets what was published before, but only
    from publishers that keep it; the other hears those too that keep nothing, as `ros2 topic pub`.
    What comes over both counts once.

    Args:
        decode: turns a message into the value that :meth:`take` returns, or raises
            :class:`BadMessage`.
        dropped: called with (topic, reason) for every message that ``decode`` refused.
    """

    def __init__(
        self,
        node: Node,
        msg_type: type,
        topic: str,
        qos: QoSProfile,
        decode: Callable[[Any], T],
        dropped: Callable[[str, str], None],
    ) -> None:
        self.topic = topic
        self._decode = decode
        self._dropped = dropped
        self._msg_type = msg_type

        self.heard = -math.inf
        """When something good was taken last, on the clock of time.monotonic() [s]."""
        self.asked = [qos]
        if qos.durability == DurabilityPolicy.TRANSIENT_LOCAL:
            self.asked.append(QoSProfile(depth=qos.depth, reliability=qos.reliability))
        self.subscriptions: list[Subscription] = [
            node.create_subscription(msg_type, topic, unreachable, one, callback_group=TakenByOwner())
            for one in self.asked
        ]
        self._taken: dict[bytes, int] = {}
        """Source time stamp of the newest message by publisher, where there are two
        subscriptions."""

    @property
    def type_name(self) -> str:
        """As the graph calls the type of its messages."""
        package, *_ = self._msg_type.__module__.partition(".")
        return f"{package}/msg/{self._msg_type.__name__}"

    def take(self) -> T | None:
        """The newest good message since the last call, or None."""
        return next(reversed(self.take_all()), None)

    def take_all(self) -> list[T]:
        """Every good message since the last call that the middleware still has, the newest last."""
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
        """Messages as they came, with what the middleware knows of them."""
        taken = []
        for subscription in self.subscriptions:
            while (one := subscription.handle.take_message(self._msg_type, False)) is not None:
                taken.append(one)
        return (
            taken
            if len(self.subscriptions) == 1
            else [one for one in sorted(taken, key=_arrival) if self._is_new(one[1])]
        )

    def _is_new(self, info: dict[str, Any]) -> bool:
        publisher = info.get("publisher_gid", {}).get("data", b"")
        new = info["source_timestamp"] > self._taken.get(publisher, 0)
        if new:
            self._taken[publisher] = info["source_timestamp"]
        return new


def _arrival(taken: tuple[Any, dict[str, Any]]) -> int:
    return taken[1]["received_timestamp"]


def unreachable(message: Any) -> None:
    raise AssertionError("an executor took a message that belongs to the node's own thread")


class WaitSet:
    """Sleeps until one of a few :class:`Newest` has a message; for one thread."""

    def __init__(self, node: Node, *subscriptions: Newest) -> None:
        self._handles = [one.handle for s in subscriptions for one in s.subscriptions]
        self._set = rclpy_implementation.WaitSet(len(self._handles), 0, 0, 0, 0, 0, node.context.handle)

    def wait(self, timeout: float) -> bool:
        """True as soon as a message is there, False after ``timeout`` [s]."""
        self._set.clear_entities()
        for handle in self._handles:
            self._set.add_subscription(handle)
        self._set.wait(max(0, int(timeout * NANOSECONDS)))
        return bool(self._set.get_ready_entities("subscription"))


# --- time -------------------------------------------------------------------------------------------------------------------------


def seconds(stamp: Any) -> float:
    """A stamp in seconds."""
    return stamp.sec + 1e-9 * stamp.nanosec


def set_stamp(stamp: Any, t: float) -> int:
    """Write ``t`` [s] into a stamp; returns it in nanoseconds."""
    total = round(t * NANOSECONDS)
    stamp.sec, stamp.nanosec = divmod(total, NANOSECONDS)
    return total


def stamp_nanoseconds(stamp: Any) -> int:
    """A stamp in nanoseconds."""
    return stamp.sec * NANOSECONDS + stamp.nanosec


# --- joints -----------------------------------------------------------------------------------------------------------------------


class JointReader:
    """Decodes one field of a JointState into the hand's joint order, whatever order the sender
    uses.

    Args:
        names: the hand's joint names.
        field: ``position``, ``velocity`` or ``effort``.
        finite: refuse messages with a non-finite entry.
    """

    def __init__(self, names: Sequence[str], field: str, *, finite: bool = True) -> None:
        self._names = list(names)
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
        place = {name: i for i, name in enumerate(names)}
        for name in names:
            if name not in self._names:
                raise BadMessage(f"unknown joint '{name[:40]}'")
        if len(place) != len(names) or len(names) != len(self._names):
            raise BadMessage(f"{len(names)} joint names, each of the hand's {len(self._names)} expected once")
        self._seen = names
        self._order = None if names == self._names else np.array([place[name] for name in self._names])


class JointWriter:
    """A JointState that is filled in place: ``fields`` are arrays (N,) that share the message's
    memory."""

    def __init__(self, names: Sequence[str], *fields: str) -> None:
        self.message = JointState()
        self.message.name = list(names)
        for field in fields:
            data = array("d", bytes(8 * len(names)))
            setattr(self.message, field, data)
            setattr(self, field, np.frombuffer(getattr(self.message, field)))

    position: np.ndarray
    velocity: np.ndarray
    effort: np.ndarray

    def at(self, t: float) -> JointState:
        """The message, stamped ``t`` [s]."""
        set_stamp(self.message.header.stamp, t)
        return self.message


# --- poses ------------------------------------------------------------------------------------------------------------------------


def read_pose(message: PoseStamped | PoseWithCovarianceStamped) -> PoseSample:
    """Pose with respect to the world, the quaternion normalised."""
    if message.header.frame_id not in (WORLD, ""):
        raise BadMessage(f"frame '{message.header.frame_id[:40]}', '{WORLD}' expected")
    pose = message.pose if isinstance(message, PoseStamped) else message.pose.pose
    p, q = pose.position, pose.orientation
    values = np.array([p.x, p.y, p.z, q.w, q.x, q.y, q.z])
    if not np.isfinite(values).all():
        raise BadMessage("a non-finite entry in the pose")
    norm = float(np.linalg.norm(values[3:]))
    if not 0.9 < norm < 1.1:
        raise BadMessage(f"a quaternion of length {norm:.3g}")
    values[3:] /= norm
    t = seconds(message.header.stamp)
    return (
        PoseSample(t, values)
        if isinstance(message, PoseStamped)
        else PoseSample(t, values, _spread(message.pose.covariance))
    )


def _spread(covariance: Any) -> tuple[float, float]:
    """Largest standard deviations of position [m] and rotation [rad]; what is no covariance counts
    as unknown: infinite."""
    P = np.reshape(covariance, (6, 6))
    if not P.any():
        return 0.0, 0.0
    if not np.isfinite(P).all():
        return np.inf, np.inf
    linear, angular = (
        float(np.sqrt(max(np.linalg.eigvalsh(P[k : k + 3, k : k + 3])[-1], 0.0))) for k in (0, 3)
    )
    return linear, angular


def fill_pose(pose: Any, values: ArrayLike) -> None:
    """Write (x, y, z, w, x, y, z) into a geometry_msgs Pose."""
    p, q = pose.position, pose.orientation
    p.x, p.y, p.z, q.w, q.x, q.y, q.z = (float(v) for v in values)


# --- contacts ---------------------------------------------------------------------------------------------------------------------

_CONTACT = np.dtype(
    [(name, "<f4") for name in ("x", "y", "z", "nx", "ny", "nz", "distance")] + [("link", "<i4")]
)
_CONTACT_FIELDS = [
    PointField(
        name=name, offset=offset, datatype=PointField.INT32 if name == "link" else PointField.FLOAT32, count=1
    )
    for name, (_, offset) in _CONTACT.fields.items()  # type: ignore[union-attr]
]


def contacts_message(
    t: float, p_W: np.ndarray, nhat_W: np.ndarray, phi: np.ndarray, link: np.ndarray
) -> PointCloud2:
    """Contacts (n of them) as a cloud with the fields x y z nx ny nz distance link."""
    points = np.empty(len(phi), _CONTACT)
    for i, axis in enumerate("xyz"):
        points[axis], points["n" + axis] = p_W[:, i], nhat_W[:, i]
    points["distance"], points["link"] = phi, link
    message = PointCloud2(
        fields=_CONTACT_FIELDS, height=1, width=len(points), point_step=_CONTACT.itemsize, is_dense=True
    )
    message.header.frame_id = WORLD
    message.row_step = points.nbytes
    message.data = array("B", points.tobytes())
    set_stamp(message.header.stamp, t)
    return message


def read_contacts(message: PointCloud2) -> ContactSample:
    """The arrays of a contact cloud; other fields and any field order are allowed, other types are
    not."""
    if message.header.frame_id not in (WORLD, ""):
        raise BadMessage(f"frame '{message.header.frame_id[:40]}', '{WORLD}' expected")
    offsets = {
        f.name: f.offset
        for f in message.fields
        if f.datatype == (PointField.INT32 if f.name == "link" else PointField.FLOAT32)
    }
    missing = [name for name in _CONTACT.names if name not in offsets]  # type: ignore[union-attr]
    if missing:
        raise BadMessage(f"no field '{missing[0]}' of type {'INT32' if missing[0] == 'link' else 'FLOAT32'}")
    count = message.width * message.height
    if (
        message.is_bigendian
        or max(offsets.values()) + 4 > message.point_step
        or count * message.point_step != len(message.data)
    ):
        raise BadMessage(f"{len(message.data)} bytes for {count} points of {message.point_step} bytes")
    names = _CONTACT.names
    layout = np.dtype(
        {
            "names": names,
            "formats": [_CONTACT[name] for name in names],  # type: ignore[union-attr]
            "offsets": [offsets[name] for name in names],  # type: ignore[union-attr]
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
