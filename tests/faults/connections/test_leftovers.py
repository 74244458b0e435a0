"""Tests that connections that end leave nothing behind that only the garbage collector would find."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from millstream.server.loop import new_event_loop
from millstream.server.server import Server
from tests.kits.certs import CertificateAuthority
from tests.kits.leftovers import nothing_stays
from tests.kits.websocket import WebSocketStream
from tests.kits.wire import WireClient

LOOPS: Final = {"plain": asyncio.new_event_loop, "fast": new_event_loop}
CONFIG: Final = """
port: -1
http: -1
tls {{ {papers} }}
allow_non_tls: true
websocket {{ port: -1, {websocket} }}
leafnodes {{ listen: "127.0.0.1:-1" }}
jetstream {{ store_dir: "{folder}/jetstream" }}
accounts {{
  A {{
    users: [ {{ user: a, password: a }} ], jetstream: enabled
    exports: [ {{ service: "sum.>", latency: "slow.sums" }}, {{ stream: "news.>" }} ]
    mappings: {{ "old.*": "new.$1" }}
  }}
  B {{
    users: [ {{ user: b, password: b }} ]
    imports: [
      {{ service: {{ account: A, subject: "sum.>" }} }}
      {{ stream: {{ account: A, subject: "news.>" }} }}
    ]
  }}
  SYS {{ users: [ {{ user: s, password: s }} ] }}
}}
system_account: SYS
no_auth_user: a
"""


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Site:
    """A server in this process, a client of it, and what it takes to reach it over TLS."""

    def __init__(self, server: Server, client: Client, authority: CertificateAuthority) -> None:
        self.server = server
        self.client = client
        self.context = authority.client_context()
        self.address = "127.0.0.1", server.port

    @asynccontextmanager
    async def raw(
        self, connect: bytes = b""
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Open a connection, send some lines, and cut it."""
        reader, writer = await asyncio.open_connection(*self.address)
        await reader.readline()
        writer.write(connect)
        yield reader, writer
        writer.transport.abort()


async def _ignore(_: Exception) -> None: ...


async def _use(client: Client) -> None:
    """Subscribe twice, hear a message, and close."""
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)
    await client.subscribe("nothing.>", queue="q")
    await client.publish(inbox, b"x" * 1000)
    await subscription.next_msg()
    await client.close()


# -- clients ------------------------------------------------------------------------------------------


async def client(site: Site) -> None:
    await _use(await nats.connect(site.server.client_url.replace("tls", "nats"), allow_reconnect=False))


async def client_over_tls(site: Site) -> None:
    url = f"tls://127.0.0.1:{site.server.port}"
    await _use(await nats.connect(url, tls=site.context, allow_reconnect=False))


async def client_over_websocket(site: Site) -> None:
    await asyncio.to_thread(_use_websocket, site)


def _use_websocket(site: Site) -> None:
    scheme, _, rest = site.server.websocket_url.partition("://")
    context = site.context if scheme == "wss" else None
    with WireClient(WebSocketStream.open(int(rest.partition(":")[2]), context=context)) as wire:
        wire.handshake()
        wire.round_trip(b"SUB foo 1\r\nPUB foo 2\r\nhi\r\n")


async def client_that_is_cut(site: Site) -> None:
    async with site.raw(b'CONNECT {"verbose":false}\r\nSUB > 1\r\nPING\r\n') as (reader, _):
        await reader.readuntil(b"PONG")


async def peer_that_says_nothing(site: Site) -> None:
    async with site.raw():
        pass


async def peer_that_does_not_speak_the_protocol(site: Site) -> None:
    async with site.raw(b"BOO\r\n") as (reader, _):
        await reader.read()


async def client_that_cannot_log_in(site: Site) -> None:
    async with site.raw(b'CONNECT {"user":"nobody","pass":"x"}\r\nPING\r\n') as (reader, _):
        await reader.read()


async def client_that_reads_nothing(site: Site) -> None:
    async with site.raw(b'CONNECT {"verbose":false}\r\nSUB large 1\r\nPING\r\n') as (reader, writer):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await reader.readuntil(b"PONG")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(10):
            await site.client.publish("large", b"x" * 500_000)
        await site.client.flush()


async def websocket_that_is_refused(site: Site) -> None:
    scheme, _, rest = site.server.websocket_url.partition("://")
    async with httpx.AsyncClient(verify=site.context) as http:
        assert (await http.get(f"{'https' if scheme == 'wss' else 'http'}://{rest}/")).status_code == 400


# -- subscriptions ------------------------------------------------------------------------------------


