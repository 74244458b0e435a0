"""Shared by the conformance tests: names for fixtures' types, and small readers of what servers say."""

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import nats
import nkeys
from nats.aio.client import Client as NatsConnection

from millrace.testing.reference import ServerProcess
from millrace.testing.wire import WireClient

EVENTUALLY_S = 5.0

AUTHORIZATION_VIOLATION = b"-ERR 'Authorization Violation'\r\n"

Dial = Callable[..., WireClient]
ServerFactory = Callable[..., ServerProcess]


def message(subject: str, sid: str | int, payload: bytes = b"", reply: str = "") -> bytes:
    """Return a MSG frame as a server sends it."""
    words = ["MSG", subject, str(sid), *([reply] if reply else []), str(len(payload))]
    return " ".join(words).encode() + b"\r\n" + payload + b"\r\n"


def header_message(
    subject: str, sid: str | int, header: bytes, payload: bytes = b"", reply: str = ""
) -> bytes:
    """Return an HMSG frame as a server sends it."""
    sizes = [str(len(header)), str(len(header) + len(payload))]
    words = ["HMSG", subject, str(sid), *([reply] if reply else []), *sizes]
    return " ".join(words).encode() + b"\r\n" + header + payload + b"\r\n"


def publish(subject: str, payload: bytes = b"", reply: str = "") -> bytes:
    words = ["PUB", subject, *([reply] if reply else []), str(len(payload))]
    return " ".join(words).encode() + b"\r\n" + payload + b"\r\n"


def http_get(url: str) -> tuple[int, str, bytes]:
    """Return status, content type and body, whatever the status is."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return response.status, response.headers["Content-Type"], response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read()


def monitor(server: ServerProcess, path: str) -> Any:
    """Return the JSON of a monitoring endpoint."""
    status, _, body = http_get(f"{server.monitor_url}{path}")
    assert status == 200, body
    return json.loads(body)


def eventually(check: Callable[[], object], what: str = "the condition") -> None:
    """Ask until `check` is true: for what a server does behind the client's back, and tells nobody."""
    deadline = time.monotonic() + EVENTUALLY_S
    while not check():
        assert time.monotonic() < deadline, f"{what} did not come true within {EVENTUALLY_S} s"
        time.sleep(0.01)


def closed_reason(server: ServerProcess, client: WireClient) -> str:
    """Return why the server says that it closed this connection."""
    found: list[str] = []

    def look() -> bool:
        connections = monitor(server, f"/connz?state=closed&cid={client.info['client_id']}")["connections"]
        found.extend(entry["reason"] for entry in connections)
        return bool(found)

    eventually(look, "the entry of a closed connection")
    return found[0]


def nkey_user(entropy: bytes) -> tuple[bytes, str]:
    """Return seed and public key of an nkey user, the same ones for the same 32 bytes."""
    seed = nkeys.encode_seed(entropy, nkeys.PREFIX_BYTE_USER)
    return bytes(seed), nkeys.from_seed(bytearray(seed)).public_key.decode()


def publish_refused(subject: str) -> bytes:
    return f"-ERR 'Permissions Violation for Publish to \"{subject}\"'\r\n".encode()


def subscribe_refused(subject: str, queue: str = "") -> bytes:
    using = f' using queue "{queue}"' if queue else ""
    return f"-ERR 'Permissions Violation for Subscription to \"{subject}\"{using}'\r\n".encode()


def login(join: Dial, server: ServerProcess, user: str, **options: object) -> WireClient:
    """Join as a user of one of our configurations, where the password of everybody is `p`."""
    return join(server, user=user, **{"pass": "p"}, **options)


async def library(url: str, **options: Any) -> NatsConnection:
    """Connect with nats-py, which otherwise tries for minutes what has failed once."""
    async with asyncio.timeout(10):
        return await nats.connect(
            url, **{"allow_reconnect": False, "max_reconnect_attempts": 1, "connect_timeout": 5, **options}
        )
