"""Snapshots on both servers: requests, chunks and acks, how they end, what is told about them."""

import asyncio
import json
import re
from typing import Any

import pytest
from nats.aio.msg import Msg

from tests.kits.conformance.clients import ServerFactory, library
from tests.kits.conformance.snapshots import Site, consumers_of, entries_of, messages_of
from tests.kits.patience import PATIENCE_S

PREFIX = "io.nats.jetstream."


async def fill(site: Site, name: str, count: int = 10, size: int = 100) -> None:
    await site.create(name, subjects=[f"{name}.>"])
    for number in range(count):
        await site.publish(f"{name}.{number % 3}", bytes((number * 7 + at * at) % 256 for at in range(size)))


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        (b"", 10003, "bad request"),
        (b"{}", 10003, "bad request"),
        (b" { } ", 10003, "bad request"),
        ({"deliver_subject": ""}, 10015, "deliver subject not valid"),
        ({"deliver_subject": "a.*"}, 10015, "deliver subject not valid"),
        ({"deliver_subject": "a..b"}, 10015, "deliver subject not valid"),
        ({"chunk_size": 5}, 10015, "deliver subject not valid"),
        (b'{"deliver_subject":5}', 10025, None),
        ({"deliver_subject": "x", "zork": True}, 10025, 'invalid JSON: json: unknown field "zork"'),
    ],
)
async def test_what_is_no_request_is_refused(
    site: Site, name: str, body: Any, code: int, text: str | None
) -> None:
    await fill(site, name, 1)
    answer = await site.ask(f"STREAM.SNAPSHOT.{name}", body)
    assert answer["type"] == f"{PREFIX}api.v1.stream_snapshot_response"
    assert set(answer) == {"type", "error"}
    assert answer["error"]["err_code"] == code
    assert text is None or answer["error"]["description"] == text


async def test_a_stream_that_is_not_there_is_looked_for_before_the_request_is_read(site: Site) -> None:
    answer = await site.ask("STREAM.SNAPSHOT.NONE", b"{junk")
    assert answer["error"]["err_code"] == 10059


async def test_the_answer_tells_configuration_and_state(site: Site, name: str) -> None:
    await fill(site, name)
    await site.do(f"STREAM.MSG.DELETE.{name}", {"seq": 4})
    info = await site.info(name)
    taken = await site.snapshot(name)
    assert list(taken.answer) == ["type", "config", "state"]
    assert taken.answer["type"] == f"{PREFIX}api.v1.stream_snapshot_response"
    expected = {key: value for key, value in info["state"].items() if key not in ("deleted", "subjects")}
    assert taken.answer["state"] == expected
    stored = {key: value for key, value in info["config"].items() if key != "metadata"}
    assert taken.answer["config"] == {**stored, "metadata": {"_nats.req.level": "0"}}


async def test_a_small_one_is_a_chunk_and_an_end_without_header(site: Site, name: str) -> None:
    await fill(site, name, 2)
    taken = await site.snapshot(name)
    assert taken.replies == ["", ""]
    assert taken.end is None
    found = entries_of(taken.data)
    assert [each.name.decode() for each in found] == ["state.json", f"{name}.0", f"{name}.1", ""]
    assert json.loads(found[0].body) == taken.answer["state"]


async def test_full_chunks_have_a_reply_and_the_end_a_status(site: Site, name: str) -> None:
    await fill(site, name, 30)
    taken = await site.snapshot(name, chunk_size=1024, window_size=1)
    full = [each for each in taken.came if each.reply]
    assert {len(each.data) for each in full} == {1024}
    pattern = re.compile(rf"\$JS\.SNAPSHOT\.ACK\.{name}\.(\w+)\.1024\.(\d+)")
    found = [pattern.fullmatch(each.reply) for each in full]
    assert [match and int(match[2]) for match in found] == list(range(1, len(full) + 1))
    assert len({match and match[1] for match in found}) == 1
    assert taken.end == {"Status": "204"}
    assert len(messages_of(taken.data)) == 30


@pytest.mark.parametrize(("asked", "given"), [(1, 1024), (1024, 1024), (3000, 3000), (2**24, 2**20)])
async def test_the_size_of_chunks_is_bound(site: Site, name: str, asked: int, given: int) -> None:
    await site.create(name, subjects=[f"{name}.>"])
    for number in range(5):
        body = b"".join((number * 10**6 + at * at * 7919).to_bytes(8, "big") for at in range(40_000))
        await site.publish(f"{name}.x", body)
    taken = await site.snapshot(name, chunk_size=asked)
    assert len(taken.came[0].data) == given


async def test_no_more_chunks_are_under_way_than_the_window_has_room_for(site: Site, name: str) -> None:
    await fill(site, name, 60)
    taken = await site.snapshot(name, acks=False, chunk_size=1024, window_size=3 * 1024 + 5)
    assert [bool(each.reply) for each in taken.came] == [True, True, True, False]
    assert taken.end == {"Status": "408", "Description": "No Flow Response"}


async def test_whoever_stops_to_listen_ends_it(site: Site, name: str, shared_server: ServerFactory) -> None:
    await fill(site, name, 60)
    told: asyncio.Queue[Msg] = asyncio.Queue()
    listening = await site.client.subscribe(
        f"$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_COMPLETE.{name}", cb=told.put
    )
    await site.client.flush()
    other = await library(shared_server(jetstream=True).client_url)
    came = await other.subscribe("there")
    await other.flush()
    body = {"deliver_subject": "there", "chunk_size": 1024, "window_size": 1024}
    await site.do(f"STREAM.SNAPSHOT.{name}", body)
    await came.next_msg(timeout=PATIENCE_S)
    await other.close()
    complete = json.loads((await asyncio.wait_for(told.get(), PATIENCE_S)).data)
    assert complete["error"] == "no interest"
    await listening.unsubscribe()


