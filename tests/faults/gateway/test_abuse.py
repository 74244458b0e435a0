"""Callers that take more than their share: resets, silence, bodies that do not end, guessed passwords."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.settings
import httpx
import pytest
import websockets

from millstream.gateway.admission import Admission
from millstream.gateway.errors import Overloaded
from tests.kits.gateway.v1 import PATIENCE_S, Gateway, Lab, MakeGateway, eventually, settings_for, with_limits
from tests.kits.reference import ServerKind, ServerProcess


@pytest.fixture
def server(_server_pool: Any) -> ServerProcess:
    server: ServerProcess = _server_pool.get(ServerKind.MILLSTREAM, jetstream=True)
    return server


class Peer:
    """HTTP/2 frame by frame."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self.h2.initiate_connection()
        self.flush()

    def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())

    def head(self, stream: int, method: str, path: str, *, end: bool = True, **more: str) -> None:
        pseudo = [(":method", method), (":path", path), (":scheme", "http"), (":authority", "localhost")]
        self.h2.send_headers(stream, [*pseudo, *more.items()], end_stream=end)

    async def until(self, wanted: Callable[[h2.events.Event], bool]) -> h2.events.Event | None:
        """The first event that is wanted; None if the connection ended before."""
        async with asyncio.timeout(PATIENCE_S):
            while data := await self.reader.read(65536):
                events = self.h2.receive_data(data)
                for event in events:
                    if isinstance(event, h2.events.DataReceived):
                        self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                self.flush()
                for event in events:
                    if wanted(event):
                        return event
        return None


@contextlib.asynccontextmanager
async def connected(gateway: Gateway) -> AsyncIterator[Peer]:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    peer = Peer(reader, writer)
    try:
        yield peer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def _attempt(
    peer: Peer, act: Callable[[int], None], most: int
) -> h2.events.ConnectionTerminated | None:
    """Act until the gateway has enough; what it says then."""
    told: asyncio.Task[Any] = asyncio.ensure_future(
        peer.until(lambda event: isinstance(event, h2.events.ConnectionTerminated))
    )
    for number in range(most):
        act(2 * number + 1)
        if number % 25 == 0:
            with contextlib.suppress(ConnectionError):
                peer.flush()
                await peer.writer.drain()
            await asyncio.sleep(0)
        if told.done():
            break
    with contextlib.suppress(ConnectionError):
        peer.flush()
        return await told
    return None


@pytest.mark.parametrize("frames", ["resets", "resets of bodies", "pings", "settings", "priorities"])
async def test_a_peer_that_only_makes_work_is_asked_to_calm_down(
    lab: Lab, frames: str, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = lab.gateway
    async with connected(gateway) as peer:

        def act(number: int) -> None:
            match frames:
                case "resets":
                    peer.head(number, "POST", f"/v2/subjects/{lab.subject()}")
                    peer.h2.reset_stream(number)
                case "resets of bodies":
                    peer.head(number, "POST", f"/v2/subjects/{lab.subject()}", end=False)
                    peer.h2.reset_stream(number)
                case "pings":
                    peer.h2.ping(number.to_bytes(8, "big"))
                case "settings":
                    peer.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 65535 + number})
                case "priorities":
                    peer.h2.prioritize(1, weight=1 + number % 250)

        with caplog.at_level(logging.WARNING, "millstream.gateway"):
            told = await _attempt(peer, act, 20_000)
        assert told is None or told.error_code == 0xB
    assert "an HTTP/2 connection was closed" in caplog.text
    await lab.publish("others go on")


async def test_many_requests_and_some_resets_are_no_abuse(plain_gateway: Gateway) -> None:
    async with connected(plain_gateway) as peer:
        for number in range(2000):
            stream = 2 * number + 1
            peer.head(stream, "GET", "/v1/data/alive")
            if number % 20 == 0:
                peer.h2.reset_stream(stream)
                peer.flush()
                continue
            peer.flush()
            ended = await peer.until(
                lambda event, stream=stream: (
                    isinstance(event, h2.events.StreamEnded) and event.stream_id == stream
                )
            )
            assert ended is not None, f"closed after {number} requests"


