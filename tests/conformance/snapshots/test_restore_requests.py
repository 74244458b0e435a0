"""Restores on both servers: requests, chunks, what is wrong with an archive, what is told about it.

A restore that fails leaves a part of the stream behind on nats-server, and nothing on Millstream.
"""

import asyncio
import json
from typing import Any

import pytest
from nats.aio.msg import Msg
from nats.errors import NoRespondersError

from tests.kits.conformance.clients import ServerFactory, library
from tests.kits.conformance.snapshots import (
    END,
    TIME,
    Entry,
    Site,
    archive,
    consumer,
    join,
    message,
    pack,
    state,
)
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind

PREFIX = "io.nats.jetstream."
TWO = (state(messages=2, bytes=68, first_seq=1, last_seq=2), message(1, b"one"), message(2, b"two"))
C = {"ack_policy": "explicit"}


# -- requests ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", 10003),
        (b"{}", 10003),
        (b"{junk", 10025),
        ({"zork": 1}, 10025),
        ({"config": {"name": "OTHER"}}, 10056),
        ({"config": {"num_replicas": 6}}, 10052),
        ({"config": {"max_age": 5}}, 10052),
        ({"config": {"subjects": ["a b"]}}, 10052),
        ({"config": {"max_consumers": 5, "retention": "zork"}}, 10025),
    ],
)
async def test_what_is_no_request_is_refused(site: Site, name: str, body: Any, code: int) -> None:
    answer = await site.ask(f"STREAM.RESTORE.{name}", body)
    assert answer["type"] == f"{PREFIX}api.v1.stream_restore_response"
    assert set(answer) == {"type", "error", "deliver_subject"}
    assert (answer["error"]["err_code"], answer["deliver_subject"]) == (code, "")


async def test_a_stream_that_is_there_is_left_alone(site: Site, name: str) -> None:
    await site.create(name, subjects=[f"{name}.>"])
    answer = await site.ask(f"STREAM.RESTORE.{name}", {"config": {"name": name}})
    assert answer["error"] == {
        "code": 400,
        "err_code": 10130,
        "description": "stream name already in use, cannot restore",
    }


async def test_the_answer_says_where_to_send_chunks(site: Site, name: str) -> None:
    answer = await site.do(f"STREAM.RESTORE.{name}", {"config": {"subjects": [f"{name}.>"]}})
    assert list(answer) == ["type", "deliver_subject"]
    start, _, number = answer["deliver_subject"].rpartition(".")
    assert (start, len(number)) == (f"$JS.SNAPSHOT.RESTORE.{name}", 22)


# -- what comes back -----------------------------------------------------------------------------------------


async def test_the_last_answer_is_the_stream(site: Site, name: str) -> None:
    answer = await site.restored(name, archive(*TWO), subjects=[f"{name}.>"])
    assert list(answer) == ["type", "config", "created", "state", "ts"]
    assert answer["type"] == f"{PREFIX}api.v1.stream_create_response"
    assert answer["state"] == {
        "messages": 2,
        "bytes": 72,
        "first_seq": 1,
        "first_ts": "2023-11-14T22:13:20.000000001Z",
        "last_seq": 2,
        "last_ts": "2023-11-14T22:13:20.000000002Z",
        "num_subjects": 1,
        "consumer_count": 0,
    }
    assert answer["config"]["metadata"]["_nats.ver"] == "2.15.1"
    info = await site.info(name)
    assert {**info["config"]} == answer["config"]


@pytest.mark.parametrize("chunk", [1, 7, 1000])
async def test_chunks_may_have_any_size(site: Site, name: str, chunk: int) -> None:
    answer = await site.restored(name, archive(*TWO), chunk=chunk, subjects=[f"{name}.>"])
    assert answer["state"]["messages"] == 2


@pytest.mark.parametrize("storage", ["file", "memory"])
@pytest.mark.parametrize(
    ("first", "last", "seqs"),
    [(1, 9, [1, 9]), (1, 9, [2, 3]), (5, 9, [7]), (8, 7, []), (1, 5, []), (1000, 2000, [1000, 1999])],
)
async def test_gaps_are_kept(
    site: Site, name: str, storage: str, first: int, last: int, seqs: list[int]
) -> None:
    data = archive(
        state(messages=len(seqs), first_seq=first, last_seq=last), *(message(seq, b"x") for seq in seqs)
    )
    await site.restored(name, data, subjects=[f"{name}.>"], storage=storage)
    found = (await site.info(name))["state"]
    lowest = seqs[0] if seqs else last + 1
    assert (found["messages"], found["first_seq"], found["last_seq"]) == (len(seqs), lowest, last)
    gone = [seq for seq in range(lowest, last + 1) if seq not in seqs] if seqs else []
    assert found.get("deleted", []) == gone
    assert await site.publish(f"{name}.next") == last + 1


