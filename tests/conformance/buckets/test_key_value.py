"""Key-value buckets: every operation of nats-py's, and what limits and times to live do to them."""

import asyncio

import nats.js.errors
import pytest
from nats.js import JetStreamContext
from nats.js.api import RePublish, StorageType
from nats.js.errors import APIError, KeyNotFoundError, KeyWrongLastSequenceError, NoKeysError

from tests.kits.conformance.buckets import MakeKeyValue, heard, told, until_stored
from tests.kits.conformance.clients import ServerFactory, library
from tests.kits.patience import PATIENCE_S


@pytest.mark.parametrize("direct", [False, True])
async def test_put_and_get(make_key_value: MakeKeyValue, direct: bool) -> None:
    bucket = await make_key_value(history=3, direct=direct)
    with pytest.raises(KeyNotFoundError):
        await bucket.get("fruit")
    assert await bucket.put("fruit", b"apple") == 1
    assert await bucket.put("fruit", b"pear") == 2
    assert await bucket.put("other", b"") == 3
    entry = await bucket.get("fruit")
    assert (entry.value, entry.revision) == (b"pear", 2)
    assert (await bucket.get("fruit", revision=1)).value == b"apple"
    assert (await bucket.get("other")).value in (b"", None)
    with pytest.raises(KeyNotFoundError):
        await bucket.get("fruit", revision=3)  # of another key
    with pytest.raises(KeyNotFoundError):
        await bucket.get("fruit", revision=4)


async def test_create_and_update_expect_a_revision(make_key_value: MakeKeyValue) -> None:
    bucket = await make_key_value(history=5)
    assert await bucket.create("k", b"1") == 1
    with pytest.raises(KeyWrongLastSequenceError, match="wrong last sequence: 1"):
        await bucket.create("k", b"again")
    assert await bucket.update("k", b"2", last=1) == 2
    with pytest.raises(KeyWrongLastSequenceError, match="wrong last sequence: 2"):
        await bucket.update("k", b"3", last=1)
    with pytest.raises(APIError) as refused:
        await bucket.delete("k", last=1)
    assert refused.value.err_code == 10071
    await bucket.delete("k", last=2)
    assert await bucket.create("k", b"anew") == 4
    assert (await bucket.get("k")).value == b"anew"


async def test_of_many_updates_at_once_one_wins(make_key_value: MakeKeyValue) -> None:
    bucket = await make_key_value()
    revision = await bucket.put("k", b"start")
    results = await asyncio.gather(
        *(bucket.update("k", b"%d" % number, last=revision) for number in range(20)), return_exceptions=True
    )
    won = [number for number, result in enumerate(results) if isinstance(result, int)]
    assert len(won) == 1
    assert all(isinstance(result, int | KeyWrongLastSequenceError) for result in results)
    assert (await bucket.get("k")).value == b"%d" % won[0]


async def test_delete_keeps_history_and_purge_does_not(make_key_value: MakeKeyValue) -> None:
    bucket = await make_key_value(history=5)
    await bucket.put("k", b"1")
    await bucket.put("other", b"x")
    await bucket.put("k", b"2")
    await bucket.delete("k")
    with pytest.raises(KeyNotFoundError):
        await bucket.get("k")
    assert [told(entry) for entry in await bucket.history("k")] == [
        ("k", "PUT", b"1", 1),
        ("k", "PUT", b"2", 3),
        ("k", "DEL", b"", 4),
    ]
    await bucket.purge("k")
    with pytest.raises(KeyNotFoundError):
        await bucket.get("k")
    assert [told(entry) for entry in await bucket.history("k")] == [("k", "PURGE", b"", 5)]
    assert [told(entry) for entry in await bucket.history("other")] == [("other", "PUT", b"x", 2)]
    with pytest.raises(NoKeysError):
        await bucket.history("never")


async def test_old_markers_are_purged(make_key_value: MakeKeyValue) -> None:
    bucket = await make_key_value(history=5)
    for key in ("a", "b", "c"):
        await bucket.put(key, b"1")
    await bucket.delete("a")
    await bucket.purge("b")
    await bucket.purge_deletes(olderthan=3600)
    assert (await bucket.status()).values == 3  # both markers are young, what they hide goes
    await bucket.purge_deletes(olderthan=-1)
    assert (await bucket.status()).values == 1
    assert await bucket.keys() == ["c"]


