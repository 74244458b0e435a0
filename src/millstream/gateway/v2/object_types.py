"""The queries and answers of object stores, and the HTTP headers that describe an object."""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
from collections.abc import Callable
from email.utils import formatdate
from typing import Annotated, Final
from urllib.parse import quote

import msgspec

from millstream.buckets.object_info import ObjectInfo, StoreStatus
from millstream.gateway.errors import BadRequest, PreconditionFailed
from millstream.gateway.v2.calls import Call, Headers
from millstream.gateway.v2.downloads import tags_in
from millstream.gateway.v2.media_types import passive_type
from millstream.gateway.v2.streams import Offset
from millstream.golang.time import TimeError, parse_time

_DIGEST: Final = re.compile(r"sha-256=:([A-Za-z0-9+/=]{44}):", re.IGNORECASE)
_SECOND: Final = 1_000_000_000

Condition = Callable[[ObjectInfo | None], None]


class StoresQuery(msgspec.Struct, frozen=True):
    offset: Offset = 0


class Stores(msgspec.Struct, omit_defaults=True):
    stores: list[StoreStatus]
    next_offset: int | None = None  # where the next page begins; absent on the last one


class ObjectsQuery(msgspec.Struct, frozen=True):
    after: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1, description="`next` of the page before")] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000, description="how many at most")] = 100


class Objects(msgspec.Struct, omit_defaults=True):
    """A page of objects, and the store that they are in."""

    store: StoreStatus
    objects: list[ObjectInfo]
    next: int | None = None  # `after` of the next page; absent on the last one


class StoreChange(msgspec.Struct, forbid_unknown_fields=True):
    """The change of a store: it can only be sealed."""

    sealed: bool


class ObjectQuery(msgspec.Struct, frozen=True):
    info: Annotated[bool, msgspec.Meta(description="the description as JSON, for a link its own")] = False


class PutObjectQuery(msgspec.Struct, frozen=True):
    description: Annotated[str, msgspec.Meta(max_length=4096)] = ""
    link_bucket: Annotated[str, msgspec.Meta(description="make a link to an object of this store")] = ""
    link_name: Annotated[str, msgspec.Meta(description="of this name; none: to the whole store")] = ""


def etag_of(info: ObjectInfo) -> str:
    """Return the ETag: the digest in hexadecimal, or another identifier of an object that has none."""
    return f'"{info.sha256.hex()}"' if info.sha256 else f'"{info.nuid}-{info.size}"'


def description_headers(info: ObjectInfo) -> Headers:
    """Return the headers that describe an object."""
    headers: Headers = [("ETag", etag_of(info)), ("Content-Disposition", _disposition(info.name))]
    if info.sha256:
        headers.append(("Repr-Digest", f"sha-256=:{base64.b64encode(info.sha256).decode()}:"))
    with contextlib.suppress(TimeError, ValueError, OverflowError):
        headers.append(("Last-Modified", formatdate(parse_time(info.mtime) / _SECOND, usegmt=True)))
    return headers


def _disposition(name: str) -> str:
    """Return the Content-Disposition: a download with the last part of the name, percent-encoded."""
    last = name.rsplit("/", 1)[-1] or "object"
    return f"attachment; filename*=UTF-8''{quote(last.encode(errors='replace'), safe='')}"


def media_type_of(info: ObjectInfo) -> str:
    """Return the content type that was stored with an object, unless browsers would run it."""
    for name, values in info.headers.items():
        if name.lower() == "content-type" and values:
            return passive_type(values[0])
    return passive_type("")


def announced_digest(call: Call) -> bytes:
    """Return the SHA-256 that a request announces for its body; empty if it announces none."""
    said = call.header("repr-digest") or call.header("content-digest")
    if not said:
        return b""
    found = _DIGEST.search(said)
    if found is None:
        raise BadRequest("only `sha-256=:<base64>:` is understood of Repr-Digest and Content-Digest")
    try:
        return base64.b64decode(found[1], validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest("the digest is no base64") from None


def condition_of(call: Call) -> Condition | None:
    """Return a check of If-Match and If-None-Match against the object to be replaced; it raises 412."""
    match, none_match = call.header("if-match"), call.header("if-none-match")
    if not match and not none_match:
        return None
    wanted = tags_in(match) if match else []
    unwanted = [tag.removeprefix("W/") for tag in tags_in(none_match)] if none_match else []

    def check(present: ObjectInfo | None) -> None:
        tag = etag_of(present) if present is not None else ""
        if wanted and (present is None or ("*" not in wanted and tag not in wanted)):
            raise PreconditionFailed("the object is not what If-Match names")
        if unwanted and present is not None and ("*" in unwanted or tag in unwanted):
            raise PreconditionFailed("the object is what If-None-Match names")

    return check
