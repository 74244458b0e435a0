"""The types of object stores, and the JSON description of an object.

stream    OBJ_<bucket>
chunks    $O.<bucket>.C.<nuid>                  the object's bytes, a message for each chunk
meta      $O.<bucket>.M.<base64url of the name> one message for each object, replaced when the object is
digest    SHA-256=<base64url>
"""

import base64
import binascii
import time
from typing import Annotated, Any, Final

import msgspec

from millstream.base.errors import UNREADABLE_JSON
from millstream.buckets.errors import BadKey, BucketError
from millstream.buckets.kv_types import Seconds, check_bucket, nanoseconds
from millstream.golang.time import format_time
from millstream.jsapi.enums import StorageType, StoreCompression
from millstream.link.listing import ListedStream
from millstream.link.stored import Stored

STREAM_PREFIX: Final = "OBJ_"
CHUNK_SIZE: Final = 128 * 1024
DIGEST_PREFIX: Final = "SHA-256="
_LONGEST_NAME: Final = 1024  # bytes; its base64 still fits into a subject
_SECOND: Final = 1_000_000_000


class ObjectLink(msgspec.Struct, frozen=True, omit_defaults=True):
    """The target of a link: an object of a bucket, or a whole bucket if `name` is empty."""

    bucket: str
    name: str = ""


class ObjectOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rarely used part of a description."""

    link: ObjectLink | None = None
    max_chunk_size: int = 0


class ObjectInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """The description of an object in its meta message; `mtime` is the time of that message."""

    name: str
    bucket: str
    nuid: str
    size: int = 0
    chunks: int = 0
    mtime: str = ""
    digest: str = ""
    deleted: bool = False
    description: str = ""
    headers: dict[str, list[str]] = {}
    metadata: dict[str, str] = {}
    options: ObjectOptions | None = None

    @property
    def link(self) -> ObjectLink | None:
        """Return the target of a link; None for an object with bytes."""
        return self.options.link if self.options is not None else None

    @property
    def max_chunk_size(self) -> int:
        """Return the size of every chunk but the last; 0 if the writer did not note it."""
        return self.options.max_chunk_size if self.options is not None else 0

    @property
    def sha256(self) -> bytes:
        """Return the digest; empty if the description has no readable one."""
        text = self.digest[len(DIGEST_PREFIX) :] if self.digest.upper().startswith(DIGEST_PREFIX) else ""
        try:
            return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except (binascii.Error, ValueError):
            return b""


class ObjectStoreConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The configuration of an object store."""

    bucket: str
    description: str = ""
    ttl_s: Seconds = msgspec.field(name="ttl", default=0.0)
    max_bytes: Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)] = -1
    storage: StorageType = StorageType.FILE
    replicas: Annotated[int, msgspec.Meta(ge=1, le=5)] = 1
    compression: bool = False
    metadata: dict[str, str] = {}

    def stream(self) -> dict[str, Any]:
        """Return the configuration of the store's stream; raises BadBucket for an invalid name."""
        name = check_bucket(self.bucket)
        config: dict[str, Any] = {
            "name": f"{STREAM_PREFIX}{name}",
            "subjects": [f"$O.{name}.C.>", f"$O.{name}.M.>"],
            "max_bytes": self.max_bytes or -1,
            "max_age": nanoseconds(self.ttl_s),
            "storage": self.storage,
            "num_replicas": self.replicas,
            "discard": "new",
            "allow_rollup_hdrs": True,
            "allow_direct": True,
            "compression": StoreCompression.S2 if self.compression else StoreCompression.NONE,
        }
        if self.description:
            config["description"] = self.description
        if self.metadata:
            config["metadata"] = self.metadata
        return config


class StoreStatus(msgspec.Struct, frozen=True):
    """The configuration and size of an object store."""

    bucket: str
    stream: str
    messages: int  # chunks and descriptions
    bytes: int
    ttl_s: float = msgspec.field(name="ttl")
    storage: StorageType
    replicas: int
    max_bytes: int
    sealed: bool
    created: str
    description: str = ""
    metadata: dict[str, str] = {}


def store_status(info: ListedStream) -> StoreStatus:
    """Return the status of a store from the info of its stream."""
    config, state = info.config, info.state
    return StoreStatus(
        bucket=config.name.removeprefix(STREAM_PREFIX),
        stream=config.name,
        messages=state.messages,
        bytes=state.bytes,
        ttl_s=config.max_age / _SECOND,
        storage=StorageType(config.storage),
        replicas=config.num_replicas,
        max_bytes=config.max_bytes,
        sealed=config.sealed,
        created=info.created,
        description=config.description,
        metadata={
            key: value for key, value in (config.metadata or {}).items() if not key.startswith("_nats.")
        },
    )


class BadMeta(BucketError):
    """Raised if the description of an object cannot be read."""


def read_info(stored: Stored) -> ObjectInfo:
    """Return the description in a meta message; raises BadMeta if it cannot be read."""
    try:
        fields = msgspec.json.decode(stored.payload)
        if not isinstance(fields, dict):
            raise BadMeta("the description of an object is no JSON object")
        given = {key: value for key, value in fields.items() if value is not None}
        info = msgspec.convert(given, ObjectInfo, strict=False)
    except UNREADABLE_JSON as error:
        raise BadMeta(f"the description of an object can not be read: {error}") from None
    return msgspec.structs.replace(info, mtime=format_time(stored.time))


def write_info(info: ObjectInfo) -> bytes:
    """Return the JSON of a description; sizes of zero are included, because other clients need them."""
    fields = {**msgspec.to_builtins(info), "size": info.size, "chunks": info.chunks}
    fields["mtime"] = info.mtime or format_time(time.time_ns())
    return msgspec.json.encode(fields)


def digest_text(digest: bytes) -> str:
    """Return a SHA-256 in the form of descriptions."""
    return DIGEST_PREFIX + base64.urlsafe_b64encode(digest).decode()


def meta_token(name: str) -> str:
    """Return the last token of an object's meta subject; raises BadKey for an invalid name."""
    encoded = name.encode(errors="surrogatepass")
    if not encoded or len(encoded) > _LONGEST_NAME:
        raise BadKey(f"the name of an object has 1 to {_LONGEST_NAME} bytes")
    return base64.urlsafe_b64encode(encoded).decode()