async def test_data_behind_an_answer_does_not_end_the_connection(plain_gateway: Gateway) -> None:
    async with connected(plain_gateway) as peer:
        peer.head(1, "POST", "/nothing/there", end=False)
        peer.flush()
        assert await peer.until(lambda event: isinstance(event, h2.events.StreamEnded)) is not None
        peer.h2.send_data(1, b"x" * 1000)
        peer.h2.send_data(1, b"x" * 1000, end_stream=True)
        peer.head(3, "GET", "/v1/data/alive")
        peer.flush()
        event = await peer.until(lambda event: isinstance(event, h2.events.ResponseReceived))
        assert isinstance(event, h2.events.ResponseReceived)
        assert (b":status", b"200") in [(bytes(name), bytes(value)) for name, value in event.headers]


_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_SETTINGS = b"\0\0\0\4\0\0\0\0\0"


@pytest.mark.parametrize("sent", [_PREFACE, _PREFACE + _SETTINGS])
async def test_a_connection_on_which_no_request_comes_is_closed_in_time(
    server: ServerProcess, start_gateway: MakeGateway, sent: bytes
) -> None:
    gateway = await start_gateway(
        with_limits(settings_for(server.client_url), head_timeout_s=0.5), wait=False
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(sent)
    async with asyncio.timeout(PATIENCE_S):
        with contextlib.suppress(ConnectionError):
            while await reader.read(1000):
                pass
    writer.close()
    async with connected(gateway) as peer:  # one that calls may then be idle
        peer.head(1, "GET", "/v1/data/alive")
        peer.flush()
        await peer.until(lambda event: isinstance(event, h2.events.StreamEnded))
        closing = asyncio.ensure_future(peer.reader.read(1000))
        await asyncio.wait([closing], timeout=1.5)
        assert not (closing.done() and closing.result() == b"")
        closing.cancel()
        await asyncio.wait([closing])


async def _unfinished(gateway: Gateway, version: int, size: int) -> tuple[asyncio.StreamReader, Any]:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    body = b"x" * size
    if version == 1:
        writer.write(
            b"POST /v2/subjects/a HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (size + 1) + body
        )
    else:
        peer = Peer(reader, writer)
        peer.head(1, "POST", "/v2/subjects/a", end=False)
        left = body
        while left:
            room = min(peer.h2.local_flow_control_window(1), peer.h2.max_outbound_frame_size, len(left))
            if room:
                peer.h2.send_data(1, left[:room])
                left = left[room:]
                peer.flush()
            else:
                await peer.until(lambda event: isinstance(event, h2.events.WindowUpdated))
    await writer.drain()
    return reader, writer


@pytest.mark.parametrize("version", [1, 2])
async def test_bodies_of_all_requests_together_have_a_bound(
    server: ServerProcess, start_gateway: MakeGateway, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    settings = with_limits(settings_for(server.client_url), bodies=1_000_000, max_body=900_000)
    gateway = await start_gateway(settings)
    bodies = gateway.server.core.bodies

    async def holds(least: int, most: int) -> None:
        async def does() -> bool:
            return least <= bodies.used <= most

        await eventually(does, "other bytes are held")

    _, writer = await _unfinished(gateway, version, 600_000)
    await holds(600_000, 600_000)
    with caplog.at_level(logging.WARNING, "millstream.gateway"):
        answer = await gateway.client.post("/v2/subjects/a", content=b"x" * 600_000)
    assert (answer.status_code, int(answer.headers["retry-after"]) >= 1) == (503, True)
    assert "gateway.limits.bodies" in caplog.text
    assert (await gateway.client.post("/v2/subjects/a", content=b"x" * 300_000)).status_code == 404
    batch = await gateway.client.post("/v2/messages", content=b'{"data":"' + b"x" * 600_000 + b'"}')
    assert '"status":503' in batch.text
    assert bodies.used == 600_000
    writer.close()
    await holds(0, 0)
    assert (await gateway.client.post("/v2/subjects/a", content=b"x" * 600_000)).status_code == 404
    assert bodies.used == 0


async def test_a_frame_over_a_websocket_has_a_bound_of_its_own(lab: Lab) -> None:
    gateway = lab.gateway
    pull = {"durable_name": "p", "ack_policy": "explicit"}
    assert (await gateway.client.post(f"/v2/streams/{lab.stream}/consumers", json=pull)).status_code == 201
    url = f"ws://127.0.0.1:{gateway.port}/v2/streams/{lab.stream}/consumers/p/socket"
    async with websockets.connect(url) as socket:
        await socket.send("x" * 100_000)
        async with asyncio.timeout(PATIENCE_S):
            await socket.wait_closed()
        assert socket.close_code == 1009


_USERS = """
accounts { A { jetstream: enabled, users: [
  {user: own, password: own}, {user: ann, password: right}, {user: bob, password: right}
] } }
"""


async def test_guesses_neither_close_nor_keep_out_links_of_others(
    own_server: Callable[..., ServerProcess], start_gateway: MakeGateway
) -> None:
    broker = own_server(config=_USERS, jetstream=True)
    own = {"user": "own", "password": "own", "pooled_links": 2}
    gateway = await start_gateway(broker.client_url, nats=own)
    links = gateway.server.core.links
    callers = [httpx.BasicAuth("ann", "right"), httpx.BasicAuth("bob", "right")]

    async def call(auth: httpx.BasicAuth) -> int:
        return (await gateway.client.get("/v2/account", auth=auth)).status_code

    assert [await call(auth) for auth in callers] == [200, 200]
    pooled = dict(links._pool)
    assert len(pooled) == 2
    guesses = [asyncio.ensure_future(call(httpx.BasicAuth("ann", f"wrong {number}"))) for number in range(60)]
    for _ in range(5):
        assert [await call(auth) for auth in callers] == [200, 200]
    assert set(await asyncio.gather(*guesses)) <= {401, 503}
    assert links._pool == pooled  # the same links, not new ones


async def test_the_right_credentials_come_in_while_others_guess(
    own_server: Callable[..., ServerProcess], start_gateway: MakeGateway
) -> None:
    broker = own_server(config=_USERS, jetstream=True)
    own = {"user": "own", "password": "own", "pooled_links": 4}
    gateway = await start_gateway(broker.client_url, nats=own)
    over = asyncio.Event()

    async def guess(number: int) -> None:
        while not over.is_set():
            auth = httpx.BasicAuth("ann", f"wrong {number}")
            assert (await gateway.client.get("/v2/account", auth=auth)).status_code in (401, 503)

    guessers = [asyncio.ensure_future(guess(number)) for number in range(40)]
    try:
        answer = await gateway.client.get("/v2/account", auth=httpx.BasicAuth("ann", "right"))
        assert answer.status_code == 200
    finally:
        over.set()
        await asyncio.gather(*guessers)


async def test_unchecked_credentials_of_one_address_wait_for_each_other_and_not_for_ever() -> None:
    admission = Admission(patience_s=0.05)
    async with contextlib.AsyncExitStack() as held:
        for number in range(8):
            await held.enter_async_context(admission.place(f"guess {number}", "10.0.0.1"))
        with pytest.raises(Overloaded):
            async with admission.place("one more", "10.0.0.1"):
                pass
        async with admission.place("of another address", "10.0.0.2"):
            pass
        admission.learn("known")
        async with admission.place("known", "10.0.0.1"):
            pass
    async with admission.place("afterwards", "10.0.0.1"):
        pass
    assert (admission._all, admission._taken, len(admission._queue)) == (0, {}, 0)


async def test_unchecked_credentials_are_bounded_in_all_and_served_in_turn() -> None:
    admission = Admission(patience_s=PATIENCE_S)
    order: list[int] = []
    holding: list[Callable[[], Awaitable[Any]]] = []
    for number in range(32):
        stack = contextlib.AsyncExitStack()
        await stack.enter_async_context(admission.place(f"guess {number}", f"10.0.0.{number}"))
        holding.append(stack.aclose)

    async def wait(number: int) -> None:
        async with admission.place(f"late {number}", f"10.0.1.{number}"):
            order.append(number)

    waiting = [asyncio.ensure_future(wait(number)) for number in range(5)]
    await asyncio.sleep(0)
    assert order == []
    waiting[1].cancel()
    for release in holding:
        await release()
    await asyncio.wait(waiting)
    assert order == [0, 2, 3, 4]
    assert (admission._all, admission._taken, len(admission._queue)) == (0, {}, 0)