async def test_the_new_configuration_holds(site: Site, name: str) -> None:
    data = archive(state(messages=3, first_seq=1, last_seq=3), *(message(seq, b"x") for seq in range(1, 4)))
    answer = await site.restored(name, data, subjects=[f"{name}.>"], max_msgs=2, storage="memory")
    assert (answer["state"]["first_seq"], answer["config"]["storage"]) == (2, "memory")


async def test_a_time_to_live_that_is_over_leaves_a_gap(site: Site, name: str) -> None:
    headers = b"NATS/1.0\r\nNats-TTL: 5s\r\n\r\n"
    data = archive(
        state(messages=2, first_seq=1, last_seq=2), message(1, b"x", headers=headers), message(2, b"y")
    )
    answer = await site.restored(name, data, subjects=[f"{name}.>"], allow_msg_ttl=True)
    assert (answer["state"]["messages"], answer["state"]["first_seq"]) == (1, 2)


async def test_consumers_go_on_where_they_were(site: Site, name: str) -> None:
    where = {
        "delivered": {"consumer_seq": 6, "stream_seq": 4},
        "ack_floor": {"consumer_seq": 1, "stream_seq": 1},
        "pending": {"2": {"Sequence": 2, "Timestamp": TIME}, "4": {"Sequence": 4, "Timestamp": TIME}},
        "redelivered": {"2": 1, "4": 1},
    }
    entries = (
        state(messages=6, first_seq=1, last_seq=6, consumer_count=1),
        consumer("C", {**C, "max_deliver": 3, "ack_wait": 2 * 10**9}, where),
        *(message(seq, b"%d" % seq) for seq in range(1, 7)),
    )
    await site.restored(name, archive(*entries), subjects=[f"{name}.>"])
    found = await site.consumer(name, "C")
    assert found["delivered"] == {"consumer_seq": 6, "stream_seq": 4}
    assert found["ack_floor"] == {"consumer_seq": 1, "stream_seq": 1}
    assert (found["num_ack_pending"], found["num_redelivered"], found["num_pending"]) == (2, 2, 2)

    again: list[Msg] = []
    new: list[str] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(again) < 2:
            for each in await site.pull(name, "C", 4):
                tokens = each.reply.split(".")
                if tokens[4] == "1":
                    new.append(tokens[5])
                    await site.client.request(each.reply, b"+ACK", timeout=PATIENCE_S)
                else:
                    again.append(each)
            await asyncio.sleep(0.05)
    assert sorted(new) == ["5", "6"]
    assert sorted((each.reply.split(".")[4], each.reply.split(".")[5]) for each in again) == [
        ("3", "2"),
        ("3", "4"),
    ]


async def test_ephemeral_consumers_come_back(site: Site, name: str) -> None:
    entry = Entry(b"consumers/E", body=b'{"config":{"name":"E","ack_policy":"explicit"},"state":{}}')
    await site.restored(name, archive(state(consumer_count=1), entry), subjects=[f"{name}.>"])
    found = await site.consumer(name, "E")
    assert "durable_name" not in found["config"]
    assert found["config"]["inactive_threshold"] == 5 * 10**9


# -- what is wrong -------------------------------------------------------------------------------------------

