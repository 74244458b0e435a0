"""A NATS server on a real socket that answers whatever a test wants it to.

    with LyingServer({"STREAM.NAMES": {"streams": ["../../etc"], "total": 1}}) as server:
        run("backup", folder, "--server", server.url)

Answers are found by the subject behind `$JS.API.`, the longest beginning first: an object is sent as JSON,
bytes as they are, and a function is called with (client, subject, payload, reply) and sends what it likes.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Self

INFO: dict[str, Any] = {
    "server_id": "LIAR",
    "server_name": "liar",
    "version": "2.15.1",
    "proto": 1,
    "headers": True,
    "max_payload": 1048576,
    "jetstream": True,
}


class LyingServer:
    """Serves any number of clients, a thread for each; `subjects` is what was asked for."""

    def __init__(
        self,
        answers: Mapping[str, Any] | None = None,
        *,
        info: Mapping[str, Any] | None = None,
        first: bytes = b"",
    ) -> None:
        self.answers = dict(answers or {})
        self.subjects: list[str] = []
        self.published: list[tuple[str, bytes]] = []
        self._info = INFO | dict(info or {})
        self._first = first  # sent in place of INFO
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.url = f"nats://127.0.0.1:{self.port}"
        self._clients: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for each in self._clients:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self._clients.append(client)
            threading.Thread(target=self._serve, args=(Client(self, client),), daemon=True).start()

    def _serve(self, client: Client) -> None:
        with suppress(OSError, ValueError):
            client.write(self._first or b"INFO " + json.dumps(self._info).encode() + b"\r\n")
            client.run()


class Client:
    """One connection, as the server sees it."""

    def __init__(self, server: LyingServer, sock: socket.socket) -> None:
        self.server = server
        self._sock = sock
        self._file = sock.makefile("rb")
        self._subscriptions: dict[str, str] = {}  # subject → sid

    def write(self, data: bytes) -> None:
        self._sock.sendall(data)

    def send(self, subject: str, payload: bytes, *, reply: str = "", headers: bytes = b"") -> None:
        """Deliver a message to whoever subscribed."""
        for pattern, sid in list(self._subscriptions.items()):
            if pattern == subject or (pattern.endswith("*") and subject.startswith(pattern[:-1])):
                middle = f" {reply}" if reply else ""
                if headers:
                    sizes = f"{len(headers)} {len(headers) + len(payload)}"
                    self.write(
                        f"HMSG {subject} {sid}{middle} {sizes}\r\n".encode() + headers + payload + b"\r\n"
                    )
                else:
                    self.write(f"MSG {subject} {sid}{middle} {len(payload)}\r\n".encode() + payload + b"\r\n")

    def run(self) -> None:
        for line in self._file:
            verb, *rest = line.decode().split()
            if verb == "PING":
                self.write(b"PONG\r\n")
            elif verb == "SUB":
                self._subscriptions[rest[0]] = rest[-1]
            elif verb in ("PUB", "HPUB"):
                payload = self._file.read(int(rest[-1]) + 2)[:-2]
                if verb == "HPUB":
                    payload = payload[int(rest[-2]) :]
                    del rest[-2]
                self._published(rest[0], payload, rest[1] if len(rest) == 3 else "")

    def _published(self, subject: str, payload: bytes, reply: str) -> None:
        server = self.server
        server.subjects.append(subject)
        server.published.append((subject, payload))
        verb = subject.removeprefix("$JS.API.")
        for key in sorted(server.answers, key=len, reverse=True):
            if verb.startswith(key):
                answer = server.answers[key]
                if callable(answer):
                    answer(self, subject, payload, reply)
                elif reply:
                    self.send(reply, answer if isinstance(answer, bytes) else json.dumps(answer).encode())
                return
        if reply:
            self.send(reply, json.dumps(NOT_FOUND).encode())


Answer = Callable[[Client, str, bytes, str], None]
NOT_FOUND = {"error": {"code": 404, "err_code": 10059, "description": "stream not found"}}


def names(*streams: object, total: object = None) -> dict[str, Any]:
    return {
        "streams": list(streams),
        "total": len(streams) if total is None else total,
        "offset": 0,
        "limit": 1024,
    }


def state(**numbers: Any) -> dict[str, Any]:
    return {"messages": 0, "bytes": 0, "first_seq": 0, "last_seq": 0, "consumer_count": 0, **numbers}


def info(name: object, **more: Any) -> dict[str, Any]:
    return {
        "config": {"name": name, "subjects": ["s"]},
        "state": state(),
        "created": "2026-01-01T00:00:00Z",
        **more,
    }


def snapshot(*chunks: bytes, name: object = None, end: bool = True, **numbers: Any) -> Answer:
    """Answer a request for a snapshot and send these chunks."""

    def answer(client: Client, subject: str, payload: bytes, reply: str) -> None:
        asked = subject.rpartition(".")[2]
        told = info(asked if name is None else name, state=state(**numbers))
        client.send(reply, json.dumps(told).encode())
        inbox = json.loads(payload)["deliver_subject"]
        for chunk in chunks:
            client.send(inbox, chunk, reply="$JS.ACK.x")
        if end:
            client.send(inbox, b"")

    return answer
