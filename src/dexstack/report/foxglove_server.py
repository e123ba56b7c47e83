"""What the Foxglove application connects to: topics as bytes, frames, services, and goals that it
publishes.

Foxglove's protocol asks nobody who they are; what a connected person may do is what the server is
given.
"""

from __future__ import annotations

import itertools
import queue
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import foxglove
from foxglove.channels import FrameTransformsChannel
from foxglove.messages import FrameTransform, FrameTransforms, Quaternion, Timestamp, Vector3
from foxglove.websocket import Capability, MessageSchema, ServerListener, Service, ServiceSchema

from dexstack.errors import ConfigError
from dexstack.model.frames import Frame

PORTS = 20
"""How many ports are tried, from the one asked for on."""
FRAMES = "/tf"


class FoxgloveServer:
    """Listens until it is closed. Its own threads call what it is given.

    Args:
        address: host and first port; the next free port is taken.
        triggers: services without arguments, by name: each returns its response as CDR, or raises
            with the reason.
        published: topics that those who are connected may publish on: each is given a message as
            CDR.

    Raises:
        ConfigError: no port is free, or the address is not this machine's.
    """

    def __init__(
        self,
        address: tuple[str, int],
        triggers: Mapping[str, Callable[[], bytes]],
        published: Mapping[str, Callable[[bytes], None]],
    ) -> None:
        self._context = foxglove.Context()
        self._channels: dict[str, foxglove.Channel] = {}
        self._frames: FrameTransformsChannel | None = None
        self._listener = _Listener(published)
        services = [
            Service(name, schema=_TRIGGER, handler=lambda _, call=call: call())
            for name, call in triggers.items()
        ]
        capabilities = [
            Capability.Services,
            Capability.Time,
            *([Capability.ClientPublish] if published else []),
        ]
        self._server = self._listen(address, capabilities, services)
        self.url = f"ws://{address[0]}:{self._server.port}"

    def offer(self, topic: str, type_name: str, definition: str) -> None:
        """Let people see that there is a topic: ROS messages as CDR, and what tells of their
        type."""
        schema = foxglove.Schema(name=type_name, encoding="ros2msg", data=definition.encode())
        self._channels[topic] = foxglove.Channel(
            topic, schema=schema, message_encoding="cdr", context=self._context
        )

    def changes(self) -> dict[str, bool]:
        """Offered topics that somebody began to look at, or all ceased to, since the last call:
        whether anybody does now."""
        return {
            topic: looked_at
            for topic, looked_at in self._listener.changes().items()
            if topic in self._channels
        }

    def send(self, topic: str, data: bytes, time_ns: int) -> None:
        """One message of an offered topic."""
        self._channels[topic].log(data, log_time=time_ns)

    def send_time(self, time_ns: int) -> None:
        """What the time is, where it is not the system's."""
        self._server.broadcast_time(time_ns)

    @property
    def wants_frames(self) -> bool:
        """Whether anybody looks at frames; from the first time that this is asked on, they are
        offered."""
        if self._frames is None:
            self._frames = FrameTransformsChannel(FRAMES, context=self._context)
        return self._frames.has_sinks()

    def send_frames(self, t: float, frames: Sequence[Frame]) -> None:
        """Poses of frames in their parents at time ``t`` [s], in Foxglove's own type."""
        if self.wants_frames and self._frames is not None:
            self._frames.log(
                FrameTransforms(transforms=[_transform(t, frame) for frame in frames]),
                log_time=round(1e9 * t),
            )

    def close(self) -> None:
        """Serve nobody any more."""
        self._server.stop()

    def _listen(
        self, address: tuple[str, int], capabilities: list[Capability], services: list[Service]
    ) -> foxglove.WebSocketServer:
        host, first = address
        for port in itertools.takewhile(lambda n: n < 65536, range(first, first + PORTS)):
            try:
                return foxglove.start_server(
                    name="dexstack",
                    host=host,
                    port=port,
                    capabilities=capabilities,
                    server_listener=self._listener,
                    supported_encodings=["cdr"],
                    services=services,
                    context=self._context,
                )
            except (RuntimeError, OSError) as error:
                reason = error
        raise ConfigError(f"no port of {host} from {first} on is free for Foxglove: {reason}")


class _Listener(ServerListener):
    """Called by the server's threads."""

    def __init__(self, published: Mapping[str, Callable[[bytes], None]]) -> None:
        self._published = {topic.lstrip("/"): publish for topic, publish in published.items()}
        self._channels: dict[tuple[int, int], Callable[[bytes], None]] = {}
        self._queue: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()
        self._watchers: dict[str, int] = {}

    def changes(self) -> dict[str, bool]:
        changed: set[str] = set()
        while not self._queue.empty():
            topic, change = self._queue.get()
            self._watchers[topic] = self._watchers.get(topic, 0) + change
            if change > 0 or not self._watchers[topic]:
                changed.add(topic)
        return {topic: self._watchers[topic] > 0 for topic in changed}

    def on_subscribe(self, client: Any, channel: Any) -> None:
        self._queue.put((channel.topic, 1))

    def on_unsubscribe(self, client: Any, channel: Any) -> None:
        self._queue.put((channel.topic, -1))

    def on_client_advertise(self, client: Any, channel: Any) -> None:
        publish = self._published.get(channel.topic.lstrip("/"))
        if publish is not None and channel.encoding == "cdr":
            self._channels[client.id, channel.id] = publish

    def on_client_unadvertise(self, client: Any, client_channel_id: int) -> None:
        self._channels.pop((client.id, client_channel_id), None)

    def on_message_data(self, client: Any, client_channel_id: int, data: bytes) -> None:
        publish = self._channels.get((client.id, client_channel_id))
        if publish is not None:
            publish(data)


def _transform(t: float, frame: Frame) -> FrameTransform:
    (x, y, z), (qw, qx, qy, qz) = map(float, frame.p), map(float, frame.quat)
    return FrameTransform(
        timestamp=Timestamp(sec=int(t), nsec=int(1e9 * (t % 1.0))),
        parent_frame_id=frame.parent,
        child_frame_id=frame.name,
        translation=Vector3(x=x, y=y, z=z),
        rotation=Quaternion(x=qx, y=qy, z=qz, w=qw),
    )


def _part(name: str, text: str) -> MessageSchema:
    return MessageSchema(
        encoding="cdr", schema=foxglove.Schema(name=name, encoding="ros2msg", data=text.encode())
    )


_TRIGGER = ServiceSchema(
    "std_srvs/srv/Trigger",
    request=_part("std_srvs/srv/Trigger_Request", "uint8 structure_needs_at_least_one_member"),
    response=_part("std_srvs/srv/Trigger_Response", "bool success\nstring message"),
)
