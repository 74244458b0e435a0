"""Restores from one server to the other and back: every message and every consumer.

Streams are filled at random on one server, taken from there with a snapshot, and restored on the other; then
both are asked the same, and a snapshot of the copy has to hold what the first one held.
"""

import asyncio
import itertools
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kits.conformance.clients import library
from tests.kits.conformance.snapshots import (
    Site,
    Snapshot,
    consumers_of,
    entries_of,
    messages_of,
    old_archive,
)
from tests.kits.paths import GOLDEN
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, ServerProcess

NATS, MILLSTREAM = ServerKind.NATS_SERVER, ServerKind.MILLSTREAM
WAYS = pytest.mark.parametrize(
    ("origin", "target"), [(MILLSTREAM, MILLSTREAM), (NATS, MILLSTREAM), (MILLSTREAM, NATS)], ids=str
)
INWARD = pytest.mark.parametrize(
    ("origin", "target"), [(MILLSTREAM, MILLSTREAM), (NATS, MILLSTREAM)], ids=str
)
Servers = dict[ServerKind, ServerProcess]
STORES = sorted((GOLDEN / "foreign_stores").glob("*.tar.xz"))
_numbers = itertools.count(1)
_HOUR = 3600 * 10**9


async def compare(origin: Site, target: Site, name: str, taken: Snapshot) -> None:
    """The stream is the same on both, and so is what a snapshot of the copy holds."""
    first, second = await origin.info(name), await target.info(name)
    assert second["config"] == first["config"]
    if second["state"]["last_ts"] != first["state"]["last_ts"]:  # of a message that was deleted
        second["state"]["last_ts"] = first["state"]["last_ts"]
        assert first["state"]["last_seq"] in first["state"].get("deleted", [first["state"]["last_seq"]])
    if first["state"]["messages"]:
        assert second["state"] == first["state"]
    else:  # the first sequence of an empty stream is not always behind the last on nats-server
        assert second["state"]["messages"] == 0
        assert second["state"]["last_seq"] == first["state"]["last_seq"]
    first_seq = max(first["state"]["first_seq"], second["state"]["first_seq"])
    there = {str(each.seq) for each in messages_of(taken.data)}
    before = consumers_of(taken.data)
    for consumer in before:
        infos = [await site.consumer(name, consumer) for site in (origin, target)]
        for each in infos:
            lifted(each, first_seq)
            if before[consumer]["state"].get("redelivered", {}).keys() - there:
                del each["num_redelivered"]
        assert infos[1] == infos[0]
    again = await target.snapshot(name)
    assert messages_of(again.data) == messages_of(taken.data)
    after = consumers_of(again.data)
    for each in (*before.values(), *after.values()):
        state = lifted(each["state"], first_seq)
        counts = state.pop("redelivered", {}).items()
        state["redelivered"] = {seq: count for seq, count in counts if seq in there}
    assert after == before


def lifted(place: dict[str, Any], first_seq: int) -> dict[str, Any]:
    """Nats-server lifts a restored consumer to where the stream begins; on Millstream it is where it was.

    It also keeps count of deliveries of messages that are gone.
    """
    for each in ("delivered", "ack_floor"):
        place[each]["stream_seq"] = max(place[each]["stream_seq"], first_seq - 1)
    return place


async def carry(origin: Site, target: Site, name: str) -> None:
    taken = await origin.snapshot(name, chunk_size=2000)
    answer = await target.restored(name, taken.data, chunk=1500, **without_name(taken.answer["config"]))
    assert answer["state"]["messages"] == taken.answer["state"]["messages"]
    await compare(origin, target, name, taken)


def without_name(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != "name"}


# -- at random -----------------------------------------------------------------------------------------------

