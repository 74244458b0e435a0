"""Why there is no connection: one sentence that names the server, and no secret."""

import asyncio
import contextlib
import logging
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client as Connection

from millstream.base.nkeys import KeyKind
from millstream.base.seeds import make_seed
from millstream.client import BadOptions, ClientError, CredentialsRefused, ServerUnavailable
from millstream.client.opening import open_connection

INFO = b'INFO {"server_id":"x","version":"2.15.1","max_payload":1048576,"auth_required":true}\r\n'
SEED = make_seed(KeyKind.USER, b"x" * 32)

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter, int], Awaitable[None]]


@contextlib.asynccontextmanager
async def scripted(answer: Answer) -> AsyncIterator[int]:
    """Yield the port of a server that does what `answer` does with its first, second, … connection."""
    served: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: int) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await answer(reader, writer, count)
        writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.ensure_future(serve(reader, writer, len(served) + 1)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.gather(*served)


async def failure(servers: Any, **options: Any) -> str:
    """Return the one sentence; nothing of a secret may be in it."""
    connection = Connection()
    with pytest.raises(ClientError) as caught:
        await open_connection(connection, servers, 60, patient=False, **options)
    assert connection.is_closed or not connection.is_connected
    text = f"{type(caught.value).__name__}: {caught.value}"
    assert "\n" not in text
    assert "s3cret" not in text
    return text


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


async def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    port = unused_port()
    assert await failure(f"nats://me:s3cret@127.0.0.1:{port}") == (
        f"ServerUnavailable: cannot connect to nats://127.0.0.1:{port}: "
        "Connection refused; start the server, or check the address"
    )


async def test_every_server_of_a_list_has_a_chance() -> None:
    ports = [unused_port(), unused_port()]
    told = await failure([f"127.0.0.1:{port}" for port in ports])
    assert all(f"nats://127.0.0.1:{port}" in told for port in ports)


@pytest.mark.parametrize(
    "address",
    ["nats://127.0.0.1:abc", "nats://", "http://127.0.0.1:1", b"x", [], [b"x"], "nats://a:s3cret@[::1"],
    ids=repr,
)
async def test_what_is_no_address_is_told_before_anything_is_tried(address: Any) -> None:
    assert (await failure(address)).startswith("BadOptions: ")


@pytest.mark.parametrize(
    ("login", "told"),
    [
        ({}, "asks for credentials, and none were given: Authorization Violation"),
        ({"user": "me", "password": "s3cret"}, "refused the credentials: Authorization Violation; check"),
        ({"nkeys_seed_str": SEED}, "refused the credentials: Authorization Violation; check"),
    ],
    ids=["nobody", "password", "nkey"],
)
@pytest.mark.parametrize("resets", [0, 1], ids=["told", "reset"])
async def test_a_refused_login_is_told_even_if_the_line_is_cut_before_the_reason_is_read(
    login: dict[str, str], told: str, resets: int
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: int) -> None:
        writer.write(INFO)
        await reader.readuntil(b"PING\r\n")
        if count <= resets:
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            return
        writer.write(b"-ERR 'Authorization Violation'\r\n")
        await writer.drain()

    async with scripted(answer) as port:
        assert f"CredentialsRefused: nats://127.0.0.1:{port} {told}" in await failure(
            f"nats://127.0.0.1:{port}", **login
        )


async def test_who_does_not_speak_nats_is_told_from_who_says_nothing() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: int) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    async with scripted(answer) as port:
        assert (await failure(f"127.0.0.1:{port}")).endswith("it does not speak NATS; check the port")

    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: int) -> None:
        await reader.read()

    async with scripted(silence) as port:
        told = await failure(f"127.0.0.1:{port}", connect_timeout=0.05)
        assert "no answer in time; check the address" in told


async def test_credentials_are_not_sent_in_the_clear_where_tls_was_asked_for() -> None:
    received = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: int) -> None:
        writer.write(INFO)
        received.append(await reader.read())

    async with scripted(answer) as port:
        for servers, options in (
            (f"tls://127.0.0.1:{port}", {}),
            (f"127.0.0.1:{port}", {"tls": ssl.create_default_context()}),
        ):
            told = await failure(servers, user="me", password="s3cret", **options)
            assert "TLS was asked for, and the server does not require it" in told
    assert b"".join(received) == b""


@pytest.mark.parametrize("kind", ["user_credentials", "nkeys_seed"])
async def test_a_file_of_credentials_is_checked_before_it_is_used(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "file"
    missing = await failure("127.0.0.1:1", **{kind: str(file)})
    assert missing.endswith(f"{file}: No such file or directory; check the path")
    file.write_text("s3cret")
    assert f"file {file} cannot be used: " in await failure("127.0.0.1:1", **{kind: str(file)})
    file.write_bytes(b"\xff")
    assert "it is no text" in await failure("127.0.0.1:1", **{kind: str(file)})


async def test_a_seed_that_is_none_is_told_without_it() -> None:
    assert "the nkey seed cannot be used" in await failure("127.0.0.1:1", nkeys_seed_str="SUs3cret")


async def test_failures_are_logged_in_one_line_if_nobody_else_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    await failure(f"127.0.0.1:{unused_port()}")
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert caplog.records[0].exc_info is None
    heard: list[Exception] = []

    async def hear(error: Exception) -> None:
        heard.append(error)

    caplog.clear()
    await failure(f"127.0.0.1:{unused_port()}", error_cb=hear)
    assert len(heard) == 1
    assert not caplog.records


async def test_patience_ends_with_the_time_and_credentials_need_none() -> None:
    with pytest.raises(ServerUnavailable, match="Connection refused"):
        await open_connection(Connection(), f"127.0.0.1:{unused_port()}", 0.2, reconnect_time_wait=0)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: int) -> None:
        writer.write(INFO)
        await reader.readuntil(b"PING\r\n")
        writer.write(b"-ERR 'Authorization Violation'\r\n")
        await writer.drain()

    async with scripted(answer) as port:
        with pytest.raises(CredentialsRefused):
            await open_connection(Connection(), f"127.0.0.1:{port}", None)


def test_the_errors_are_public() -> None:
    assert issubclass(BadOptions, ClientError)
    assert issubclass(CredentialsRefused, ClientError)
