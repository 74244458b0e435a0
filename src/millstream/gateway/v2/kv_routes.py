"""Key-value buckets: list, create, delete; keys: list, read, write, delete, history."""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import quote

import msgspec

from millstream.base.durations import read_seconds
from millstream.buckets.kv import BucketStatus, KeyValue, KvConfig, KvEntry, KvOperation
from millstream.gateway.errors import BadRequest, NotFound
from millstream.gateway.v2.bucket_errors import told
from millstream.gateway.v2.calls import Call, Headers, Reply, Whole, answer, nothing
from millstream.gateway.v2.message_headers import JsonHeaders, from_http, to_http, to_json
from millstream.gateway.v2.messages import Payload
from millstream.gateway.v2.operations import (
    ANY,
    BYTES,
    JSON,
    Answer,
    Body,
    Section,
    Tag,
    json_answer,
    json_body,
)
from millstream.gateway.v2.payload import PayloadForm, fill_body
from millstream.gateway.v2.revisions import etag_of, expected_revision, is_known
from millstream.gateway.v2.streams import Offset
from millstream.golang.time import format_time

section: Final = Section(Tag.KEY_VALUE)

_BUCKET: Final = "/kv/{bucket}"
_KEY: Final = "/kv/{bucket}/{key}"
_MOST_KEYS: Final = 1000
_TTL: Final = "Nats-TTL"
_OWN: Final = frozenset({"nats-expected-last-subject-sequence", "nats-ttl", "nats-msg-id"})


class BucketsQuery(msgspec.Struct, frozen=True):
    offset: Offset = 0


class Buckets(msgspec.Struct, omit_defaults=True):
    buckets: list[BucketStatus]
    next_offset: int | None = None  # where the next page begins; absent on the last one


class KeysQuery(msgspec.Struct, frozen=True):
    prefix: Annotated[str, msgspec.Meta(max_length=1024, description="only keys that begin with it")] = ""
    after: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1, description="`next` of the page before")] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=_MOST_KEYS, description="how many at most")] = 100


class KeyLine(msgspec.Struct):
    """A key without its value."""

    key: str
    revision: int
    created: str
    size: int


class Keys(msgspec.Struct, omit_defaults=True):
    keys: list[KeyLine]
    next: int | None = None  # `after` of the next page; absent on the last one


class KeyQuery(msgspec.Struct, frozen=True):
    revision: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1, description="an older revision")] | None = None
    history: Annotated[bool, msgspec.Meta(description="all revisions that there are, as JSON")] = False
    payload: Payload = PayloadForm.AUTO


class PutQuery(msgspec.Struct, frozen=True):
    ttl: (
        Annotated[
            float, msgspec.Meta(ge=1, le=10**9, description="seconds until the server removes the value")
        ]
        | None
    ) = None


class DeleteKeyQuery(msgspec.Struct, frozen=True):
    purge: Annotated[bool, msgspec.Meta(description="remove all older revisions, too")] = False
    ttl: (
        Annotated[
            float, msgspec.Meta(ge=1, le=10**9, description="seconds until the marker goes; with `purge`")
        ]
        | None
    ) = None


class KeyEntry(msgspec.Struct, omit_defaults=True):
    """One revision of a key."""

    bucket: str
    key: str
    revision: int
    created: str
    operation: KvOperation
    headers: JsonHeaders = msgspec.field(default_factory=dict)
    data: str | msgspec.UnsetType = msgspec.UNSET
    json: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    base64: str | msgspec.UnsetType = msgspec.UNSET


class History(msgspec.Struct):
    """The revisions of a key, the oldest first."""

    entries: list[KeyEntry]


class Written(msgspec.Struct):
    """The place of a stored value."""

    bucket: str
    key: str
    revision: int


def entry_json(bucket: str, entry: KvEntry, form: PayloadForm) -> KeyEntry:
    """Return the JSON form of an entry."""
    made = KeyEntry(
        bucket,
        entry.key,
        entry.revision,
        format_time(entry.created),
        entry.operation,
        to_json([pair for pair in entry.headers if pair[0].lower() not in _OWN]),
    )
    if entry.exists:
        fill_body(made, entry.value, form)
    return made


