"""Tests that what ends in JetStream leaves nothing behind that only the garbage collector would find."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import nats
import pytest
from nats.aio.client import Client
from nats.js import JetStreamContext

from millstream.jsapi.names import METADATA_DEAD_LETTER, METADATA_PER_KEY
from millstream.server.server import Server
from tests.kits.client import eventually
from tests.kits.leftovers import nothing_stays

MESSAGES: Final = 20  # in the stream S
SECOND_NS: Final = 10**9


class Site:
    """A server in this process with the streams S, which has messages, and X, which takes everything."""

    def __init__(self, server: Server, client: Client) -> None:
        self.server = server
        self.client = client
        self.streams: JetStreamContext = client.jetstream()
        self._numbers = itertools.count()

    async def prepare(self) -> None:
        await self.api("STREAM.CREATE.S", name="S", subjects=["s.>"], allow_direct=True)
        rules = {"allow_atomic": True, "allow_batched": True, "allow_msg_ttl": True}
        await self.api("STREAM.CREATE.X", name="X", subjects=["x.>"], max_msgs=50, **rules)
        for number in range(MESSAGES):
            await self.streams.publish("s.a", b"%d" % number * 50)
        await self.consumer("X", "kept", filter_subject="x.nothing")

    async def api(self, verb: str, **body: Any) -> dict[str, Any]:
        text = json.dumps(body).encode() if body else b""
        answer: dict[str, Any] = json.loads((await self.client.request(f"$JS.API.{verb}", text)).data)
        assert "error" not in answer, (verb, answer)
        return answer

    def name(self) -> str:
        """Return a name that nothing had before."""
        return f"N{next(self._numbers)}"

    async def consumer(self, stream: str, name: str, **config: Any) -> None:
        config = {"durable_name": name, "ack_policy": "explicit", **config}
        await self.api(f"CONSUMER.DURABLE.CREATE.{stream}.{name}", stream_name=stream, config=config)

    async def pull(self, stream: str, consumer: str, count: int, ack: bytes = b"+ACK") -> None:
        """Read messages, and wait for the confirmations of their acks."""
        inbox = self.client.new_inbox()
        subscription = await self.client.subscribe(inbox)
        await self.client.publish(
            f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}", b'{"batch":%d}' % count, reply=inbox
        )
        for _ in range(count):
            message = await subscription.next_msg()
            await self.client.request(message.reply, ack)
        await subscription.unsubscribe()

    async def until_copied(self, stream: str) -> None:
        async def copied() -> bool:
            return bool((await self.api(f"STREAM.INFO.{stream}"))["state"]["messages"] >= MESSAGES)

        await eventually(copied, "the messages were not copied")

    async def end_origins(self) -> None:
        """Delete the consumers of mirrors and sources that are gone: they would end when nobody listens."""
        engine = self.server.jetstream.engine
        assert engine is not None
        for stream in engine.accounts["$G"].streams.values():
            for consumer in list(stream.consumers.values()):
                if consumer.config.direct:
                    consumer.delete()


# -- consumers ----------------------------------------------------------------------------------------


async def pull_consumer(site: Site) -> None:
    name = site.name()
    await site.consumer("S", name)
    await site.pull("S", name, 5)
    await site.api(f"CONSUMER.DELETE.S.{name}")


async def consumer_that_nobody_uses(site: Site) -> None:
    name = site.name()
    await site.consumer("S", name)
    await site.api(f"CONSUMER.DELETE.S.{name}")


async def push_consumer(site: Site) -> None:
    """End a consumer with timers: its messages are not acknowledged."""
    name, inbox = site.name(), site.client.new_inbox()
    subscription = await site.client.subscribe(inbox)
    flow = {"flow_control": True, "idle_heartbeat": 5 * SECOND_NS}
    await site.consumer("S", name, deliver_subject=inbox, **flow)
    for _ in range(5):
        await subscription.next_msg()
    await subscription.unsubscribe()
    await site.api(f"CONSUMER.DELETE.S.{name}")


async def ordered_consumer(site: Site) -> None:
    reader = await site.streams.subscribe("s.>", ordered_consumer=True)
    for _ in range(10):
        await reader.next_msg()
    name = (await reader.consumer_info()).name
    await reader.unsubscribe()
    await site.api(f"CONSUMER.DELETE.S.{name}")


async def forgotten_consumer(site: Site) -> None:
    """It ends by itself, because nobody uses it."""
    name = site.name()
    config = {"name": name, "ack_policy": "explicit", "inactive_threshold": SECOND_NS // 50}
    await site.api(f"CONSUMER.CREATE.S.{name}", stream_name="S", config=config)


async def consumer_with_redeliveries(site: Site) -> None:
    name = site.name()
    await site.consumer("S", name, ack_wait=SECOND_NS // 50, max_deliver=5, backoff=[SECOND_NS // 50])
    await site.pull("S", name, 5, b"-NAK")
    await site.pull("S", name, 3, b'-NAK {"delay": 10000000000}')
    await site.api(f"CONSUMER.DELETE.S.{name}")


async def consumer_with_acks_of_all(site: Site) -> None:
    name = site.name()
    await site.consumer("S", name, ack_policy="all")
    await site.pull("S", name, 5)
    await site.api(f"CONSUMER.DELETE.S.{name}")


async def paused_consumer(site: Site) -> None:
    name = site.name()
    await site.consumer("S", name, pause_until="2100-01-01T00:00:00Z")
    await site.api(f"CONSUMER.DELETE.S.{name}")


async def pinned_consumer(site: Site) -> None:
    name, inbox = site.name(), site.client.new_inbox()
    subscription = await site.client.subscribe(inbox)
    pins = {"priority_policy": "pinned_client", "priority_groups": ["A"], "priority_timeout": SECOND_NS}
    await site.consumer("S", name, **pins)
    await site.client.publish(f"$JS.API.CONSUMER.MSG.NEXT.S.{name}", b'{"batch":1,"group":"A"}', reply=inbox)
    await subscription.next_msg()
    await subscription.unsubscribe()
    await site.api(f"CONSUMER.DELETE.S.{name}")


async def consumer_with_order_by_key(site: Site) -> None:
    name = site.name()
    await site.consumer("S", name, metadata={METADATA_PER_KEY: "1"})
    await site.pull("S", name, 2)
    await site.api(f"CONSUMER.DELETE.S.{name}")


async def consumer_with_dead_letters(site: Site) -> None:
    name = site.name()
    await site.consumer("S", name, metadata={METADATA_DEAD_LETTER: "x.dead"})
    await site.pull("S", name, 3, b"+TERM")
    await site.api(f"CONSUMER.DELETE.S.{name}")


async def consumer_that_is_updated(site: Site) -> None:
    name = site.name()
    await site.consumer("S", name)
    await site.consumer("S", name, filter_subject="s.a", ack_wait=SECOND_NS)
    await site.api(f"CONSUMER.DELETE.S.{name}")


# -- pull requests ------------------------------------------------------------------------------------


async def expired_request(site: Site) -> None:
    inbox = site.client.new_inbox()
    subscription = await site.client.subscribe(inbox)
    body = b'{"batch":5,"expires":20000000,"idle_heartbeat":5000000}'
    await site.client.publish("$JS.API.CONSUMER.MSG.NEXT.X.kept", body, reply=inbox)
    while (await subscription.next_msg()).headers.get("Status") != "408":
        pass
    await subscription.unsubscribe()


async def request_of_a_client_that_leaves(site: Site) -> None:
    async with await nats.connect(site.server.client_url) as client:
        inbox = client.new_inbox()
        await client.subscribe(inbox)
        await client.publish(
            "$JS.API.CONSUMER.MSG.NEXT.X.kept", b'{"batch":5,"expires":50000000}', reply=inbox
        )
        await client.flush()


# -- streams ------------------------------------------------------------------------------------------


async def stream_on_disk(site: Site, **config: Any) -> None:
    name = site.name()
    await site.api(f"STREAM.CREATE.{name}", name=name, subjects=[f"{name}.>"], **config)
    for number in range(8):
        await site.streams.publish(f"{name}.a", b"x", headers={"Nats-Msg-Id": str(number)})
    await site.api(f"STREAM.DELETE.{name}")


async def stream_in_memory(site: Site) -> None:
    await stream_on_disk(site, storage="memory")


async def stream_with_every_rule(site: Site) -> None:
    await stream_on_disk(
        site,
        max_msgs=5,
        max_age=100 * SECOND_NS,
        max_msgs_per_subject=4,
        allow_msg_ttl=True,
        allow_rollup_hdrs=True,
        allow_atomic=True,
        allow_batched=True,
        allow_direct=True,
        allow_msg_schedules=True,
        compression="s2",
        republish={"src": ">", "dest": "again.>"},
    )


async def stream_with_consumers(site: Site, **config: Any) -> None:
    name = site.name()
    await site.api(f"STREAM.CREATE.{name}", name=name, subjects=[f"{name}.>"], **config)
    await site.consumer(name, "c")
    for _ in range(4):
        await site.streams.publish(f"{name}.a", b"x")
    await site.pull(name, "c", 2)
    await site.api(f"STREAM.DELETE.{name}")


async def work_queue(site: Site) -> None:
    await stream_with_consumers(site, retention="workqueue")


async def stream_of_interest(site: Site) -> None:
    await stream_with_consumers(site, retention="interest")


async def mirror(site: Site) -> None:
    name = site.name()
    await site.api(f"STREAM.CREATE.{name}", name=name, mirror={"name": "S"}, mirror_direct=True)
    await site.until_copied(name)
    await site.api(f"STREAM.DELETE.{name}")


async def source(site: Site) -> None:
    name = site.name()
    await site.api(f"STREAM.CREATE.{name}", name=name, sources=[{"name": "S"}])
    await site.until_copied(name)
    await site.api(f"STREAM.DELETE.{name}")


async def source_that_is_removed(site: Site) -> None:
    rules = {"allow_atomic": True, "allow_batched": True, "allow_msg_ttl": True}
    config: dict[str, Any] = {"name": "X", "subjects": ["x.>"], "max_msgs": 50, **rules}
    await site.api("STREAM.UPDATE.X", **config, sources=[{"name": "S"}])

    async def flows() -> bool:
        return bool((await site.api("STREAM.INFO.X"))["sources"][0]["active"] >= 0)

    await eventually(flows, "the source did not begin")
    await site.api("STREAM.UPDATE.X", **config)


async def stream_that_cannot_be_created(site: Site) -> None:
    body = json.dumps({"name": "BAD", "subjects": ["s.>"]}).encode()
    assert b"error" in (await site.client.request("$JS.API.STREAM.CREATE.BAD", body)).data


async def purges_and_deletions(site: Site) -> None:
    for _ in range(5):
        stored = await site.streams.publish("x.p", b"1")
    await site.api("STREAM.MSG.DELETE.X", seq=stored.seq)
    await site.api("STREAM.PURGE.X", filter="x.p")


async def looks(site: Site) -> None:
    for verb in ("STREAM.LIST", "STREAM.NAMES", "CONSUMER.LIST.X", "CONSUMER.NAMES.X", "INFO"):
        await site.api(verb)
    await site.api("STREAM.INFO.S", subjects_filter=">", deleted_details=True)
    await site.api("STREAM.MSG.GET.S", seq=3)
    for subject, body in (("S.s.a", b""), ("S", b'{"seq":3}'), ("S", b'{"multi_last":["s.>"]}')):
        await site.client.request(f"$JS.API.DIRECT.GET.{subject}", body)


# -- batches ------------------------------------------------------------------------------------------


async def atomic_batch(site: Site, last: str = "2", commit: bool = True) -> None:
    batch = {"Nats-Batch-Id": site.name()}
    await site.client.request("x.a", b"1", headers={**batch, "Nats-Batch-Sequence": "1"})
    if commit:
        batch["Nats-Batch-Commit"] = "1"
    await site.client.request("x.b", b"1", headers={**batch, "Nats-Batch-Sequence": last})


async def atomic_batch_with_a_gap(site: Site) -> None:
    await atomic_batch(site, last="5")


async def fast_batch(site: Site) -> None:
    inbox, batch = site.client.new_inbox(), site.name()
    subscription = await site.client.subscribe(f"{inbox}.>")
    for step in (b"1.0", b"2.2"):
        await site.client.publish("x.f", b"1", reply=f"{inbox}.{batch}.10.fail.{step.decode()}.$FI")
    answer = {}
    while "batch" not in answer:
        answer = json.loads((await subscription.next_msg()).data)
    await subscription.unsubscribe()


# -- snapshots ----------------------------------------------------------------------------------------


async def snapshot(site: Site) -> tuple[dict[str, Any], list[bytes]]:
    inbox = site.client.new_inbox()
    subscription = await site.client.subscribe(inbox)
    answer = await site.api("STREAM.SNAPSHOT.S", deliver_subject=inbox, chunk_size=1024)
    chunks = []
    while (chunk := await subscription.next_msg()).data:
        chunks.append(chunk.data)
        if chunk.reply:
            await chunk.respond(b"")
    await subscription.unsubscribe()
    return answer, chunks


async def restore(site: Site, *, damaged: bool = False) -> None:
    answer, chunks = await snapshot(site)
    config = {**answer["config"], "name": "R", "subjects": ["r.>"]}
    asked = await site.api("STREAM.RESTORE.R", config=config, state=answer["state"])
    for chunk in [b"junk"] if damaged else [*chunks]:
        await site.client.request(asked["deliver_subject"], chunk)
    ended = json.loads((await site.client.request(asked["deliver_subject"], b"")).data)
    assert ("error" in ended) is damaged, ended
    if not damaged:
        await site.api("STREAM.DELETE.R")


async def restore_that_fails(site: Site) -> None:
    await restore(site, damaged=True)


async def snapshot_that_is_given_up(site: Site) -> None:
    """The one who asked for it listens no longer."""
    inbox = site.client.new_inbox()
    subscription = await site.client.subscribe(inbox)
    await site.api("STREAM.SNAPSHOT.S", deliver_subject=inbox, chunk_size=1024, window_size=1024)
    await subscription.next_msg()
    await subscription.unsubscribe()


# -- buckets ------------------------------------------------------------------------------------------


async def keys(site: Site) -> None:
    name = site.name()
    bucket = await site.streams.create_key_value(bucket=name)
    await bucket.put("a", b"1")
    watcher = await bucket.watchall()
    await watcher.updates()
    consumer = (await watcher._sub.consumer_info()).name
    await watcher.stop()
    await site.api(f"CONSUMER.DELETE.KV_{name}.{consumer}")
    await site.streams.delete_key_value(name)


async def objects(site: Site) -> None:
    name = site.name()
    bucket = await site.streams.create_object_store(bucket=name)
    await bucket.put("a", b"1" * 200_000)
    await bucket.get("a")
    await site.streams.delete_object_store(name)


OPERATIONS: Final[list[Callable[[Site], Awaitable[object]]]] = [
    pull_consumer,
    consumer_that_nobody_uses,
    push_consumer,
    ordered_consumer,
    forgotten_consumer,
    consumer_with_redeliveries,
    consumer_with_acks_of_all,
    paused_consumer,
    pinned_consumer,
    consumer_with_order_by_key,
    consumer_with_dead_letters,
    consumer_that_is_updated,
    expired_request,
    request_of_a_client_that_leaves,
    stream_on_disk,
    stream_in_memory,
    stream_with_every_rule,
    stream_with_consumers,
    work_queue,
    stream_of_interest,
    mirror,
    source,
    source_that_is_removed,
    stream_that_cannot_be_created,
    purges_and_deletions,
    looks,
    atomic_batch,
    atomic_batch_with_a_gap,
    fast_batch,
    snapshot,
    snapshot_that_is_given_up,
    restore,
    restore_that_fails,
    keys,
    objects,
]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with Server(store_dir=tmp_path) as server, await nats.connect(server.client_url) as client:
        made = Site(server, client)
        await made.prepare()
        yield made


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.__name__)
async def test_nothing_stays(site: Site, operation: Callable[[Site], Awaitable[object]]) -> None:
    async def once() -> None:
        await operation(site)

    await nothing_stays(once, settle=site.end_origins)
