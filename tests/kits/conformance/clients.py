"""Shared by the conformance tests: names for fixtures' types, and small readers of what servers say."""

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import nats
import nkeys
from nats.aio.client import Client as NatsConnection

from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerProcess
from tests.kits.wire import WireClient

# Of a configuration: both servers wait 2 s for CONNECT, which a busy machine may need for itself.
# What a busy machine may not do in time: log in, and read what was sent.
PATIENT_SERVER = 'authorization: {timeout: 30}\nwrite_deadline: "5m"\n'

AUTHORIZATION_VIOLATION = b"-ERR 'Authorization Violation'\r\n"

Dial = Callable[..., WireClient]
ServerFactory = Callable[..., ServerProcess]


@dataclass(frozen=True)
class Message:
    """A message that a server sent to a subscription."""

    subject: str
    sid: str
    reply: str
    block: bytes  # of headers; empty if there is none
    payload: bytes

    @classmethod
    def read(cls, frame: bytes) -> Self:
        """Take a MSG or HMSG apart; anything else is a failure."""
        line, _, rest = frame.partition(b"\r\n")
        words = line.decode().split()
        if words[0] not in ("MSG", "HMSG"):
            raise AssertionError(f"unexpected {frame!r}")
        sizes = 2 if words[0] == "HMSG" else 1
        subject, sid, *reply = words[1 : len(words) - sizes]
        header_size = int(words[-2]) if sizes == 2 else 0
        body = rest[: int(words[-1])]
        return cls(subject, sid, reply[0] if reply else "", body[:header_size], body[header_size:])

    @property
    def json(self) -> Any:
        return json.loads(self.payload)

    @property
    def headers(self) -> dict[str, str]:
        lines = (line.partition(": ") for line in self.block.decode().split("\r\n")[1:] if line)
        return {name: value for name, _, value in lines}

    @property
    def status(self) -> str:
        """Return the status and description of the first header line, or "" if it has none."""
        return self.block.split(b"\r\n", 1)[0].decode().removeprefix("NATS/1.0").strip()


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


def publish(subject: str, payload: bytes = b"", reply: str = "", block: bytes = b"") -> bytes:
    """Return a PUB frame, or an HPUB frame if there are headers."""
    sizes = [str(len(block))] if block else []
    words = ["HPUB" if block else "PUB", subject, *([reply] if reply else []), *sizes]
    line = " ".join([*words, str(len(block) + len(payload))])
    return line.encode() + b"\r\n" + block + payload + b"\r\n"


def header_block(headers: Mapping[str, str] | None) -> bytes:
    """Headers as they are sent; empty if there are none to send."""
    if headers is None:
        return b""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"NATS/1.0\r\n{lines}\r\n".encode()


def text_block(lines: str) -> bytes:
    """Return a header block of given lines."""
    return f"NATS/1.0\r\n{lines}\r\n\r\n".encode() if lines else b""


def as_bytes(body: Any) -> bytes:
    """The body of a request: nothing, what it is, or its JSON."""
    if body is None or isinstance(body, bytes):
        return body or b""
    return (body if isinstance(body, str) else json.dumps(body)).encode()


def http_get(url: str) -> tuple[int, str, bytes]:
    """Return status, content type and body, whatever the status is."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as response:
            return response.status, response.headers["Content-Type"], response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read()


def monitor(server: ServerProcess, path: str) -> Any:
    """Return the JSON of a monitoring endpoint."""
    status, _, body = http_get(f"{server.monitor_url}{path}")
    assert status == 200, body
    return json.loads(body)


def eventually(
    check: Callable[[], object], what: str = "the condition", patience_s: float = PATIENCE_S
) -> None:
    """Ask until `check` is true: for what a server does behind the client's back, and tells nobody."""
    deadline = time.monotonic() + patience_s
    while not check():
        assert time.monotonic() < deadline, f"{what} did not come true within {patience_s} s"
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
    async with asyncio.timeout(PATIENCE_S):
        return await nats.connect(
            url, **{"allow_reconnect": False, "max_reconnect_attempts": 1, "connect_timeout": 5, **options}
        )
