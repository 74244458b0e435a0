"""The layer between a socket and a client connection, on a transport that records and on real sockets."""

import asyncio
import struct
from collections.abc import Callable, Iterator
from typing import Any

import aiohttp
import pytest
import uvloop

from millstream.broker.options import WebSocketOptions
from millstream.broker.websocket import WebSocketFailure, WebSocketProtocol, close_status
from millstream.broker.websocket_upgrade import Upgrade, Upgrader
from tests.kits.patience import PATIENCE_S

REQUEST = (
    b"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Nats-No-Masking: true\r\n\r\n"
)


def frame(first: int, payload: bytes = b"") -> bytes:
    return bytes((first, len(payload))) + payload


class RecordingTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.1", 1)})
        self.written = b""
        self.pending = 0
        self.calls: list[object] = []
        self.aborted = asyncio.Event()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def take(self) -> bytes:
        taken, self.written = self.written, b""
        return taken

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")
        self.aborted.set()

    def is_closing(self) -> bool:
        return bool({"close", "abort"} & set(self.calls))

    def get_write_buffer_size(self) -> int:
        return self.pending

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.calls.append((high, low))

    def pause_reading(self) -> None:
        self.calls.append("pause_reading")

    def resume_reading(self) -> None:
        self.calls.append("resume_reading")


class Client(asyncio.Protocol):
    """A client connection that writes down what happens to it."""

    def __init__(self) -> None:
        self.events: list[object] = []
        self.transport: Any = None
        self.last_words = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.transport.write(b"INFO {}\r\n")

    def data_received(self, data: bytes) -> None:
        self.events.append(data)

    def eof_received(self) -> None:
        self.events.append("eof")
        if self.last_words:
            self.transport.write(self.last_words)

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append(exc)


class Fixture:
    def __init__(self, **options: Any) -> None:
        self.clients: list[Client] = []
        self.upgrades: list[Upgrade] = []
        self.refusals: list[str] = []
        self.transport = RecordingTransport()
        self.protocol = WebSocketProtocol(
            asyncio.get_running_loop(),
            Upgrader(WebSocketOptions()),
            self._make,
            max_payload=1000,
            refused=self.refusals.append,
            **{"handshake_timeout_s": 60.0, **options},
        )
        self.protocol.connection_made(self.transport)

    def _make(self, transport: asyncio.Transport, upgrade: Upgrade) -> Client:
        assert transport is self.protocol
        self.upgrades.append(upgrade)
        self.clients.append(Client())
        return self.clients[-1]

    def open(self) -> Client:
        self.protocol.data_received(REQUEST)
        self.transport.take()
        return self.clients[0]

    def lose(self, exc: Exception | None = None) -> None:
        self.protocol.connection_lost(exc)


@pytest.fixture
async def wired() -> Any:
    fixture = Fixture()
    yield fixture
    fixture.lose()


async def test_the_client_is_made_after_the_answer_and_speaks_in_frames(wired: Fixture) -> None:
    for at in range(len(REQUEST) - 1):
        wired.protocol.data_received(REQUEST[at : at + 1])
    assert wired.clients == []
    wired.protocol.data_received(REQUEST[-1:])
    assert len(wired.clients) == 1
    answer, _, rest = wired.transport.written.partition(b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 101 ")
    assert rest == frame(0x82, b"INFO {}\r\n")


async def test_payload_reaches_the_client_and_pings_are_answered(wired: Fixture) -> None:
    client = wired.open()
    wired.protocol.data_received(frame(0x82, b"PING\r\n") + frame(0x89, b"hey") + frame(0x82, b"PONG\r\n"))
    assert client.events == [b"PING\r\n", b"PONG\r\n"]
    assert wired.transport.take() == frame(0x8A, b"hey")


async def test_the_client_sees_the_transport_behind(wired: Fixture) -> None:
    client = wired.open()
    wired.transport.pending = 77
    transport = client.transport
    transport.pause_reading()
    transport.resume_reading()
    transport.set_write_buffer_limits(high=10, low=5)
    wired.protocol.pause_writing()
    wired.protocol.resume_writing()
    assert wired.transport.calls == ["pause_reading", "resume_reading", (10, 5)]
    assert client.events == ["pause", "resume"]
    assert transport.get_write_buffer_size() == 77
    assert transport.get_extra_info("peername") == ("192.0.2.1", 1)
    assert transport.get_extra_info("nothing", 5) == 5
    assert transport.get_extra_info("websocket") is wired.upgrades[0]
    assert not transport.is_closing()


async def test_writelines_is_one_frame(wired: Fixture) -> None:
    client = wired.open()
    client.transport.writelines([b"+OK\r\n", bytearray(b"PONG\r\n"), memoryview(b"x")])
    assert wired.transport.take() == frame(0x82, b"+OK\r\nPONG\r\nx")


@pytest.mark.parametrize(
    ("close", "last"),
    [
        (lambda transport: transport.close(), struct.pack(">H", 1000) + b"Client Closed"),
        (
            lambda transport: transport.close_with("Authentication Failure"),
            struct.pack(">H", 1008) + b"Authentication Failure",
        ),
    ],
)
async def test_closing_tells_why_and_then_says_nothing_more(
    wired: Fixture, close: Callable[[Any], None], last: bytes
) -> None:
    client = wired.open()
    close(client.transport)
    client.transport.close()
    client.transport.write(b"late")
    wired.protocol.data_received(frame(0x82, b"late") + frame(0x89))
    assert client.transport.is_closing()
    assert wired.transport.take() == frame(0x88, last)
    assert wired.transport.calls == ["close"]
    assert client.events == []


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("Client Closed", 1000),
        ("Server Shutdown", 1001),
        ("Stale Connection", 1001),
        ("Protocol Violation", 1002),
        ("Slow Consumer (Pending Bytes)", 1008),
        ("Maximum Message Payload Exceeded", 1009),
        ("Kicked", 1011),
    ],
)
def test_reasons_have_the_status_that_nats_server_gives_them(reason: str, status: int) -> None:
    assert close_status(reason) == status


