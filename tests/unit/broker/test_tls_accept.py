"""Every way into a TLS listener, with real sockets and handshakes, on both event loops."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import uvloop
from msgspec.structs import replace

from millstream.base.clock import ManualClock
from millstream.broker.options import TlsOptions
from millstream.broker.tls import server_context
from millstream.broker.tls_accept import (
    THROTTLED,
    Accepted,
    ConnectionThrottled,
    HandshakeRate,
    TlsHandshakeError,
    secure,
    secure_now,
)
from tests.kits.certs import CertificateAuthority

INFO = b"INFO {} \r\n"
ENOUGH_S = 10.0  # no step here takes long; this only ends a test that hangs

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(tmp_path_factory.mktemp("certs"))


@pytest.fixture(scope="module")
def options(authority: CertificateAuthority) -> TlsOptions:
    issued = authority.issue_for_loopback()
    return TlsOptions(cert_file=str(issued.cert_file), key_file=str(issued.key_file), timeout_s=ENOUGH_S)


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        yield lambda main: runner.run(asyncio.wait_for(main, 2 * ENOUGH_S))


class Connection(asyncio.Protocol):
    """Sends INFO unless it was sent, then answers every read with `got` and what it read."""

    def __init__(self, accepted: Accepted) -> None:
        self.accepted = accepted
        self.made = False
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.made = True
        self.transport: Any = transport
        assert (transport.get_extra_info("ssl_object") is not None) is self.accepted.tls
        if not self.accepted.info_sent:
            self.transport.write(INFO)

    def data_received(self, data: bytes) -> None:
        self.transport.write(b"got " + data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()


class Listener:
    """One listening socket, each of whose connections goes through `secure`."""

    def __init__(self, options: TlsOptions, rate: HandshakeRate | None = None) -> None:
        self.options = options
        self.context = server_context(options)
        self.rate = rate
        self.connections: list[Connection] = []
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.sock.setblocking(False)

    async def __aenter__(self) -> "Listener":
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.sock.close()
        for connection in self.connections:
            if connection.made:
                connection.transport.abort()
                await connection.lost.wait()

    @property
    def address(self) -> tuple[str, int]:
        address: tuple[str, int] = self.sock.getsockname()
        return address

    def make(self, accepted: Accepted) -> Connection:
        self.connections.append(Connection(accepted))
        return self.connections[-1]

    def accept(self) -> asyncio.Task[None]:
        return asyncio.create_task(self._accept())

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        sock, _ = await loop.sock_accept(self.sock)
        await secure(loop, sock, self.make, self.options, self.context, INFO, self.rate)


class Peer:
    """A client on a plain socket that can start TLS when it wants to."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.sock = socket.create_connection(address)
        self.sock.settimeout(ENOUGH_S)

    async def send(self, data: bytes) -> None:
        await asyncio.to_thread(self.sock.sendall, data)

    async def receive(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            part = await asyncio.to_thread(self.sock.recv, size - len(received))
            if not part:
                break
            received += part
        return received

    async def start_tls(self, context: ssl.SSLContext) -> None:
        wrap = context.wrap_socket
        self.sock = await asyncio.to_thread(wrap, self.sock, server_hostname="localhost")

    async def echo(self, data: bytes) -> None:
        await self.send(data)
        assert await self.receive(4 + len(data)) == b"got " + data

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *exc: object) -> None:
        self.sock.close()


def test_info_goes_out_in_clear_before_the_handshake(
    run: Run, authority: CertificateAuthority, options: TlsOptions
) -> None:
    async def main() -> None:
        async with Listener(options) as listener:
            with Peer(listener.address) as peer:
                task = listener.accept()
                assert await peer.receive(len(INFO)) == INFO
                await peer.start_tls(authority.client_context())
                await peer.echo(b"CONNECT {}\r\n")
                await task
                [connection] = listener.connections
                assert connection.accepted == Accepted(tls=True, info_sent=True)

    run(main())


def test_with_handshake_first_the_connection_sends_info_over_tls(
    run: Run, authority: CertificateAuthority, options: TlsOptions
) -> None:
    async def main() -> None:
        async with Listener(replace(options, handshake_first=True)) as listener:
            with Peer(listener.address) as peer:
                task = listener.accept()
                await peer.start_tls(authority.client_context())
                assert await peer.receive(len(INFO)) == INFO
                await peer.echo(b"x")
                await task
                [connection] = listener.connections
                assert connection.accepted == Accepted(tls=True, info_sent=False)

    run(main())