async def test_history_has_no_more_than_it_may(make_key_value: MakeKeyValue) -> None:
    bucket = await make_key_value(history=3)
    for number in range(1, 8):
        await bucket.put("k", b"%d" % number)
    assert [told(entry)[2:] for entry in await bucket.history("k")] == [(b"5", 5), (b"6", 6), (b"7", 7)]
    assert [entry.delta for entry in await bucket.history("k")] == [2, 1, 0]


async def test_keys_are_those_that_have_a_value(make_key_value: MakeKeyValue) -> None:
    bucket = await make_key_value(history=2)
    with pytest.raises(NoKeysError):
        await bucket.keys()
    for key in ("a.1", "b=2/x", "c_3-y", "gone", "purged", "a.1"):
        await bucket.put(key, key.encode())
    await bucket.delete("gone")
    await bucket.purge("purged")
    assert sorted(await bucket.keys()) == ["a.1", "b=2/x", "c_3-y"]
    assert await bucket.keys(filters=["a."]) == ["a.1"]


async def test_a_watcher_hears_last_values_then_changes(make_key_value: MakeKeyValue) -> None:
    bucket = await make_key_value(history=5)
    await bucket.put("a.x", b"old")
    await bucket.put("b", b"1")
    await bucket.put("a.x", b"2")
    watcher = await bucket.watchall()
    first = await heard(watcher, 3)
    assert [told(entry) for entry in first[:2]] == [("b", "PUT", b"1", 2), ("a.x", "PUT", b"2", 3)]
    assert first[2] is None
    await bucket.put("c", b"3")
    await bucket.delete("b")
    await bucket.purge("a.x")
    assert [told(entry) for entry in await heard(watcher, 3)] == [
        ("c", "PUT", b"3", 4),
        ("b", "DEL", b"", 5),
        ("a.x", "PURGE", b"", 6),
    ]
    await watcher.stop()


async def test_a_watcher_of_some_keys_with_history_or_without_values(make_key_value: MakeKeyValue) -> None:
    bucket = await make_key_value(history=5)
    for key, value in (("a.x", b"1"), ("b.x", b"2"), ("a.x", b"3"), ("a.y", b"4")):
        await bucket.put(key, value)
    with_history = await bucket.watch("a.*", include_history=True)
    # Where the end of what was there is told among them depends on how fast nats-py is.
    assert [told(entry) for entry in await heard(with_history, 4) if entry is not None] == [
        ("a.x", "PUT", b"1", 1),
        ("a.x", "PUT", b"3", 3),
        ("a.y", "PUT", b"4", 4),
    ]
    await with_history.stop()
    bare = await bucket.watch("b.>", meta_only=True)
    entry, end = await heard(bare, 2)
    assert (told(entry), end) == (("b.x", "PUT", b"", 2), None)
    await bare.stop()
    empty = await bucket.watch("none.>", ignore_deletes=True)
    assert await heard(empty, 1) == [None]
    await bucket.put("none.now", b"there")
    assert [told(entry) for entry in await heard(empty, 1)] == [("none.now", "PUT", b"there", 5)]
    await empty.stop()


async def test_a_bucket_forgets_after_its_time(make_key_value: MakeKeyValue) -> None:
    bucket = await make_key_value(ttl=0.5)
    watcher = await bucket.watchall()
    assert await heard(watcher, 1) == [None]
    await bucket.put("k", b"1")
    assert (await bucket.status()).ttl == 0.5
    await until_stored(bucket, 0)
    with pytest.raises(KeyNotFoundError):
        await bucket.get("k")
    assert [told(entry) for entry in await heard(watcher, 1)] == [("k", "PUT", b"1", 1)]
    await watcher.stop()


async def test_a_key_with_a_time_to_live_leaves_a_marker(make_key_value: MakeKeyValue) -> None:
    bucket = await make_key_value(limit_marker_ttl=1.0)
    assert (await bucket.status()).marker_ttl == 1.0
    watcher = await bucket.watchall()
    assert await heard(watcher, 1) == [None]
    await bucket.create("short", b"life", msg_ttl=1.0)
    assert [told(entry) for entry in await heard(watcher, 2)] == [
        ("short", "PUT", b"life", 1),
        ("short", "PURGE", b"", 2),
    ]
    await watcher.stop()
    await until_stored(bucket, 0)  # the marker goes as well