async def test_abort_sends_nothing(wired: Fixture) -> None:
    client = wired.open()
    client.transport.abort()
    client.transport.write(b"late")
    assert wired.transport.take() == b""
    assert wired.transport.calls == ["abort"]


async def test_a_close_from_the_peer_is_the_end_of_the_stream(wired: Fixture) -> None:
    client = wired.open()
    client.last_words = b"+OK\r\n"
    bye = struct.pack(">H", 1000) + b"bye"
    wired.protocol.data_received(frame(0x82, b"PING\r\n") + frame(0x88, bye) + frame(0x82, b"late"))
    assert client.events == [b"PING\r\n", "eof"]
    assert wired.transport.take() == frame(0x82, b"+OK\r\n") + frame(0x88, bye)
    assert wired.transport.calls == ["close"]


async def test_a_client_that_closes_while_it_reads_gets_no_more(wired: Fixture) -> None:
    client = wired.open()

    def close_on_data(data: bytes) -> None:
        client.events.append(data)
        client.transport.close()

    client.data_received = close_on_data  # type: ignore[method-assign]
    wired.protocol.data_received(frame(0x82, b"a") + frame(0x89) + frame(0x82, b"b"))
    assert client.events == [b"a"]


async def test_a_broken_frame_ends_the_connection_with_its_reason() -> None:
    fixture = Fixture()
    client = fixture.open()
    fixture.protocol.data_received(frame(0x83))
    assert fixture.transport.take() == frame(0x88, struct.pack(">H", 1002) + b"unknown opcode 3")
    assert fixture.transport.calls == ["close"]
    fixture.lose()
    [failure] = client.events
    assert isinstance(failure, WebSocketFailure)
    assert str(failure) == "unknown opcode 3"


async def test_the_client_learns_why_the_connection_was_lost() -> None:
    fixture = Fixture()
    client = fixture.open()
    reset = ConnectionResetError()
    fixture.lose(reset)
    assert client.events == [reset]


async def test_the_end_of_the_stream_is_handed_on(wired: Fixture) -> None:
    client = wired.open()
    assert not wired.protocol.eof_received()
    assert client.events == ["eof"]


async def test_pongs_do_not_pile_up_for_a_peer_that_does_not_read(wired: Fixture) -> None:
    client = wired.open()
    wired.transport.pending = 10_000_000
    for number in range(100):
        wired.protocol.data_received(frame(0x89, b"%d" % number))
    assert wired.transport.take() == b""
    wired.transport.pending = 0
    wired.protocol.resume_writing()
    assert wired.transport.take() == frame(0x8A, b"99")
    wired.protocol.resume_writing()
    client.transport.write(b"x")
    assert wired.transport.take() == frame(0x82, b"x")


async def test_a_refused_request_is_answered_and_told(wired: Fixture) -> None:
    wired.protocol.data_received(b"POST / HTTP/1.1\r\nHost: h\r\n\r\n")
    wired.protocol.data_received(REQUEST)
    assert wired.transport.take().startswith(b"HTTP/1.1 405 Method Not Allowed\r\n")
    assert wired.transport.calls == ["close"]
    assert wired.refusals == ["request method must be GET"]
    assert wired.clients == []


async def test_noise_instead_of_a_request_is_answered(wired: Fixture) -> None:
    wired.protocol.data_received(b"CONNECT {}\r\nPING\r\n\r\n")
    assert wired.transport.take().startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert wired.transport.calls == ["close"]


async def test_an_unfinished_upgrade_can_be_closed(wired: Fixture) -> None:
    wired.protocol.data_received(REQUEST[:50])
    wired.protocol.close()
    assert wired.transport.take() == b""
    assert wired.transport.calls == ["close"]


