"""Key-value buckets: histories, watching, listing, purging; over the wire and through nats-py."""

import asyncio
from collections.abc import Awaitable, Callable

import nats
from nats.aio.client import Client as NatsClient
from nats.js.client import JetStreamContext

from benchmarks.paths.client import INBOX, Client, pub
from benchmarks.paths.run import Run, path

_SOME = 20_000


def _watch(client: Client, count: int, **config: object) -> None:
    """Make a consumer as a watcher does, take what is there, delete the consumer."""
    made = client.consumer(
        "KV_B",
        "",
        deliver_subject=INBOX.decode(),
        ack_policy="none",
        flow_control=True,
        idle_heartbeat=10**10,
        mem_storage=True,
        **config,
    )
    client.receive(count)
    client.ask(f"CONSUMER.DELETE.KV_B.{made['name']}")


@path(10_000, 100_000)
def bucket(run: Run) -> None:
    """A bucket with a history of one."""
    client = run.client()
    client.bucket("B", allow_msg_ttl=True, subject_delete_marker_ttl=10**12)
    with run.timed("put", run.size):
        client.fill(b"$KV.B.g%d.k%d" % (key % 100, key) for key in range(run.size))
    with run.timed("watch all", run.size):
        _watch(client, run.size, deliver_policy="last_per_subject", filter_subject="$KV.B.>")
    with run.timed("keys", run.size):
        _watch(
            client, run.size, deliver_policy="last_per_subject", filter_subject="$KV.B.>", headers_only=True
        )
    with run.timed("watch a hundredth, 50 times", run.size // 2):
        for group in range(50):
            _watch(
                client, run.size // 100, deliver_policy="last_per_subject", filter_subject=f"$KV.B.g{group}.>"
            )
    with run.timed("watch one key, 1000 times", 1_000):
        for key in range(1_000):
            _watch(client, 1, deliver_policy="last_per_subject", filter_subject=f"$KV.B.g{key % 100}.k{key}")
    deletes = min(run.size, _SOME)
    with run.timed("delete", deletes):
        client.exchange(
            pub(b"$KV.B.g%d.k%d" % (key % 100, key), b"", INBOX, b"KV-Operation: DEL\r\n")
            for key in range(deletes)
        )
    with run.timed("purge", deletes):
        head = b"KV-Operation: PURGE\r\nNats-Rollup: sub\r\n"
        client.exchange(pub(b"$KV.B.g%d.k%d" % (key % 100, key), b"", INBOX, head) for key in range(deletes))
    few = 2_000
    with run.timed("purge deletes", few):
        client.exchange(
            (
                pub(b"$JS.API.STREAM.PURGE.KV_B", b'{"filter":"$KV.B.g%d.k%d"}' % (key % 100, key))
                for key in range(few)
            ),
            1,
        )


@path(1_000, 20_000)
def bucket_history(run: Run) -> None:
    """A bucket with a history of 64, most of it full."""
    client = run.client()
    client.stream("KV_B", "$KV.B.>", max_msgs_per_subject=64, discard="new")
    subjects = [b"$KV.B.k%d" % run.chance.randrange(run.size) for _ in range(run.size * 16)]
    with run.timed("put", len(subjects)):
        client.fill(subjects)
    with run.timed("history of a key, 1000 times", 1_000):
        for _ in range(1_000):
            found = client.consumer(
                "KV_B",
                "",
                deliver_subject=INBOX.decode(),
                ack_policy="none",
                mem_storage=True,
                filter_subject=f"$KV.B.k{run.chance.randrange(run.size)}",
            )
            client.receive(found.get("num_pending", 0))
            client.ask(f"CONSUMER.DELETE.KV_B.{found['name']}")
    with run.timed("watch all", run.size):
        count = client.info("KV_B", {"subjects_filter": ">"})["state"]["num_subjects"]
        _watch(client, count, deliver_policy="last_per_subject", filter_subject="$KV.B.>")
    with run.timed("get", _SOME):
        client.exchange(
            (
                pub(b"$JS.API.DIRECT.GET.KV_B.$KV.B.k%d" % run.chance.randrange(count // 2), b"")
                for _ in range(_SOME)
            ),
            16,
            may_fail=True,
        )
    with run.timed("purge", 1_000):
        head = b"KV-Operation: PURGE\r\nNats-Rollup: sub\r\n"
        client.exchange(pub(b"$KV.B.k%d" % key, b"", INBOX, head) for key in range(1_000))


@path(1_000, 50_000)
def mortal_keys(run: Run) -> None:
    """Keys with a TTL each, which leave markers; then keys that nobody overwrites any more are gone."""
    client = run.client()
    client.bucket("B", allow_msg_ttl=True, subject_delete_marker_ttl=2_000_000_000)
    with run.timed("put", run.size):
        client.exchange(
            pub(b"$KV.B.k%d" % key, b"v" * 100, INBOX, b"Nats-TTL: 2s\r\n") for key in range(run.size)
        )
    with run.timed("put again", run.size):
        client.exchange(
            pub(b"$KV.B.k%d" % key, b"v" * 100, INBOX, b"Nats-TTL: 3s\r\n") for key in range(run.size)
        )
    with run.timed("end, and their markers end", run.size):
        while client.info("KV_B")["state"]["messages"]:
            pass


def _with_nats_py(run: Run, work: Callable[[NatsClient, JetStreamContext], Awaitable[None]]) -> None:
    async def connected() -> None:
        connection = await nats.connect(run.server.client_url)
        await work(connection, connection.jetstream(timeout=60))
        await connection.close()

    asyncio.run(connected())


@path(1_000, 20_000)
def bucket_nats_py(run: Run) -> None:
    """Measure nats-py's key-value client."""
    Client(run.server.port).bucket("B")
    Client(run.server.port).fill(b"$KV.B.k%d" % key for key in range(run.size))

    async def work(_: NatsClient, context: JetStreamContext) -> None:
        bucket = await context.key_value("B")
        with run.timed("put, one at a time", 500):
            for key in range(500):
                await bucket.put(f"k{key}", b"value")
        with run.timed("get, one at a time", 500):
            for key in range(500):
                await bucket.get(f"k{key}")
        with run.timed("update, one at a time", 300):
            for key in range(300):
                entry = await bucket.get(f"k{key}")
                await bucket.update(f"k{key}", b"new", entry.revision)
        with run.timed("keys", run.size):
            if len(await bucket.keys()) != run.size:
                raise AssertionError
        with run.timed("history, 100 times", 100):
            for key in range(100):
                await bucket.history(f"k{key}")
        for key in range(200):
            await bucket.delete(f"k{key}")
        with run.timed("purge deletes of 200", 200):
            await bucket.purge_deletes(olderthan=-1)

    _with_nats_py(run, work)


@path(50, 1_000)
def objects(run: Run) -> None:
    """Put and get many small objects through nats-py."""

    async def work(_: NatsClient, context: JetStreamContext) -> None:
        store = await context.create_object_store("O")
        with run.timed("put", run.size):
            for number in range(run.size):
                await store.put(f"o{number}", b"x" * 1_000)
        with run.timed("get", min(run.size, 300)):
            for number in range(min(run.size, 300)):
                await store.get(f"o{number}")
        with run.timed("list", run.size):
            if len(await store.list()) != run.size:
                raise AssertionError
        with run.timed("delete", min(run.size, 300)):
            for number in range(min(run.size, 300)):
                await store.delete(f"o{number}")

    _with_nats_py(run, work)