_GOOD = archive(*TWO)
BAD = {
    "nothing": (b"", "EOF"),
    "no archive": (b"hello world, this is no archive", "s2: corrupt input"),
    "only a name": (_GOOD[:10], "EOF"),
    "a few bytes": (pack(b"abc"), "unexpected EOF"),
    "another name": (b"\xff\x06\x00\x00sNaPpX" + _GOOD[10:], "s2: corrupt input"),
    "no name": (_GOOD[10:], "s2: corrupt input"),
    "cut in a frame": (_GOOD[:-3], "s2: corrupt input"),
    "a bit in a checksum": (
        _GOOD[:15] + bytes((_GOOD[15] ^ 1,)) + _GOOD[16:],
        "s2: corrupt input, crc mismatch",
    ),
    "an unknown frame": (_GOOD[:10] + b"\x02\x01\x00\x00a" + _GOOD[10:], "s2: unsupported input"),
    "no end": (pack(join(*TWO)), "EOF"),
    "cut in an entry": (pack(join(*TWO)[:-12]), "archive: invalid archive stream"),
    "cut in a message": (
        pack(join(*TWO)[:-2]),
        "failed to read message sequence 2: archive: invalid archive stream",
    ),
    "cut in the state": (pack(join(*TWO)[:50]), "error in state.json: archive: invalid archive stream"),
    "cut in a consumer": (
        pack(join(state(consumer_count=1), consumer("C", C, {}))[:-5]),
        'failed to decode consumer "C" state: archive: invalid archive stream',
    ),
    "no state": (archive(*TWO[1:]), "expected state.json first"),
    "state is cut": (
        archive(Entry(b"state.json", body=b'{"messages":'), *TWO[1:]),
        "error in state.json: unexpected EOF",
    ),
    "state is empty": (archive(Entry(b"state.json"), *TWO[1:]), "error in state.json: EOF"),
    "state of another type": (
        archive(Entry(b"state.json", body=b'{"messages":"x"}'), *TWO[1:]),
        "error in state.json: json: cannot unmarshal string into Go struct field StreamState.messages"
        " of type uint64",
    ),
    "more messages than sequences": (
        archive(state(messages=3, first_seq=1, last_seq=2)),
        "invalid stream state: message count exceeds sequence range",
    ),
    "a last sequence below the first": (
        archive(state(messages=1, first_seq=3, last_seq=2)),
        "invalid stream state: inconsistent message count or sequence range",
    ),
    "no first sequence": (
        archive(state(messages=1, first_seq=0, last_seq=2)),
        "invalid stream state: inconsistent message count or sequence range",
    ),
    "fewer than no consumers": (
        archive(state(consumer_count=-1)),
        "invalid stream state: negative consumer count",
    ),
    "out of order": (archive(TWO[0], TWO[2], TWO[1]), "message sequence 1 out of order"),
    "twice": (archive(TWO[0], TWO[1], TWO[1]), "message sequence 1 out of order"),
    "below the first": (
        archive(state(messages=1, first_seq=2, last_seq=2), TWO[1]),
        "message sequence 1 out of order",
    ),
    "no sequence": (archive(TWO[0], message(0, b"x")), "expected message sequence"),
    "too large": (
        archive(TWO[0], message(1, bytes(1024 * 1024 + 1))),
        "message sequence 1 exceeds maximum payload size",
    ),
    "a time to live that is none": (
        archive(TWO[0], message(1, headers=b"NATS/1.0\r\nNats-TTL: zork\r\n\r\n")),
        "failed to parse message TTL: invalid per-message TTL (10165)",
    ),
    "a consumer that is missing": (
        archive(state(consumer_count=1), *TWO[1:]),
        'expected consumer, found "a.b"',
    ),
    "a consumer too many": (
        archive(TWO[0], consumer("C", C, {}), *TWO[1:]),
        "expected message sequence",
    ),
    "a consumer without configuration": (
        archive(state(consumer_count=1), Entry(b"consumers/C", body=b'{"state":{}}')),
        'consumer "C" is missing config',
    ),
    "a consumer without state": (
        archive(state(consumer_count=1), Entry(b"consumers/C", body=b'{"config":{}}')),
        'consumer "C" is missing state',
    ),
    "a consumer that is no JSON": (
        archive(state(consumer_count=1), Entry(b"consumers/C", body=b"junk")),
        "failed to decode consumer \"C\" state: invalid character 'j' looking for beginning of value",
    ),
    "a consumer with a wrong floor": (
        archive(
            state(consumer_count=1), consumer("C", C, {"ack_floor": {"consumer_seq": 1, "stream_seq": 0}})
        ),
        'failed to set consumer "C" state: bad ack floor for consumer',
    ),
    "a consumer with another wrong floor": (
        archive(
            state(consumer_count=1), consumer("C", C, {"ack_floor": {"consumer_seq": 0, "stream_seq": 1}})
        ),
        'failed to set consumer "C" state: bad ack floor for stream',
    ),
    "pending what was not delivered": (
        archive(state(consumer_count=1), consumer("C", C, {"pending": {"5": {"Sequence": 1}}})),
        'failed to set consumer "C" state: bad pending entry, sequence [5] out of range',
    ),
    "a consumer that may not be": (
        archive(state(consumer_count=1), consumer("C", {**C, "max_deliver": 1, "backoff": [1, 2]}, {})),
        'failed to add consumer "C": max deliver is required to be > length of backoff values (10116)',
    ),
    "neither form": (pack(b"neither one nor the other " * 100), "archive/tar: invalid tar header"),
}


@pytest.mark.parametrize("case", BAD)
async def test_bad_archives_are_refused(site: Site, name: str, server_kind: ServerKind, case: str) -> None:
    data, complaint = BAD[case]
    answer = await site.restore(name, data, subjects=[f"{name}.>"], allow_msg_ttl=True)
    assert set(answer) == {"type", "error"}
    assert answer["type"] == f"{PREFIX}api.v1.stream_create_response"
    assert answer["error"] == {
        "code": 500,
        "err_code": 10062,
        "description": f"restore failed: {complaint}",
    }
    if server_kind is ServerKind.MILLSTREAM:
        assert (await site.ask(f"STREAM.INFO.{name}"))["error"]["err_code"] == 10059