async def test_a_purge_marker_with_a_time_to_live_goes(make_key_value: MakeKeyValue) -> None:
    bucket = await make_key_value(history=5)
    await bucket.put("k", b"1")
    await bucket.put("stays", b"1")
    await bucket.purge("k", msg_ttl=2.0)
    assert [told(entry)[1] for entry in await bucket.history("k")] == ["PURGE"]
    await until_stored(bucket, 1)
    assert await bucket.keys() == ["stays"]


async def test_values_and_buckets_have_limits(make_key_value: MakeKeyValue) -> None:
    bucket = await make_key_value(max_value_size=20)
    await bucket.put("k", b"x" * 20)
    with pytest.raises(APIError) as too_large:
        await bucket.put("k", b"x" * 21)
    assert (too_large.value.code, too_large.value.err_code) == (400, 10054)
    small = await make_key_value(max_bytes=1000)
    for number in range(4):
        await small.put(f"k{number}", b"x" * 100)
    with pytest.raises(APIError) as full:
        await small.put("big", b"x" * 600)
    assert (full.value.err_code, full.value.description) == (10077, "maximum bytes exceeded")
    await small.purge("k0")
    assert await small.put("k99", b"x" * 100) == 6


async def test_status_tells_how_the_bucket_is_made(
    make_key_value: MakeKeyValue, storage: StorageType
) -> None:
    bucket = await make_key_value(
        description="fruits", history=7, ttl=3600, max_bytes=1_000_000, max_value_size=100, direct=True
    )
    await bucket.put("a", b"1")
    await bucket.put("a", b"2")
    status = await bucket.status()
    assert (status.values, status.history, status.ttl) == (2, 7, 3600)
    config = status.stream_info.config
    assert config.name == f"KV_{status.bucket}"
    assert config.subjects == [f"$KV.{status.bucket}.>"]
    assert (config.description, config.storage, config.max_bytes) == ("fruits", storage, 1_000_000)
    assert (config.max_msg_size, config.allow_direct, config.deny_delete) == (100, True, True)
    assert (config.allow_rollup_hdrs, config.discard, config.duplicate_window) == (True, "new", 120)
    assert status.stream_info.state.bytes > 0


async def test_a_value_is_republished(make_key_value: MakeKeyValue, js: JetStreamContext) -> None:
    bucket = await make_key_value(republish=RePublish(src=">", dest="copies.>"))
    subscription = await js._nc.subscribe("copies.>")
    await bucket.put("k", b"1")
    copy = await subscription.next_msg(timeout=PATIENCE_S)
    name = (await bucket.status()).bucket
    assert (copy.subject, copy.data) == (f"copies.$KV.{name}.k", b"1")
    assert copy.headers is not None
    assert copy.headers["Nats-Sequence"] == "1"
    await subscription.unsubscribe()


async def test_buckets_are_found_and_deleted(js: JetStreamContext, storage: StorageType) -> None:
    made = await js.create_key_value(bucket="FOUND", storage=storage)
    await made.put("k", b"1")
    found = await js.key_value("FOUND")
    assert (await found.get("k")).value == b"1"
    with pytest.raises(APIError) as other:
        await js.create_key_value(bucket="FOUND", storage=storage, history=9)
    assert other.value.err_code == 10058
    assert await js.delete_key_value("FOUND")
    with pytest.raises(nats.js.errors.BucketNotFoundError):
        await js.key_value("FOUND")
    with pytest.raises(nats.js.errors.NotFoundError):
        await js.delete_key_value("FOUND")


async def test_a_bucket_on_disk_is_there_after_a_kill(own_server: ServerFactory) -> None:
    server = own_server(jetstream=True, config="jetstream: {sync_interval: always}")
    connection = await library(server.client_url)
    bucket = await connection.jetstream(timeout=PATIENCE_S).create_key_value(bucket="KEPT", history=3)
    for number in range(5):
        await bucket.put("k", b"%d" % number)
    await bucket.put("gone", b"1")
    await bucket.delete("gone")
    await connection.close()
    server.kill()
    server.start()
    connection = await library(server.client_url)
    bucket = await connection.jetstream(timeout=PATIENCE_S).key_value("KEPT")
    assert [told(entry)[2:] for entry in await bucket.history("k")] == [(b"2", 3), (b"3", 4), (b"4", 5)]
    assert await bucket.keys() == ["k"]
    assert await bucket.update("k", b"5", last=5) == 8
    await connection.close()