async def bucket_of(call: Call) -> KeyValue:
    """Return the bucket that the path names."""
    with told():
        return await KeyValue.open(call.link, call.path["bucket"])


@section.get(
    "/kv",
    "List buckets",
    query=BucketsQuery,
    answers=(json_answer(200, "a page of buckets", Buckets),),
    problems=(404,),
)
async def list_buckets(call: Call) -> Reply:
    """The buckets with their configuration and size."""
    found, following = await KeyValue.buckets(call.link, call.query.offset)
    return answer(Buckets(found, following or None))


@section.post(
    "/kv",
    "Create a bucket",
    body=json_body(KvConfig, "the configuration; `bucket` is its name"),
    answers=(json_answer(201, "it is there", BucketStatus, Location="the bucket"),),
    problems=(404, 409, 415, 422),
)
async def create_bucket(call: Call) -> Reply:
    """Creating a bucket again with the same configuration changes nothing and is no error."""
    config = await call.json(KvConfig)
    with told():
        kv = await KeyValue.create(call.link, config)
    location = call.url(f"/v2/kv/{quote(kv.bucket, safe='')}")
    return answer(await kv.status(), 201, [("Location", location)])


@section.get(
    _BUCKET,
    "Read a bucket",
    answers=(json_answer(200, "its configuration and size", BucketStatus),),
    problems=(404,),
)
async def read_bucket(call: Call) -> Reply:
    """The configuration and size of a bucket. `values` counts revisions, those of deleted keys included."""
    return answer(await (await bucket_of(call)).status())


@section.delete(
    _BUCKET,
    "Delete a bucket",
    answers=(Answer(204, "it is gone, with all its keys"),),
    problems=(404, 409, 422),
)
async def delete_bucket(call: Call) -> Reply:
    """Deletes the bucket with all its keys."""
    with told():
        await KeyValue.remove(call.link, call.path["bucket"])
    return nothing()


@section.get(
    f"{_BUCKET}/keys",
    "List keys",
    query=KeysQuery,
    answers=(json_answer(200, "a page of keys", Keys),),
    problems=(404,),
)
async def list_keys(call: Call) -> Reply:
    """Keys in the order of their last change. A key that changes between two pages may come twice; a key that
    exists all the time is never left out. A page may have fewer keys than `limit`, or none, and still have a
    next page."""
    query: KeysQuery = call.query
    kv = await bucket_of(call)
    with told():
        page = await kv.keys(query.prefix, after=query.after, limit=query.limit)
    lines = [
        KeyLine(entry.key, entry.revision, format_time(entry.created), entry.size) for entry in page.entries
    ]
    return answer(Keys(lines, page.next or None))


@section.get(
    _KEY,
    "Read a key",
    query=KeyQuery,
    headers={
        "Accept": "`application/json` for key, revision and value together",
        "If-None-Match": "an ETag: answer 304 if the key is still at that revision",
        "If-Match": "an ETag: answer 412 if the key is at another revision",
    },
    answers=(
        Answer(
            200,
            "the value; or key, revision and value as JSON",
            {BYTES: {"type": "string", "format": "binary"}, JSON: (KeyEntry, History)},
            {
                "ETag": "the revision",
                "Nats-Sequence": "the revision",
                "Nats-Time-Stamp": "when it was written",
            },
        ),
        Answer(304, "the caller has it already", headers={"ETag": "the revision"}),
    ),
    problems=(404, 406, 412),
)
async def read_key(call: Call) -> Reply:
    """The value in its own bytes, or as JSON. With `history`, all revisions that the bucket still has,
    deletions included. A key called `keys` or `watch` needs an encoded letter: `%6Beys`, `%77atch`."""
    query: KeyQuery = call.query
    kv, key = await bucket_of(call), call.path["key"]
    if query.history:
        return await _history(call, kv, key)
    kind = call.accepted(BYTES, JSON)
    with told():
        entry = await kv.entry(key, query.revision or 0)
    if entry is None or not entry.exists:
        raise NotFound(_missing(key, entry))
    headers: Headers = [("ETag", etag_of(entry.revision))]
    if query.revision is None and is_known(call, entry.revision):
        return Whole(304, headers=headers)
    if kind == JSON:
        return answer(entry_json(kv.bucket, entry, query.payload), headers=headers)
    headers += [
        ("Nats-Sequence", str(entry.revision)),
        ("Nats-Time-Stamp", format_time(entry.created)),
        *to_http([pair for pair in entry.headers if not pair[0].lower().startswith("nats-")]),
    ]
    return Whole(200, entry.value, BYTES, headers)


