"""A server of ours with a configuration, and clients that speak the wire, byte by byte."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.wire import WireClient

_numbers = itertools.count(1)


class Client:
    """One connection that asks one thing at a time."""

    def __init__(self, wire: WireClient) -> None:
        self.wire = wire
        self.inbox = b"_INBOX.%d" % next(_numbers)
        wire.round_trip(b"SUB %b.* 999\r\n" % self.inbox)

    def round_trip(self, data: bytes = b"") -> bytes:
        return self.wire.round_trip(data)

    def publish(self, subject: str | bytes, payload: bytes = b"", reply: bytes = b"") -> bytes:
        subject = subject.encode() if isinstance(subject, str) else subject
        return self.round_trip(b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(payload), payload))

    def call(self, subject: str, body: object = None) -> Any:
        """The JSON that a service answers with."""
        reply = b"%b.%d" % (self.inbox, next(_numbers))
        payload = b"" if body is None else json.dumps(body).encode()
        self.wire.send(b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), reply, len(payload), payload))
        while True:
            frame = self.wire.read_frame()
            line, _, rest = frame.partition(b"\r\n")
            if reply in line:
                words = line.split()
                headers = int(words[-2]) if words[0] == b"HMSG" else 0
                return json.loads(rest[headers : int(words[-1])] or b"{}")

    def api(self, endpoint: str, body: object = None) -> Any:
        return self.call(f"$JS.API.{endpoint}", body)


@contextlib.contextmanager
def running(config: str, store: Path | None = None) -> Iterator[ServerProcess]:
    with ServerProcess(
        ServerKind.MILLSTREAM, config=config, jetstream=store is not None, store_dir=store
    ) as server:
        yield server


@contextlib.contextmanager
def client(server: ServerProcess, user: str = "", **options: Any) -> Iterator[Client]:
    """A connected client; a user's password is its name."""
    with WireClient.connect(server.port, timeout_s=PATIENCE_S) as wire:
        login = {"user": user, "pass": user} if user else {}
        wire.handshake(**(login | options))
        yield Client(wire)