_BODY = st.one_of(
    st.binary(max_size=60),
    st.integers(0, 5000).map(lambda size: b"the same words " * (size // 15)),
    st.integers(0, 3000).map(lambda size: bytes((at * at * 31 + size) % 256 for at in range(size))),
)
_TEXT = st.text(st.characters(codec="ascii", min_codepoint=33, max_codepoint=126))
_HEADERS = st.dictionaries(st.sampled_from(["X-A", "x-b", "Other"]), _TEXT, max_size=3)
_MESSAGE = st.tuples(st.sampled_from("abcdé"), _BODY, _HEADERS, st.sampled_from(["", "1h", "never"]))
_REMOVAL = st.tuples(st.integers(1, 40), st.booleans())
_ACK = st.sampled_from([b"+ACK", b"-NAK", b"+TERM", b"+WPI", b""])
_CONSUMER = st.fixed_dictionaries(
    {
        "filter": st.sampled_from(["", "a", "b"]),
        "pulls": st.lists(st.lists(_ACK, min_size=1, max_size=6), max_size=3),
        "max_deliver": st.sampled_from([-1, 2, 10]),
        "deliver_policy": st.sampled_from(["all", "last", "new"]),
    }
)


@WAYS
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    messages=st.lists(_MESSAGE, min_size=1, max_size=40),
    removals=st.lists(_REMOVAL, max_size=6),
    purge=st.integers(0, 10),
    consumers=st.lists(_CONSUMER, max_size=2),
    storage=st.sampled_from(["file", "file", "memory"]),
    retention=st.sampled_from(["limits", "limits", "interest"]),
)
def test_anything_is_carried_over(
    origins: Servers,
    targets: Servers,
    origin: ServerKind,
    target: ServerKind,
    **content: Any,
) -> None:
    async def run() -> None:
        clients = [await library(each.client_url) for each in (origins[origin], targets[target])]
        first, second = map(Site, clients)
        name = f"R{next(_numbers)}"
        try:
            await fill(first, name, **content)
            await carry(first, second, name)
        finally:
            for client in clients:
                await Site(client).ask(f"STREAM.DELETE.{name}")
                await client.close()

    asyncio.run(run())


async def fill(
    site: Site,
    name: str,
    *,
    messages: list[Any],
    removals: list[Any],
    purge: int,
    consumers: list[dict[str, Any]],
    storage: str,
    retention: str,
) -> None:
    await site.create(name, subjects=[f"{name}.>"], storage=storage, retention=retention, allow_msg_ttl=True)
    for number, each in enumerate(consumers):
        config = {
            "durable_name": f"C{number}",
            "ack_policy": "explicit",
            "ack_wait": _HOUR,
            "max_deliver": each["max_deliver"],
            "deliver_policy": each["deliver_policy"],
        }
        if each["filter"]:
            config["filter_subject"] = f"{name}.{each['filter']}"
        await site.do(f"CONSUMER.DURABLE.CREATE.{name}.C{number}", {"stream_name": name, "config": config})
    for token, body, headers, ttl in messages:
        named = {**headers, **({"Nats-TTL": ttl} if ttl else {})}
        await site.publish(f"{name}.{token}", body, **named)
    for number, each in enumerate(consumers):
        for acks in each["pulls"]:
            for msg, payload in zip(await site.pull(name, f"C{number}", len(acks)), acks, strict=False):
                if payload:
                    await site.client.request(msg.reply, payload, timeout=PATIENCE_S)
    for seq, erase in removals:
        await site.ask(f"STREAM.MSG.DELETE.{name}", {"seq": seq, "no_erase": not erase})
    if purge > 5 and not consumers:  # nats-server still waits for acks of messages that a purge took away
        await site.do(f"STREAM.PURGE.{name}", {"seq": purge})


# -- by example ----------------------------------------------------------------------------------------------


@WAYS
async def test_a_consumer_goes_on_on_the_other_server(here: Site, there: Site, name: str) -> None:
    name = f"G{name}"
    await here.create(name, subjects=[f"{name}.>"], retention="workqueue")
    for number in range(20):
        await here.publish(f"{name}.x", b"%d" % number)
    config = {"durable_name": "C", "ack_policy": "explicit", "ack_wait": 2 * 10**9}
    await here.do(f"CONSUMER.DURABLE.CREATE.{name}.C", {"stream_name": name, "config": config})
    done = [each for each in await here.pull(name, "C", 10) if int(each.data) % 2]
    for each in done:
        await here.client.request(each.reply, b"+ACK", timeout=PATIENCE_S)
    taken = await here.snapshot(name)
    await there.restored(name, taken.data, **without_name(taken.answer["config"]))
    acked = {int(each.data) for each in done}
    seen: set[int] = set()
    async with asyncio.timeout(PATIENCE_S):
        while len(seen) < 15:
            for each in await there.pull(name, "C", 20):
                seen.add(int(each.data))
                await there.client.request(each.reply, b"+ACK", timeout=PATIENCE_S)
            await asyncio.sleep(0.02)
    assert seen == set(range(20)) - acked
    assert (await there.info(name))["state"]["messages"] == 0
    for site in (here, there):
        await site.do(f"STREAM.DELETE.{name}")


@WAYS
async def test_a_stream_that_is_written_meanwhile_is_carried_over_as_it_was(
    here: Site, there: Site, name: str
) -> None:
    name = f"W{name}"
    await here.create(name, subjects=[f"{name}.>"])
    for number in range(300):
        await here.publish(f"{name}.{number % 7}", b"%d" % number * 50)
    going = True

    async def write() -> None:
        number = 300
        while going:
            await here.publish(f"{name}.{number % 7}", b"%d" % number * 50)
            number += 1

    writing = asyncio.create_task(write())
    taken = await here.snapshot(name, chunk_size=1024, window_size=1024)
    going = False
    await writing
    last = taken.answer["state"]["last_seq"]
    found = messages_of(taken.data)
    assert [each.seq for each in found] == list(range(1, last + 1))
    assert [each.body for each in found] == [b"%d" % number * 50 for number in range(last)]
    answer = await there.restored(name, taken.data, **without_name(taken.answer["config"]))
    assert (answer["state"]["messages"], answer["state"]["last_seq"]) == (last, last)
    for site in (here, there):
        await site.do(f"STREAM.DELETE.{name}")


@pytest.mark.parametrize("origin", [MILLSTREAM], ids=str)
async def test_each_subject_has_its_message_in_a_snapshot_of_a_stream_that_replaces_them(
    here: Site, name: str
) -> None:
    """Nats-server reads while messages are replaced, and may find neither the old one nor the new one."""
    name = f"K{name}"
    await here.create(name, subjects=[f"{name}.>"], max_msgs_per_subject=1)
    for number in range(200):
        await here.publish(f"{name}.{number}", b"%d" % number * 50)
    going = True

    async def replace() -> None:
        while going:
            for number in range(199, -1, -1):
                await here.publish(f"{name}.{number}", b"another")

    replacing = asyncio.create_task(replace())
    taken = await here.snapshot(name, chunk_size=1024, window_size=1024)
    going = False
    await replacing
    assert len({each.name for each in messages_of(taken.data)}) == 200
    await here.do(f"STREAM.DELETE.{name}")


@pytest.mark.parametrize("target", [MILLSTREAM], ids=str)
@pytest.mark.parametrize("store", STORES, ids=lambda path: path.name.removesuffix(".tar.xz"))
async def test_the_files_that_a_server_left_long_ago_are_restored(
    there: Site, store: Path, tmp_path: Path
) -> None:
    with tarfile.open(store) as tar:
        tar.extractall(tmp_path, filter="data")
    folder = tmp_path / "jetstream" / "$G" / "streams" / "ORDERS"
    config = json.loads((folder / "meta.inf").read_text())
    answer = await there.restored("ORDERS", old_archive(folder), subjects=config["subjects"])
    assert answer["state"]["messages"] == 3
    taken = await there.snapshot("ORDERS")
    assert [(each.name, each.body) for each in messages_of(taken.data)] == [
        (b"orders.%d" % number, b"order %d" % number) for number in range(3)
    ]
    assert (await there.consumer("ORDERS", "billing"))["ack_floor"]["stream_seq"] == 1
    assert [each.data for each in await there.pull("ORDERS", "billing", 3)] == [b"order 1", b"order 2"]
    await there.do("STREAM.DELETE.ORDERS")


@pytest.mark.oracle
@pytest.mark.parametrize("target", list(ServerKind), ids=str)
async def test_the_files_of_an_older_server_are_restored(there: Site, tmp_path: Path, name: str) -> None:
    """Nats-server's files are still those that an archive of the older form is made of."""
    name = f"O{name}"
    content: dict[str, Any] = {
        "messages": [
            ("abc"[number % 3], b"%d " % number * number, {"X-A": "b"} if number % 2 else {}, "")
            for number in range(1, 120)
        ],
        "removals": [(5, True), (6, False), (1, False), (2, True), (119, False), (60, True), (61, False)],
        "purge": 0,
        "consumers": [
            {
                "filter": "",
                "pulls": [[b"+ACK", b"", b"-NAK", b"+ACK"], [b"", b""]],
                "max_deliver": 10,
                "deliver_policy": "all",
            }
        ],
        "storage": "file",
        "retention": "limits",
    }
    with ServerProcess(NATS, jetstream=True, store_dir=tmp_path) as old:
        client = await library(old.client_url)
        site = Site(client)
        await fill(site, name, **content)
        info, consumer = await site.info(name), await site.consumer(name, "C0")
        taken = await site.snapshot(name)
        await client.close()
    data = old_archive(tmp_path / "jetstream" / "$G" / "streams" / name)
    answer = await there.restored(name, data, **without_name(taken.answer["config"]))
    assert answer["created"] == info["created"]
    assert (await there.info(name))["state"] == info["state"]
    assert await there.consumer(name, "C0") == consumer
    again = await there.snapshot(name)
    assert messages_of(again.data) == messages_of(taken.data)
    pending = {
        seq: (each["Sequence"], each["Timestamp"] // 10**9)
        for seq, each in consumers_of(taken.data)["C0"]["state"]["pending"].items()
    }
    found = consumers_of(again.data)["C0"]["state"]["pending"]
    assert {seq: (each["Sequence"], each["Timestamp"] // 10**9) for seq, each in found.items()} == pending
    await there.do(f"STREAM.DELETE.{name}")


@INWARD
async def test_every_bit_of_an_archive_is_looked_at(here: Site, there: Site, name: str) -> None:
    name = f"D{name}"
    await here.create(name, subjects=[f"{name}.>"])
    for number in range(3):
        await here.publish(f"{name}.x", b"words and words and words %d" % number)
    taken = await here.snapshot(name)
    data = bytearray(taken.data)
    whole = messages_of(taken.data)
    config = without_name(taken.answer["config"])
    for at in range(0, len(data), 7):
        data[at] ^= 1 << at % 8
        answer = await there.restore(name, bytes(data), **config)
        data[at] ^= 1 << at % 8
        if "error" not in answer:  # in what is not looked at
            assert messages_of((await there.snapshot(name)).data) == whole
            await there.do(f"STREAM.DELETE.{name}")
        else:
            assert answer["error"]["err_code"] == 10062
            assert (await there.ask(f"STREAM.INFO.{name}"))["error"]["err_code"] == 10059
    for end in range(0, len(data), 11):
        answer = await there.restore(name, bytes(data[:end]), **config)
        assert answer["error"]["err_code"] == 10062
    assert json.loads(entries_of(taken.data)[0].body)["messages"] == 3
    await here.do(f"STREAM.DELETE.{name}")