def test_a_client_that_begins_in_time_needs_no_fallback(
    run: Run, authority: CertificateAuthority, options: TlsOptions
) -> None:
    async def main() -> None:
        patient = replace(options, handshake_first=True, handshake_first_fallback_s=ENOUGH_S)
        async with Listener(patient) as listener:
            with Peer(listener.address) as peer:
                task = listener.accept()
                await peer.start_tls(authority.client_context())
                assert await peer.receive(len(INFO)) == INFO
                await peer.echo(b"x")
                await task
                [connection] = listener.connections
                assert connection.accepted == Accepted(tls=True, info_sent=False)

    run(main())


def test_a_client_that_waits_for_info_gets_it_after_the_fallback_delay(
    run: Run, authority: CertificateAuthority, options: TlsOptions
) -> None:
    async def main() -> None:
        hasty = replace(options, handshake_first=True, handshake_first_fallback_s=0.02)
        async with Listener(hasty) as listener:
            with Peer(listener.address) as peer:
                task = listener.accept()
                assert await peer.receive(len(INFO)) == INFO
                await peer.start_tls(authority.client_context())
                await peer.echo(b"x")
                await task
                [connection] = listener.connections
                assert connection.accepted == Accepted(tls=True, info_sent=True)

    run(main())


@pytest.mark.parametrize("tls", [True, False])
def test_the_first_byte_tells_tls_from_clear_text(
    run: Run, authority: CertificateAuthority, options: TlsOptions, tls: bool
) -> None:
    async def main() -> None:
        async with Listener(replace(options, allow_non_tls=True)) as listener:
            with Peer(listener.address) as peer:
                task = listener.accept()
                assert await peer.receive(len(INFO)) == INFO
                if tls:
                    await peer.start_tls(authority.client_context())
                await peer.echo(b"CONNECT {}\r\n")
                await task
                [connection] = listener.connections
                assert connection.accepted == Accepted(tls=tls, info_sent=True)

    run(main())


def test_a_silent_client_is_taken_for_one_without_tls(run: Run, options: TlsOptions) -> None:
    async def main() -> None:
        async with Listener(replace(options, allow_non_tls=True, timeout_s=0.02)) as listener:
            with Peer(listener.address) as peer:
                await listener.accept()
                [connection] = listener.connections
                assert connection.accepted == Accepted(tls=False, info_sent=True)
                assert await peer.receive(len(INFO)) == INFO
                await peer.echo(b"at last")

    run(main())


def test_fallback_and_clear_text_can_be_combined(run: Run, options: TlsOptions) -> None:
    async def main() -> None:
        mixed = replace(options, handshake_first=True, handshake_first_fallback_s=0.02, allow_non_tls=True)
        async with Listener(mixed) as listener:
            with Peer(listener.address) as peer:
                task = listener.accept()
                assert await peer.receive(len(INFO)) == INFO
                await peer.echo(b"CONNECT {}\r\n")
                await task
                [connection] = listener.connections
                assert connection.accepted == Accepted(tls=False, info_sent=True)

    run(main())


@pytest.mark.parametrize("first", [b"", b"\x16\x03\x01"])
def test_a_handshake_that_is_not_done_in_time_is_cut_off(run: Run, options: TlsOptions, first: bytes) -> None:
    async def main() -> None:
        async with Listener(replace(options, timeout_s=0.05)) as listener:
            with Peer(listener.address) as peer:
                await peer.send(first)  # the time begins when it is accepted
                task = listener.accept()
                with pytest.raises(TlsHandshakeError):
                    await task
                assert await peer.receive(1000) == INFO
                assert not listener.connections[0].made

    run(main())


def test_clear_text_where_tls_is_required_ends_the_connection(run: Run, options: TlsOptions) -> None:
    async def main() -> None:
        async with Listener(options) as listener:
            with Peer(listener.address) as peer:
                task = listener.accept()
                await peer.send(b"CONNECT {}\r\nPING\r\n")
                with pytest.raises(TlsHandshakeError, match="TLS handshake error"):
                    await task
                assert not listener.connections[0].made
                assert await peer.receive(len(INFO)) == INFO
                await _until_closed(peer)

    run(main())


