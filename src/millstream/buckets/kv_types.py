"""The types of key-value buckets, and their form in a stream.

stream    KV_<bucket>
subjects  $KV.<bucket>.<key>                       a key may have dots, so it may have several tokens
deletion  an empty message with ``KV-KvOperation: DEL``, or ``PURGE`` if older revisions went, too
marker    ``Nats-Marker-Reason``: the server removed the key, because of its age for example
revision  the sequence of the message
"""

import re
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec

from millstream.buckets.errors import BadBucket, BadKey
from millstream.golang.time import Time
from millstream.jsapi import headers as wire
from millstream.jsapi.enums import StorageType, StoreCompression
from millstream.link.listing import ListedStream
from millstream.link.stored import Stored
from millstream.protocol.headers import Pairs

STREAM_PREFIX: Final = "KV_"
MOST_HISTORY: Final = 64
_SECOND: Final = 1_000_000_000
_DUPLICATE_WINDOW_S: Final = 120
_BUCKET: Final = re.compile(r"[A-Za-z0-9_-]{1,251}")
_KEY: Final = re.compile(r"[-/_=A-Za-z0-9]+(?:\.[-/_=A-Za-z0-9]+)*")
_PATTERN: Final = re.compile(r"(?:[-/_=A-Za-z0-9]+|\*)(?:\.(?:[-/_=A-Za-z0-9]+|\*))*(?:\.>)?|>")
_LONGEST_KEY: Final = 1024


Seconds = Annotated[float, msgspec.Meta(ge=0, le=9e9, description="seconds")]


class KvOperation(StrEnum):
    """The operation of a revision."""

    PUT = "put"
    DELETE = "delete"
    PURGE = "purge"


class KvEntry(msgspec.Struct, frozen=True):
    """One revision of a key."""

    key: str
    value: bytes
    revision: int
    created: Time
    operation: KvOperation = KvOperation.PUT
    headers: Pairs = []
    size: int = 0  # of the value, even if the value was not requested
    pending: int = 0  # revisions that were left for the watch after this one

    @property
    def exists(self) -> bool:
        """Return whether the key has a value at this revision."""
        return self.operation is KvOperation.PUT


class KvConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The configuration of a bucket."""

    bucket: str
    description: str = ""
    history: Annotated[int, msgspec.Meta(ge=1, le=MOST_HISTORY)] = 1
    ttl_s: Seconds = msgspec.field(name="ttl", default=0.0)  # of all keys; 0: no limit
    marker_ttl_s: Seconds = msgspec.field(name="marker_ttl", default=0.0)  # of markers of removed keys
    max_value_size: Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)] = -1
    max_bytes: Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)] = -1
    storage: StorageType = StorageType.FILE
    replicas: Annotated[int, msgspec.Meta(ge=1, le=5)] = 1
    compression: bool = False
    metadata: dict[str, str] = {}

    def stream(self) -> dict[str, Any]:
        """Return the configuration of the bucket's stream; raises BadBucket for an invalid name."""
        name = check_bucket(self.bucket)
        window_s = min(self.ttl_s or _DUPLICATE_WINDOW_S, _DUPLICATE_WINDOW_S)
        config: dict[str, Any] = {
            "name": f"{STREAM_PREFIX}{name}",
            "subjects": [f"$KV.{name}.>"],
            "max_msgs_per_subject": self.history,
            "max_msgs": -1,
            "max_consumers": -1,
            "max_bytes": self.max_bytes or -1,
            "max_msg_size": self.max_value_size or -1,
            "max_age": nanoseconds(self.ttl_s),
            "duplicate_window": nanoseconds(window_s),
            "storage": self.storage,
            "num_replicas": self.replicas,
            "discard": "new",
            "allow_rollup_hdrs": True,
            "deny_delete": True,
            "allow_direct": True,
            "allow_msg_ttl": True,
            "compression": StoreCompression.S2 if self.compression else StoreCompression.NONE,
        }
        if self.description:
            config["description"] = self.description
        if self.marker_ttl_s:
            config["subject_delete_marker_ttl"] = nanoseconds(self.marker_ttl_s)
        if self.metadata:
            config["metadata"] = self.metadata
        return config