def _missing(key: str, entry: KvEntry | None) -> str:
    if entry is None:
        return f"there is no key {key}"
    return f"the key {key} was deleted at revision {entry.revision}"


async def _history(call: Call, kv: KeyValue, key: str) -> Reply:
    if call.query.revision is not None:
        raise BadRequest("give one of `history` and `revision`")
    call.accepted(JSON)
    with told():
        entries = await kv.history(key)
    if not entries:
        raise NotFound(f"there is no key {key}")
    return answer(History([entry_json(kv.bucket, entry, call.query.payload) for entry in entries]))


@section.put(
    _KEY,
    "Write a key",
    query=PutQuery,
    headers={
        "If-Match": "an ETag: answer 412 if the key is at another revision; `*`: if it does not exist",
        "If-None-Match": "`*`: answer 412 if the key exists",
        _TTL: "the same as `ttl`, `60s` for example",
    },
    body=Body(
        {ANY: {"type": "string", "format": "binary"}}, "the value, of any content type", required=False
    ),
    answers=(
        json_answer(200, "the new revision", Written, ETag="the revision"),
        json_answer(201, "the revision of the new key (`If-None-Match: *`)", Written, ETag="the revision"),
    ),
    problems=(404, 412, 422),
)
async def write_key(call: Call) -> Reply:
    """Stores the body unchanged. Of two writes that name the same revision, one gets 412. A time to live
    needs a bucket that allows it; all buckets created here do."""
    kv, key = await bucket_of(call), call.path["key"]
    value = await call.body()
    headers = from_http(call.raw_headers)
    ttl_s = _ttl(call, headers)
    pairs = [pair for pair in headers if not pair[0].lower().startswith("nats-")]
    with told():
        expected = await expected_revision(call, kv, key)
        revision = await kv.put(key, value, expected=expected, ttl_s=ttl_s, headers=pairs)
    created = bool(call.header("if-none-match"))
    written = Written(kv.bucket, key, revision)
    return answer(written, 201 if created else 200, [("ETag", etag_of(revision))])


def _ttl(call: Call, headers: list[tuple[str, str]]) -> float | None:
    query: Any = call.query
    said = next((value for name, value in headers if name == _TTL), "")
    others = [name for name, _ in headers if name.lower().startswith("nats-") and name != _TTL]
    if others:
        raise BadRequest(f"{others[0]} can not be given with a key")
    if not said:
        return None if query.ttl is None else float(query.ttl)
    if query.ttl is not None:
        raise BadRequest(f"give one of `ttl` and {_TTL}")
    try:
        return read_seconds(said)
    except ValueError as error:
        raise BadRequest(f"{_TTL} {error}") from None


@section.delete(
    _KEY,
    "Delete a key",
    query=DeleteKeyQuery,
    headers={"If-Match": "an ETag: answer 412 if the key is at another revision"},
    answers=(Answer(204, "it is deleted", headers={"ETag": "the revision of the deletion"}),),
    problems=(404, 412, 422),
)
async def delete_key(call: Call) -> Reply:
    """Marks the key as deleted. Older revisions stay in the history unless `purge` is set."""
    query: DeleteKeyQuery = call.query
    if query.ttl is not None and not query.purge:
        raise BadRequest("`ttl` goes with `purge`")
    kv, key = await bucket_of(call), call.path["key"]
    with told():
        entry = await kv.entry(key)
        if entry is None or (not entry.exists and not query.purge):
            raise NotFound(_missing(key, entry))
        expected = await expected_revision(call, kv, key)
        if query.purge:
            revision = await kv.purge(key, expected=expected, ttl_s=query.ttl)
        else:
            revision = await kv.delete(key, expected=expected)
    return nothing([("ETag", etag_of(revision))])