async def test_nobody_looks_at_what_follows_the_end(site: Site, name: str) -> None:
    data = pack(join(*TWO, END, message(9, b"x"))) + b"junk"
    assert (await site.restored(name, data, subjects=[f"{name}.>"]))["state"]["last_seq"] == 2


async def test_there_must_be_room_for_what_is_announced(site: Site, name: str) -> None:
    data = archive(state(messages=2, bytes=2**60, first_seq=1, last_seq=2), *TWO[1:])
    answer = await site.restore(name, data, subjects=[f"{name}.>"])
    assert (answer["error"]["code"], answer["error"]["err_code"]) == (500, 10047)


async def test_subjects_must_be_free(site: Site, name: str) -> None:
    await site.create(f"{name}B", subjects=[f"{name}.x"])
    answer = await site.restore(name, archive(*TWO), subjects=[f"{name}.>"])
    assert answer["error"]["err_code"] == 10062
    text = "restore failed: error adding stream: subjects overlap with an existing stream (10065)"
    assert answer["error"]["description"] == text


async def test_replicas_are_refused_at_the_end(site: Site, name: str) -> None:
    answer = await site.restore(name, archive(*TWO), subjects=[f"{name}.>"], num_replicas=3)
    assert answer["error"]["err_code"] == 10062
    assert answer["error"]["description"] == (
        "restore failed: error adding stream: replicas > 1 not supported in non-clustered mode (10074)"
    )


async def test_a_chunk_needs_a_reply(site: Site, name: str) -> None:
    told: asyncio.Queue[Msg] = asyncio.Queue()
    complete = f"$JS.EVENT.ADVISORY.STREAM.RESTORE_COMPLETE.{name}"
    listening = await site.client.subscribe(complete, cb=told.put)
    await site.client.flush()
    subject = await site.begin_restore(name, {"subjects": [f"{name}.>"]})
    await site.client.publish(subject, b"chunk")
    assert (await asyncio.wait_for(told.get(), PATIENCE_S)).subject == complete
    await listening.unsubscribe()
    with pytest.raises(NoRespondersError):
        await site.client.request(subject, b"chunk", timeout=PATIENCE_S)


async def test_what_is_told_about_restores(site: Site, name: str) -> None:
    told: asyncio.Queue[Msg] = asyncio.Queue()
    listening = await site.client.subscribe(f"$JS.EVENT.ADVISORY.STREAM.*.{name}", cb=told.put)
    await site.client.flush()
    await site.restored(name, _GOOD, chunk=50, subjects=[f"{name}.>"])
    create, *others = [await asyncio.wait_for(told.get(), PATIENCE_S) for _ in range(3)]
    created, complete = sorted(others, key=lambda event: event.subject)  # nats-server sends them in any order
    await listening.unsubscribe()
    assert create.subject == f"$JS.EVENT.ADVISORY.STREAM.RESTORE_CREATE.{name}"
    assert created.subject == f"$JS.EVENT.ADVISORY.STREAM.CREATED.{name}"
    event = json.loads(create.data)
    assert list(event) == ["type", "id", "timestamp", "stream", "client"]
    assert event["type"] == f"{PREFIX}advisory.v1.restore_create"
    assert complete.subject == f"$JS.EVENT.ADVISORY.STREAM.RESTORE_COMPLETE.{name}"
    event = json.loads(complete.data)
    assert list(event) == ["type", "id", "timestamp", "stream", "start", "end", "bytes", "client"]
    assert event["type"] == f"{PREFIX}advisory.v1.restore_complete"
    assert 0 <= event["bytes"] <= len(_GOOD)  # nats-server counts behind


async def test_a_restored_stream_survives_a_restart(name: str, own_server: ServerFactory) -> None:
    server = own_server(jetstream=True)
    client = await library(server.client_url)
    where = {
        "delivered": {"consumer_seq": 3, "stream_seq": 2},
        "ack_floor": {"consumer_seq": 1, "stream_seq": 1},
        "pending": {"2": {"Sequence": 2, "Timestamp": TIME}},
        "redelivered": {"2": 1},
    }
    data = archive(
        state(messages=2, bytes=72, first_seq=1, last_seq=5, consumer_count=1),
        consumer("C", {**C, "ack_wait": 10**12}, where),
        *TWO[1:],
    )
    site = Site(client)
    await site.restored(name, data, subjects=[f"{name}.>"])
    before = (await site.info(name))["state"], await site.consumer(name, "C")
    await client.close()
    server.restart()
    client = await library(server.client_url)
    site = Site(client)
    assert ((await site.info(name))["state"], await site.consumer(name, "C")) == before
    assert before[0]["last_seq"] == 5
    await client.close()