class BucketStatus(msgspec.Struct, frozen=True):
    """The configuration and size of a bucket."""

    bucket: str
    stream: str
    values: int  # revisions, those of deleted keys included
    bytes: int
    history: int
    ttl_s: float = msgspec.field(name="ttl")
    marker_ttl_s: float = msgspec.field(name="marker_ttl")
    key_ttl: bool  # keys may have a time to live of their own
    storage: StorageType
    replicas: int
    max_bytes: int
    max_value_size: int
    sealed: bool
    last_revision: int
    created: str
    description: str = ""
    mirror_of: str = ""
    metadata: dict[str, str] = {}


def status_of(info: ListedStream) -> BucketStatus:
    """Return the status of a bucket from the info of its stream."""
    config, state = info.config, info.state
    return BucketStatus(
        bucket=config.name.removeprefix(STREAM_PREFIX),
        stream=config.name,
        values=state.messages,
        bytes=state.bytes,
        history=max(config.max_msgs_per_subject, 1),
        ttl_s=config.max_age / _SECOND,
        marker_ttl_s=config.subject_delete_marker_ttl / _SECOND,
        key_ttl=config.allow_msg_ttl,
        storage=StorageType(config.storage),
        replicas=config.num_replicas,
        max_bytes=config.max_bytes,
        max_value_size=config.max_msg_size or -1,
        sealed=config.sealed,
        last_revision=state.last_seq,
        created=info.created,
        description=config.description,
        mirror_of=config.mirror.name.removeprefix(STREAM_PREFIX) if config.mirror is not None else "",
        metadata={
            key: value for key, value in (config.metadata or {}).items() if not key.startswith("_nats.")
        },
    )


def entry_of(stored: Stored, prefix: str, pending: int = 0) -> KvEntry:
    """Return the entry for a message of the bucket's stream; `prefix` precedes the key in its subject."""
    size = stored.header(wire.MSG_SIZE)
    return KvEntry(
        stored.subject[len(prefix) :],
        stored.payload,
        stored.seq,
        stored.time,
        operation_of(stored),
        [pair for pair in stored.pairs if pair[0] != wire.MSG_SIZE],
        int(size) if size.isascii() and size.isdigit() and len(size) < 20 else len(stored.payload),
        pending,
    )


def operation_of(stored: Stored) -> KvOperation:
    """Return the operation of a message."""
    match stored.header(wire.KV_OPERATION):
        case wire.KV_OPERATION_DELETE:
            return KvOperation.DELETE
        case wire.KV_OPERATION_PURGE:
            return KvOperation.PURGE
    match stored.header(wire.MARKER_REASON):
        case "":
            return KvOperation.PUT
        case wire.MARKER_REASON_REMOVE:
            return KvOperation.DELETE
    return KvOperation.PURGE


def check_bucket(name: str) -> str:
    """Return `name`; raises BadBucket if a bucket cannot have it."""
    if _BUCKET.fullmatch(name) is None:
        raise BadBucket(f"{name[:256]!r} is no name of a bucket: letters, digits, `-` and `_` are taken")
    return name


def check_key(key: str) -> str:
    """Return `key`; raises BadKey if it is invalid."""
    if _KEY.fullmatch(key) is None or len(key) > _LONGEST_KEY:
        raise BadKey(
            f"{key[:256]!r} is no key: at most {_LONGEST_KEY} letters, digits, `-/_=`, and `.` between them"
        )
    return key


def check_pattern(pattern: str) -> str:
    """Return `pattern`, a key with `*` for tokens and `>` at its end; raises BadKey if it is invalid."""
    if _PATTERN.fullmatch(pattern) is None or len(pattern) > _LONGEST_KEY:
        raise BadKey(f"{pattern[:256]!r} is no pattern of keys")
    return pattern


def nanoseconds(seconds: float) -> int:
    """Return a duration in nanoseconds, JetStream's unit."""
    return round(seconds * _SECOND)
