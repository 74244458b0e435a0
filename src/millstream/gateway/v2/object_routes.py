"""Object stores: list, create, seal, delete; objects: list, upload, download, link, delete.

Uploads and downloads are streamed chunk by chunk, so an object of any size takes little memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final
from urllib.parse import quote

from millstream.buckets.errors import DigestMismatch
from millstream.buckets.object_info import ObjectInfo, ObjectLink, ObjectStoreConfig, StoreStatus
from millstream.buckets.objects import ObjectStore
from millstream.gateway.errors import BadRequest, BodyTimeout, Conflict
from millstream.gateway.v2.bucket_errors import told
from millstream.gateway.v2.calls import Call, Reply, Whole, answer, nothing
from millstream.gateway.v2.downloads import Download, is_known, part_of
from millstream.gateway.v2.message_headers import from_http
from millstream.gateway.v2.object_types import (
    ObjectQuery,
    Objects,
    ObjectsQuery,
    PutObjectQuery,
    StoreChange,
    Stores,
    StoresQuery,
    announced_digest,
    condition_of,
    description_headers,
    etag_of,
    media_type_of,
)
from millstream.gateway.v2.operations import (
    ANY,
    JSON,
    Answer,
    Body,
    Section,
    Tag,
    json_answer,
    json_body,
)

section: Final = Section(Tag.OBJECTS)

_STORE: Final = "/objects/{bucket}"
_OBJECT: Final = "/objects/{bucket}/{object}"


async def store_of(call: Call) -> ObjectStore:
    """Return the store that the path names."""
    with told():
        return await ObjectStore.open(call.link, call.path["bucket"])


@section.get(
    "/objects",
    "List object stores",
    query=StoresQuery,
    answers=(json_answer(200, "a page of stores", Stores),),
    problems=(404,),
)
async def list_stores(call: Call) -> Reply:
    """The stores with their configuration and size."""
    found, following = await ObjectStore.stores(call.link, call.query.offset)
    return answer(Stores(found, following or None))


@section.post(
    "/objects",
    "Create an object store",
    body=json_body(ObjectStoreConfig, "the configuration; `bucket` is its name"),
    answers=(json_answer(201, "it is there", StoreStatus, Location="the store"),),
    problems=(404, 409, 415, 422),
)
async def create_store(call: Call) -> Reply:
    """Creating a store again with the same configuration changes nothing and is no error."""
    config = await call.json(ObjectStoreConfig)
    with told():
        store = await ObjectStore.create(call.link, config)
    location = call.url(f"/v2/objects/{quote(store.bucket, safe='')}")
    return answer(await store.status(), 201, [("Location", location)])


@section.get(
    _STORE,
    "List objects",
    query=ObjectsQuery,
    answers=(json_answer(200, "the store and a page of its objects", Objects),),
    problems=(404,),
)
async def list_objects(call: Call) -> Reply:
    """Objects in the order of their last change. A page may have fewer than `limit`, or none, and still have
    a next page."""
    query: ObjectsQuery = call.query
    store = await store_of(call)
    page = await store.page(after=query.after, limit=query.limit)
    return answer(Objects(await store.status(), page.objects, page.next or None))


@section.post(
    _STORE,
    "Seal an object store",
    body=json_body(StoreChange, '`{"sealed": true}`'),
    answers=(json_answer(200, "the store", StoreStatus),),
    problems=(404, 409, 415, 422),
)
async def seal_store(call: Call) -> Reply:
    """Makes the store read-only. This cannot be undone."""
    if not (await call.json(StoreChange)).sealed:
        raise BadRequest("a store can be sealed, and not be opened again")
    return answer(await (await store_of(call)).seal())


@section.delete(
    _STORE,
    "Delete an object store",
    answers=(Answer(204, "it is gone, with all its objects"),),
    problems=(404, 409, 422),
)
async def delete_store(call: Call) -> Reply:
    """Deletes the store with all its objects."""
    with told():
        await ObjectStore.remove(call.link, call.path["bucket"])
    return nothing()


@section.get(
    _OBJECT,
    "Download an object",
    query=ObjectQuery,
    headers={
        "Range": "one range of bytes",
        "If-Range": "an ETag: answer all of it if it is another one",
        "If-None-Match": "an ETag: answer 304 if the object is still that one",
        "If-Match": "an ETag: answer 412 if the object is another one",
    },
    answers=(
        Answer(
            200,
            "the bytes; or the description with `info`",
            {ANY: {"type": "string", "format": "binary"}, JSON: ObjectInfo},
            {"ETag": "the SHA-256 of the bytes", "Repr-Digest": "the same, as RFC 9530 writes it"},
        ),
        Answer(
            206,
            "the range that was asked for",
            {ANY: {"type": "string", "format": "binary"}},
            {"Content-Range": "which part it is", "ETag": "the SHA-256 of all bytes"},
        ),
        Answer(304, "the caller has it already", headers={"ETag": "the SHA-256 of the bytes"}),
    ),
    problems=(404, 406, 409, 412, 416),
)
async def read_object(call: Call) -> Reply:
    """The bytes of an object, or of the object that a link leads to. The content type is the stored one,
    unless browsers would run or render it. The digest is checked while the bytes are sent: if they differ
    from what was stored, the connection is cut before the end."""
    store = await store_of(call)
    name = call.path["object"]
    with told():
        if call.query.info:
            found = await store.get(name)
            return answer(found, headers=[("ETag", etag_of(found))])
        store, found = await store.resolve(name)
    tag = etag_of(found)
    headers = description_headers(found)
    if is_known(call, tag):
        return Whole(304, headers=headers[:1])
    part = part_of(call, found.size, tag)
    kind = media_type_of(found)
    if part is None:
        return Download(200, found.size, kind, _pieces(store, found, 0, found.size), headers)
    headers.append(("Content-Range", f"bytes {part.start}-{part.end - 1}/{found.size}"))
    length = part.end - part.start
    return Download(206, length, kind, _pieces(store, found, part.start, length), headers)


async def _pieces(
    store: ObjectStore, info: ObjectInfo, start: int, length: int
) -> AsyncGenerator[bytes, None]:
    try:
        async for piece in store.read(info, start=start, length=length):
            yield piece
    except DigestMismatch as error:
        raise Conflict(str(error)) from error


@section.put(
    _OBJECT,
    "Upload an object",
    query=PutObjectQuery,
    headers={
        "If-Match": "an ETag: answer 412 if the object is another one; `*`: if there is none",
        "If-None-Match": "`*`: answer 412 if there is an object of this name",
        "Repr-Digest": "`sha-256=:<base64>:`: answer 400 if the bytes are others",
    },
    body=Body(
        {ANY: {"type": "string", "format": "binary"}}, "the bytes, of any content type", required=False
    ),
    answers=(
        json_answer(200, "it replaced another one", ObjectInfo, ETag="the SHA-256 of the bytes"),
        json_answer(201, "it is there", ObjectInfo, ETag="the SHA-256 of the bytes"),
    ),
    problems=(404, 409, 412, 422),
)
async def write_object(call: Call) -> Reply:
    """Stores the body, of any size, with its content type and its `Millstream-Header-*`. The object becomes
    visible when all of it is stored; an interrupted upload leaves nothing. With `link_bucket` the object is a
    link, and has no body."""
    query: PutObjectQuery = call.query
    store = await store_of(call)
    name = call.path["object"]
    condition = condition_of(call)
    with told():
        there = await store.find(name) is not None
        if query.link_bucket:
            await _no_body(call)
            target = ObjectLink(query.link_bucket, query.link_name)
            info = await store.link_to(name, target, condition)
        else:
            if query.link_name:
                raise BadRequest("`link_name` goes with `link_bucket`")
            info = await store.put(
                name,
                _received(call),
                description=query.description,
                headers=_headers(call),
                digest=announced_digest(call),
                condition=condition,
            )
    return answer(info, 200 if there else 201, [("ETag", etag_of(info))])


async def _no_body(call: Call) -> None:
    async for _ in _received(call):
        raise BadRequest("a link has no body")


async def _received(call: Call) -> AsyncIterator[bytes]:
    """Yield the body as it arrives; 408 if no byte arrives for too long."""
    timeout_s = call.settings.limits.body_timeout_s or None
    pieces = call.chunks().__aiter__()
    while True:
        try:
            async with asyncio.timeout(timeout_s):
                piece = await anext(pieces)
        except TimeoutError:
            raise BodyTimeout("the body did not arrive in time") from None
        except StopAsyncIteration:
            return
        yield piece


def _headers(call: Call) -> dict[str, list[str]]:
    """Return the headers to store with an object."""
    found: dict[str, list[str]] = {}
    if kind := call.header("content-type"):
        found["Content-Type"] = [kind]
    for name, value in from_http(call.raw_headers):
        if not name.lower().startswith("nats-"):
            found.setdefault(name, []).append(value)
    return found


@section.delete(
    _OBJECT,
    "Delete an object",
    headers={"If-Match": "an ETag: answer 412 if the object is another one"},
    answers=(Answer(204, "it is gone"),),
    problems=(404, 409, 412, 422),
)
async def delete_object(call: Call) -> Reply:
    """Deletes the object. For a link, only the link is deleted."""
    store = await store_of(call)
    with told():
        await store.delete(call.path["object"], condition_of(call))
    return nothing()
