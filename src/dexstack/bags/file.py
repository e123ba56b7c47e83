"""MCAP files as `ros2 bag` and Foxglove read and write them, with messages as serialised bytes.

They are written in chunks of 64 KiB; a truncated file can be read up to its last complete chunk.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import zstandard
from mcap.exceptions import McapError
from mcap.records import Channel, Message, Schema
from mcap.stream_reader import CRCValidationError, StreamReader
from mcap.writer import Writer

from dexstack.errors import ConfigError, writing

PROFILE, SCHEMA, ENCODING = "ros2", "ros2msg", "cdr"
QOS_KEY = "offered_qos_profiles"
CHUNK = 64 * 1024
MAGIC, SQLITE = b"\x89MCAP0\r\n", b"SQLite format 3\0"
"""First bytes of an MCAP file, and of the older bags of `ros2 bag`."""


class Topic(NamedTuple):
    """One topic of a bag."""

    name: str
    type_name: str
    """``package/msg/Type``."""
    qos: str
    """Quality of service of its publishers, as YAML; empty if unknown."""
    definition: str
    """See :func:`~dexstack.bags.definitions.full_definition`."""


class Entry(NamedTuple):
    """One message."""

    topic: Topic
    t: int
    """Time of arrival at the recorder [ns]."""
    published: int
    """Time of sending [ns]."""
    data: bytes


class BagWriter:
    """Writer of one bag.

    Raises:
        ConfigError: the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        with writing(path):
            self._file = path.open("wb")
        self._writer = Writer(self._file, chunk_size=CHUNK)
        self._writer.start(profile=PROFILE, library="dexstack")
        self._channels: dict[str, int] = {}
        self._schemas: dict[str, int] = {}

    def add_topic(self, topic: Topic) -> None:
        """Add a topic, before its messages."""
        if (kind := topic.type_name) not in self._schemas:
            self._schemas[kind] = self._writer.register_schema(kind, SCHEMA, topic.definition.encode())
        self._channels[topic.name] = self._writer.register_channel(
            topic.name, ENCODING, self._schemas[kind], {QOS_KEY: topic.qos}
        )

    def add(self, topic: str, t: int, published: int, data: bytes) -> None:
        """Append a message of an added topic, with its times of arrival and sending [ns]."""
        self._writer.add_message(self._channels[topic], log_time=t, publish_time=published, data=data)

    def flush(self) -> None:
        """Flush the complete chunks to the system."""
        self._file.flush()

    def close(self) -> None:
        """Write the index, without which a bag can still be read, and close the file."""
        self._writer.finish()
        self._file.close()


class BagReader:
    """Reader of a bag, up to its end or to where it was truncated.

    Raises:
        ConfigError: the file cannot be read or is not an MCAP file.
    """

    def __init__(self, path: Path) -> None:
        """
        Args:
            path: an MCAP file, or a folder of `ros2 bag` with one.
        """
        self.path = path = _only_file(path) if path.is_dir() else path
        self.cut = False
        """True if the file is truncated or damaged; known after the last message."""
        try:
            with path.open("rb") as file:
                start = file.read(len(SQLITE))
        except OSError as error:
            raise ConfigError(f"cannot read the bag {path}: {error.strerror}") from None
        if not start.startswith(MAGIC):
            convert = ": convert it with `ros2 bag convert`" if start == SQLITE else ""
            raise ConfigError(f"{path} is not an MCAP file{convert}")

    def __iter__(self) -> Iterator[Entry]:
        schemas: dict[int, Any] = {}
        topics: dict[int, Topic] = {}
        self.cut = False
        with self.path.open("rb") as file:
            try:
                size = self.path.stat().st_size
                for record in StreamReader(file, validate_crcs=True, record_size_limit=size).records:
                    if isinstance(record, Schema):
                        schemas[record.id] = record
                    elif isinstance(record, Channel):
                        schema = schemas.get(record.schema_id)
                        if record.message_encoding == ENCODING and schema is not None:
                            qos, text = record.metadata.get(QOS_KEY, ""), schema.data.decode(errors="replace")
                            topics[record.id] = Topic(record.topic, schema.name, qos, text)
                    elif isinstance(record, Message) and record.channel_id in topics:
                        topic = topics[record.channel_id]
                        yield Entry(topic, record.log_time, record.publish_time, record.data)
            except (McapError, CRCValidationError, zstandard.ZstdError, EOFError, struct.error, ValueError):
                self.cut = True

    def counts(self) -> dict[str, int]:
        """Return the number of messages by topic."""
        return dict(Counter(entry.topic.name for entry in self))

    def topics(self) -> dict[str, Topic]:
        """Return the topics with messages, by name."""
        return {entry.topic.name: entry.topic for entry in self}


def is_bag(path: Path) -> bool:
    """Return whether a path names a bag: an MCAP or SQLite file, or a folder of `ros2 bag`."""
    return path.suffix in (".mcap", ".db3") or (path / "metadata.yaml").is_file()


def _only_file(folder: Path) -> Path:
    files = sorted(folder.glob("*.mcap")) or sorted(folder.glob("*.db3"))
    if len(files) != 1:
        raise ConfigError(f"the folder {folder} holds {len(files)} bags, expected 1; give the file")
    return files[0]
