"""Operations of a client library: requests, drains, reconnects."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator

import nats.errors
import pytest
from nats.aio.msg import Msg

from tests.kits.conformance.clients import NatsConnection, ServerFactory, library, nkey_user
from tests.kits.garbage import garbage_collected
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerProcess

# The library does not close the transports of attempts to connect that failed.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def leave_no_garbage_to_other_tests() -> Iterator[None]:
    with garbage_collected():
        yield


@pytest.fixture
async def connection(server: ServerProcess) -> AsyncIterator[NatsConnection]:
    opened = await library(server.client_url)
    yield opened
    await opened.close()


async def test_request_and_reply(connection: NatsConnection) -> None:
    async def answer(request: Msg) -> None:
        await request.respond(request.data.upper())

    await connection.subscribe("lib.upper", cb=answer)
    replies = await asyncio.gather(
        *(connection.request("lib.upper", b"word%d" % number, timeout=PATIENCE_S) for number in range(50))
    )
    assert [reply.data for reply in replies] == [b"WORD%d" % number for number in range(50)]


@pytest.mark.parametrize("old_style", [False, True])
async def test_request_to_nobody_fails_at_once(connection: NatsConnection, old_style: bool) -> None:
    with pytest.raises(nats.errors.NoRespondersError):
        await connection.request("lib.nobody", b"", timeout=PATIENCE_S, old_style=old_style)


async def test_headers_arrive(connection: NatsConnection) -> None:
    subscription = await connection.subscribe("lib.headers")
    await connection.publish("lib.headers", b"body", headers={"Trace": "1", "Space": " a b "})
    received = await subscription.next_msg(timeout=PATIENCE_S)
    assert received.data == b"body"
    assert received.headers == {"Trace": "1", "Space": "a b"}


async def test_queue_group_shares_work(server: ServerProcess, connection: NatsConnection) -> None:
    seen: list[list[int]] = [[], [], []]
    done = asyncio.Event()

    def collector(share: list[int]) -> object:
        async def collect(message: Msg) -> None:
            share.append(int(message.data))
            if sum(map(len, seen)) == 300:
                done.set()

        return collect

    workers = [await library(server.client_url) for _ in seen]
    for worker, share in zip(workers, seen, strict=True):
        await worker.subscribe("lib.work", queue="crew", cb=collector(share))  # type: ignore[arg-type]
        await worker.flush()
    for number in range(300):
        await connection.publish("lib.work", b"%d" % number)
    await asyncio.wait_for(done.wait(), PATIENCE_S)
    assert sorted(seen[0] + seen[1] + seen[2]) == list(range(300))
    assert all(share == sorted(share) and share for share in seen)
    for worker in workers:
        await worker.close()


async def test_unsubscribe_after_some_messages(connection: NatsConnection) -> None:
    received: list[bytes] = []

    async def collect(message: Msg) -> None:
        received.append(message.data)

    subscription = await connection.subscribe("lib.some", cb=collect)
    await subscription.unsubscribe(limit=3)
    for number in range(10):
        await connection.publish("lib.some", b"%d" % number)
    await connection.flush()
    await connection.request(
        "$SYS.REQ.USER.INFO", timeout=PATIENCE_S
    )  # behind all ten in the same connection
    assert received == [b"0", b"1", b"2"]


async def test_drain_delivers_what_is_under_way(server: ServerProcess, connection: NatsConnection) -> None:
    received: list[bytes] = []
    started = asyncio.Event()

    async def collect(message: Msg) -> None:
        started.set()
        received.append(message.data)

    subscriber = await library(server.client_url)
    await subscriber.subscribe("lib.drain", cb=collect)
    await subscriber.flush()
    for number in range(200):
        await connection.publish("lib.drain", b"%d" % number)
    await connection.flush()
    await asyncio.wait_for(started.wait(), PATIENCE_S)
    await subscriber.drain()
    assert received == [b"%d" % number for number in range(200)]
    assert subscriber.is_closed


async def test_payload_too_large_is_known_before_sending(connection: NatsConnection) -> None:
    assert connection.max_payload == 1048576
    with pytest.raises(nats.errors.MaxPayloadError):
        await connection.publish("lib.large", b"x" * 1048577)


async def test_round_trip_time(connection: NatsConnection) -> None:
    assert 0 < await connection.rtt() < 5


async def test_credentials_of_the_library(shared_server: ServerFactory, tmp_path: object) -> None:
    seed, public = nkey_user(b"c" * 32)
    config = f"authorization {{ users: [ {{ user: u, password: p }}, {{ nkey: {public} }} ] }}"
    server = shared_server(config=config)
    by_password = await library(server.client_url, user="u", password="p")
    by_url = await library(server.client_url.replace("nats://", "nats://u:p@"))
    by_key = await library(server.client_url, nkeys_seed_str=seed.decode())
    for connection in (by_password, by_url, by_key):
        await connection.flush()
        await connection.close()
    with pytest.raises(nats.errors.Error, match=r"[Aa]uthorization"):
        await library(server.client_url, user="u", password="wrong")


async def test_permission_error_reaches_the_application(shared_server: ServerFactory) -> None:
    server = shared_server(
        config="authorization { users: [ { user: u, password: p, permissions: { publish: ok } } ] }"
    )
    told: asyncio.Queue[Exception] = asyncio.Queue()
    connection = await library(server.client_url, user="u", password="p", error_cb=told.put)
    await connection.publish("not.ok", b"")
    error = await asyncio.wait_for(told.get(), PATIENCE_S)
    assert "permissions violation for publish to" in str(error).lower()
    await connection.flush()
    await connection.close()


async def test_reconnect_after_a_restart(own_server: ServerFactory) -> None:
    server = own_server()
    reconnected = asyncio.Event()
    received: asyncio.Queue[bytes] = asyncio.Queue()

    async def again() -> None:
        reconnected.set()

    async def collect(message: Msg) -> None:
        await received.put(message.data)

    async def quiet(error: Exception) -> None:
        pass

    connection = await library(
        server.client_url,
        allow_reconnect=True,
        max_reconnect_attempts=-1,
        reconnect_time_wait=0.05,
        reconnected_cb=again,
        error_cb=quiet,
    )
    await connection.subscribe("lib.back", cb=collect)
    await connection.flush()
    await asyncio.to_thread(server.restart)
    await asyncio.wait_for(reconnected.wait(), PATIENCE_S)
    await connection.publish("lib.back", b"still subscribed")
    assert await asyncio.wait_for(received.get(), PATIENCE_S) == b"still subscribed"
    await connection.close()


async def test_library_learns_of_lame_duck_mode(own_server: ServerFactory) -> None:
    server = own_server(config='lame_duck_grace_period: "100ms", lame_duck_duration: "30s"')
    told, closed = asyncio.Event(), asyncio.Event()

    async def lame_duck() -> None:
        told.set()

    async def on_closed() -> None:
        closed.set()

    async def quiet(error: Exception) -> None:
        pass

    connection = await library(
        server.client_url, lame_duck_mode_cb=lame_duck, closed_cb=on_closed, error_cb=quiet
    )
    server.signal(signal.SIGUSR2)
    await asyncio.wait_for(told.wait(), PATIENCE_S)
    await asyncio.wait_for(closed.wait(), PATIENCE_S)
    assert connection.is_closed


async def test_many_subscriptions_of_one_connection(connection: NatsConnection) -> None:
    subscriptions = [await connection.subscribe(f"lib.many.{number}") for number in range(500)]
    for number in range(500):
        await connection.publish(f"lib.many.{number}", b"%d" % number)
    for number, subscription in enumerate(subscriptions):
        assert (await subscription.next_msg(timeout=PATIENCE_S)).data == b"%d" % number
    for subscription in subscriptions:
        await subscription.unsubscribe()
    await connection.flush()
