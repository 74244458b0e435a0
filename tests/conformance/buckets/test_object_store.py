"""Object stores: every operation of nats-py's, chunks and what is left of them."""

import asyncio
import base64
import hashlib
import io
import random

import pytest
from nats.js import JetStreamContext
from nats.js.api import ObjectLink, ObjectMeta, ObjectMetaOptions, StorageType
from nats.js.errors import (
    APIError,
    BucketNotFoundError,
    LinkIsABucketError,
    NotFoundError,
    ObjectDeletedError,
    ObjectNotFoundError,
)
from nats.js.object_store import ObjectStore

from tests.kits.conformance.buckets import MakeObjects, heard, until_stored
from tests.kits.conformance.clients import ServerFactory, library
from tests.kits.patience import PATIENCE_S

_CHUNK = 128 * 1024  # of the library, if it is not told another


def content(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def chunked(size: int) -> ObjectMeta:
    return ObjectMeta(options=ObjectMetaOptions(max_chunk_size=size))


async def stored(store: ObjectStore) -> int:
    """The number of messages in the stream: chunks and the meta message of each object."""
    return (await store.status()).stream_info.state.messages


@pytest.mark.parametrize("size", [0, 1, _CHUNK - 1, _CHUNK, _CHUNK + 1, 1_000_003])
async def test_an_object_comes_back_as_it_was(make_objects: MakeObjects, size: int) -> None:
    store = await make_objects()
    data = content(size)
    info = await store.put("thing", data)
    chunks = -(-size // _CHUNK)
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()
    assert (info.size, info.chunks, info.digest) == (size, chunks, f"SHA-256={digest}")
    assert await stored(store) == chunks + 1
    result = await store.get("thing")
    assert result.data == data
    assert (result.info.nuid, result.info.name, result.info.deleted) == (info.nuid, "thing", False)
    assert (await store.get_info("thing")).size == size


async def test_chunks_are_as_large_as_asked_for(make_objects: MakeObjects) -> None:
    store = await make_objects()
    data = content(10_007)
    info = await store.put("small chunks", io.BytesIO(data), meta=chunked(100))
    assert info.chunks == 101
    sink = io.BytesIO()
    await store.get("small chunks", writeinto=sink)
    assert sink.getvalue() == data


async def test_a_new_version_replaces_the_old_one(make_objects: MakeObjects) -> None:
    store = await make_objects()
    old = await store.put("thing", content(5000), meta=chunked(1000))
    assert await stored(store) == 6
    new = await store.put("thing", b"new")
    assert new.nuid != old.nuid
    assert await stored(store) == 2
    assert (await store.get("thing")).data == b"new"


async def test_many_objects_at_once(make_objects: MakeObjects) -> None:
    store = await make_objects()
    contents = {f"thing {number}": content(3000 + number) for number in range(20)}
    await asyncio.gather(*(store.put(name, data, meta=chunked(512)) for name, data in contents.items()))
    results = await asyncio.gather(*(store.get(name) for name in contents))
    assert {result.info.name: result.data for result in results} == contents
    assert {info.name for info in await store.list()} == set(contents)


async def test_deleted_objects_leave_only_a_note(make_objects: MakeObjects) -> None:
    store = await make_objects()
    await store.put("kept", b"1")
    await store.put("gone", content(5000), meta=chunked(1000))
    await store.delete("gone")
    assert await stored(store) == 3
    with pytest.raises(ObjectNotFoundError):
        await store.get("gone")
    with pytest.raises(ObjectNotFoundError):
        await store.delete("gone")
    note = await store.get_info("gone", show_deleted=True)
    assert (note.deleted, note.size, note.chunks) == (True, 0, 0)
    assert [info.name for info in await store.list(ignore_deletes=True)] == ["kept"]
    await store.put("gone", b"back")
    assert (await store.get("gone")).data == b"back"


async def test_meta_is_kept_and_changed(make_objects: MakeObjects) -> None:
    store = await make_objects()
    meta = ObjectMeta(description="a thing", headers={"X-Kind": ["test"]})
    await store.put("thing", b"1", meta=meta)
    info = await store.get_info("thing")
    assert (info.description, info.headers) == ("a thing", {"X-Kind": ["test"]})
    await store.update_meta("thing", ObjectMeta(name="thing", description="another"))
    info = await store.get_info("thing")
    assert (info.description, info.headers, info.size) == ("another", None, 1)
    assert (await store.get("thing")).data == b"1"
    with pytest.raises(ObjectDeletedError):
        await store.update_meta("none", ObjectMeta(name="none"))


async def test_links_lead_to_objects_and_stores(make_objects: MakeObjects) -> None:
    store, other = await make_objects(), await make_objects()
    target = await store.put("target", b"content")

    def link(name: str | None) -> ObjectMeta:
        options = ObjectMetaOptions(link=ObjectLink(bucket=target.bucket, name=name), max_chunk_size=1)
        return ObjectMeta(options=options)

    await store.put("near", b"", meta=link("target"))
    await other.put("far", b"", meta=link("target"))
    await other.put("whole", b"", meta=link(None))
    await other.put("broken", b"", meta=link("none"))
    assert (await store.get("near")).data == b"content"
    assert (await other.get("far")).data == b"content"
    with pytest.raises(LinkIsABucketError):
        await other.get("whole")
    with pytest.raises(ObjectNotFoundError):
        await other.get("broken")


async def test_a_watcher_hears_of_objects_that_come_and_go(make_objects: MakeObjects) -> None:
    store = await make_objects()
    await store.put("old", b"1")
    watcher = await store.watch()
    there, end = await heard(watcher, 2)
    assert (there.name, there.size, end) == ("old", 1, None)
    await store.put("new", b"22")
    await store.delete("old")
    news = await heard(watcher, 2)
    assert [(info.name, info.deleted, info.size) for info in news] == [("new", False, 2), ("old", True, 0)]
    await watcher.stop()
    updates = await store.watch(updates_only=True)
    await store.put("newest", b"333")
    assert [info.name for info in await heard(updates, 1)] == ["newest"]
    await updates.stop()


async def test_an_empty_store_says_so(make_objects: MakeObjects) -> None:
    store = await make_objects()
    with pytest.raises(NotFoundError):
        await store.list()
    with pytest.raises(ObjectNotFoundError):
        await store.get("none")
    watcher = await store.watch()
    assert await heard(watcher, 1) == [None]
    await watcher.stop()


async def test_a_sealed_store_is_read_only(make_objects: MakeObjects) -> None:
    store = await make_objects()
    await store.put("thing", b"1")
    await store.seal()
    assert (await store.status()).sealed
    with pytest.raises(APIError) as refused:
        await store.put("more", b"2")
    assert refused.value.err_code == 10109
    assert (await store.get("thing")).data == b"1"


async def test_status_tells_how_the_store_is_made(make_objects: MakeObjects, storage: StorageType) -> None:
    store = await make_objects(description="things", ttl=3600, max_bytes=100_000)
    await store.put("thing", b"1")
    status = await store.status()
    assert (status.description, status.ttl, status.storage_type) == ("things", 3600, storage)
    assert (status.replicas, status.sealed) == (1, False)
    config = status.stream_info.config
    assert config.name == f"OBJ_{status.bucket}"
    assert config.subjects == [f"$O.{status.bucket}.C.>", f"$O.{status.bucket}.M.>"]
    assert (config.allow_rollup_hdrs, config.allow_direct, config.discard) == (True, True, "new")
    assert status.size > 0


async def test_what_does_not_fit_leaves_nothing(make_objects: MakeObjects) -> None:
    store = await make_objects(max_bytes=20_000)
    with pytest.raises(APIError) as full:
        await store.put("big", content(50_000), meta=chunked(4096))
    assert full.value.err_code == 10077
    assert await stored(store) == 0
    await store.put("fits", content(5000))
    assert (await store.get("fits")).data == content(5000)


async def test_objects_go_after_their_time(make_objects: MakeObjects) -> None:
    store = await make_objects(ttl=0.5)
    await store.put("short", b"life")
    await until_stored(store, 0)
    with pytest.raises(ObjectNotFoundError):
        await store.get("short")


async def test_stores_are_found_and_deleted(js: JetStreamContext, storage: StorageType) -> None:
    made = await js.create_object_store("FOUND", storage=storage)
    await made.put("thing", b"1")
    found = await js.object_store("FOUND")
    assert (await found.get("thing")).data == b"1"
    assert await js.delete_object_store("FOUND")
    with pytest.raises(BucketNotFoundError):
        await js.object_store("FOUND")


async def test_a_store_on_disk_is_there_after_a_kill(own_server: ServerFactory) -> None:
    server = own_server(jetstream=True, config="jetstream: {sync_interval: always}")
    connection = await library(server.client_url)
    data = content(700_001)
    store = await connection.jetstream(timeout=PATIENCE_S).create_object_store("KEPT")
    await store.put("thing", data)
    await store.put("gone", b"1")
    await store.delete("gone")
    await connection.close()
    server.kill()
    server.start()
    connection = await library(server.client_url)
    store = await connection.jetstream(timeout=PATIENCE_S).object_store("KEPT")
    assert (await store.get("thing")).data == data
    assert [info.name for info in await store.list(ignore_deletes=True)] == ["thing"]
    await connection.close()