async def test_a_half_request_is_cut_off_in_time() -> None:
    fixture = Fixture(handshake_timeout_s=0.01)
    fixture.protocol.data_received(REQUEST[:50])
    await asyncio.wait_for(fixture.transport.aborted.wait(), PATIENCE_S)
    assert fixture.transport.calls == ["abort"]
    assert fixture.refusals == ["timeout"]
    fixture.lose()


async def test_the_timeout_ends_with_the_upgrade() -> None:
    fixture = Fixture(handshake_timeout_s=0.01)
    client = fixture.open()
    later = asyncio.Event()
    asyncio.get_running_loop().call_later(0.02, later.set)  # timers run in the order of their times
    await later.wait()
    assert fixture.transport.calls == []
    assert client.events == []
    fixture.lose()


async def test_a_peer_that_does_not_take_the_close_frame_is_cut_off() -> None:
    fixture = Fixture(close_timeout_s=0.01)
    fixture.open().transport.close()
    await asyncio.wait_for(fixture.transport.aborted.wait(), PATIENCE_S)
    assert fixture.transport.calls == ["close", "abort"]
    fixture.lose()


async def test_the_limit_of_compressed_messages_can_follow_the_account(wired: Fixture) -> None:
    client = wired.open()
    client.transport.max_payload = 5
    assert client.transport.max_payload == 5


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Callable[[Any], Any]]:
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        yield runner.run


@pytest.mark.parametrize("compress", [0, 15])
def test_a_foreign_client_gets_back_what_it_sends(run: Callable[[Any], Any], compress: int) -> None:
    """aiohttp knows nothing of our framing; it masks, compresses and closes as it sees fit."""
    upgrades = []

    def make(transport: asyncio.Transport, upgrade: Upgrade) -> Echo:
        upgrades.append(upgrade)
        return Echo()

    async def talk() -> None:
        loop = asyncio.get_running_loop()
        upgrader = Upgrader(WebSocketOptions(compression=True))
        server = await loop.create_server(
            lambda: WebSocketProtocol(loop, upgrader, make, max_payload=1 << 20, handshake_timeout_s=60.0),
            "127.0.0.1",
            0,
        )
        port = server.sockets[0].getsockname()[1]
        payloads = [b"x", b"y" * 70, bytes(range(256)) * 1000]
        async with (
            server,
            aiohttp.ClientSession() as session,
            session.ws_connect(f"http://127.0.0.1:{port}/", compress=compress) as socket,
        ):
            for payload in payloads:
                await socket.send_bytes(payload)
                received = b""
                while len(received) < len(payload):
                    received += await socket.receive_bytes(timeout=PATIENCE_S)
                assert received == payload
            await socket.ping(b"hello")
            await socket.close()
            assert socket.close_code == 1000

    run(talk())
    assert [upgrade.compressed for upgrade in upgrades] == [bool(compress)]


class ClosedPace:
    """Lets clients begin when the test says so."""

    def __init__(self) -> None:
        self.is_open = False
        self.waiting: list[WebSocketProtocol] = []
        self.count = 0

    def may_begin(self) -> bool:
        return self.is_open

    def took(self, seconds: float) -> None:
        self.count += 1

    def put_off(self, websocket: WebSocketProtocol) -> None:
        self.waiting.append(websocket)


async def test_a_request_waits_for_its_turn_and_nothing_of_it_is_lost() -> None:
    pace = ClosedPace()
    fixture = Fixture(pace=pace)
    fixture.protocol.data_received(REQUEST[:10])
    fixture.protocol.data_received(REQUEST[10:-5])
    assert pace.waiting == [fixture.protocol]
    assert fixture.transport.calls == ["pause_reading"]
    fixture.protocol.take_turn()
    assert fixture.transport.calls == ["pause_reading", "resume_reading"]
    assert fixture.clients == []
    pace.is_open = True
    fixture.protocol.data_received(REQUEST[-5:])
    assert (len(fixture.clients), pace.count) == (1, 1)
    fixture.lose()


async def test_a_client_that_is_gone_before_its_turn_is_not_upgraded() -> None:
    pace = ClosedPace()
    fixture = Fixture(pace=pace)
    fixture.protocol.data_received(REQUEST)
    fixture.lose()
    fixture.protocol.take_turn()
    assert (fixture.clients, fixture.refusals) == ([], [])
    assert fixture.transport.calls == ["pause_reading"]


async def test_a_request_that_fails_in_its_turn_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    pace = ClosedPace()
    fixture = Fixture(pace=pace)
    fixture.protocol.data_received(REQUEST)
    monkeypatch.setattr(Upgrader, "judge", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fixture.protocol.take_turn()
    assert fixture.transport.calls == ["pause_reading", "abort"]
    fixture.lose()
