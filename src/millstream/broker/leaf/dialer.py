"""Connect to a hub: a socket, perhaps through a proxy, then TLS, and the upgrade of a websocket.

    nats-leaf://   socket ─▶ INFO in clear ─▶ TLS, if either end wants it ─▶ link
    with tls { handshake_first }   socket ─▶ TLS ─▶ link
    ws://, wss://   socket (─▶ CONNECT at the proxy) ─▶ TLS, if this end wants it ─▶ upgrade ─▶ link

``dial`` owns the socket until the event loop has it as the transport of the link.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
import random
import re
import socket
import ssl
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from millstream.base.tls_files import client_context
from millstream.broker.leaf import login
from millstream.broker.options import ProxyOptions, RemoteOptions, RemoteTls
from millstream.http.head import ResponseReader

if TYPE_CHECKING:
    from millstream.broker.leaf.connection import LeafConnection
    from millstream.broker.leaf.websocket import WebSocketToHub

LEAF_PORT: Final = 7422
_PROXY_PORT: Final = 80
_MOST_INFO: Final = 64 * 1024  # bytes of the hub's first line
_MOST_ANSWER: Final = 64 * 1024  # of a proxy
_READ: Final = 4096
_PATH: Final = re.compile(r"[!$%&'()*+,\-./0-9:;=@A-Z_a-z~]*")
PACKED_MESSAGES: Final = 8  # of the largest size: one frame of nats-server's has all that waited


class DialError(Exception):
    """An attempt did not come to a link; the text says why."""


class HubAddress(msgspec.Struct, frozen=True):
    """The place of a hub, as a URL names it."""

    host: str
    port: int
    tls: bool = False
    websocket: bool = False
    path: str = ""  # of a websocket, before "/leafnode"
    user: str = ""
    password: str | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @classmethod
    def of(cls, url: str) -> HubAddress:
        """Return the address in a URL; raise ValueError if there is none."""
        parts = urlsplit(url if "://" in url else f"nats-leaf://{url}")
        if not parts.hostname:
            raise ValueError("there is no host in it")
        if not _PATH.fullmatch(parts.path):
            raise ValueError("the path has characters that need escapes")
        return cls(
            host=parts.hostname,
            port=parts.port or LEAF_PORT,
            tls=parts.scheme in ("tls", "wss"),
            websocket=parts.scheme in ("ws", "wss"),
            path=parts.path if parts.scheme in ("ws", "wss") else "",
            user=unquote(parts.username or ""),
            password=_password(parts),
        )


def _password(parts: SplitResult) -> str | None:
    return unquote(parts.password) if parts.password is not None else None


async def dial(
    loop: asyncio.AbstractEventLoop,
    link: LeafConnection,
    address: HubAddress,
    options: RemoteOptions,
    tls_name: str,
) -> bytes:
    """Connect a link; return what it has to be told of the hub's words.  Raises on any failure."""
    sock = await _open(loop, address, options)
    link.session.started = link.broker.now()
    protocol: Any = link
    if address.websocket:
        protocol = websocket = _websocket(loop, link, address, options)
    try:
        tls = options.tls
        context = _context(tls) if tls is not None or address.tls else None
        first = b""
        if not address.websocket and (tls is None or not tls.handshake_first):
            async with asyncio.timeout(options.first_info_timeout_s):
                first = await _read_line(loop, sock)
            if context is None and _wants_tls(first):
                context = _context(None)
            if context is not None:  # nobody knows who sent what followed the line in clear
                first = first.partition(b"\n")[0] + b"\n"
        keywords: dict[str, Any] = {}
        if context is not None:
            keywords = {
                "ssl": context,
                "server_hostname": tls_name,
                "ssl_handshake_timeout": tls.timeout_s if tls is not None else RemoteTls().timeout_s,
            }
        await loop.create_connection(lambda: protocol, sock=sock, **keywords)
    except BaseException:
        sock.close()
        raise
    if address.websocket:
        await _until_open(websocket, options)
    return first


def _websocket(
    loop: asyncio.AbstractEventLoop, link: LeafConnection, address: HubAddress, options: RemoteOptions
) -> WebSocketToHub:
    from millstream.broker.leaf.websocket import WebSocketToHub

    return WebSocketToHub(
        loop,
        link,
        address,
        compress=options.ws_compression,
        mask=not options.ws_no_masking,
        max_payload=link.parser.max_payload * PACKED_MESSAGES,
    )


async def _until_open(websocket: WebSocketToHub, options: RemoteOptions) -> None:
    try:
        async with asyncio.timeout(options.first_info_timeout_s):
            refused = await websocket.opened
    except BaseException:
        websocket.abort()
        raise
    if refused:
        raise DialError(refused)


async def _open(
    loop: asyncio.AbstractEventLoop, address: HubAddress, options: RemoteOptions
) -> socket.socket:
    """Return a socket that is connected to the hub."""
    proxy = options.proxy
    if proxy is None or not address.websocket:
        async with asyncio.timeout(options.dial_timeout_s):
            return await _connect(loop, address.host, address.port)
    async with asyncio.timeout(proxy.timeout_s or options.dial_timeout_s):
        place = urlsplit(proxy.url)
        assert place.hostname is not None
        sock = await _connect(loop, place.hostname, place.port or _PROXY_PORT)
        try:
            await _tunnel(loop, sock, address, proxy)
        except BaseException:
            sock.close()
            raise
        return sock


async def _connect(loop: asyncio.AbstractEventLoop, host: str, port: int) -> socket.socket:
    """Return a socket that is connected to a random address of the host."""
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    family, kind, protocol, _, target = random.choice(found)
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await loop.sock_connect(sock, target)
    except BaseException:
        sock.close()
        raise
    return sock


async def _tunnel(
    loop: asyncio.AbstractEventLoop, sock: socket.socket, address: HubAddress, proxy: ProxyOptions
) -> None:
    """Have a proxy connect us to the hub; raise DialError or ValueError if it does not."""
    lines = [f"CONNECT {address} HTTP/1.1", f"Host: {address}"]
    if proxy.username:
        user = base64.b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
        lines.append(f"Proxy-Authorization: Basic {user}")
    await loop.sock_sendall(sock, "\r\n".join([*lines, "", ""]).encode())
    reader, answer = ResponseReader(_MOST_ANSWER), None
    while answer is None:
        chunk = await loop.sock_recv(sock, _READ)
        if not chunk:
            raise DialError("the proxy hung up")
        answer = reader.feed(chunk)
    if answer.status != 200:
        raise DialError(f"proxy CONNECT failed: {answer.line[:200]}")
    if answer.rest:
        raise DialError("the proxy said more than its answer")


async def _read_line(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> bytes:
    """Return the hub's first line and what came with it."""
    read = b""
    while b"\n" not in read:
        chunk = await loop.sock_recv(sock, _READ)
        if not chunk:
            raise DialError("the server hung up")
        read += chunk
        if len(read) > _MOST_INFO:
            raise DialError("the first line of the server is too long")
    return read


def _wants_tls(first: bytes) -> bool:
    line = first.partition(b"\n")[0]
    if line[:5].upper() != b"INFO ":
        return False
    with contextlib.suppress(login.BadLogin):
        return login.read_info(line[5:].strip()).tls_required
    return False


def _context(tls: RemoteTls | None) -> ssl.SSLContext:
    if tls is None:
        return client_context()
    context = client_context(tls.ca_file, tls.cert_file, tls.key_file, verify=not tls.insecure)
    context.minimum_version = ssl.TLSVersion.TLSv1_3 if tls.min_version == "1.3" else ssl.TLSVersion.TLSv1_2
    return context


def is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