async def _until_closed(peer: Peer) -> None:
    try:
        while await peer.receive(1):
            pass
    except ConnectionResetError:
        pass


def test_a_client_without_the_wanted_certificate_does_not_get_in(
    run: Run, authority: CertificateAuthority, options: TlsOptions
) -> None:
    async def main() -> None:
        strict = replace(options, verify=True, ca_file=str(authority.cert_file))
        async with Listener(strict) as listener:
            with Peer(listener.address) as peer:
                task = listener.accept()
                assert await peer.receive(len(INFO)) == INFO
                await peer.start_tls(authority.client_context())
                with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
                    await _until_closed(peer)
                with pytest.raises(TlsHandshakeError, match=r"(?i)peer did not return a certificate"):
                    await task
                assert not listener.connections[0].made

    run(main())


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"handshake_first": True},
        {"handshake_first": True, "handshake_first_fallback_s": ENOUGH_S},
        {"allow_non_tls": True},
    ],
)
def test_a_client_that_hangs_up_leaves_nothing_behind(
    run: Run, options: TlsOptions, changes: dict[str, Any]
) -> None:
    async def main() -> None:
        async with Listener(replace(options, **changes)) as listener:
            with Peer(listener.address):
                task = listener.accept()
            with pytest.raises(TlsHandshakeError):
                await task
            assert not any(connection.made for connection in listener.connections)

    run(main())


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"handshake_first": True},
        {"handshake_first": True, "handshake_first_fallback_s": ENOUGH_S},
        {"allow_non_tls": True},
    ],
)
def test_a_cancelled_accept_closes_the_socket(run: Run, options: TlsOptions, changes: dict[str, Any]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with Listener(replace(options, **changes)) as listener:
            with Peer(listener.address) as peer:
                sock, _ = await loop.sock_accept(listener.sock)
                task = asyncio.create_task(
                    secure(loop, sock, listener.make, listener.options, listener.context, INFO)
                )
                for _ in range(5):
                    await asyncio.sleep(0)  # into the wait for the client
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await _until_closed(peer)

    run(main())


def test_more_handshakes_than_allowed_are_turned_away(
    run: Run, authority: CertificateAuthority, options: TlsOptions
) -> None:
    async def main() -> None:
        clock = ManualClock()
        async with Listener(options, HandshakeRate(1, clock)) as listener:
            with Peer(listener.address) as peer, Peer(listener.address) as other:
                task = listener.accept()
                assert await peer.receive(len(INFO)) == INFO
                await peer.start_tls(authority.client_context())
                await task
                with pytest.raises(ConnectionThrottled):
                    await listener.accept()
                assert await other.receive(1000) == INFO + THROTTLED

    run(main())


def test_a_websocket_shakes_hands_without_info(
    run: Run, authority: CertificateAuthority, options: TlsOptions
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with Listener(options) as listener:
            with Peer(listener.address) as peer:
                sock, _ = await loop.sock_accept(listener.sock)
                accepted = Accepted(tls=True, info_sent=True)
                task = asyncio.create_task(
                    secure_now(loop, sock, lambda: listener.make(accepted), listener.context, ENOUGH_S)
                )
                await peer.start_tls(authority.client_context())
                await peer.echo(b"GET / HTTP/1.1\r\n")
                await task

    run(main())


def test_a_factory_that_fails_does_not_leak_the_socket(run: Run, options: TlsOptions) -> None:
    async def main() -> None:
        def fail(accepted: Accepted) -> asyncio.Protocol:
            raise LookupError

        loop = asyncio.get_running_loop()
        async with Listener(options) as listener:
            with Peer(listener.address) as peer:
                sock, _ = await loop.sock_accept(listener.sock)
                with pytest.raises(LookupError):
                    await secure(loop, sock, fail, options, listener.context, INFO)
                assert await peer.receive(1000) == INFO

    run(main())


def test_the_rate_counts_handshakes_in_each_second() -> None:
    clock = ManualClock()
    rate = HandshakeRate(2, clock)
    assert [rate.allow() for _ in range(4)] == [True, True, False, False]
    clock.advance(0.9)
    assert not rate.allow()
    clock.advance(0.2)
    assert [rate.allow() for _ in range(3)] == [True, True, False]


def test_no_limit_lets_everybody_in() -> None:
    rate = HandshakeRate(0, ManualClock())
    assert all(rate.allow() for _ in range(1000))