async def subscription(site: Site) -> None:
    made = await site.client.subscribe("foo.*.>")
    await site.client.publish("foo.x.y", b"1")
    await made.next_msg()
    await made.unsubscribe()


async def subscription_with_a_limit(site: Site) -> None:
    made = await site.client.subscribe("foo", max_msgs=1)
    await site.client.publish("foo", b"1")
    await made.next_msg()


async def service(site: Site) -> None:
    async def answer(message: Msg) -> None:
        await message.respond(b"x")

    made = await site.client.subscribe("service", queue="q", cb=answer)
    await site.client.request("service", b"")
    await made.unsubscribe()


async def service_of_another_account(site: Site) -> None:
    async def answer(message: Msg) -> None:
        await message.respond(b"2")

    url = site.server.client_url.replace("tls", "nats")
    made = await site.client.subscribe("sum.>", cb=answer)
    measured = await site.client.subscribe("slow.sums")
    await site.client.flush()
    guest = await nats.connect(url, user="b", password="b", allow_reconnect=False)
    news = await guest.subscribe("news.>")
    await guest.flush()
    await site.client.publish("news.today", b"1")
    await news.next_msg()
    await guest.request("sum.up", b"1 1")
    await guest.close()
    await measured.next_msg()
    await measured.unsubscribe()
    await made.unsubscribe()


async def mapped_subject(site: Site) -> None:
    made = await site.client.subscribe("new.a")
    await site.client.publish("old.a", b"1")
    await made.next_msg()
    await made.unsubscribe()


# -- leaf links ---------------------------------------------------------------------------------------


async def leaf_link(site: Site) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", site.server.leaf_port)
    await reader.readline()
    said = {"name": "spoke", "server_id": "spoke", "headers": True, "user": "a", "pass": "a"}
    writer.write(b"CONNECT %b\r\nLS+ foo\r\nPING\r\n" % json.dumps(said).encode())
    await reader.readuntil(b"PONG")
    writer.transport.abort()


# -- requests to the server itself --------------------------------------------------------------------


async def monitoring(site: Site) -> None:
    paths = (
        "varz",
        "connz?subs=1",
        "jsz?consumers=1",
        "subsz?subs=1",
        "healthz",
        "metrics",
        "accountz",
        "leafz",
    )
    async with httpx.AsyncClient(base_url=site.server.monitor_url) as http:
        for path in paths:
            assert (await http.get(f"/{path}")).status_code == 200, path


async def system_requests(site: Site) -> None:
    url = site.server.client_url.replace("tls", "nats")
    made = await nats.connect(url, user="s", password="s", allow_reconnect=False)
    events = await made.subscribe("$SYS.ACCOUNT.>")
    for name in ("VARZ", "CONNZ", "JSZ", "SUBSZ", "STATSZ", "HEALTHZ"):
        answer = await made.request(f"$SYS.REQ.SERVER.{site.server.broker.identity.server_id}.{name}", b"")
        assert b"error" not in answer.data[:20], name
    await events.unsubscribe()
    await made.close()


OPERATIONS: Final[list[Callable[[Site], Awaitable[None]]]] = [
    client,
    client_over_tls,
    client_over_websocket,
    client_that_is_cut,
    peer_that_says_nothing,
    peer_that_does_not_speak_the_protocol,
    client_that_cannot_log_in,
    client_that_reads_nothing,
    websocket_that_is_refused,
    subscription,
    subscription_with_a_limit,
    service,
    service_of_another_account,
    mapped_subject,
    leaf_link,
    monitoring,
    system_requests,
]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(tmp_path_factory.mktemp("papers"))


async def check(
    operation: Callable[[Site], Awaitable[None]],
    folder: Path,
    authority: CertificateAuthority,
    *,
    plain: bool,
) -> None:
    issued = authority.issue_for_loopback()
    papers = f'cert_file: "{issued.cert_file}", key_file: "{issued.key_file}"'
    websocket = "no_tls: true" if plain else f"tls {{ {papers} }}"
    config = folder / "server.conf"
    config.write_text(CONFIG.format(papers=papers, websocket=websocket, folder=folder))
    async with Server(config=str(config)) as server:
        url = f"nats://127.0.0.1:{server.port}"
        site = Site(server, await nats.connect(url, error_cb=_ignore), authority)
        await nothing_stays(lambda: operation(site))
        await site.client.close()


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.__name__)
def test_nothing_stays(
    operation: Callable[[Site], Any], loop: str, tmp_path: Path, authority: CertificateAuthority
) -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(check(operation, tmp_path, authority, plain=loop == "plain"))