async def test_it_waits_for_one_who_listens_to_the_very_subject(site: Site, name: str) -> None:
    """The `nats` command does this: it subscribes to a pattern for answers, and later to the chunks."""
    await fill(site, name, 2)
    answers = await site.client.subscribe(f"here.{name}.*")
    await site.client.flush()
    await site.do(f"STREAM.SNAPSHOT.{name}", {"deliver_subject": f"here.{name}.chunks"})
    chunks = await site.client.subscribe(f"here.{name}.chunks")
    chunk, end = [await chunks.next_msg(timeout=PATIENCE_S) for _ in range(2)]
    assert len(messages_of(chunk.data)) == 2
    assert end.data == b""
    for each in (answers, chunks):
        await each.unsubscribe()


async def test_who_listens_to_a_pattern_only_gets_it_later(site: Site, name: str) -> None:
    await fill(site, name, 2)
    answers = await site.client.subscribe(f"here.{name}.*")
    await site.client.flush()
    await site.do(f"STREAM.SNAPSHOT.{name}", {"deliver_subject": f"here.{name}.chunks"})
    chunk, end = [await answers.next_msg(timeout=PATIENCE_S) for _ in range(2)]
    assert len(messages_of(chunk.data)) == 2
    assert end.data == b""
    await answers.unsubscribe()


async def test_consumers_are_in_it_unless_they_are_left_out(site: Site, name: str) -> None:
    await fill(site, name, 6)
    config = {"durable_name": "C", "ack_policy": "explicit", "max_deliver": 5}
    await site.do(f"CONSUMER.DURABLE.CREATE.{name}.C", {"stream_name": name, "config": config})
    memory = {"name": "M", "ack_policy": "none", "mem_storage": True, "inactive_threshold": 10**11}
    await site.do(f"CONSUMER.CREATE.{name}.M", {"stream_name": name, "config": memory})
    delivered = await site.pull(name, "C", 3)
    await site.client.request(delivered[1].reply, b"+ACK", timeout=PATIENCE_S)
    taken = await site.snapshot(name)
    found = consumers_of(taken.data)
    assert sorted(found) == ["C", "M"]
    assert found["C"]["config"]["max_deliver"] == 5
    where = found["C"]["state"]
    assert where["delivered"] == {"consumer_seq": 3, "stream_seq": 3}
    assert where["ack_floor"] == {"consumer_seq": 0, "stream_seq": 0}
    assert {seq: each["Sequence"] for seq, each in where["pending"].items()} == {"1": 1, "3": 3}
    assert json.loads(entries_of(taken.data)[0].body)["consumer_count"] == 2
    without = await site.snapshot(name, no_consumers=True)
    assert consumers_of(without.data) == {}
    assert json.loads(entries_of(without.data)[0].body)["consumer_count"] == 0


@pytest.mark.parametrize("storage", ["file", "memory"])
async def test_everything_of_a_message_is_in_it(site: Site, name: str, storage: str) -> None:
    await site.create(name, subjects=[f"{name}.>"], storage=storage, allow_msg_ttl=True)
    await site.publish(f"{name}.a", b"body", A="b", Nats_TTL="1h")
    await site.publish(f"{name}.b", b"")
    got = (await site.do(f"STREAM.MSG.GET.{name}", {"seq": 1}))["message"]
    first, second = messages_of((await site.snapshot(name)).data)
    assert (first.name, first.seq, first.body) == (f"{name}.a".encode(), 1, b"body")
    assert first.headers == b"NATS/1.0\r\nA: b\r\nNats-TTL: 1h\r\n\r\n"
    assert f"{first.timestamp % 10**9:09}".rstrip("0") in got["time"]
    assert (second.headers, second.body) == (b"", b"")


async def test_jsck_is_accepted(site: Site, name: str) -> None:
    await fill(site, name, 2)
    assert len(messages_of((await site.snapshot(name, jsck=True)).data)) == 2


async def test_what_is_told_about_snapshots(site: Site, name: str) -> None:
    await fill(site, name, 2)
    told: asyncio.Queue[Msg] = asyncio.Queue()
    listening = await site.client.subscribe("$JS.EVENT.ADVISORY.STREAM.*." + name, cb=told.put)
    await site.client.flush()
    taken = await site.snapshot(name)
    create, complete = [await asyncio.wait_for(told.get(), PATIENCE_S) for _ in range(2)]
    await listening.unsubscribe()
    assert create.subject == f"$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_CREATE.{name}"
    event = json.loads(create.data)
    assert list(event) == ["type", "id", "timestamp", "stream", "state", "client"]
    assert event["type"] == f"{PREFIX}advisory.v1.snapshot_create"
    assert event["state"] == taken.answer["state"]
    assert complete.subject == f"$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_COMPLETE.{name}"
    event = json.loads(complete.data)
    assert list(event) == ["type", "id", "timestamp", "stream", "start", "end", "client"]
    assert event["type"] == f"{PREFIX}advisory.v1.snapshot_complete"
    assert {"id", "acc", "lang", "kind", "client_type"} <= set(event["client"])
